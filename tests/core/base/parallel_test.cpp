#include "labelshift/core/base/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/await.hpp"

namespace labelshift {
namespace {

TEST(Parallel, RunsEveryJobOnce) {
  for (const unsigned workers : {0u, 1u, 2u, 16u}) {
    std::vector<std::atomic<int>> runs(50);
    run_in_parallel(50, workers, [&](Index job) { ++runs[static_cast<std::size_t>(job)]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
  run_in_parallel(0, 2, [](Index) { FAIL(); });
}

TEST(Parallel, RunsJobsAtTheSameTime) {
  std::atomic<int> together = 0;
  run_in_parallel(3, 3, [&](Index) {
    ++together;
    await([&] { return together == 3; }, "all three workers had a job");
  });
}

TEST(Parallel, UsesNoMoreThreadsThanAskedFor) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  run_in_parallel(40, 2, [&](Index) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // so that every thread gets a job
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2U);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(Parallel, ThrowsTheFirstExceptionAndStartsNoFurtherJob) {
  std::atomic<int> started = 0;
  try {
    run_in_parallel(1000, 2, [&](Index job) {
      ++started;
      if (job >= 3) throw std::runtime_error("job failed");
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "job failed");
  }
  EXPECT_LE(started, 3 + 2);  // at most one a worker after the third
}

}  // namespace
}  // namespace labelshift
