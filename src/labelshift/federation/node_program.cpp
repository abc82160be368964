#include "labelshift/federation/node_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/federation/model_schema.hpp"
#include "labelshift/federation/node_context.hpp"
#include "labelshift/federation/node_estimates.hpp"
#include "labelshift/federation/node_training.hpp"
#include "labelshift/federation/step_size.hpp"

namespace labelshift {
namespace {

void refuse_handshake(const std::string& what) {
  throw Error(ErrorKind::kPeer, fmt::format("the handshake failed: {}", what));
}

TaskAnswer<Hello> answer(NodeContext& node, const Hello::Request& hello) {
  if (hello.protocol != kProtocolVersion)
    refuse_handshake(fmt::format("the coordinator speaks protocol {}, this node {}; install the same version at both",
                                 hello.protocol, kProtocolVersion));
  const Dataset& data = node.train_data();
  if (hello.class_names != data.class_names)
    refuse_handshake(fmt::format("the classes are {}, at this node {}; give them the same names in the same order",
                                 fmt::join(hello.class_names, ", "), fmt::join(data.class_names, ", ")));
  if (hello.channels != data.shape.channels || hello.height != data.shape.height || hello.width != data.shape.width)
    refuse_handshake(fmt::format("examples are {} x {} x {}, at this node {} x {} x {}", hello.channels, hello.height,
                                 hello.width, data.shape.channels, data.shape.height, data.shape.width));
  const auto known = recall<RunFacts>(node.memory(), "run");
  if (known && known->hello != hello)
    refuse_handshake(fmt::format(
        "this node remembers the run {}, and this is {}, or its settings have changed; give the node another "
        "folder for its memory",
        known->hello.run, hello.run));
  if (!known) remember(node.memory(), "run", RunFacts{hello, {}});
  return {};
}

TaskAnswer<Join> answer(NodeContext& node, const Join&) {
  const Dataset& data = node.train_data();
  const std::vector<Index>& rows = node.model_rows();
  const Index m = node.classes();
  const std::vector<Index> counts = class_counts(data.labels, rows, m);
  const ValueSums values = value_sums(data, rows);
  const Eigen::VectorXd truth = node.has_truth() ? node.true_target() : Eigen::VectorXd::Zero(m);
  TaskAnswer<Join> result;
  auto& sums = result.sums;
  Join::Details& details = result.report.details.emplace(Join::Details{});
  sums.holders = sums.counts = Eigen::VectorXd(m);
  for (Index c = 0; c < m; ++c) {
    sums.counts[c] = static_cast<double>(counts[c]) / Join::kCountUnit;
    sums.holders[c] = counts[c] > 0 ? 1.0 : 0.0;
    if (counts[c] == 0) details.missing.push_back(c);
  }
  sums.tested = (truth.array() > 0.0).cast<double>();
  sums.value_sums = to_digits(values.sum, kValueDigits);
  sums.value_squares = to_digits(values.squares, kSquareDigits);
  details.test_examples = std::ssize(node.test_rows());
  result.report.tested = details.test_examples > 0;
  return result;
}

TaskAnswer<Agree> answer(NodeContext& node, const Agree::Request& request) {
  const std::size_t parts = value_sums(node.train_data(), {}).sum.size();
  if (request.mean.size() != parts || request.scale.size() != parts)
    refuse_handshake(fmt::format("the normalisation has {} means and {} scales, expected {}", request.mean.size(),
                                 request.scale.size(), parts));
  RunFacts facts = node.facts();
  facts.agreed = request;
  remember(node.memory(), "run", facts);
  const std::string schema = model_schema(node.model().net(), node.algorithm());
  if (schema != request.schema)
    refuse_handshake(fmt::format("the model is {}, at this node {}", request.schema, schema));
  TaskAnswer<Agree> result;
  if (asks_for_squares(node.settings()))
    result.report.largest_square =
        largest_square(node.train_data(), node.model_rows(), {.mean = request.mean, .scale = request.scale});
  return result;
}

class Program : public NodeProgram {
 public:
  Program(const FederationSettings& settings, std::shared_ptr<const NodeLookup> lookup)
      : worker_(settings), lookup_(std::move(lookup)), codec_(make_codec(settings.compression)) {}

  Answer run(const NodeCall& call) override {
    const NodeHome home = (*lookup_)(call.to.node);
    NodeContext node(worker_, call, home.data, *home.memory);
    switch (static_cast<TaskKind>(call.request.task)) {
      case TaskKind::kHello:
        return with_request<Hello>(node);
      case TaskKind::kJoin:
        return to_answer<Join>(answer(node, Join{}), nodes_of(node));
      case TaskKind::kAgree:
        return with_request<Agree>(node);
      case TaskKind::kTarget:
        return with_request<Target>(node, nodes_of(node));
      case TaskKind::kShare:
        return to_answer<Share>(answer(node, Share{}));
      case TaskKind::kAssess:
        return with_request<Assess>(node, nodes_of(node));
      case TaskKind::kRatio:
        return to_answer<Ratio>(
            answer(node, from_bytes<Ratio::Request>(call.request.body), from_bytes<Ratio::Own>(call.to.own)),
            nodes_of(node));
      case TaskKind::kTrainPredictor:
        return with_request<TrainPredictor>(node);
      case TaskKind::kHeldOut:
        return with_request<HeldOut>(node, nodes_of(node));
      case TaskKind::kCalibrate:
        return with_request<Calibrate>(node, nodes_of(node));
      case TaskKind::kTargetTogether:
        return with_request<TargetTogether>(node, nodes_of(node));
      case TaskKind::kSharedMix:
        return with_request<SharedMix>(node, nodes_of(node));
      case TaskKind::kSharedTarget:
        return with_request<SharedTarget>(node, nodes_of(node));
      case TaskKind::kMixture:
        return with_request<Mixture>(node, nodes_of(node));
      case TaskKind::kTrain:
        return answer(node, from_bytes<Train::Request>(call.request.body), codec_.get());
      case TaskKind::kEvaluate:
        return with_request<Evaluate>(node);
    }
    throw Error(ErrorKind::kPeer,
                fmt::format("there is no task {}; does the coordinator run this version?", call.request.task));
  }

 private:
  static Index nodes_of(const NodeContext& node) { return std::max<Index>(node.facts().hello.nodes, 1); }
  template <typename Task>
  static Answer with_request(NodeContext& node, Index nodes = 0) {
    return to_answer<Task>(answer(node, from_bytes<typename Task::Request>(node.call().request.body)), nodes);
  }

  NodeWorker worker_;
  const std::shared_ptr<const NodeLookup> lookup_;
  const std::unique_ptr<const UpdateCodec> codec_;
};

}  // namespace

NodeProgramFactory make_node_programs(const FederationSettings& settings, NodeLookup lookup) {
  const auto shared = std::make_shared<const NodeLookup>(std::move(lookup));
  return [&settings, shared] { return std::make_unique<Program>(settings, shared); };
}

NodeProgramFactory make_node_programs(const FederationSettings& settings, const FederatedData& data, NodeStore& store) {
  return make_node_programs(settings, [&](Index node) {
    return NodeHome{data.nodes[static_cast<std::size_t>(node)], store.of(node)};
  });
}

}  // namespace labelshift
