#pragma once

#include "labelshift/engine/mpi/mpi_engine.hpp"
#include "labelshift/experiments/run_nodes.hpp"

namespace labelshift {

/// Rank 0's side of runs over MPI: tells the other ranks which run comes next. Every rank reads the data of its own
/// nodes. An error of another rank is Error{kPeer}, or a call of `settings.on_lost`.
class MpiRuns {
 public:
  MpiRuns(MpiContext& mpi, MpiSettings settings);
  /// Tells the other ranks that no run comes any more.
  ~MpiRuns();
  MpiRuns(const MpiRuns&) = delete;
  MpiRuns& operator=(const MpiRuns&) = delete;

  /// See OpenNodes. One at a time, and none may outlive this.
  std::unique_ptr<RunNodes> open(const RunTask& task);

 private:
  MpiContext& mpi_;
  const MpiSettings settings_;
};

/// The other ranks' side: takes part in runs until rank 0 has no more. Throws Error for what is wrong here; then the
/// job can only be aborted.
void serve_mpi_runs(MpiContext& mpi, const MpiSettings& settings);

}  // namespace labelshift
