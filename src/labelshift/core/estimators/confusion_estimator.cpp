#include "labelshift/core/estimators/confusion_estimator.hpp"

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/simplex.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

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

RatioEstimate ConfusionEstimator::solve(const SourceSummary& source, const Eigen::VectorXd& predicted) const {
  const Solution found = unprojected_prior(source, predicted);
  return {.ratio = project_to_simplex(found.prior).array() / source.label_prior.array(),
          .iterations = found.iterations,
          .stopped_by = found.iterations > 0 ? StopReason::kTolerance : StopReason::kClosedForm};
}

RatioEstimate ConfusionEstimator::estimate(const SourceSummary& source, const TargetSample& target,
                                           const Observer& observer) const {
  confusion(source);
  const Likelihood likelihood(source.label_prior, target,
                              observer);  // checks the input, and gives Eq. (3) at the answer
  RatioEstimate result = solve(source, predicted_prior(target, soft_));
  result.mean_log_likelihood =
      likelihood.at(source.label_prior.cwiseProduct(result.ratio), Derivatives::kGradient).mean_log_likelihood;
  return result;
}

}  // namespace labelshift
