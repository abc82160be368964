#include "labelshift/engine/grpc/event_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "labelshift/core/base/printable.hpp"

namespace labelshift {

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 100;
  return '"' + printable(text.substr(0, kMost)) + (text.size() > kMost ? "...\"" : "\"");
}

EventLog::EventLog(std::function<void(const std::string& line)> log) : log_(std::move(log)) {
  if (log_) thread_ = std::jthread([this](const std::stop_token& stop) { hand_over(stop); });
}

void EventLog::close() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    for (Allowance* one : {&nodes_, &strangers_}) say_left_out(*one);
  }
  thread_ = {};  // which stops it and waits for it
}

void EventLog::abandon(std::string last_line) {
  constexpr std::chrono::seconds kPatience{1};
  std::unique_lock lock(mutex_);
  if (!std::exchange(closed_, true)) lines_.push_back(std::move(last_line));
  there_.notify_one();
  handed_over_.wait_for(lock, kPatience, [this] { return lines_.empty(); });
  lines_.clear();
}

void EventLog::add(Allowance& allowance, std::string line) noexcept {
  if (!log_) return;
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - allowance.when).count();
  allowance.when = now;
  allowance.lines = std::min(allowance.most, allowance.lines + seconds * allowance.a_second);
  if (allowance.lines < 1.0) {
    ++allowance.left_out;
    return;
  }
  say_left_out(allowance);
  try {
    lines_.push_back(std::move(line));
  } catch (...) {
    ++allowance.left_out;
    return;
  }
  allowance.lines -= 1.0;
  there_.notify_one();
}

void EventLog::say_left_out(Allowance& allowance) noexcept {
  const std::uint64_t count = allowance.left_out;
  if (count == 0) return;
  try_to([&] {
    lines_.push_back(fmt::format("{} line{} left out", count, count == 1 ? " was" : "s were"));
    allowance.left_out = 0;
  });
}

void EventLog::hand_over(const std::stop_token& stop) {
  constexpr std::chrono::seconds kQuiet{2};  // after which nobody may come to say something before which it is said
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!there_.wait_for(lock, stop, kQuiet, [this] { return !lines_.empty(); })) {
      if (stop.stop_requested()) return;
      if (!closed_)
        for (Allowance* one : {&nodes_, &strangers_}) say_left_out(*one);
      continue;
    }
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    lock.unlock();
    try {
      log_(line);
    } catch (...) {
      // A line that cannot be written is no reason to lose a federation.
    }
    lock.lock();
    handed_over_.notify_all();
  }
}

}  // namespace labelshift
