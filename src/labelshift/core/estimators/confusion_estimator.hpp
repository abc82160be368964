#pragma once

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// p_te(argmax f = j), or E_te[f_j] if `soft`: all that the confusion-matrix estimators want of the target. One pass, m
/// numbers; no n x m x m anything.
Eigen::VectorXd predicted_prior(const TargetSample& target, bool soft);

/// An estimator that sees the target only through its predicted prior, so that it can be fed piece by piece.
class ConfusionEstimator : public RatioEstimator {
 public:
  explicit ConfusionEstimator(bool soft) : soft_(soft) {}
  bool soft() const { return soft_; }

  RatioEstimate estimate(const SourceSummary& source, const TargetSample& target,
                         const Observer& observer = {}) const final;

  struct Solution {
    Eigen::VectorXd prior;  // (m) q before it is moved to the simplex, with negative entries if noise says so
    int iterations = 0;     // 0 for a closed form
  };
  virtual Solution unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted_prior) const = 0;

  /// r from a predicted prior, and how it was found; Eq. (3) is left to those who have the rows. q is moved to the
  /// nearest point of the simplex (Euclidean), where the linear system gives negative shares.
  RatioEstimate solve(const SourceSummary& source, const Eigen::VectorXd& predicted_prior) const;

 protected:
  /// The confusion matrix in use. Throws Error{kInput} if the source summary has none.
  const Eigen::MatrixXd& confusion(const SourceSummary& source) const;

 private:
  bool soft_;
};

}  // namespace labelshift
