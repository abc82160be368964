#include "labelshift/core/estimators/rlls.hpp"

#include <algorithm>
#include <cmath>

#include "labelshift/core/estimators/simplex.hpp"

namespace labelshift {
namespace {

constexpr double kRidgeTolerance = 1e-12;  // of the logarithm of the ridge

}  // namespace

Rlls::Solution Rlls::unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted) const {
  const Eigen::MatrixXd& a = confusion(source);
  const Index m = a.rows();
  // The paper's Lemma 1 bound on |A_hat - A| sets the strength, times alpha.
  const double log_term = std::log(2.0 * static_cast<double>(m) / options_.failure_probability);
  const double n = std::max(source.examples, 1.0);
  const double strength = options_.alpha * 3.0 * (2.0 * log_term / (3.0 * n) + std::sqrt(2.0 * log_term / n));

  // With unsquared norms the optimum is a ridge solution for the one ridge = strength |residual| / |theta|: bisect on
  // it. In terms of q = p (1 + theta) both constraints, r >= 0 and p . r = 1, are the simplex.
  const Eigen::VectorXd& p = source.label_prior;
  const Eigen::VectorXd b = predicted - a.rowwise().sum();
  if ((a.transpose() * b).norm() <= strength * b.norm()) return {.prior = p};  // theta = 0 is optimal
  const Eigen::MatrixXd scaled = a * p.cwiseInverse().asDiagonal();
  const Eigen::MatrixXd gram = scaled.transpose() * scaled;
  SimplexSolver solver;
  Solution found{.prior = p};
  double low = -40.0;
  double high = 30.0;  // log of the ridge; up there theta is 0 up to rounding, which the constraints can make optimal
  while (high - low > kRidgeTolerance) {
    ++found.iterations;
    const double log_ridge = 0.5 * (low + high);
    const double ridge = std::exp(log_ridge);
    Eigen::MatrixXd quadratic = gram;
    quadratic.diagonal().array() += ridge / p.array().square();
    found.prior = solver.solve({quadratic, scaled.transpose() * predicted + ridge * p.cwiseInverse(),
                                Eigen::VectorXd::Zero(m), Eigen::VectorXd::Zero(m)},
                               found.prior);
    const Eigen::VectorXd theta = found.prior.array() / p.array() - 1.0;
    (ridge * theta.norm() < strength * (a * theta - b).norm() ? low : high) = log_ridge;
  }
  return found;
}

}  // namespace labelshift
