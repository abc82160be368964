#pragma once

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// The nodes whose work one process of several does: begin, ..., end - 1.
struct NodeBlock {
  Index begin = 0, end = 0;

  bool contains(Index node) const { return node >= begin && node < end; }
};

/// Nodes are spread evenly over the processes, in contiguous blocks.
inline NodeBlock block_of(Index nodes, int processes, int process) {
  return {nodes * process / processes, nodes * (process + 1) / processes};
}

}  // namespace labelshift
