#include "labelshift/core/estimators/mlls_em.hpp"

#include <algorithm>
#include <cmath>

#include "labelshift/core/likelihood/likelihood.hpp"

namespace labelshift {

RatioEstimate MllsEm::estimate(const SourceSummary& source, const TargetSample& target,
                               const Observer& observer) const {
  const Eigen::VectorXd& p = source.label_prior;  // (m) p_tr(y)
  const Likelihood likelihood(p, target, observer);
  RatioEstimate result;
  const auto evaluate = [&](const Eigen::VectorXd& q) {
    ++result.iterations;
    return likelihood.at(q, Derivatives::kGradient);
  };
  const auto done = [&](const LikelihoodValue& value) {
    return value.gap() <= options_.tolerance || result.iterations >= options_.max_iterations;
  };

  Eigen::VectorXd q = p / p.sum();  // start from "no shift"; p may be rounded
  LikelihoodValue value = evaluate(q);
  while (!done(value)) {
    // Eq. (3): the M-step gives class c the share of the rows that the E-step assigns to it, q_c g_c. It keeps
    // sum_c q_c = 1, which App. B adds to Eq. (3).
    const Eigen::VectorXd first = q.cwiseProduct(value.gradient);
    if (!options_.accelerate || result.iterations + 3 > options_.max_iterations) {
      q = first / first.sum();
      value = evaluate(q);
      continue;
    }
    const LikelihoodValue at_first = evaluate(first);
    const Eigen::VectorXd second = first.cwiseProduct(at_first.gradient);
    const Eigen::VectorXd change = first - q;
    const Eigen::VectorXd bend = (second - first) - change;
    const double length = std::max(1.0, change.norm() / std::max(bend.norm(), 1e-300));
    Eigen::VectorXd leap = (q + 2.0 * length * change + length * length * bend).cwiseMax(1e-3 * second);
    leap /= leap.sum();
    LikelihoodValue at_leap = evaluate(leap);
    // An extrapolation can overshoot; EM never loses likelihood, so its own second step is the safe way.
    if (at_leap.mean_log_likelihood >= at_first.mean_log_likelihood) {
      q = std::move(leap);
      value = std::move(at_leap);
    } else {
      q = second / second.sum();
      value = evaluate(q);
    }
  }
  result.ratio = q.array() / p.array();
  result.mean_log_likelihood = value.mean_log_likelihood;
  result.gap = std::max(value.gap(), 0.0);
  result.stopped_by = *result.gap <= options_.tolerance ? StopReason::kTolerance : StopReason::kIterationLimit;
  return result;
}

}  // namespace labelshift
