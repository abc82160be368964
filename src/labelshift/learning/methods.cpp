#include "labelshift/learning/methods.hpp"

#include <vector>

#include "labelshift/core/error.hpp"
#include "labelshift/core/estimators.hpp"
#include "labelshift/core/probabilities.hpp"

namespace labelshift {
namespace {

constexpr MethodEntry kMethods[] = {
    {"vrls", "Eq. (4) with zeta = 1, then BCTS, then Eq. (3)", 1.0, "bcts", "mlls-sqp"},
    {"vrls-raw", "the paper to the letter: zeta = 1 and no calibration", 1.0, "none", "mlls-sqp"},
    {"vrls-ts", "vrls with one temperature and no biases, as the authors' code calibrates", 1.0, "ts", "mlls-sqp"},
    {"vrls-em", "vrls by expectation-maximisation", 1.0, "bcts", "mlls-em"},
    {"vrls-l1", "vrls with |r - 1|_1 penalised", 1.0, "bcts", "mlls-l1"},
    {"vrls-l2", "vrls with |r - 1|_2^2 penalised", 1.0, "bcts", "mlls-l2"},
    {"vrls-raw-em", "vrls-raw by expectation-maximisation", 1.0, "none", "mlls-em"},
    {"vrls-raw-l2", "vrls-raw with |r - 1|_2^2 penalised", 1.0, "none", "mlls-l2"},
    {"mlls", "plain cross-entropy, then Eq. (3)", 0.0, "none", "mlls-sqp"},
    {"mlls-ts", "mlls with one temperature in between", 0.0, "ts", "mlls-sqp"},
    {"mlls-bct", "mlls with BCTS in between (Alexandari et al. 2020)", 0.0, "bcts", "mlls-sqp"},
    {"mlls-em", "mlls by expectation-maximisation", 0.0, "none", "mlls-em"},
    {"mlls-em-bct", "mlls-bct by expectation-maximisation", 0.0, "bcts", "mlls-em"},
    {"mlls-l1", "mlls with |r - 1|_1 penalised", 0.0, "none", "mlls-l1"},
    {"mlls-l2", "mlls with |r - 1|_2^2 penalised", 0.0, "none", "mlls-l2"},
    {"mlls-l2-bct", "mlls-bct with |r - 1|_2^2 penalised", 0.0, "bcts", "mlls-l2"},
    {"mlls-cg", "mlls by conjugate gradients", 0.0, "none", "mlls-cg"},
    {"mlls-sgd", "mlls by stochastic natural gradient", 0.0, "none", "mlls-sgd"},
    {"bbse", "the confusion matrix of predicted labels", 0.0, "none", "bbse"},
    {"bbse-soft", "the confusion matrix of probabilities", 0.0, "none", "bbse-soft"},
    {"rlls", "the confusion matrix with |r - 1|_2 regularised", 0.0, "none", "rlls"},
};

}  // namespace

std::span<const MethodEntry> methods() {
  return kMethods;
}

const MethodEntry& find_method(const std::string& name) {
  return find_entry(kMethods, "method", name);
}

RatioEstimate estimate_ratio(const MethodEntry& method, const SourceExamples& source,
                             const Eigen::VectorXd& source_prior, const Scores& target) {
  const CalibrationKind kind = find_calibration(method.calibration).kind;
  const Calibration calibration = fit_calibration(kind, source.scores, source.labels, source.weights).calibration;
  const CalibratedProbabilities source_probs = apply_calibration(calibration, source.scores);
  const CalibratedProbabilities target_probs = apply_calibration(calibration, target);
  const SourceSummary summary = summarise_source({source_probs.view(), source.labels, source.weights}, source_prior);
  return make_estimator(find_estimator(method.estimator))->estimate(summary, {.probs = target_probs.view()});
}

}  // namespace labelshift
