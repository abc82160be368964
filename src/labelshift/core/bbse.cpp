#include "labelshift/core/bbse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/LU>
#include <cmath>
#include <vector>

#include "labelshift/core/error.hpp"
#include "labelshift/core/likelihood.hpp"
#include "labelshift/core/probabilities.hpp"
#include "labelshift/core/simplex.hpp"

namespace labelshift {
namespace {

constexpr double kRidgeTolerance = 1e-12;  // of the logarithm of rlls's ridge

}  // namespace

Eigen::VectorXd predicted_prior(const TargetSample& target, bool soft) {
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(target.probs.cols());
  for (Index j = 0; j < target.probs.rows(); ++j) {
    const double w = target.weights.empty() ? 1.0 : target.weights[static_cast<std::size_t>(j)];
    if (soft)
      for (Index c = 0; c < sums.size(); ++c) sums[c] += w * target.probs(j, c);
    else
      sums[arg_max(target.probs, j)] += w;
  }
  return sums / sums.sum();
}

const Eigen::MatrixXd& ConfusionEstimator::confusion(const SourceSummary& source) const {
  const auto& matrix = soft_ ? source.soft_confusion : source.confusion;
  if (!matrix)
    throw Error(ErrorKind::kInput,
                "this estimator needs the source's confusion matrix: give source probabilities and labels, not the "
                "prior alone");
  return *matrix;
}

RatioEstimate ConfusionEstimator::solve(const SourceSummary& source, const Eigen::VectorXd& predicted) const {
  const Solution found = unprojected_prior(source, predicted);
  return {.ratio = project_to_simplex(found.prior).array() / source.label_prior.array(),
          .iterations = found.iterations,
          .stopped_by = found.iterations > 0 ? StopReason::kTolerance : StopReason::kClosedForm};
}

RatioEstimate ConfusionEstimator::estimate(const SourceSummary& source, const TargetSample& target) const {
  confusion(source);
  const Likelihood likelihood(source.label_prior, target);  // checks the input, and gives Eq. (3) at the answer
  RatioEstimate result = solve(source, predicted_prior(target, soft_));
  result.mean_log_likelihood =
      likelihood.at(source.label_prior.cwiseProduct(result.ratio), Derivatives::kGradient).mean_log_likelihood;
  return result;
}

Bbse::Solution Bbse::unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted) const {
  const Eigen::MatrixXd& a = confusion(source);
  const Eigen::FullPivLU<Eigen::MatrixXd> factors(a);
  if (!factors.isInvertible()) {
    std::vector<Index> never;
    for (Index j = 0; j < a.rows(); ++j)
      if (a.row(j).sum() == 0.0) never.push_back(j);
    throw Error(ErrorKind::kInput,
                never.empty()
                    ? std::string("the confusion matrix is singular: two classes look the same to the classifier; use "
                                  "an mlls estimator")
                    : fmt::format("no source example is predicted as class {}, so the confusion matrix is singular; "
                                  "use bbse-soft or an mlls estimator",
                                  fmt::join(never, ", ")));
  }
  return {.prior = source.label_prior.cwiseProduct(factors.solve(predicted))};
}

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
