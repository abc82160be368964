#pragma once

#include <Eigen/Core>
#include <Eigen/LU>
#include <limits>

namespace labelshift::reference {

/// FedPALS's weights by trying every set of nodes that could have some: alpha >= 0 with sum 1 that minimises
/// |P^T alpha - t|^2 + lambda sum_k alpha_k^2 / n_k. `counts` is (K, m), a row n_k p_k.
inline Eigen::VectorXd mixture_weights(const Eigen::MatrixXd& counts, const Eigen::VectorXd& target, double lambda) {
  const Eigen::Index nodes = counts.rows();
  const Eigen::VectorXd n = counts.rowwise().sum();
  const Eigen::MatrixXd p = n.cwiseInverse().asDiagonal() * counts;
  Eigen::MatrixXd quadratic = p * p.transpose();
  quadratic.diagonal() += lambda * n.cwiseInverse();
  Eigen::VectorXd best;
  double lowest = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1u << nodes; ++set) {
    std::vector<Eigen::Index> in;
    for (Eigen::Index k = 0; k < nodes; ++k)
      if (set >> k & 1) in.push_back(k);
    const auto size = std::ssize(in);  // stationary under sum alpha = 1: one linear system
    Eigen::MatrixXd system = Eigen::MatrixXd::Ones(size + 1, size + 1);
    system.topLeftCorner(size, size) = quadratic(in, in);
    system(size, size) = 0.0;
    Eigen::VectorXd right = Eigen::VectorXd::Ones(size + 1);
    right.head(size) = (p * target)(in);
    Eigen::VectorXd alpha = Eigen::VectorXd::Zero(nodes);
    alpha(in) = system.fullPivLu().solve(right).head(size);
    const double value = alpha.dot(quadratic * alpha) - 2.0 * alpha.dot(p * target);
    if (alpha.minCoeff() < 0.0 || value >= lowest) continue;
    lowest = value;
    best = alpha;
  }
  return best;
}

}  // namespace labelshift::reference
