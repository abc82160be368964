#include "labelshift/core/base/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <new>
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

/// A sum whose bits show the order of its terms.
struct Terms {
  double sum = 0.0;
  void add(const Terms& other) { sum += other.sum; }
};

TEST(SumInOrder, HasTheBitsOfAPlainLoopOnAnyNumberOfWorkers) {
  const auto term = [](Index job) { return std::exp2(static_cast<double>(job * 37 % 90)) / 3.0; };
  double expected = 0.0, backwards = 0.0;
  for (Index job = 0; job < 200; ++job) expected += term(job);
  for (Index job = 199; job >= 0; --job) backwards += term(job);
  ASSERT_NE(expected, backwards);
  for (const unsigned workers : {1u, 2u, 3u, 8u, 300u}) {
    const Terms found = sum_in_order(200, workers, Terms(), [&](Index job, Terms& part) {
      if (job % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));  // later jobs overtake it
      part.sum += term(job);
    });
    EXPECT_EQ(found.sum, expected) << workers;
  }
}

TEST(SumInOrder, ThrowsWhatAJobThrowsAndLeavesNobodyWaiting) {
  EXPECT_THROW(sum_in_order(100, 4, Terms(),
                            [](Index job, Terms&) {
                              if (job == 5) throw std::runtime_error("job failed");
                            }),
               std::runtime_error);
}

/// A sum of which only some copies can be made.
struct Scarce {
  explicit Scarce(std::atomic<int>& left_) : left(left_) {}
  Scarce(const Scarce& other) : left(other.left) {
    if (left-- <= 0) throw std::bad_alloc();
  }
  void add(const Scarce&) {}
  std::atomic<int>& left;
};

TEST(SumInOrder, LeavesNobodyWaitingWhereAPartCannotBeMade) {
  std::atomic<int> left = 10;
  EXPECT_THROW(sum_in_order(100, 4, Scarce(left), [](Index, Scarce&) {}), std::bad_alloc);
}

}  // namespace
}  // namespace labelshift
