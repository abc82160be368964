#pragma once

#include "labelshift/federation/node_context.hpp"

// What a node does in phases 1 and 2 of Alg. 2: its own label mix, estimated, and its importance weights, or
// its own weight.

namespace labelshift {

TaskAnswer<Target> answer(NodeContext& node, const Target::Request& request);
TaskAnswer<Share> answer(NodeContext& node, const Share&);
TaskAnswer<Assess> answer(NodeContext& node, const Assess::Request& request);
TaskAnswer<Ratio> answer(NodeContext& node, const Ratio::Request& request, const Ratio::Own& own);
TaskAnswer<TrainPredictor> answer(NodeContext& node, const TrainPredictor::Request& request);
TaskAnswer<HeldOut> answer(NodeContext& node, const HeldOut::Request& request);
TaskAnswer<Calibrate> answer(NodeContext& node, const Calibrate::Request& request);
TaskAnswer<TargetTogether> answer(NodeContext& node, const TargetTogether::Request& request);
TaskAnswer<SharedMix> answer(NodeContext& node, const SharedMix::Request& request);
TaskAnswer<SharedTarget> answer(NodeContext& node, const SharedTarget::Request& request);
TaskAnswer<Mixture> answer(NodeContext& node, const Mixture::Request& request);

}  // namespace labelshift
