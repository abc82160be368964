#pragma once

#include <Eigen/Core>
#include <optional>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/calibration/source_fit.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// Whether a share is none: less than a thousandth of a row. Solvers that stay inside the simplex never reach 0.
bool is_absent(double share, double rows);

/// Confidence intervals, one for each class and each holding on its own (not all of them at once).
struct Intervals {
  double level = 0.95;
  Eigen::VectorXd prior_low, prior_high;  // (m) of q; low is 0 and high one-sided where the estimate of q is 0
  Eigen::VectorXd ratio_low, ratio_high;  // (m) of r
};

/// Moves the ends of intervals that leave the estimate out, be it by rounding, to the estimate.
void widen_to(const Eigen::VectorXd& prior, const Eigen::VectorXd& ratio, Intervals& intervals);

/// An estimate and how sure it is, as the asymptotic theory has it.
struct PriorUncertainty {
  Eigen::VectorXd prior;        // (m) the estimate of q
  Eigen::VectorXd centre;       // (m) where q would be if it could be negative: below 0 for some classes with q = 0
  Eigen::VectorXd prior_error;  // (m) standard error of `centre`
  Eigen::VectorXd ratio_error;  // (m) standard error of r; empty if p_tr is known exactly, where it is that of q / p_tr
  Eigen::VectorXd
      prior_of_source;  // (m) the part of prior_error^2 that grows with q as the noise of a calibration does
  Eigen::VectorXd ratio_of_source;  // (m) the same part of ratio_error^2; both are empty where there is none
  Eigen::MatrixXd response;  // (m, m) score_response, or empty where the errors are not those of a face of the simplex
};

/// The intervals of normal theory, mended where it is poor. Inside the simplex: Wilson's interval, widened by what
/// overlapping classes and the source add to the variance. Where q = 0: from 0 to the `level` quantile of the normal
/// law of `centre` cut off at 0, which for a class that no row speaks for is the rule of three, and never less than
/// that rule; and the other intervals reach at least as far as q would move if the class had all that this leaves it.
/// `rows` is the effective number of target rows.
Intervals intervals_from(const PriorUncertainty& uncertainty, const Eigen::VectorXd& label_prior, double rows,
                         double level);

/// How the maximiser of Eq. (3) over the simplex answers a small change of the mean score g: row c times the change of
/// g is the change of `centre`_c. From the curvature H on the face where q > 0; for a class with q = 0, on that face
/// and the class. (m, m).
Eigen::MatrixXd score_response(const Eigen::VectorXd& target_prior, const Eigen::MatrixXd& curvature, double rows);

/// What was estimated from source examples, so that its noise belongs in the intervals.
struct SourceNoise {
  SourceExamples examples;             // before calibration
  std::optional<Probabilities> probs;  // (n, m) the same rows, calibrated; for the confusion-matrix estimators
  CalibrationFit fit;                  // with what
  bool prior_is_estimated = true;      // from the labels of the examples, rather than known
};

/// Intervals from the asymptotic variance of the estimate.
///
/// A likelihood estimate has the observed information of Eq. (3) on the face of the simplex where q > 0; a confusion
/// estimate has the delta method. Both add the share of the source: every source example moves p_tr, the calibration
/// and the confusion matrix a little, and through them q. A penalised estimate gets the intervals of its unpenalised
/// family around it, which do not know of the bias its penalty buys.
///
/// `target` is calibrated, `target_scores` are the same rows before. Without `source` the source prior is taken to be
/// exact and f to be calibrated.
Intervals asymptotic_intervals(EstimatorFamily family, const SourceSummary& summary, const TargetSample& target,
                               const Scores& target_scores, const RatioEstimate& estimate,
                               const std::optional<SourceNoise>& source, double level);

/// How exact a calibration is that was fitted elsewhere, to examples of an even mix: the covariance of the parameters
/// of its kind (CalibrationParameters).
struct PooledNoise {
  CalibrationKind kind = CalibrationKind::kNone;
  Eigen::MatrixXd covariance;  // (p, p)
};

/// What is known of a classifier's predicted labels from labelled examples, or of its probabilities.
struct PredictedLabels {
  Eigen::MatrixXd conditional;  // (m, m) [j, c] = p(argmax f = j | y = c), or the mean of f_j over them
  Eigen::VectorXd examples;     // (m)    that this was counted on, of each class

  /// How much P q varies with these examples. Of probabilities it is the most it can be: f f^T is at most diag(f), as
  /// it is for predicted labels.
  Eigen::MatrixXd covariance(const Eigen::VectorXd& q) const;
};

struct PooledUncertainty {
  PriorUncertainty prior;
  Eigen::MatrixXd of_calibration;  // (m, m) what the calibration adds to the covariance of `centre`
};

/// The same for a likelihood estimate under such a calibration, p_tr being known.
PooledUncertainty pooled_uncertainty(const SourceSummary& summary, const TargetSample& target,
                                     const Scores& target_scores, const RatioEstimate& estimate,
                                     const PooledNoise& noise);

/// The same for the mix q that the confusion matrix of predicted labels gives, or that of probabilities (`soft`).
PriorUncertainty pooled_uncertainty(const PredictedLabels& labels, bool soft, const TargetSample& target,
                                    const Eigen::VectorXd& target_prior);

}  // namespace labelshift
