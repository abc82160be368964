#include "labelshift/federation/federation_settings.hpp"

#include <fmt/format.h>

#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/local_ratio.hpp"
#include "labelshift/federation/setting_error.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {

void check_settings(const FederationSettings& settings, Index nodes) {
  const auto need = [](bool good, const char* key, const std::string& message) {
    if (!good) throw SettingError(key, message);
  };
  const auto fraction = [&](double value, const char* key, bool may_be_zero) {
    need((value > 0.0 || (may_be_zero && value == 0.0)) && value < 1.0, key,
         fmt::format("{} is {}, expected a fraction between 0 and 1", key, value));
  };
  const LocalSettings& local = settings.local;
  const RatioSettings& ratio = settings.ratio;
  need(settings.rounds >= 1, "training.rounds", fmt::format("rounds is {}, expected at least 1", settings.rounds));
  need(settings.sampled >= 0 && settings.sampled <= nodes, "training.sampled",
       fmt::format("sampled is {}, expected at most the {} nodes there are, or 0 for all", settings.sampled, nodes));
  need(settings.evaluate_every >= 1, "run.evaluate-every",
       fmt::format("evaluate-every is {}, expected at least 1", settings.evaluate_every));
  need(local.epochs >= 0, "training.local-epochs", fmt::format("local-epochs is {}, expected 0 or more", local.epochs));
  need(local.steps >= 1, "training.local-steps", fmt::format("local-steps is {}, expected at least 1", local.steps));
  const auto not_negative = [&](double value, const char* key) {
    need(std::isfinite(value) && value >= 0.0, key, fmt::format("{} is {}, expected 0 or more", key, value));
  };
  not_negative(local.weight_decay, "training.local-weight-decay");
  not_negative(settings.server.weight_decay, "training.weight-decay");
  fraction(settings.server.momentum, "training.momentum", true);
  need(settings.server.momentum == 0.0 || !find_server_optimiser(settings.server.optimiser).adaptive,
       "training.momentum", fmt::format("momentum is of sgd; {} has beta1 instead", settings.server.optimiser));
  fraction(settings.server.beta1, "training.beta1", true);
  fraction(settings.server.beta2, "training.beta2", true);
  need(local.epochs == 0 || local.steps == 1, "training.local-epochs", "give local-steps or local-epochs, not both");
  need(local.batch >= 1, "training.batch", fmt::format("batch is {}, expected at least 1", local.batch));
  algorithm_of(settings).check(settings);
  need(std::isfinite(local.learning_rate) && local.learning_rate > 0.0, "training.local-learning-rate",
       fmt::format("local-learning-rate is {}, expected more than 0", local.learning_rate));
  need(std::isfinite(settings.server.learning_rate) && settings.server.learning_rate > 0.0, "training.learning-rate",
       fmt::format("learning-rate is {}, expected more than 0", settings.server.learning_rate));
  ServerStep(0, settings.server);  // knows its optimisers
  need(!settings.max_update_norm || *settings.max_update_norm > 0.0, "training.max-update-norm",
       "max-update-norm is not positive; leave it out for no limit");
  fraction(settings.target_holdout, "run.target-holdout", true);
  fraction(settings.source_holdout, "run.source-holdout", true);
  if (!ratio.weighted()) return;
  need(ratio.goal_node >= 0 && ratio.goal_node <= nodes, "ratio.goal-node",
       fmt::format("goal-node is {}, expected a node from 1 to {}, or 0 for all", ratio.goal_node, nodes));
  need(ratio.goal_shift || ratio.goal_node > 0, "ratio.goal-shift", "goal-shift = false needs a goal-node");
  need(!ratio.max_ratio || *ratio.max_ratio > 0.0, "ratio.max-ratio",
       "max-ratio is not positive; leave it out for no limit");
  if (!ratio.estimated()) return;
  const Method& method = find_method(ratio.method);
  need(ratio.fraction > 0.0 && ratio.fraction <= 1.0, "ratio.fraction",
       fmt::format("fraction is {}, expected more than 0 and at most 1", ratio.fraction));
  fraction(ratio.held_out, "ratio.held-out", false);
  need(std::isfinite(ratio.learning_rate) && ratio.learning_rate > 0.0, "ratio.learning-rate",
       fmt::format("ratio.learning-rate is {}, expected more than 0", ratio.learning_rate));
  not_negative(ratio.weight_decay, "ratio.weight-decay");
  not_negative(ratio.stop_below, "ratio.stop-below");
  need(ratio.epochs >= 1, "ratio.epochs", fmt::format("epochs is {}, expected at least 1", ratio.epochs));
  need(ratio.rounds >= 1, "ratio.rounds", fmt::format("ratio.rounds is {}, expected at least 1", ratio.rounds));
  const bool pairwise = ratio.exchange == RatioExchange::kPairwise;
  const bool federated = ratio.predictor == PredictorScope::kFederated;
  need(!pairwise || !federated, "ratio.exchange",
       "exchange = \"pairwise\" is about local predictors; drop predictor = \"federated\"");
  need(!pairwise || ratio.goal_node == 0, "ratio.goal-node",
       "exchange = \"pairwise\" aims at all nodes; drop goal-node");
  need(!pairwise || settings.weighting == Weighting::kNodes, "training.weighting",
       "exchange = \"pairwise\" weighs nodes equally; drop weighting = \"pooled\"");
  if (pairwise || federated)
    need(find_estimator(method.estimator).family == EstimatorFamily::kLikelihood, "ratio.method",
         fmt::format("method {} needs a confusion matrix of each node's own predictor; use predictor = \"local\" and "
                     "exchange = \"local\", or a likelihood method such as vrls",
                     ratio.method));
}

}  // namespace labelshift
