#include "labelshift/federation/node_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/inference/wilson.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/federation/answer_checks.hpp"
#include "labelshift/federation/mix_adaptation.hpp"
#include "labelshift/federation/mixture_weights.hpp"
#include "labelshift/federation/streams.hpp"
#include "labelshift/learning/evaluation.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

void check_weights(std::span<const float> sent, Index expected) {
  if (std::ssize(sent) != expected)
    throw Error(ErrorKind::kPeer, fmt::format("a message has {} weights, expected {}", sent.size(), expected));
}

/// The node's steps, with what the coordinator decided of them.
LocalSettings local_steps(LocalSettings local, const Train::Request& request) {
  if (request.steps > Train::kMostSteps)
    throw Error(ErrorKind::kPeer, fmt::format("it was asked for {} steps in a round, expected at most {}",
                                              request.steps, Train::kMostSteps));
  if (request.rate && !(*request.rate > 0.0))
    throw Error(ErrorKind::kPeer,
                fmt::format("it was asked for steps of length {}, expected a number above 0", *request.rate));
  if (request.steps > 0) local.steps = static_cast<int>(request.steps);
  if (request.rate) local.learning_rate = *request.rate;
  return local;
}

/// What the node counts for among the others in training.
double weight_of(NodeContext& node, bool mixture) {
  if (!mixture)
    return node.settings().weighting == Weighting::kPooled ? static_cast<double>(node.model_rows().size()) : 1.0;
  const auto weight = recall<MixtureWeight>(node.memory(), kMixtureEntry);
  if (!weight) throw Error(ErrorKind::kPeer, "it was asked to train before it had its weight among the nodes");
  return std::max(weight->value, kLeastMixtureWeight);
}

/// Accuracy on held-out source examples, weighted by q_k / p_k^tr: sum w a / sum w, and its standard error.
std::optional<Evaluate::Reweighted> reweighted(NodeContext& node, Net& net, std::uint64_t weighed) {
  const std::optional<VectorXd> q = node.class_numbers(entry_of(kTargetEntry, weighed));
  const std::vector<Index>& rows = node.parts().held_out;
  if (!q || rows.empty()) return std::nullopt;
  // A node's own predictor cannot see a class that the node lacks, so q says that none of its targets are of it.
  const RatioSettings& ratio = node.settings().ratio;
  const bool own = ratio.estimated() && ratio.predictor == PredictorScope::kLocal && weighed == 0;
  if (own && (node.source_prior(node.parts().train).array() == 0.0).any()) return std::nullopt;
  const RowMajorMatrix<float> logits = evaluate_logits(net, node.train_data(), rows);
  const std::vector<int> labels = labels_of(node.train_data(), rows);
  const VectorXd prior = node.source_prior(rows);
  // Of a target that is partly of classes without held-out examples nothing can be said.
  if ((prior.array() > 0.0).select(*q, 0.0).sum() < 0.99) return std::nullopt;
  std::vector<double> weights, right;
  double sum = 0.0, hits = 0.0, spread = 0.0;
  for (Index i = 0; i < logits.rows(); ++i) {
    weights.push_back((*q)[labels[i]] / prior[labels[i]]);
    right.push_back(arg_max(logits, i) == labels[i]);
    sum += weights.back();
    hits += weights.back() * right.back();
  }
  Evaluate::Reweighted found{.accuracy = hits / sum, .examples = effective_rows(weights, std::ssize(weights))};
  const double accuracy = found.accuracy;
  for (std::size_t i = 0; i < weights.size(); ++i)
    spread += weights[i] * weights[i] * (right[i] - accuracy) * (right[i] - accuracy);
  // Wilson's interval with the effective number of examples in place of n. Where the weights go with the errors the
  // sandwich is the wider one.
  const double n = std::min(found.examples, accuracy * (1.0 - accuracy) / std::max(spread / (sum * sum), 1e-300));
  const double size = accuracy > 0.0 && accuracy < 1.0 ? n : found.examples;
  const WilsonInterval interval = wilson_interval(accuracy, size);
  found.low = interval.low;
  found.high = interval.high;
  return found;
}

void check_trained_mix(const VectorXd& mix, Index classes) {
  if (mix.size() == 0) return;
  if (mix.size() != classes || (mix.array() < 0.0).any() || std::abs(mix.sum() - 1.0) > 1e-6)
    throw Error(ErrorKind::kPeer, fmt::format("a message has {} numbers that sum to {:.6g} as the mix that a model is "
                                              "trained towards, expected {} shares that sum to 1",
                                              mix.size(), mix.sum(), classes));
}

/// What the model is worth to a node that corrects it for its own mix; nothing without an estimate of that.
std::optional<Evaluate::Adapted> adapted(NodeContext& node, const Evaluate::Request& request,
                                         const RowMajorMatrix<float>& logits, std::span<const int> labels) {
  const VectorXd& trained_mix = request.trained_mix;
  if (trained_mix.size() == 0 || !node.settings().ratio.estimated()) return std::nullopt;
  const std::optional<VectorXd> q = node.class_numbers(entry_of(kTargetEntry, request.weighed));
  if (!q || !(q->sum() > 0.0)) return std::nullopt;  // it withholds its mix, or has no say in the goal
  const VectorXd mix = shrunk_mix(*q, trained_mix, static_cast<double>(node.parts().estimate.size()));
  return Evaluate::Adapted{.right = right_for_mix(logits, labels, mix, trained_mix),
                           .by_majority = right_by_majority(labels, *q)};
}

}  // namespace

Answer answer(NodeContext& node, const Train::Request& request, const UpdateCodec* codec) {
  const FederationSettings& settings = node.settings();
  const NodeCall& call = node.call();
  const FederatedAlgorithm& algorithm = node.algorithm();
  check_weights(call.request.weights, algorithm.request_parts().size());
  NamedParts memory;
  if (algorithm.has_memory()) {
    // A coordinator that has all begin anew may still go back to any round that it has saved since the durable one.
    const std::uint64_t last = call.to.counted > 0 ? call.to.counted : std::numeric_limits<std::uint64_t>::max();
    forget_rounds(node.memory(), last, call.to.durable);
    memory = recall_round(node.memory(), call.to.counted);
  }
  std::vector<float> weights;
  const bool mixture = algorithm.mixture_penalty().has_value();
  if (settings.ratio.weighted() && !mixture) {
    weights = node.class_weights(entry_of(kRatioEntry, request.weighed));
    if (weights.empty()) throw Error(ErrorKind::kPeer, "it was asked to train before it had its importance weights");
    node.forget_entries_before(request.weighed);
  }
  const std::vector<Index>& rows = node.model_rows();
  NodeRound round{.model = node.model(),
                  .request = call.request.weights,
                  .serial = call.serial,
                  .number = call.request.round,
                  .local = local_steps(settings.local, request),
                  .loss = {node.train_data(), rows, weights, /*zeta=*/0.0, {}},
                  .seed = node_seed(settings.seed, Stream::kModelRounds, node.node(), call.request.round),
                  .weight = weight_of(node, mixture),
                  .memory = memory,
                  .cancelled = call.cancelled};
  if (call.to.counted > 0) algorithm.node_settle(round);
  TaskAnswer<Train> update = algorithm.node_update(round);
  check_own_training(update.sums);
  Answer result = to_answer<Train>(std::move(update));
  const Index parameters = node.model().shared().parameters();
  if (codec) {
    const std::uint64_t seed = node_seed(settings.seed, Stream::kCompression, node.node(), call.request.round);
    algorithm.node_sent(round, pack_update(*codec, result, parameters, seed));
  } else {
    algorithm.node_sent(round, std::span(result.weights).first(static_cast<std::size_t>(parameters)));
  }
  if (algorithm.has_memory()) remember_round(node.memory(), call.request.round, memory);
  return result;
}

TaskAnswer<Evaluate> answer(NodeContext& node, const Evaluate::Request& request) {
  check_trained_mix(request.trained_mix, node.classes());
  Net& model = node.asked_model();
  const std::vector<Index>& rows = node.parts().evaluate;
  TaskAnswer<Evaluate> result;
  result.report.examples = std::ssize(rows);
  if (!node.test_data().labels.empty() && !rows.empty()) {
    const RowMajorMatrix<float> logits = evaluate_logits(model, node.test_data(), rows);
    const std::vector<int> labels = labels_of(node.test_data(), rows);
    const Evaluation found = evaluate(logits, labels, Calibration::identity(node.classes()));
    result.report.accuracy = found.accuracy;
    result.report.loss = found.quality.nll;
    result.report.adapted = adapted(node, request, logits, labels);
  }
  result.report.reweighted = reweighted(node, model, request.weighed);
  return result;
}

}  // namespace labelshift
