#pragma once

#include <Eigen/Core>
#include <span>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/calibration/calibration_choice.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// Labelled examples of the source, as the classifier saw them.
struct SourceExamples {
  Scores scores;                    // (n, m)
  std::span<const int> labels;      // (n)
  std::span<const double> weights;  // (n) or empty
};

/// The middle of every method, between training and estimating: how a predictor's scores become probabilities, and what
/// an estimator may know of the source.
struct SourceFit {
  Calibration calibration;
  SourceSummary summary;                          // of the calibrated source
  CalibrationKind kind = CalibrationKind::kNone;  // what of the calibration was fitted to the source
};

/// A source after calibration. Holds no copy of scores that are the probabilities already.
struct CalibratedSource {
  CalibratedProbabilities probs;  // (n, m)
  SourceFit fit;
};

/// Summarises examples that the predictor was not trained on, under a calibration. `prior` (m) is p_tr, of the examples
/// that it was trained on. The scores must outlive the result.
CalibratedSource calibrate_source(const Calibration& calibration, const SourceExamples& source,
                                  const Eigen::VectorXd& prior);

/// The same for those who want no rows.
SourceFit summarise_with(const Calibration& calibration, const SourceExamples& source, const Eigen::VectorXd& prior);

/// Fits the kind that was chosen on these examples, or on the same with other weights.
CalibrationFit fit_candidate(const CalibrationCandidate& candidate, const SourceExamples& source,
                             const Observer& observer = {});

/// Fits a calibration of this kind to the examples first. Where these clearly have another mix than `prior`, they are
/// weighted to it (weights_for_prior): a bias a class would make that difference part of f. Where a class has no
/// example there is nothing to fit its bias to, so one temperature is fitted in place of every larger kind.
SourceFit fit_source(CalibrationKind kind, const SourceExamples& source, const Eigen::VectorXd& prior);

/// A target after calibration, and what was estimated from it. Holds no copy of scores that are the probabilities
/// already.
struct CalibratedTarget {
  CalibratedProbabilities probs;  // (n, m)
  RatioEstimate estimate;
};

/// The end of every method: calibrates the target and estimates. The scores must outlive the result.
CalibratedTarget calibrate_and_estimate(const SourceFit& fit, const RatioEstimator& estimator, const Scores& target,
                                        std::span<const double> weights, const Observer& observer = {});

/// The same for those who want no rows.
RatioEstimate estimate_ratio(const SourceFit& fit, const RatioEstimator& estimator, const Scores& target);

}  // namespace labelshift
