#include "labelshift/core/inference/error_bound.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <vector>

#include "labelshift/core/likelihood/row_block.hpp"

namespace labelshift {

ErrorBoundTerms error_bound_terms(const Eigen::VectorXd& label_prior, const Probabilities& probs, double target_rows,
                                  double delta) {
  const Index m = probs.cols();
  Eigen::MatrixXd products = Eigen::MatrixXd::Zero(m, m);
  std::vector<double> t(static_cast<std::size_t>(m * kBlockRows));
  for (Index first = 0; first < probs.rows(); first += kBlockRows) {
    const Index count = std::min(kBlockRows, probs.rows() - first);
    load_rows(probs.middle_rows(first, count), t.data());
    const auto block = Eigen::Map<const Eigen::MatrixXd>(t.data(), kBlockRows, m).topRows(count);
    products.noalias() += block.transpose() * block;
  }
  products /= static_cast<double>(probs.rows());

  ErrorBoundTerms terms;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(products, Eigen::EigenvaluesOnly);
  terms.mu = std::max(eigen.eigenvalues()[0], 0.0);
  terms.p_min = label_prior.minCoeff();
  terms.scale = 2.0 / (terms.mu * terms.p_min);
  terms.strict_scale = 2.0 / (terms.mu * terms.p_min * terms.p_min);
  terms.sampling_term = 4.0 * std::sqrt(std::log(4.0 / delta) / target_rows);
  terms.delta = delta;
  return terms;
}

}  // namespace labelshift
