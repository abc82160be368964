#include "labelshift/federation/acceptance.hpp"

#include <fmt/format.h>

#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/engine/tasks.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/ratio_phase.hpp"

namespace labelshift {
namespace {

void accept_update(const AnswerFacts& facts, Answer& answer) {
  unpack_update(facts.codec.get(), answer, facts.parameters);
  check_training(answer, facts.weight);
  check_never_negative(answer.weights, facts.never_negative);
  const std::optional<TrainingSums<double>> numbers = training_numbers(answer);
  if (!facts.max_update_norm || !numbers || std::ssize(answer.weights) < facts.parameters) return;
  double squares = 0.0;
  for (Index i = 0; i < facts.parameters; ++i) squares += static_cast<double>(answer.weights[i]) * answer.weights[i];
  const double norm = std::sqrt(squares) / numbers->weight;
  if (!(norm <= *facts.max_update_norm))
    throw Error(ErrorKind::kPeer,
                fmt::format("its update has norm {:.4g}, expected at most {:.4g}", norm, *facts.max_update_norm));
}

}  // namespace

AnswerFacts answer_facts(const FederationSettings& settings, const FederationTask& task, Index nodes) {
  const auto net = make_net(net_spec(settings.model, task, {}), /*seed=*/0, settings.device);
  const auto algorithm = make_algorithm({settings, *net, nodes});
  AnswerFacts facts{.classes = std::ssize(task.class_names),
                    .parameters = SharedWeights(*net, algorithm->shares_batch_norms()).parameters(),
                    .never_negative = algorithm->answer_parts().never_negative(),
                    .weight = algorithm->mixture_penalty()               ? NodeWeight::kMixture
                              : settings.weighting == Weighting::kPooled ? NodeWeight::kExamples
                                                                         : NodeWeight::kOne,
                    .max_update_norm = settings.max_update_norm,
                    .codec = make_codec(settings.compression)};
  const RatioSettings& ratio = settings.ratio;
  const bool given_away = ratio.exchange == RatioExchange::kPairwise;
  if (ratio.estimated() && (given_away || ratio.predictor == PredictorScope::kFederated)) {
    const auto predictor = make_net(net_spec(ratio.net, task, {}), /*seed=*/0, settings.device);
    const SharedWeights shared(*predictor, /*batch_norms=*/true);
    facts.predictor_weights = given_away ? shared.size() : 0;
    facts.predictor_never_negative = shared.variances();
  }
  return facts;
}

void accept_answer(const AnswerFacts& facts, const Request& request, Answer& answer) {
  switch (static_cast<TaskKind>(request.task)) {
    case TaskKind::kHello:
    case TaskKind::kHeldOut:
    case TaskKind::kCalibrate:
    case TaskKind::kSharedMix:
    case TaskKind::kMixture:
      return;
    case TaskKind::kJoin:
      return check_join_report(answer, facts.classes);
    case TaskKind::kAgree:
      return check_agree_report(answer);
    case TaskKind::kTarget:
    case TaskKind::kAssess:
    case TaskKind::kTargetTogether:
    case TaskKind::kSharedTarget:
      return check_estimate_report(answer, facts.classes);
    case TaskKind::kShare:
      return check_predictor(answer, facts.predictor_weights, facts.classes, facts.predictor_never_negative);
    case TaskKind::kRatio:
      return check_ratio_report(answer);
    case TaskKind::kTrainPredictor:
      check_training(answer, NodeWeight::kOne);
      return check_never_negative(answer.weights, facts.predictor_never_negative);
    case TaskKind::kTrain:
      return accept_update(facts, answer);
    case TaskKind::kEvaluate:
      return check_evaluation(answer);
  }
}

}  // namespace labelshift
