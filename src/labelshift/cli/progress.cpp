#include "labelshift/cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

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
    if (done_ > 0.0 && done_ < 1.0)
      std::cerr << fmt::format("{}{}: {:.0f} %, {} left{}", kClearLine, stage_, 100.0 * done_,
                               duration_text(elapsed * (1.0 - done_) / done_), detail_);
    else
      std::cerr << fmt::format("{}{}: {}{}", kClearLine, stage_, duration_text(elapsed), detail_);
    std::cerr.flush();
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
