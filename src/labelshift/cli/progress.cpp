#include "labelshift/cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "labelshift/core/base/utf8.hpp"

namespace labelshift::cli {
namespace {

using namespace std::chrono_literals;
constexpr auto kPatience = 1s;
constexpr auto kBetweenDrawings = 100ms;
constexpr const char* kClearLine = "\r\033[K";

std::string duration_text(double seconds) {
  const auto whole = std::llround(seconds);
  return whole < 60 ? fmt::format("{} s", whole) : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

/// As much of a line as has room on one of the terminal: of a longer one only the last part could be taken away again.
std::string fitting(std::string line) {
  winsize terminal{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &terminal) != 0 || terminal.ws_col == 0) return line;
  std::size_t end = 0;
  for (int column = 1; column < terminal.ws_col && end < line.size(); ++column)
    end += std::max<std::size_t>(first_character(std::string_view(line).substr(end)).bytes, 1);
  line.resize(end);
  return line;
}

}  // namespace

Progress::Progress() : stage_start_(Clock::now()) {
  if (!::isatty(STDERR_FILENO)) return;
  const DeferInterrupt inherited;  // the thread leaves Ctrl-C to the main thread, which may have to tidy up
  drawer_ = std::thread([this] { redraw(); });
}

Progress::~Progress() {
  if (!drawer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_one();
  drawer_.join();
}

void Progress::show(std::string_view stage, double done) {
  const std::lock_guard lock(mutex_);
  if (printable(stage) != stage_) {
    stage_ = printable(stage);
    stage_start_ = Clock::now();
  }
  done_ = done;
}

void Progress::add(std::string_view detail) {
  const std::lock_guard lock(mutex_);
  detail_ = detail.empty() ? "" : " (" + printable(detail) + ")";
}

void Progress::redraw() {
  std::unique_lock lock(mutex_);
  const auto finished = [this] { return finished_; };
  if (changed_.wait_for(lock, kPatience, finished)) return;
  do {
    const double elapsed = std::chrono::duration<double>(Clock::now() - stage_start_).count();
    const std::string how_far = done_ > 0.0 && done_ < 1.0 ? fmt::format("{:.0f} %, {} left", 100.0 * done_,
                                                                         duration_text(elapsed * (1.0 - done_) / done_))
                                                           : duration_text(elapsed);
    std::cerr << kClearLine << fitting(fmt::format("{}: {}{}", stage_, how_far, detail_)) << std::flush;
  } while (!changed_.wait_for(lock, kBetweenDrawings, finished));
  std::cerr << kClearLine << std::flush;
}

Observer showing(Progress& progress) {
  return [&](std::string_view stage, double done) {
    progress.show(stage, done);
    return true;
  };
}

Observer showing(Progress& progress, const DeferInterrupt& interrupt) {
  return [&](std::string_view stage, double done) {
    progress.show(stage, done);
    return !interrupt.requested();
  };
}

}  // namespace labelshift::cli
