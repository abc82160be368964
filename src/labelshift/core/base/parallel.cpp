#include "labelshift/core/base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "labelshift/core/base/blas.hpp"

namespace labelshift {

void run_in_parallel(Index jobs, unsigned workers, const std::function<void(Index job)>& job) {
  if (workers == 0) workers = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<Index> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    for (Index i = next++; i < jobs; i = next++) {
      try {
        job(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = jobs;
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (unsigned i = 1; i < std::min<Index>(workers, jobs); ++i) {
      pool.emplace_back([&run, blas = blas_threads()] {
        use_blas_threads(blas);  // a setting of each thread; without it bits would depend on which thread ran what
        run();
      });
    }
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace labelshift
