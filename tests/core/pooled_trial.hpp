#pragma once

#include <Eigen/Core>
#include <vector>

#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/core/estimators/mlls_sqp.hpp"
#include "labelshift/core/inference/agreement.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {

/// Labelled examples of which there are as many as said of each class, here all in one place.
inline GaussianSample examples_of(const GaussianProblem& problem, const Eigen::VectorXd& counts, Rng& rng) {
  GaussianSample result{.features = Eigen::MatrixXd(0, 2), .probs = {}, .labels = {}};
  for (Index c = 0; c < counts.size(); ++c) {
    const GaussianSample some =
        problem.sample(static_cast<Index>(counts[c]), Eigen::VectorXd::Unit(counts.size(), c), rng);
    result.features.conservativeResize(result.features.rows() + some.features.rows(), 2);
    result.features.bottomRows(some.features.rows()) = some.features;
    result.labels.insert(result.labels.end(), some.labels.begin(), some.labels.end());
  }
  result.probs = problem.predict(result.features);
  return result;
}

struct PooledTrial {
  RatioEstimate estimate;
  Intervals intervals;  // of 95 %
  Agreement agreement;
  double error = 0.0;  // |q - truth|_1
};

/// Calibrates on `counts` examples of `source`, estimates from `rows` examples of `target`, whose mix is `truth`, and
/// compares with predicted labels. The classifier is that of `source`.
inline PooledTrial pooled_trial(const GaussianProblem& source, const GaussianProblem& target,
                                const Eigen::VectorXd& counts, const Eigen::VectorXd& truth, Index rows,
                                const std::vector<PooledCandidate>& path, std::uint64_t seed) {
  const Index m = counts.size();
  Rng rng(23, seed);
  const GaussianSample held_out = examples_of(source, counts, rng);
  const std::vector<Index> folds = pooled_folds(held_out.labels, m, seed);
  Eigen::MatrixXd of_fold = Eigen::MatrixXd::Zero(m, kPooledFolds), joint = Eigen::MatrixXd::Zero(m, m);
  for (std::size_t i = 0; i < folds.size(); ++i) {
    ++of_fold(held_out.labels[i], folds[i]);
    ++joint(arg_max(held_out.probs, static_cast<Index>(i)), held_out.labels[i]);
  }
  PooledCalibration pooled(of_fold, path);
  while (const auto question = pooled.next())
    pooled.take(pooled_sums(*question, {held_out.probs}, held_out.labels, folds));
  const PooledFit& fit = pooled.result();

  GaussianSample unlabelled = target.sample(rows, truth, rng);
  unlabelled.probs = source.predict(unlabelled.features);
  const auto calibrated = apply_calibration(fit.calibration, {unlabelled.probs});
  const SourceSummary summary{.label_prior = Eigen::VectorXd::Constant(m, 1.0 / static_cast<double>(m))};
  const TargetSample sample{calibrated.view(), {}};
  PooledTrial result{.estimate = MllsSqp().estimate(summary, sample), .intervals = {}, .agreement = {}};
  const PooledUncertainty uncertainty =
      pooled_uncertainty(summary, sample, {unlabelled.probs}, result.estimate, {pooled_kind(m), fit.covariance});
  result.intervals = intervals_from(uncertainty.prior, summary.label_prior, static_cast<double>(rows), 0.95);
  std::vector<int> predicted;
  for (Index j = 0; j < rows; ++j) predicted.push_back(arg_max(unlabelled.probs, j));
  result.agreement = prediction_agreement({joint * counts.cwiseMax(1.0).cwiseInverse().asDiagonal(), counts},
                                          summary.label_prior, calibrated.view(), predicted, uncertainty);
  result.error = (result.estimate.ratio.cwiseProduct(summary.label_prior) - truth).lpNorm<1>();
  return result;
}

}  // namespace labelshift
