#pragma once

#include <Eigen/Core>
#include <span>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/core/inference/hypothesis.hpp"

namespace labelshift {

/// The mean of weighted rows f(x_j) and what is needed for its standard error, added up batch by batch: m x m numbers,
/// however many rows were seen. The variance of sum w x / sum w is sum w^2 (x - mean)(x - mean)^T / (sum w)^2, so the
/// spread is kept under the squared weights.
struct Moments {
  double weight = 0.0;           // sum w
  Eigen::VectorXd mean;          // (m) sum w x / sum w
  double squared_weight = 0.0;   // sum w^2
  Eigen::VectorXd squared_mean;  // (m) sum w^2 x / sum w^2; equals `mean` if all weights are equal
  Eigen::MatrixXd scatter;       // (m, m) sum w^2 (x - squared_mean)(x - squared_mean)^T
  Eigen::VectorXd squares;       // (m) sum w x^2
  Eigen::VectorXd cubes;         // (m) sum w x^3, for the skewness of a class that is hardly ever predicted

  /// Adds rows; empty weights mean all ones. The order of rows and the sizes of the batches matter only to rounding.
  void add(const MatrixView& rows, std::span<const double> weights = {});

  /// Multiplies the weight of everything seen so far, for exponential forgetting.
  void scale(double factor);

  /// (sum w)^2 / sum w^2; 0 before the first row.
  double effective_rows() const;

  /// (m, m) the covariance of one row around `mean` such that covariance() / effective_rows() is that of the mean.
  Eigen::MatrixXd covariance() const;
};

/// Tests "no label shift": that mean f is the same in source and target, by the two-sample T^2 of Hotelling.
///
/// This is the score test of r = 1 in Eq. (3), since the gradient there is mean f, but with E_tr f estimated by the
/// source's mean rather than taken to be p_tr. So it holds its level for any fixed f, calibrated or not, and allows for
/// the source being a sample. The covariance is pooled over both, as "no shift" allows, so that a small target needs no
/// example of every class; weights are taken to be unrelated to f. If f was trained or calibrated on the same source
/// rows the comparison is not fair.
///
/// A class whose predictions are so rare that fewer than five of them are to be expected in the smaller sample, by the
/// skewness of both samples together, has no mean that is near to normal. It is compared by a Poisson law instead of
/// Hotelling's, and the p-value is Bonferroni's of both: the common classes have four fifths of the level. Where no
/// class is rare nothing but T^2 counts. Moments without `cubes` have no rare class.
HypothesisTest no_shift_test(const Moments& source, const Moments& target);

/// The same when only the source's prior is known: compares mean f in the target with p_tr. Valid only if f is
/// calibrated on the source, E_tr f = p_tr; a miscalibrated f makes it reject in any large enough sample.
HypothesisTest no_shift_test_exact(const Eigen::VectorXd& label_prior, const Moments& target);

}  // namespace labelshift
