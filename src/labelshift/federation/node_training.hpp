#pragma once

#include "labelshift/federation/codec.hpp"
#include "labelshift/federation/node_context.hpp"

// What a node does in phase 3 of Alg. 2: rounds of the model, and how the model does there.

namespace labelshift {

/// What it keeps of the round is safe before this returns.
TaskAnswer<Train> answer(NodeContext& node, const Train&);
TaskAnswer<Evaluate> answer(NodeContext& node, const Evaluate&);

}  // namespace labelshift
