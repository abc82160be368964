#pragma once

#include "labelshift/federation/codec.hpp"
#include "labelshift/federation/node_context.hpp"

// What a node does in phase 3 of Alg. 2: rounds of the model, and how the model does there.

namespace labelshift {

/// A round, its update packed by the codec, if there is one. What the node keeps of the round is safe before this
/// returns.
Answer answer(NodeContext& node, const Train::Request& request, const UpdateCodec* codec);
TaskAnswer<Evaluate> answer(NodeContext& node, const Evaluate::Request& request);

}  // namespace labelshift
