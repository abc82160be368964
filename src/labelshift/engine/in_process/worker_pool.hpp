#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "labelshift/engine/in_process/in_process_engine.hpp"

namespace labelshift {

/// What came of a request at some of the nodes of a cohort.
struct BlockOutcome {
  std::vector<RangeSum> sums;  // of the largest ranges that lie within the block
  std::vector<Contribution> contributed;
  std::vector<NodeFailure> failed;
  Traffic traffic;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.sums, self.contributed, self.failed, self.traffic);
  }
};

/// The nodes of a cohort.
std::vector<Index> nodes_of(std::span<const Addressee> cohort);

/// What the blocks of a cohort come to, of `nodes` in all; `blocks` are in node order.
CohortOutcome join_blocks(Index nodes, std::span<const Index> whole, std::vector<BlockOutcome> blocks);

/// Threads that do the work of nodes, for the engines. One request at a time.
class WorkerPool {
 public:
  /// Of `nodes` in all, also of those whose work others do.
  WorkerPool(Index nodes, NodeProgramFactory make_program, InProcessSettings settings);
  ~WorkerPool();

  /// As Engine::run(), for the block of a cohort that is this pool's; `whole` are the nodes of the cohort.
  BlockOutcome run(const Request& request, std::span<const Addressee> block, std::span<const Index> whole,
                   const AnswerTerms& terms, const Patience& patience, const Observer& observer);

 private:
  class Job;
  void work(const std::stop_token& stop);

  const Index nodes_;
  const NodeProgramFactory make_program_;
  const InProcessSettings settings_;
  const int blas_threads_;  // of the maker's thread: bits must not depend on who computes
  std::mutex mutex_;
  std::condition_variable_any job_there_;
  std::condition_variable job_finished_;
  Job* job_ = nullptr;  // while run() waits
  std::uint64_t serial_ = 0;
  std::vector<std::jthread> workers_;  // last: they are stopped and joined before anything else goes
};

}  // namespace labelshift
