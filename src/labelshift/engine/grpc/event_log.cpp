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
    for (const Allowance* one : {&nodes_, &strangers_})
      if (one->left_out > 0) lines_.push_back(fmt::format("{} lines were left out", one->left_out));
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

void EventLog::add(Allowance& allowance, std::string line) {
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
  allowance.lines -= 1.0;
  if (allowance.left_out > 0) lines_.push_back(fmt::format("{} lines were left out", allowance.left_out));
  allowance.left_out = 0;
  lines_.push_back(std::move(line));
  there_.notify_one();
}

void EventLog::hand_over(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (there_.wait(lock, stop, [this] { return !lines_.empty(); }) || !lines_.empty()) {
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
