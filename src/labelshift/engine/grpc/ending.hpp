#pragma once

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace labelshift {

/// Ends something on a thread of its own, and says whether that was over in time. If not, the thread is left to itself,
/// so `end` must own what it needs.
template <typename End>
bool ends_within(std::chrono::milliseconds patience, End end) {
  std::promise<void> promise;
  const std::future<void> over = promise.get_future();
  std::thread ending([end = std::move(end), promise = std::move(promise)]() mutable {
    end();
    promise.set_value();
  });
  const bool in_time = over.wait_for(patience) == std::future_status::ready;
  in_time ? ending.join() : ending.detach();
  return in_time;
}

}  // namespace labelshift
