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

Eigen::VectorXd ConfusionEstimator::solve(const SourceSummary& source, const Eigen::VectorXd& predicted,
                                          double target_rows) const {
  return project_to_simplex(unprojected_prior(source, predicted, target_rows)).array() / source.label_prior.array();
}

RatioEstimate ConfusionEstimator::estimate(const SourceSummary& source, const TargetSample& target) const {
  confusion(source);
  const Likelihood likelihood(source.label_prior, target);  // checks the input, and gives Eq. (3) at the answer
  const double rows = effective_rows(target.weights, target.probs.rows());
  RatioEstimate result{.ratio = solve(source, predicted_prior(target, soft_), rows)};
  result.mean_log_likelihood =
      likelihood.at(source.label_prior.cwiseProduct(result.ratio), Derivatives::kGradient).mean_log_likelihood;
  result.stopped_by = StopReason::kClosedForm;
  return result;
}

Eigen::VectorXd Bbse::unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted, double) const {
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
  return source.label_prior.cwiseProduct(factors.solve(predicted));
}

Eigen::VectorXd Rlls::unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted, double) const {
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
  if ((a.transpose() * b).norm() <= strength * b.norm()) return p;  // theta = 0 is optimal
  const Eigen::MatrixXd scaled = a * p.cwiseInverse().asDiagonal();
  const Eigen::MatrixXd gram = scaled.transpose() * scaled;
  SimplexSolver solver;
  Eigen::VectorXd q = p;
  double low = -40.0;
  double high = 30.0;  // log of the ridge; up there theta is 0 up to rounding, which the constraints can make optimal
  for (int i = 0; i < 80; ++i) {
    const double log_ridge = 0.5 * (low + high);
    const double ridge = std::exp(log_ridge);
    Eigen::MatrixXd quadratic = gram;
    quadratic.diagonal().array() += ridge / p.array().square();
    q = solver.solve({quadratic, scaled.transpose() * predicted + ridge * p.cwiseInverse(), Eigen::VectorXd::Zero(m),
                      Eigen::VectorXd::Zero(m)},
                     q);
    const Eigen::VectorXd theta = q.array() / p.array() - 1.0;
    (ridge * theta.norm() < strength * (a * theta - b).norm() ? low : high) = log_ridge;
  }
  return q;
}

}  // namespace labelshift
