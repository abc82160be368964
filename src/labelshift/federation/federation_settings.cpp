#include "labelshift/federation/federation_settings.hpp"

#include <fmt/format.h>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/codec.hpp"
#include "labelshift/federation/local_ratio.hpp"
#include "labelshift/federation/regulariser.hpp"
#include "labelshift/federation/setting_error.hpp"
#include "labelshift/federation/setting_ranges.hpp"
#include "labelshift/federation/step_size.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

void check_refresh(const FederationSettings& settings) {
  const RatioSettings& ratio = settings.ratio;
  const auto refuse = [](bool bad, const char* why) {
    if (bad) throw SettingError("ratio.refresh", why);
  };
  refuse(!ratio.estimated(),
         "refresh estimates ratios again, and there are none to estimate; give [ratio] a method such as \"vrls\", or "
         "drop refresh");
  refuse(ratio.exchange == RatioExchange::kPairwise,
         "refresh has one model estimate at every node, and exchange = \"pairwise\" is about as many predictors as "
         "nodes; drop one of the two");
  refuse(!ratio.goal_shift,
         "with goal-shift = false nothing is estimated, so there is nothing to refresh; drop one of the two");
  refuse(settings.step.rule == StepRule::kTheorem,
         "step = \"theorem\" computes the step from the weights before the first round, and refresh changes them; drop "
         "one of the two");
}

}  // namespace

std::int64_t iterations(const FederationSettings& settings, int rounds) {
  const auto draw_steps = algorithm_of(settings).draw_steps;
  if (!draw_steps) return settings.local.iterations(rounds);
  std::int64_t sum = 0;
  for (int round = 1; round <= rounds; ++round) sum += draw_steps(settings, static_cast<std::uint64_t>(round));
  return sum;
}

void check_settings(const FederationSettings& settings, Index nodes) {
  const auto need = [](bool good, const char* key, const std::string& message) {
    if (!good) throw SettingError(key, message);
  };
  const LocalSettings& local = settings.local;
  const RatioSettings& ratio = settings.ratio;
  check_ranges(settings);
  need(settings.sampled <= nodes, "training.sampled",
       fmt::format("sampled is {}, expected at most the {} nodes there are, or 0 for all", settings.sampled, nodes));
  const bool adaptive = find_server_optimiser(settings.server.optimiser).adaptive;
  need(settings.server.momentum == 0.0 || !adaptive, "training.momentum",
       fmt::format("momentum is of sgd; {} has beta1 instead", settings.server.optimiser));
  need(local.epochs == 0 || local.steps == 1, "training.local-epochs", "give local-steps or local-epochs, not both");
  make_codec(settings.compression);  // which must be known
  algorithm_of(settings).check(settings);
  if (settings.regulariser.regularised()) {
    find_regulariser(settings.regulariser.name);  // which must be known
    need(settings.server.optimiser == "sgd" && settings.server.momentum == 0.0, "training.regulariser",
         "the proximal step of a regulariser follows a plain step of the server; give server = \"sgd\" and momentum = "
         "0");
    need(local.epochs == 0, "training.regulariser",
         "the proximal step of a regulariser needs as many steps at every node; give local-steps instead of "
         "local-epochs");
  }
  check_theorem_step(settings, nodes);
  if (ratio.refreshed()) check_refresh(settings);
  need(!ratio.shared_prior || ratio.estimated(), "ratio.shared-prior",
       "shared-prior is of label mixes that are estimated, and none are; give [ratio] a method such as \"vrls\", or "
       "drop "
       "shared-prior");
  if (!ratio.weighted()) return;
  need(ratio.goal_node <= nodes, "ratio.goal-node",
       fmt::format("goal-node is {}, expected a node from 1 to {}, or 0 for all", ratio.goal_node, nodes));
  need(ratio.goal_shift || ratio.goal_node > 0, "ratio.goal-shift", "goal-shift = false needs a goal-node");
  if (!ratio.estimated()) return;
  need(!ratio.calibrate_on_test || ratio.predictor == PredictorScope::kFederated, "ratio.calibrate-on-test",
       "calibrate-on-test is about a predictor that all nodes calibrate; give predictor = \"federated\"");
  const Method& method = find_method(ratio.method);
  if (ratio.shared_prior) {
    need(ratio.predictor == PredictorScope::kFederated || ratio.refreshed(), "ratio.shared-prior",
         "shared-prior is about one net that estimates at every node; give predictor = \"federated\", or refresh");
    need(find_estimator(method.estimator).family == EstimatorFamily::kLikelihood, "ratio.shared-prior",
         fmt::format(
             "shared-prior needs the likelihood of every example, and method {} looks at predicted labels alone; "
             "use a likelihood method such as vrls",
             ratio.method));
    need(ratio.goal_node == 0, "ratio.shared-prior",
         "with a goal-node one node alone estimates, and there is no prior to share; drop one of the two");
  }
  const bool pairwise = ratio.exchange == RatioExchange::kPairwise;
  const bool federated = ratio.predictor == PredictorScope::kFederated;
  need(!pairwise || !federated, "ratio.exchange",
       "exchange = \"pairwise\" is about local predictors; drop predictor = \"federated\"");
  need(!pairwise || ratio.goal_node == 0, "ratio.goal-node",
       "exchange = \"pairwise\" aims at all nodes; drop goal-node");
  need(!pairwise || settings.weighting == Weighting::kNodes, "training.weighting",
       "exchange = \"pairwise\" weighs nodes equally; drop weighting = \"pooled\"");
  need(!pairwise || find_estimator(method.estimator).family == EstimatorFamily::kLikelihood, "ratio.method",
       fmt::format(
           "method {} needs a confusion matrix, which does not travel with a predictor; use exchange = \"local\", "
           "or a likelihood method such as vrls",
           ratio.method));
}

}  // namespace labelshift
