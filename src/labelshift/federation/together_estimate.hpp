#pragma once

#include <Eigen/Core>
#include <optional>
#include <string>

#include "labelshift/core/inference/agreement.hpp"
#include "labelshift/engine/tasks.hpp"
#include "labelshift/learning/net.hpp"

// A node's label mix by a predictor that all nodes trained and calibrated together.

namespace labelshift {

/// log softmax of what a net says of rows, (n m) row by row. None is below -100, so that sums over all nodes stay in
/// the range of fixed point; a probability that small says no more.
std::vector<float> log_scores_of(Net& net, const Dataset& data, std::span<const Index> rows);

struct TogetherEstimate {
  Eigen::VectorXd prior;                 // (m) q_k; 0 without examples
  Eigen::VectorXd low, high;             // (m) 95 % intervals; empty for estimators that have none here
  std::vector<float> likelihoods;        // (n m) f / p_tr under the calibration, the largest of a row being 1
  Eigen::VectorXd calibration_variance;  // (m) what the calibration adds to the variance of q; empty as `low` is
  std::optional<Agreement> agreement;    // of a calibrated likelihood with the predicted labels, if it can be told
};

/// Alg. 2 line 4. `request` has been checked.
TogetherEstimate estimate_together(Net& net, const TargetTogether::Request& request, const std::string& estimator,
                                   const Dataset& target, std::span<const Index> rows);

}  // namespace labelshift
