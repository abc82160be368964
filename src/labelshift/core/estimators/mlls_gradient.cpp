#include "labelshift/core/estimators/mlls_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"

namespace labelshift {
namespace {

Eigen::VectorXd softmax(const Eigen::VectorXd& u) {
  const Eigen::VectorXd e = (u.array() - u.maxCoeff()).exp();
  return e / e.sum();
}

RatioEstimate finish(const Eigen::VectorXd& p, const Eigen::VectorXd& q, const LikelihoodValue& value, int iterations,
                     double tolerance) {
  const double gap = std::max(value.gap(), 0.0);
  return {.ratio = q.array() / p.array(),
          .mean_log_likelihood = value.mean_log_likelihood,
          .gap = gap,
          .iterations = iterations,
          .stopped_by = gap <= tolerance ? StopReason::kTolerance : StopReason::kIterationLimit};
}

constexpr double kFloor = 1e-12;  // share of a class that mlls-sgd has not seen for long

}  // namespace

RatioEstimate MllsCg::estimate(const SourceSummary& source, const TargetSample& target,
                               const Observer& observer) const {
  const Eigen::VectorXd& p = source.label_prior;
  const Likelihood likelihood(p, target, observer);
  int passes = 0;
  const auto evaluate = [&](const Eigen::VectorXd& q) {
    ++passes;
    return likelihood.at(q, Derivatives::kGradient);
  };
  Eigen::VectorXd u = p.array().log();  // start from "no shift"
  Eigen::VectorXd q = softmax(u);
  LikelihoodValue value = evaluate(q);
  Eigen::VectorXd direction, gradient_before, scaled_before;
  double length = 1.0;
  while (value.gap() > options_.tolerance && passes < options_.max_iterations) {
    const Eigen::VectorXd gradient = q.array() * (value.gradient.array() - 1.0);  // of Eq. (3) with respect to u
    const Eigen::VectorXd scaled = value.gradient.array() - 1.0;  // preconditioned by 1 / q: the curvature's diagonal
    if (direction.size() == 0) {
      direction = scaled;
    } else {
      const double beta =
          std::max(0.0, scaled.dot(gradient - gradient_before) / std::max(gradient_before.dot(scaled_before), 1e-300));
      direction = scaled + beta * direction;
      if (direction.dot(gradient) <= 0.0) direction = scaled;  // no ascent: restart
    }
    gradient_before = gradient;
    scaled_before = scaled;
    const double slope = direction.dot(gradient);
    // Secant on the slope along the direction, which needs one pass a try, then backtracking until Armijo's rule holds.
    length = std::min(2.0 * length, 20.0 / direction.cwiseAbs().maxCoeff());
    bool moved = false;
    double low = 0.0;
    double high = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 30 && passes < options_.max_iterations; ++i) {
      const Eigen::VectorXd q_trial = softmax(u + length * direction);
      LikelihoodValue trial = evaluate(q_trial);
      const double slope_trial = direction.dot(Eigen::VectorXd(q_trial.array() * (trial.gradient.array() - 1.0)));
      if (trial.mean_log_likelihood >= value.mean_log_likelihood + 1e-4 * length * slope - 1e-14 &&
          std::abs(slope_trial) <= 0.5 * slope) {
        u += length * direction;
        q = q_trial;
        value = std::move(trial);
        moved = true;
        break;
      }
      (slope_trial > 0.0 ? low : high) = length;  // also below Armijo's rule the slope says where the maximum is
      const double secant = slope > slope_trial ? slope / (slope - slope_trial) : 4.0;
      length *= std::clamp(secant, 0.1, 4.0);
      if (length <= low || length >= high) length = 0.5 * (low + high);
    }
    if (!moved) {
      if (direction == scaled) break;  // even the plain gradient gains nothing: rounding has been reached
      direction.resize(0);
    }
  }
  return finish(p, q, value, passes, options_.tolerance);
}

RatioEstimate MllsSgd::estimate(const SourceSummary& source, const TargetSample& target,
                                const Observer& observer) const {
  const Eigen::VectorXd& p = source.label_prior;
  const Likelihood likelihood(p, target, observer);
  const MatrixView& f = target.probs;
  const Index n = f.rows();
  const Index m = f.cols();
  const double mean_weight =
      target.weights.empty()
          ? 1.0
          : std::accumulate(target.weights.begin(), target.weights.end(), 0.0) / static_cast<double>(n);

  Rng rng(options_.seed);
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  Eigen::VectorXd q = p / p.sum();  // start from "no shift"
  Eigen::VectorXd average = Eigen::VectorXd::Zero(m);
  double averaged = 0.0;
  double steps = 0.0;
  const double steps_per_epoch = std::ceil(static_cast<double>(n) / options_.batch);
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    tell(observer, kEstimating);
    for (std::size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i) + 1))]);
    for (Index first = 0; first < n; first += options_.batch) {
      const Index last = std::min(n, first + options_.batch);
      const Eigen::VectorXd r = q.array() / p.array();
      Eigen::VectorXd g = Eigen::VectorXd::Zero(m);
      for (Index k = first; k < last; ++k) {
        const Index j = order[static_cast<std::size_t>(k)];
        const double w = target.weights.empty() ? 1.0 : target.weights[static_cast<std::size_t>(j)] / mean_weight;
        double mixture = 0.0;
        for (Index c = 0; c < m; ++c) mixture += f(j, c) * r[c];
        for (Index c = 0; c < m; ++c) g[c] += w * f(j, c) / (p[c] * mixture);
      }
      g /= static_cast<double>(last - first);
      const double step = options_.step / std::sqrt(1.0 + steps / steps_per_epoch);
      // In the metric of the simplex a step of 1 is EM's. q . g = 1 on every batch, so no class can explode, and
      // nothing needs clipping, which would drive out the classes that most batches lack; the floor keeps those within
      // reach.
      q.array() *= (1.0 + step * (g.array() - 1.0)).max(0.0);
      q = q.cwiseMax(kFloor);
      q /= q.sum();
      steps += 1.0;
      if (2 * epoch + 1 >= options_.epochs) {  // also where there is one epoch alone
        average += q;
        averaged += 1.0;
      }
    }
  }
  q = average / averaged;
  return finish(p, q, likelihood.at(q, Derivatives::kGradient), options_.epochs, 0.0);
}

}  // namespace labelshift
