#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// Runs job(0), ..., job(jobs - 1), each once, on up to `workers` threads; 0 means one a core. Jobs must not depend on
/// each other: which thread runs which, and when, is left to chance. After an exception no job is started;
/// those that run are waited for, and the first exception is thrown here.
void run_in_parallel(Index jobs, unsigned workers, const std::function<void(Index job)>& job);

/// The sum of what work(job, part) adds to parts that start as `zero`, for jobs 0, ..., jobs - 1. Parts are added in
/// the order of the jobs, so that the bits do not depend on the number of workers. Not more parts than workers are
/// held.
template <typename Sum, typename Work>
Sum sum_in_order(Index jobs, unsigned workers, const Sum& zero, const Work& work) {
  Sum total = zero;
  std::mutex mutex;  // guards what follows
  std::condition_variable turn;
  Index due = 0;
  bool failed = false;
  run_in_parallel(jobs, workers, [&](Index job) {
    std::optional<Sum> part;
    try {
      work(job, part.emplace(zero));
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = true;
      turn.notify_all();
      throw;
    }
    // The job before this one is with a worker that waits for nothing but earlier jobs.
    std::unique_lock lock(mutex);
    turn.wait(lock, [&] { return due == job || failed; });
    if (failed) return;
    total.add(*part);
    ++due;
    turn.notify_all();
  });
  return total;
}

}  // namespace labelshift
