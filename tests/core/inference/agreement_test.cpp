#include "labelshift/core/inference/agreement.hpp"

#include <gtest/gtest.h>

#include <Eigen/LU>

#include "tests/core/pooled_trial.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::Vector3d;
using Eigen::VectorXd;

constexpr int kRuns = 400;

struct Outcome {
  double covered = 0.0;    // of the shares, by 95 % intervals
  double disagreed = 0.0;  // at 5 %
  double clearly = 0.0;    // at 1 %
  double error = 0.0;      // mean |q - truth|_1
};

/// Means over many trials.
Outcome run(const GaussianProblem& source, const GaussianProblem& target, const VectorXd& counts, const VectorXd& truth,
            Index rows, const std::vector<PooledCandidate>& path) {
  Outcome outcome;
  for (int run = 0; run < kRuns; ++run) {
    const PooledTrial trial = pooled_trial(source, target, counts, truth, rows, path, static_cast<std::uint64_t>(run));
    for (Index c = 0; c < truth.size(); ++c)
      outcome.covered +=
          truth[c] >= trial.intervals.prior_low[c] && truth[c] <= trial.intervals.prior_high[c] ? 1.0 : 0.0;
    outcome.disagreed += trial.agreement.p_value < 0.05 ? 1.0 : 0.0;
    outcome.clearly += trial.agreement.p_value < 0.01 ? 1.0 : 0.0;
    outcome.error += trial.error;
  }
  outcome.covered /= kRuns * static_cast<double>(truth.size());
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

TEST(PooledUncertainty, IsHowTheEstimateMovesWithEveryParameterOfACalibration) {
  Rng rng(29, 1);
  const GaussianSample rows = kEven.sample(500, Vector3d(0.5, 0.3, 0.2), rng);
  const SourceSummary summary{.label_prior = Vector3d(0.2, 0.3, 0.5)};
  const CalibrationParameters parameters(CalibrationKind::kMatrix, 3);
  const auto estimate = [&](const VectorXd& theta) {
    const auto calibrated = apply_calibration(parameters.expand(theta), {rows.probs});
    return MllsSqp({.tolerance = 1e-13}).estimate(summary, {calibrated.view(), {}});
  };
  const auto prior = [&](const VectorXd& theta) -> VectorXd {
    return estimate(theta).ratio.cwiseProduct(summary.label_prior);
  };
  const VectorXd at = parameters.identity();
  ASSERT_GT(prior(at).minCoeff(), 0.05);  // inside of the simplex
  const auto calibrated = apply_calibration(parameters.expand(at), {rows.probs});
  for (Index k = 0; k < parameters.size(); ++k) {
    const VectorXd step = 1e-4 * VectorXd::Unit(parameters.size(), k);
    const VectorXd moved = (prior(at + step) - prior(at - step)) / 2e-4;
    const MatrixXd covariance = VectorXd::Unit(parameters.size(), k) * VectorXd::Unit(parameters.size(), k).transpose();
    const PooledUncertainty found = pooled_uncertainty(summary, {calibrated.view(), {}}, {rows.probs}, estimate(at),
                                                       {CalibrationKind::kMatrix, covariance});
    EXPECT_LE((found.of_calibration - moved * moved.transpose()).norm(), 1e-4 * (1e-3 + moved.squaredNorm())) << k;
  }
}

TEST(PooledUncertainty, KnowsOfTheNoiseOfAConfusionMatrixThatWasCountedElsewhere) {
  for (const bool soft : {false, true})
    for (const auto& [counts, rows] : {std::pair{Vector3d(40, 60, 200), Index{2000}}, {Vector3d(300, 300, 300), 150}}) {
      const Vector3d truth(0.6, 0.3, 0.1);
      double covered = 0.0;
      for (std::uint64_t run = 0; run < kRuns; ++run) {
        Rng rng(31, run);
        const GaussianSample held_out = examples_of(kEven, counts, rng);
        const GaussianSample target = kEven.sample(rows, truth, rng);
        PredictedLabels labels{MatrixXd::Zero(3, 3), counts};
        for (std::size_t i = 0; i < held_out.labels.size(); ++i) {
          const auto row = static_cast<Index>(i);
          auto column = labels.conditional.col(held_out.labels[i]);
          if (soft)
            column += held_out.probs.row(row).transpose();
          else
            column[arg_max(held_out.probs, row)] += 1.0;
        }
        labels.conditional *= counts.cwiseInverse().asDiagonal();
        VectorXd mean = VectorXd::Zero(3);
        for (Index j = 0; j < rows; ++j)
          mean +=
              soft ? VectorXd(target.probs.row(j).transpose()) : VectorXd(VectorXd::Unit(3, arg_max(target.probs, j)));
        const VectorXd q = labels.conditional.partialPivLu().solve(mean / static_cast<double>(rows)).cwiseMax(0.0);
        const PriorUncertainty found = pooled_uncertainty(labels, soft, target.target(), q / q.sum());
        const Intervals intervals =
            intervals_from(found, Vector3d::Constant(1.0 / 3.0), static_cast<double>(rows), 0.95);
        for (Index c = 0; c < 3; ++c)
          covered += truth[c] >= intervals.prior_low[c] && truth[c] <= intervals.prior_high[c] ? 1.0 : 0.0;
      }
      covered /= 3.0 * kRuns;
      EXPECT_GE(covered, 0.92) << soft << " with " << rows;
      EXPECT_LE(covered, 0.995) << soft << " with " << rows;
    }
}

TEST(PredictionAgreement, SeldomDoubtsAGoodEstimate) {
  for (const auto& path : {kBcts, pooled_path()}) {
    const Outcome found = run(kEven, kEven, Vector3d(60, 100, 300), Vector3d(0.6, 0.3, 0.1), 400, path);
    EXPECT_LE(found.disagreed, 0.05 + 3 * 0.011);
    EXPECT_LE(found.clearly, 0.01 + 3 * 0.005);
  }
}

TEST(PredictionAgreement, SeldomDoubtsAnEstimateFromFewExamplesOfARareMistake) {
  // About 2 % of a class are taken for each of the others, so 30 examples often show no such mistake at all, and 1,000
  // rows of mostly that class show some.
  GaussianProblem good = kEven;
  good.separation = 4.0;
  const Outcome found = run(good, good, Vector3d(30, 300, 300), Vector3d(0.96, 0.02, 0.02), 1000, kBcts);
  EXPECT_LE(found.disagreed, 0.05 + 3 * 0.011);
  EXPECT_LE(found.clearly, 0.01 + 3 * 0.005);
}

TEST(PredictionAgreement, SaysNothingWhereAClassWithAShareHasNoLabelledExample) {
  // One temperature is fitted, which is all that this classifier needs, so the estimate is right; but P q lacks what
  // is predicted for the rows of the third class.
  for (std::uint64_t run = 0; run < 20; ++run) {
    const PooledTrial trial =
        pooled_trial(kEven, kEven, Vector3d(100, 100, 0), Vector3d(0.4, 0.3, 0.3), 400, kBcts, run);
    EXPECT_LT(trial.error, 0.4);
    EXPECT_EQ(trial.agreement.degrees, 0);
    EXPECT_EQ(trial.agreement.p_value, 1.0);
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
