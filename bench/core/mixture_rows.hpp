#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift::bench {

/// Exact posteriors of Gaussian classes in 16 dimensions under a uniform source prior, for target rows of a Dirichlet
/// mix.
template <typename Scalar>
struct MixtureRows {
  Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> probs;  // (n, m)
  SourceSummary source;

  TargetSample target() const { return {probs, {}}; }
};

/// `spread` is the standard deviation of the class means: 1 is a good classifier, 0.5 one whose classes overlap.
template <typename Scalar>
MixtureRows<Scalar> mixture_rows(Index n, Index m, double spread, double alpha = 1.0) {
  Rng rng(7);
  const Index d = std::min<Index>(m, 16);
  Eigen::MatrixXd means(d, m);
  for (double& x : means.reshaped()) x = spread * rng.normal();
  std::vector<double> cumulative;
  double total = 0.0;
  for (Index c = 0; c < m; ++c) cumulative.push_back(total += rng.gamma(alpha));
  MixtureRows<Scalar> rows{.probs = {},
                           .source = {.label_prior = Eigen::VectorXd::Constant(m, 1.0 / static_cast<double>(m))}};
  rows.probs.resize(n, m);
  Eigen::VectorXd x(d);
  for (Index j = 0; j < n; ++j) {
    const auto y =
        std::upper_bound(cumulative.begin(), cumulative.end() - 1, rng.uniform() * total) - cumulative.begin();
    for (Index k = 0; k < d; ++k) x[k] = means(k, y) + rng.normal();
    Eigen::ArrayXd f = -0.5 * (means.colwise() - x).colwise().squaredNorm().transpose().array();
    f = (f - f.maxCoeff()).exp();
    rows.probs.row(j) = (f / f.sum()).matrix().template cast<Scalar>();
  }
  return rows;
}

}  // namespace labelshift::bench
