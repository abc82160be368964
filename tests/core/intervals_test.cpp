#include "labelshift/core/intervals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "labelshift/core/label_shift.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

/// How often the intervals of q and r hold the truth.
struct Coverage {
  Eigen::VectorXd of_prior, of_ratio;  // (m)
};

/// Draws source and target `repetitions` times and analyses them; everything that is estimated is estimated anew.
Coverage coverage(const GaussianProblem& problem, const Eigen::VectorXd& target_prior, Index source_rows,
                  Index target_rows, const LabelShiftOptions& options, int repetitions) {
  const Index m = problem.classes();
  Coverage result{Eigen::VectorXd::Zero(m), Eigen::VectorXd::Zero(m)};
  for (int i = 0; i < repetitions; ++i) {
    Rng rng(17, static_cast<std::uint64_t>(i));
    const GaussianSample source = problem.sample(source_rows, problem.source_prior, rng);
    const GaussianSample target = problem.sample(target_rows, target_prior, rng);
    LabelShiftProblem known{.target = {target.probs}};
    known.source = SourceExamples{{source.probs}, source.labels, {}};
    const Intervals intervals = analyse_label_shift(known, options).intervals;
    for (Index c = 0; c < m; ++c) {
      const double q = target_prior[c];
      const double r = q / problem.source_prior[c];
      result.of_prior[c] += q >= intervals.prior_low[c] && q <= intervals.prior_high[c] ? 1.0 : 0.0;
      result.of_ratio[c] += r >= intervals.ratio_low[c] && r <= intervals.ratio_high[c] ? 1.0 : 0.0;
    }
  }
  result.of_prior /= repetitions;
  result.of_ratio /= repetitions;
  return result;
}

struct CoverageCase {
  const char* estimator;
  const char* calibration;
  double sharpness;  // of the predictor: 1 is calibrated
  bool absent;       // whether class 0 is absent from the target
  Index source_rows, target_rows;

  std::string name() const {
    std::string words = std::string(estimator) + "_" + calibration + (absent ? "_absent" : "");
    std::replace(words.begin(), words.end(), '-', '_');
    return words + "_" + std::to_string(target_rows);
  }
  friend void PrintTo(const CoverageCase& test, std::ostream* out) { *out << test.name(); }
};

class IntervalsWithEstimatedSource : public testing::TestWithParam<CoverageCase> {};

TEST_P(IntervalsWithEstimatedSource, HoldTheTruthAsOftenAsTheySay) {
  const CoverageCase& test = GetParam();
  Eigen::VectorXd p(3), q(3);
  p << 0.5, 0.3, 0.2;
  q << (test.absent ? 0.0 : 0.1), 0.3, (test.absent ? 0.7 : 0.6);
  GaussianProblem problem{.source_prior = p, .separation = 2.5, .sharpness = test.sharpness};
  // What a temperature cannot mend, its intervals cannot know of.
  if (std::string(test.calibration) == "bcts" || std::string(test.calibration) == "vs")
    problem.bias = Eigen::Vector3d(0.3, 0.0, -0.3);
  LabelShiftOptions options;
  options.estimator = test.estimator;
  options.calibration = test.calibration;
  constexpr int kRepetitions = 400;
  const Coverage covered = coverage(problem, q, test.source_rows, test.target_rows, options, kRepetitions);
  // The standard error of a 95 % coverage is sqrt(0.95 * 0.05 / 400) = 0.011; four of them are allowed, and 0.01 for
  // the normal theory at these sizes. At the boundary intervals may hold the truth more often, never less.
  const double slack = 4.0 * std::sqrt(0.95 * 0.05 / kRepetitions) + 0.01;
  for (Index c = 0; c < 3; ++c) {
    EXPECT_GE(covered.of_prior[c], 0.95 - slack) << "class " << c;
    EXPECT_GE(covered.of_ratio[c], 0.95 - slack) << "class " << c;
    if (q[c] > 0.0) {
      EXPECT_LE(covered.of_prior[c], std::min(0.95 + slack, 0.999)) << "class " << c;
      EXPECT_LE(covered.of_ratio[c], std::min(0.95 + slack, 0.999)) << "class " << c;
    }
  }
}

// Few source rows beside many target rows: intervals that forgot the source would hold the truth in half the draws.
INSTANTIATE_TEST_SUITE_P(Core, IntervalsWithEstimatedSource,
                         testing::Values(CoverageCase{"mlls-sqp", "none", 1.0, false, 300, 3000},
                                         CoverageCase{"mlls-sqp", "none", 1.0, true, 500, 500},
                                         CoverageCase{"mlls-sqp", "ts", 2.0, false, 1000, 1000},
                                         CoverageCase{"mlls-sqp", "bcts", 2.0, false, 500, 2000},
                                         CoverageCase{"mlls-sqp", "bcts", 2.0, true, 500, 1000},
                                         CoverageCase{"mlls-sqp", "vs", 0.5, false, 1000, 1000},
                                         CoverageCase{"mlls-em", "bcts", 0.5, false, 500, 500},
                                         CoverageCase{"bbse", "none", 2.0, false, 500, 1000},
                                         CoverageCase{"bbse-soft", "bcts", 2.0, false, 500, 1000},
                                         CoverageCase{"bbse", "none", 1.0, true, 500, 500}),
                         [](const auto& test) { return test.param.name(); });

TEST(Intervals, HoldTheTruthWhereTheEstimateLiesOnACorner) {
  // Two classes that overlap and a target that is nearly all of one: every third estimate is the corner q = (0, 1),
  // where the second class has no error of its own and owes its interval to what the first may have.
  const GaussianProblem problem{.source_prior = Eigen::Vector2d(0.5, 0.5), .separation = 0.7};
  const Eigen::Vector2d q(0.05, 0.95);
  constexpr int kRepetitions = 400;
  int covered = 0;
  int corners = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    Rng rng(19, static_cast<std::uint64_t>(i));
    const GaussianSample target = problem.sample(200, q, rng);
    LabelShiftProblem known{.target = {target.probs}};
    known.source_prior = problem.source_prior;
    const LabelShiftResult result = analyse_label_shift(known, {});
    const Intervals& intervals = result.intervals;
    corners += result.target_prior[1] == 1.0 ? 1 : 0;
    covered += intervals.prior_low[1] <= q[1] && q[1] <= intervals.prior_high[1] ? 1 : 0;
    if (result.target_prior[1] == 1.0) {
      EXPECT_NEAR(intervals.prior_low[1], 1.0 - intervals.prior_high[0], 1e-9);
    }
  }
  EXPECT_GT(corners, kRepetitions / 10);
  EXPECT_GE(covered, static_cast<int>(kRepetitions * (0.95 - 4.0 * std::sqrt(0.95 * 0.05 / kRepetitions))));
}

TEST(Intervals, OfOneHotPredictionsAreWilsons) {
  // 30 of 100 rows say class 0, with certainty: q is a binomial share. Wilson's 95 % interval of 30 / 100 is 0.2189 to
  // 0.3958 (by hand, z = 1.959964).
  Eigen::MatrixXd f = Eigen::MatrixXd::Zero(100, 2);
  f.col(0).head(30).setOnes();
  f.col(1).tail(70).setOnes();
  LabelShiftProblem problem{.target = {f}};
  problem.source_prior = Eigen::Vector2d(0.5, 0.5);
  const LabelShiftResult result = analyse_label_shift(problem, {});
  EXPECT_NEAR(result.target_prior[0], 0.3, 1e-9);
  EXPECT_NEAR(result.intervals.prior_low[0], 0.2189, 1e-4);
  EXPECT_NEAR(result.intervals.prior_high[0], 0.3958, 1e-4);
  EXPECT_NEAR(result.intervals.ratio_low[0], 2.0 * 0.2189, 2e-4);
}

TEST(Intervals, OfAClassThatNoRowSpeaksForIsTheRuleOfThree) {
  // No row says class 2. A likelihood of (1 - q)^n leaves 5 % beyond q = -log(0.05) / n = 2.9957 / 1000.
  Eigen::MatrixXd f = Eigen::MatrixXd::Zero(1000, 3);
  f.col(0).head(400).setOnes();
  f.col(1).tail(600).setOnes();
  LabelShiftProblem problem{.target = {f}};
  problem.source_prior = Eigen::Vector3d(0.4, 0.4, 0.2);
  const LabelShiftResult result = analyse_label_shift(problem, {});
  EXPECT_EQ(result.intervals.prior_low[2], 0.0);
  EXPECT_NEAR(result.intervals.prior_high[2], 2.9957e-3, 3e-5);
  EXPECT_NEAR(result.intervals.ratio_high[2], 5.0 * 2.9957e-3, 2e-4);
}

TEST(Intervals, NarrowAsTheSquareRootOfTheRows) {
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.4, 0.3, 0.3)};
  Rng rng(3);
  const Eigen::Vector3d q(0.2, 0.5, 0.3);
  double width[2];
  for (int i = 0; i < 2; ++i) {
    const GaussianSample target = problem.sample(i == 0 ? 1000 : 100'000, q, rng);
    LabelShiftProblem known{.target = {target.probs}};
    known.source_prior = problem.source_prior;
    const Intervals intervals = analyse_label_shift(known, {}).intervals;
    width[i] = intervals.prior_high[1] - intervals.prior_low[1];
  }
  EXPECT_NEAR(width[0] / width[1], 10.0, 0.5);  // the information of 1000 rows varies by some percent
}

TEST(Intervals, WithEqualWeightsAreThoseWithoutWeights) {
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.4, 0.3, 0.3), .sharpness = 1.5};
  Rng rng(4);
  const GaussianSample source = problem.sample(400, problem.source_prior, rng);
  const GaussianSample target = problem.sample(300, Eigen::Vector3d(0.1, 0.6, 0.3), rng);
  const std::vector<double> source_weights(400, 2.5), target_weights(300, 0.2);
  for (const char* estimator : {"mlls-sqp", "bbse", "bbse-soft"}) {
    LabelShiftOptions options;
    options.estimator = estimator;
    LabelShiftProblem known{.target = {target.probs}};
    known.source = SourceExamples{{source.probs}, source.labels, {}};
    const Intervals plain = analyse_label_shift(known, options).intervals;
    known.source->weights = source_weights;
    known.target_weights = target_weights;
    const Intervals weighted = analyse_label_shift(known, options).intervals;
    EXPECT_TRUE(plain.prior_low.isApprox(weighted.prior_low, 1e-8)) << estimator;
    EXPECT_TRUE(plain.ratio_high.isApprox(weighted.ratio_high, 1e-8)) << estimator;
  }
}

TEST(Intervals, OfUnequalWeightsAreThoseOfFewerRows) {
  // Half the rows weigh 9 times the others: Kish's formula gives (1 + 9)^2 / (1 + 81) / 2 = 0.61 of the rows.
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.4, 0.3, 0.3)};
  Rng rng(5);
  const GaussianSample target = problem.sample(20'000, Eigen::Vector3d(0.1, 0.6, 0.3), rng);
  std::vector<double> weights(20'000, 1.0);
  std::fill(weights.begin(), weights.begin() + 10'000, 9.0);
  LabelShiftProblem known{.target = {target.probs}};
  known.source_prior = problem.source_prior;
  const Intervals plain = analyse_label_shift(known, {}).intervals;
  known.target_weights = weights;
  const Intervals weighted = analyse_label_shift(known, {}).intervals;
  const double widening = (weighted.prior_high[1] - weighted.prior_low[1]) / (plain.prior_high[1] - plain.prior_low[1]);
  EXPECT_NEAR(widening, std::sqrt(1.0 / 0.61), 0.03);
}

}  // namespace
}  // namespace labelshift
