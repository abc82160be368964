#pragma once

#include "labelshift/core/base/error.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/engine/mpi/mpi_context.hpp"
#include "labelshift/engine/node_block.hpp"

namespace labelshift {

struct MpiSettings {
  InProcessSettings workers{.workers = 1};                                  // of each rank
  std::chrono::steady_clock::duration deadline = std::chrono::minutes(10);  // of every wait for another rank
  /// Of the waits of other ranks for rank 0: it is to say who is silent, and not to be taken for it.
  std::chrono::steady_clock::duration patience_of_others() const { return 3 * deadline; }
  std::uint64_t most_bytes = std::uint64_t{1} << 36;  // of a message
  /// Rank 0: called for what another rank did wrong, after which the job can only be aborted. It is not to return.
  /// Where there is none, the error is thrown.
  std::function<void(const Error& error)> on_lost = {};
};

/// Nodes on all ranks of an MPI job, in blocks by block_of(). This is rank 0's; it does the work of the nodes of its
/// own block too. A rank adds up the answers of its block and sends the sums of the largest ranges (TreeSum), so that
/// the bits are those of the in-process engine for any number of ranks.
///
/// There is no quorum: Error{kUsage} if one is asked for. A rank that misses a deadline is Error{kPeer}, after which
/// the job can only be aborted.
std::unique_ptr<Engine> make_mpi_engine(MpiContext& mpi, Index nodes, NodeProgramFactory make_program,
                                        MpiSettings settings = {});

/// What AnswerTerms::accept is to answers to this request, for the ranks that do not know the coordinator's terms.
using AcceptAnswer = std::function<void(const Request& request, Index node, Answer& answer)>;

/// The other ranks' side: does what rank 0 asks of the nodes of its block, until rank 0's engine is destroyed.
void serve_mpi(MpiContext& mpi, Index nodes, NodeProgramFactory make_program, const AcceptAnswer& accept,
               MpiSettings settings = {});

}  // namespace labelshift
