#pragma once

#include "labelshift/core/estimators/confusion_estimator.hpp"

namespace labelshift {

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
