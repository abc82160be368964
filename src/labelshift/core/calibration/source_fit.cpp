#include "labelshift/core/calibration/source_fit.hpp"

#include <utility>

#include "labelshift/core/calibration/calibration_objective.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {

CalibratedSource calibrate_source(const Calibration& calibration, const SourceExamples& source,
                                  const Eigen::VectorXd& prior) {
  CalibratedProbabilities probs = calibrated_view(calibration, source.scores);
  SourceSummary summary = summarise_source({probs.view(), source.labels, source.weights}, prior);
  return {std::move(probs), {calibration, std::move(summary)}};
}

SourceFit summarise_with(const Calibration& calibration, const SourceExamples& source, const Eigen::VectorXd& prior) {
  return calibrate_source(calibration, source, prior).fit;
}

CalibrationFit fit_candidate(const CalibrationCandidate& candidate, const SourceExamples& source,
                             const Observer& observer) {
  return fit_calibration(candidate.kind, source.scores, source.labels, source.weights, candidate.strength,
                         candidate.near, observer);
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
  SourceFit fit =
      summarise_with(fit_calibration(kind, used.scores, used.labels, used.weights).calibration, used, prior);
  fit.kind = kind;
  return fit;
}

CalibratedTarget calibrate_and_estimate(const SourceFit& fit, const RatioEstimator& estimator, const Scores& target,
                                        std::span<const double> weights, const Observer& observer) {
  CalibratedProbabilities probs = calibrated_view(fit.calibration, target);
  RatioEstimate estimate = estimator.estimate(fit.summary, {probs.view(), weights}, observer);
  return {std::move(probs), std::move(estimate)};
}

RatioEstimate estimate_ratio(const SourceFit& fit, const RatioEstimator& estimator, const Scores& target) {
  return calibrate_and_estimate(fit, estimator, target, {}).estimate;
}

}  // namespace labelshift
