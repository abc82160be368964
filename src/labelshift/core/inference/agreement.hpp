#pragma once

#include <Eigen/Core>
#include <span>

#include "labelshift/core/inference/intervals.hpp"

namespace labelshift {

struct Agreement {
  double statistic = 0.0;
  int degrees = 0;  // 0: there are too few rows to tell, or no labelled example of a class that has a share
  double p_value = 1.0;
};

/// Whether the labels that are predicted for the target are what an estimate makes of them: with P[j, c] as above, the
/// shares b of the predicted labels should be P q. Their difference is compared with its covariance, which is that of
/// the rows, which both b and q are made of, of P, and of the calibration that q needed. Chi-squared, if all is well.
///
/// The likelihood of Eq. (3) looks at probabilities and needs them calibrated; predicted labels do not. So a small
/// p-value says that the calibration, or the label-shift assumption, is wrong, and needs no labels of the target for
/// it. Labels that fewer than five rows are expected to get count as one.
///
/// `uncertainty` is pooled_uncertainty() of the same estimate; `predicted` (n) is the label with the largest score of
/// each row before calibration, which is what P was counted with.
Agreement prediction_agreement(const PredictedLabels& labels, const Eigen::VectorXd& label_prior,
                               const Probabilities& target, std::span<const int> predicted,
                               const PooledUncertainty& uncertainty);

}  // namespace labelshift
