#pragma once

#include "labelshift/core/estimators/confusion_estimator.hpp"

namespace labelshift {

/// Black box shift estimation, App. B: solve A r = b with the (hard or soft) confusion matrix A and the predicted prior
/// b.
class Bbse : public ConfusionEstimator {
 public:
  using ConfusionEstimator::ConfusionEstimator;
  Solution unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted_prior) const override;
};

}  // namespace labelshift
