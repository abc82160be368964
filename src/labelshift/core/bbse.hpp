#pragma once

#include "labelshift/core/ratio_estimator.hpp"

namespace labelshift {

/// p_te(argmax f = j), or E_te[f_j] if `soft`: all that the confusion-matrix estimators want of the target. One pass, m
/// numbers; no n x m x m anything.
Eigen::VectorXd predicted_prior(const TargetSample& target, bool soft);

/// An estimator that sees the target only through its predicted prior, so that it can be fed piece by piece.
class ConfusionEstimator : public RatioEstimator {
 public:
  explicit ConfusionEstimator(bool soft) : soft_(soft) {}
  bool soft() const { return soft_; }

  RatioEstimate estimate(const SourceSummary& source, const TargetSample& target) const final;

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

/// Black box shift estimation, App. B: solve A r = b with the (hard or soft) confusion matrix A and the predicted prior
/// b.
class Bbse : public ConfusionEstimator {
 public:
  using ConfusionEstimator::ConfusionEstimator;
  Solution unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted_prior) const override;
};

struct RllsOptions {
  /// Scales the bound on the error of the confusion matrix that sets the strength of the regulariser; 0.01 is what the
  /// authors' experiments use, since the bound itself is far too cautious.
  double alpha = 0.01;
  double failure_probability = 0.05;  // of that bound
};

/// Regularised learning under label shift (Azizzadenesheli et al. 2019): with theta = r - 1, minimise
/// |A theta - (b - A 1)|_2 + strength |theta|_2 subject to r >= 0 and p_tr . r = 1. Bisects on one number, to 12 digits
/// of it; where theta = 0 is optimal it needs no iteration.
class Rlls : public ConfusionEstimator {
 public:
  explicit Rlls(RllsOptions options = {}) : ConfusionEstimator(/*soft=*/false), options_(options) {}
  Solution unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted_prior) const override;

 private:
  RllsOptions options_;
};

}  // namespace labelshift
