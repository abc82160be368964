#pragma once

#include "labelshift/engine/engine.hpp"

namespace labelshift {

struct InProcessSettings {
  unsigned workers = 0;                  // threads; 0: one a core
  std::function<void()> prepare_thread;  // called on each worker before it computes anything
};

/// All nodes in this process, on a pool of worker threads that take node after node. The reference for other engines:
/// messages are counted as they would be encoded. Memory grows with the workers, not with the cohort: a worker
/// does not start a node that is far ahead of the one whose turn it is to be added.
std::unique_ptr<Engine> make_in_process_engine(Index nodes, NodeProgramFactory make_program,
                                               InProcessSettings settings = {});

}  // namespace labelshift
