#include "labelshift/core/inference/agreement.hpp"

#include <gtest/gtest.h>

#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/core/estimators/mlls_sqp.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::Vector3d;
using Eigen::VectorXd;

constexpr int kRuns = 400;
constexpr double kLevel = 0.95;

/// Labelled examples of which there are as many as said of each class, here all in one place.
GaussianSample examples_of(const GaussianProblem& problem, const VectorXd& counts, Rng& rng) {
  GaussianSample result{.features = MatrixXd(0, 2), .probs = {}, .labels = {}};
  for (Index c = 0; c < counts.size(); ++c) {
    const GaussianSample some = problem.sample(static_cast<Index>(counts[c]), VectorXd::Unit(counts.size(), c), rng);
    result.features.conservativeResize(result.features.rows() + some.features.rows(), 2);
    result.features.bottomRows(some.features.rows()) = some.features;
    result.labels.insert(result.labels.end(), some.labels.begin(), some.labels.end());
  }
  result.probs = problem.predict(result.features);
  return result;
}

struct Outcome {
  double covered = 0.0;    // of the shares, by 95 % intervals
  double disagreed = 0.0;  // at 5 %
  double clearly = 0.0;    // at 1 %
  double error = 0.0;      // mean |q - truth|_1
};

/// Calibrates on `counts` examples, estimates from `rows` target examples of mix `truth`, many times.
/// `target` is where these come from.
Outcome run(const GaussianProblem& source, const GaussianProblem& target, const VectorXd& counts, const VectorXd& truth,
            Index rows, const std::vector<PooledCandidate>& path) {
  const Index m = counts.size();
  Outcome outcome;
  for (int run = 0; run < kRuns; ++run) {
    Rng rng(23, static_cast<std::uint64_t>(run));
    const GaussianSample held_out = examples_of(source, counts, rng);
    const std::vector<Index> folds = pooled_folds(held_out.labels, m, static_cast<std::uint64_t>(run));
    MatrixXd of_fold = MatrixXd::Zero(m, kPooledFolds), joint = MatrixXd::Zero(m, m);
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
    const SourceSummary summary{.label_prior = VectorXd::Constant(m, 1.0 / static_cast<double>(m))};
    const TargetSample sample{calibrated.view(), {}};
    const RatioEstimate estimate = MllsSqp().estimate(summary, sample);
    const PooledUncertainty uncertainty =
        pooled_uncertainty(summary, sample, {unlabelled.probs}, estimate, {pooled_kind(m), fit.covariance});
    const Intervals intervals =
        intervals_from(uncertainty.prior, summary.label_prior, static_cast<double>(rows), kLevel);
    for (Index c = 0; c < m; ++c)
      outcome.covered += truth[c] >= intervals.prior_low[c] && truth[c] <= intervals.prior_high[c] ? 1.0 : 0.0;
    std::vector<int> predicted;
    for (Index j = 0; j < rows; ++j) predicted.push_back(arg_max(unlabelled.probs, j));
    const Agreement agreement = prediction_agreement({joint * counts.cwiseInverse().asDiagonal(), counts},
                                                     summary.label_prior, calibrated.view(), predicted, uncertainty);
    outcome.disagreed += agreement.p_value < 0.05 ? 1.0 : 0.0;
    outcome.clearly += agreement.p_value < 0.01 ? 1.0 : 0.0;
    outcome.error += (estimate.ratio.cwiseProduct(summary.label_prior) - truth).lpNorm<1>();
  }
  outcome.covered /= kRuns * static_cast<double>(m);
  outcome.disagreed /= kRuns;
  outcome.clearly /= kRuns;
  outcome.error /= kRuns;
  return outcome;
}

const GaussianProblem kEven{.source_prior = Vector3d::Constant(1.0 / 3.0), .separation = 2.0, .sharpness = 2.0};
const std::vector<PooledCandidate> kBcts{{CalibrationKind::kBiasCorrected}};

TEST(PooledUncertainty, KnowsOfTheNoiseOfACalibrationThatWasFittedElsewhere) {
  for (const auto& [counts, rows] : {std::pair{Vector3d(40, 60, 200), Index{2000}}, {Vector3d(300, 300, 300), 150}}) {
    const Outcome found = run(kEven, kEven, counts, Vector3d(0.6, 0.3, 0.1), rows, kBcts);
    // 1,200 intervals, of which those of one run depend on each other: a standard error of about 1 %.
    EXPECT_GE(found.covered, 0.92) << rows;
    EXPECT_LE(found.covered, 0.98) << rows;
  }
}

TEST(PredictionAgreement, SeldomDoubtsAGoodEstimate) {
  for (const auto& path : {kBcts, pooled_path()}) {
    const Outcome found = run(kEven, kEven, Vector3d(60, 100, 300), Vector3d(0.6, 0.3, 0.1), 400, path);
    EXPECT_LE(found.disagreed, 0.05 + 3 * 0.011);
    EXPECT_LE(found.clearly, 0.01 + 3 * 0.005);
  }
}

TEST(PredictionAgreement, DoubtsAnEstimateWhoseCalibrationIsWrong) {
  // A temperature alone cannot mend a classifier that favours a class.
  GaussianProblem biased = kEven;
  biased.bias = Vector3d(1.5, 0.0, -1.5);
  const Vector3d counts(300, 300, 300), truth(0.2, 0.3, 0.5);
  const Outcome wrong = run(biased, biased, counts, truth, 500, {{CalibrationKind::kTemperature}});
  const Outcome right = run(biased, biased, counts, truth, 500, kBcts);
  EXPECT_GT(wrong.error, 3 * right.error);
  EXPECT_GE(wrong.clearly, 0.9);
  EXPECT_LE(right.clearly, 0.03);
}

TEST(PredictionAgreement, SaysNothingOfAHandfulOfRows) {
  const PooledUncertainty uncertainty{.prior = {.prior = Vector3d(1, 0, 0), .response = MatrixXd::Zero(3, 3)},
                                      .of_calibration = MatrixXd::Zero(3, 3)};
  const MatrixXd said = MatrixXd::Constant(3, 3, 1.0 / 3.0);
  const Agreement found =
      prediction_agreement({MatrixXd::Identity(3, 3), Vector3d(9, 9, 9)}, Vector3d::Constant(1.0 / 3.0), said,
                           std::vector<int>{1, 1, 1}, uncertainty);
  EXPECT_EQ(found.degrees, 0);
  EXPECT_EQ(found.p_value, 1.0);
}

}  // namespace
}  // namespace labelshift
