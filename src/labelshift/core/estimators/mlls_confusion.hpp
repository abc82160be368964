#pragma once

#include "labelshift/core/estimators/confusion_estimator.hpp"

namespace labelshift {

/// Maximum likelihood of the predicted labels alone: the target's counts of them are multinomial with probabilities
/// P q, where P[j, c] = p(argmax f = j | y = c). Where that system has a solution on the simplex, this is it, as for
/// BBSE; elsewhere it is the nearest point by likelihood, where BBSE takes the nearest by Euclidean distance. A label
/// that is predicted for no source example says nothing and is left out.
///
/// It looks at nothing but confusion counts, so it needs no calibration, and a disagreement with Eq. (3) is a sign that
/// one of them is wrong.
class MllsConfusion : public ConfusionEstimator {
 public:
  MllsConfusion() : ConfusionEstimator(/*soft=*/false) {}
  Solution unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted_prior) const override;
};

}  // namespace labelshift
