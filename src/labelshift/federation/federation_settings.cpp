#include "labelshift/federation/federation_settings.hpp"

#include <fmt/format.h>

#include <cmath>

#include "labelshift/core/error.hpp"
#include "labelshift/core/estimators.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/local_ratio.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {

void check_settings(const FederationSettings& settings, Index nodes) {
  const auto need = [](bool good, const std::string& message) {
    if (!good) throw Error(ErrorKind::kUsage, message);
  };
  const auto fraction = [&](double value, const char* name, bool may_be_zero) {
    need((value > 0.0 || (may_be_zero && value == 0.0)) && value < 1.0,
         fmt::format("{} is {}, expected a fraction between 0 and 1", name, value));
  };
  const AlgorithmEntry& algorithm = find_algorithm(settings.algorithm);
  const LocalSettings& local = settings.local;
  const RatioSettings& ratio = settings.ratio;
  need(settings.rounds >= 1, fmt::format("rounds is {}, expected at least 1", settings.rounds));
  need(settings.sampled >= 0 && settings.sampled <= nodes,
       fmt::format("sampled is {}, expected at most the {} nodes there are, or 0 for all", settings.sampled, nodes));
  need(settings.evaluate_every >= 1, fmt::format("evaluate-every is {}, expected at least 1", settings.evaluate_every));
  need(local.epochs >= 0, fmt::format("local-epochs is {}, expected 0 or more", local.epochs));
  need(local.steps >= 1, fmt::format("local-steps is {}, expected at least 1", local.steps));
  const auto not_negative = [&](double value, const char* name) {
    need(std::isfinite(value) && value >= 0.0, fmt::format("{} is {}, expected 0 or more", name, value));
  };
  not_negative(local.weight_decay, "local-weight-decay");
  not_negative(settings.server.weight_decay, "weight-decay");
  fraction(settings.server.momentum, "momentum", true);
  need(settings.server.momentum == 0.0 || !find_server_optimiser(settings.server.optimiser).adaptive,
       fmt::format("momentum is of sgd; {} has beta1 instead", settings.server.optimiser));
  fraction(settings.server.beta1, "beta1", true);
  fraction(settings.server.beta2, "beta2", true);
  need(!algorithm.control_variates || settings.weighting == Weighting::kNodes,
       "scaffold weighs nodes equally; drop weighting = \"pooled\"");
  need(local.epochs == 0 || local.steps == 1, "give local-steps or local-epochs, not both");
  need(local.batch >= 1, fmt::format("batch is {}, expected at least 1", local.batch));
  need(!algorithm.several_steps || !local.sends_gradient(),
       fmt::format("{} with one local step is fedavg; give local-steps above 1, or algorithm = \"fedavg\"",
                   settings.algorithm));
  need(!algorithm.proximal || local.proximal > 0.0, "fedprox needs a proximal above 0");
  need(algorithm.proximal || local.proximal == 0.0,
       fmt::format("{} has no proximal term; use algorithm = \"fedprox\"", settings.algorithm));
  need(std::isfinite(local.learning_rate) && local.learning_rate > 0.0,
       fmt::format("local-learning-rate is {}, expected more than 0", local.learning_rate));
  need(std::isfinite(settings.server.learning_rate) && settings.server.learning_rate > 0.0,
       fmt::format("learning-rate is {}, expected more than 0", settings.server.learning_rate));
  ServerStep(0, settings.server);  // knows its optimisers
  need(!algorithm.weighted || ratio.weighted(),
       fmt::format("{} needs ratios; give [ratio] a method, such as \"vrls\"", settings.algorithm));
  fraction(settings.target_holdout, "target-holdout", true);
  fraction(settings.source_holdout, "source-holdout", true);
  if (!ratio.weighted()) return;
  need(ratio.goal_node >= 0 && ratio.goal_node <= nodes,
       fmt::format("goal-node is {}, expected a node from 1 to {}, or 0 for all", ratio.goal_node, nodes));
  need(ratio.goal_shift || ratio.goal_node > 0, "goal-shift = false needs a goal-node");
  need(!ratio.max_ratio || *ratio.max_ratio > 0.0, "max-ratio is not positive; leave it out for no limit");
  if (!ratio.estimated()) return;
  if (ratio.method != "auto") find_method(ratio.method);
  need(ratio.fraction > 0.0 && ratio.fraction <= 1.0,
       fmt::format("fraction is {}, expected more than 0 and at most 1", ratio.fraction));
  fraction(ratio.held_out, "held-out", false);
  need(std::isfinite(ratio.learning_rate) && ratio.learning_rate > 0.0,
       fmt::format("learning-rate of [ratio] is {}, expected more than 0", ratio.learning_rate));
  not_negative(ratio.weight_decay, "weight-decay of [ratio]");
  not_negative(ratio.stop_below, "stop-below");
  need(ratio.epochs >= 1, fmt::format("epochs is {}, expected at least 1", ratio.epochs));
  need(ratio.rounds >= 1, fmt::format("predictor-rounds is {}, expected at least 1", ratio.rounds));
  const bool pairwise = ratio.exchange == RatioExchange::kPairwise;
  const bool federated = ratio.predictor == PredictorScope::kFederated;
  need(!pairwise || !federated, "exchange = \"pairwise\" is about local predictors; drop predictor = \"federated\"");
  need(!pairwise || ratio.goal_node == 0, "exchange = \"pairwise\" aims at all nodes; drop goal-node");
  need(!pairwise || settings.weighting == Weighting::kNodes,
       "exchange = \"pairwise\" weighs nodes equally; drop weighting = \"pooled\"");
  if (pairwise || federated)
    need(find_estimator(estimator_of(ratio.method)).family == EstimatorFamily::kLikelihood,
         fmt::format("method {} needs a confusion matrix of each node's own predictor; use predictor = \"local\" and "
                     "exchange = \"local\", or a likelihood method such as vrls",
                     ratio.method));
}

}  // namespace labelshift
