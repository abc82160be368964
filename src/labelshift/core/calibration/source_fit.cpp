#include "labelshift/core/calibration/source_fit.hpp"

#include <utility>

#include "labelshift/core/likelihood/probabilities.hpp"

namespace labelshift {

SourceFit summarise_with(const Calibration& calibration, const SourceExamples& source, const Eigen::VectorXd& prior) {
  const CalibratedProbabilities probs = apply_calibration(calibration, source.scores);
  return {calibration, summarise_source({probs.view(), source.labels, source.weights}, prior)};
}

SourceFit fit_source(CalibrationKind kind, const SourceExamples& source, const Eigen::VectorXd& prior) {
  SourceExamples used = source;
  std::optional<std::vector<double>> weights;
  if (unseen_classes(source.labels, source.weights, prior.size()).empty()) {
    weights = weights_for_prior(prior, source.labels, source.weights);
    if (weights) used.weights = *weights;
  } else if (kind != CalibrationKind::kNone) {
    kind = CalibrationKind::kTemperature;
  }
  return summarise_with(fit_calibration(kind, used.scores, used.labels, used.weights).calibration, used, prior);
}

RatioEstimate estimate_ratio(const SourceFit& fit, const RatioEstimator& estimator, const Scores& target) {
  const CalibratedProbabilities probs = apply_calibration(fit.calibration, target);
  return estimator.estimate(fit.summary, {.probs = probs.view()});
}

}  // namespace labelshift
