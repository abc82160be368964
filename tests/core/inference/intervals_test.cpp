#include "labelshift/core/inference/intervals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

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

/// What is to be analysed, with weights that can be changed.
struct WeightedRows {
  GaussianSample source, target;
  std::vector<double> source_weights, target_weights;
  std::optional<Eigen::VectorXd> known_prior;

  LabelShiftResult analyse(const LabelShiftOptions& options) const {
    LabelShiftProblem problem{.target = {target.probs}, .target_weights = target_weights};
    problem.source = SourceExamples{{source.probs}, source.labels, source_weights};
    problem.source_prior = known_prior;
    return analyse_label_shift(problem, options);
  }
};

/// Variances of q and r.
struct Variances {
  Eigen::VectorXd prior, ratio;  // (m)

  explicit Variances(Index m) : prior(Eigen::VectorXd::Zero(m)), ratio(prior) {}

  /// `change` is that of one row's weight from `less` to `more`.
  void add(const LabelShiftResult& more, const LabelShiftResult& less, double change, double factor) {
    prior += factor * ((more.target_prior - less.target_prior) / change).cwiseAbs2();
    ratio += factor * ((more.estimate.ratio - less.estimate.ratio) / change).cwiseAbs2();
  }
};

/// The infinitesimal jackknife: the sum over rows of (w_i d answer / d w_i)^2. The derivatives are central differences,
/// so nothing here knows a formula of the variance, the calibration or the estimator.
Variances jackknife(WeightedRows rows, std::vector<double> WeightedRows::*which, const LabelShiftOptions& options) {
  Variances result(rows.source.probs.cols());
  constexpr double kStep = 0.01;
  for (double& weight : rows.*which) {
    const double before = weight;
    weight = before * (1.0 + kStep);
    const LabelShiftResult more = rows.analyse(options);
    weight = before * (1.0 - kStep);
    const LabelShiftResult less = rows.analyse(options);
    weight = before;
    result.add(more, less, 2.0 * kStep, 1.0);
  }
  return result;
}

/// The same of the source, a row's label being drawn from what the calibrated classifier says of it. A row that is
/// added with a small weight, `label` being its label, tells the derivative.
Variances jackknife_over_labels(WeightedRows rows, const LabelShiftOptions& options) {
  const LabelShiftResult at = rows.analyse(options);
  const RowMajorMatrix<double> source = rows.source.probs;
  const CalibratedProbabilities f = apply_calibration(at.calibration_fit->calibration, {source});
  const Index n = source.rows();
  Variances result(source.cols());
  rows.source.probs.conservativeResize(n + 1, source.cols());
  rows.source.labels.push_back(0);
  rows.source_weights.push_back(0.0);
  constexpr double kStep = 1e-4;
  for (Index i = 0; i < n; ++i) {
    const double w = rows.source_weights[static_cast<std::size_t>(i)];
    rows.source.probs.row(n) = source.row(i);
    for (Index y = 0; y < source.cols(); ++y) {
      rows.source.labels.back() = static_cast<int>(y);
      rows.source_weights.back() = kStep;
      result.add(rows.analyse(options), at, kStep, w * w * f.view()(i, y));
    }
  }
  return result;
}

Intervals jackknife_intervals(const WeightedRows& rows, const LabelShiftOptions& options) {
  const LabelShiftResult result = rows.analyse(options);
  const Variances of_target = jackknife(rows, &WeightedRows::target_weights, options);
  Variances of_source = jackknife(rows, &WeightedRows::source_weights, options);
  PriorUncertainty uncertainty{.prior = result.target_prior, .centre = result.target_prior};
  if (find_estimator(options.estimator).family == EstimatorFamily::kLikelihood) {
    if (options.calibration != "none") {
      const Variances of_labels = jackknife_over_labels(rows, options);
      of_source.prior = 0.5 * (of_source.prior + of_labels.prior);
      of_source.ratio = 0.5 * (of_source.ratio + of_labels.ratio);
    }
    uncertainty.prior_of_source = of_source.prior;
    uncertainty.ratio_of_source = of_source.ratio;
  }
  uncertainty.prior_error = (of_target.prior + of_source.prior).cwiseSqrt();
  uncertainty.ratio_error = (of_target.ratio + of_source.ratio).cwiseSqrt();
  double sum = 0.0;
  double squares = 0.0;
  for (const double weight : rows.target_weights) {
    sum += weight;
    squares += weight * weight;
  }
  return intervals_from(uncertainty, result.source_prior, sum * sum / squares, options.level);
}

TEST(Intervals, AreThoseOfTheInfinitesimalJackknife) {
  const GaussianProblem problem{
      .source_prior = Eigen::Vector3d(0.5, 0.3, 0.2), .sharpness = 1.4, .bias = Eigen::Vector3d(0.3, 0.0, -0.3)};
  Rng rng(23);
  WeightedRows rows{.source = problem.sample(300, problem.source_prior, rng),
                    .target = problem.sample(260, Eigen::Vector3d(0.2, 0.4, 0.4), rng)};  // more rows than a block has
  const std::vector<double> ones_of_source(300, 1.0), ones_of_target(260, 1.0);
  std::vector<double> uneven_of_source, uneven_of_target;
  for (int i = 0; i < 300; ++i) uneven_of_source.push_back(1.0 + i % 3);
  for (int j = 0; j < 260; ++j) uneven_of_target.push_back(j % 4 == 0 ? 3.0 : 0.5);
  const auto compare = [&](const std::string& estimator, const std::string& calibration) {
    LabelShiftOptions options;
    options.estimator = estimator;
    options.calibration = calibration;
    if (estimator == "mlls-sqp") options.settings.set("tolerance", "1e-13");  // derivatives need more than 1e-9
    const Intervals found = rows.analyse(options).intervals;
    const Intervals expected = jackknife_intervals(rows, options);
    const std::string place = estimator + " " + calibration + (rows.known_prior ? " known prior" : "") +
                              (rows.source_weights == ones_of_source ? "" : " weighted");
    // Central differences with steps of 0.01 are right to 1e-4 of a derivative. The covariance of soft predictions
    // divides by n - 1 = 259, which is 0.2 % of a standard error.
    const double tolerance = 0.003;
    const auto expect_close = [&](const Eigen::VectorXd& a, const Eigen::VectorXd& b, const Eigen::VectorXd& width,
                                  const char* end) {
      EXPECT_LE(((a - b).array() / width.array()).abs().maxCoeff(), tolerance)
          << place << " " << end << ": " << a.transpose() << " and " << b.transpose();
    };
    const Eigen::VectorXd prior_width = expected.prior_high - expected.prior_low;
    const Eigen::VectorXd ratio_width = expected.ratio_high - expected.ratio_low;
    expect_close(found.prior_low, expected.prior_low, prior_width, "prior_low");
    expect_close(found.prior_high, expected.prior_high, prior_width, "prior_high");
    expect_close(found.ratio_low, expected.ratio_low, ratio_width, "ratio_low");
    expect_close(found.ratio_high, expected.ratio_high, ratio_width, "ratio_high");
  };
  rows.source_weights = ones_of_source;
  rows.target_weights = ones_of_target;
  for (const char* calibration : {"none", "ts", "vs"}) compare("mlls-sqp", calibration);
  compare("bbse", "none");
  compare("bbse-soft", "none");
  rows.known_prior = problem.source_prior;
  compare("mlls-sqp", "bcts");
  compare("bbse", "none");
  rows.known_prior.reset();
  rows.source_weights = uneven_of_source;
  rows.target_weights = uneven_of_target;
  compare("mlls-sqp", "bcts");
}

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

TEST(Intervals, TakeTheNoiseOfTheSourceToGrowWithAShare) {
  // Rows count q (1 - q) / 100 = 0.0009 at q = 0.1, classes that overlap add 0.0004, the source 0.0007. At the upper
  // end x the variance is (1 / 100 + 0.0007 / 0.09) x (1 - x) + 0.0004, at the lower one x (1 - x) / 100 + 0.0011.
  PriorUncertainty uncertainty{.prior = Eigen::Vector2d(0.1, 0.9), .centre = Eigen::Vector2d(0.1, 0.9)};
  uncertainty.prior_error = Eigen::Vector2d::Constant(std::sqrt(0.002));
  uncertainty.prior_of_source = Eigen::Vector2d::Constant(0.0007);
  uncertainty.ratio_of_source = 4.0 * uncertainty.prior_of_source;
  const Intervals found = intervals_from(uncertainty, Eigen::Vector2d(0.5, 0.5), 100.0, 0.95);
  const double z = 1.959964;
  const double high = found.prior_high[0];
  EXPECT_NEAR((high - 0.1) / std::sqrt((0.01 + 0.0007 / 0.09) * high * (1.0 - high) + 0.0004), z, 1e-5);
  const double low = found.prior_low[0];
  EXPECT_NEAR((0.1 - low) / std::sqrt(0.01 * low * (1.0 - low) + 0.0011), z, 1e-5);
  // A share of almost 0 is blurred like one of two standard errors of the source.
  uncertainty.prior = uncertainty.centre = Eigen::Vector2d(1e-4, 1.0 - 1e-4);
  const double of_rare = intervals_from(uncertainty, Eigen::Vector2d(0.5, 0.5), 100.0, 0.95).prior_high[0];
  const double rate = 0.01 + 0.0007 / (2.0 * std::sqrt(0.0007));
  const double fixed = 0.002 - rate * 1e-4 * (1.0 - 1e-4);
  EXPECT_NEAR((of_rare - 1e-4) / std::sqrt(rate * of_rare * (1.0 - of_rare) + fixed), z, 1e-5);
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

TEST(Intervals, OfAnAbsentClassEndWhereTheNormalCutOffAtZeroLeavesFivePercent) {
  // Of a normal law at `centre` with error 0.01, cut off at 0: P(x > high) = 0.05 P(x > 0). By hand, for centres 0, 1
  // and -1 errors from 0: high = 1.95996, 2.72718 and 1.41199 errors; 50 errors below it is exponential, log(20) / 50.
  const double highs[][2] = {{0.0, 1.959964}, {0.01, 2.727185}, {-0.01, 1.411994}, {-0.5, 0.0599146}};
  for (const auto& [centre, high] : highs) {
    PriorUncertainty uncertainty{.prior = Eigen::Vector2d(0.0, 1.0), .centre = Eigen::Vector2d(centre, 1.0)};
    uncertainty.prior_error = Eigen::Vector2d(0.01, 0.01);
    const Intervals found = intervals_from(uncertainty, Eigen::Vector2d(0.25, 0.75), 10'000.0, 0.95);
    EXPECT_EQ(found.prior_low[0], 0.0);
    EXPECT_NEAR(found.prior_high[0], 0.01 * high, 1e-7) << centre;
    EXPECT_NEAR(found.ratio_high[0], 0.04 * high, 4e-7) << centre;
  }
}

TEST(Intervals, OfAShareAndItsRatioBothReachZeroOrNeither) {
  // Of two standard errors that differ by what the source prior adds, the larger one reaches 0.
  for (const auto& [of_prior, of_ratio] : {std::pair{0.01, 0.05}, {0.05, 0.01}}) {
    PriorUncertainty uncertainty{.prior = Eigen::Vector2d(0.05, 0.95), .centre = Eigen::Vector2d(0.05, 0.95)};
    uncertainty.prior_error = Eigen::Vector2d(of_prior, of_prior);
    uncertainty.ratio_error = Eigen::Vector2d(of_ratio, of_ratio) / 0.5;
    const Intervals found = intervals_from(uncertainty, Eigen::Vector2d(0.5, 0.5), 1e9, 0.95);
    EXPECT_EQ(found.prior_low[0], 0.0);
    EXPECT_EQ(found.ratio_low[0], 0.0);
    EXPECT_GT(found.prior_low[1], 0.8);
    EXPECT_GT(found.ratio_low[1], 1.6);
  }
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

TEST(Intervals, OfAnAbsentClassKeepTheRuleOfThreeOfTheEffectiveRows) {
  // Three rows say class 0, and one with hardly any weight says class 1 as surely as it can. 3 rows leave 5 % beyond
  // 1 - 0.05^(1/3) = 0.63160.
  const Eigen::MatrixXd f = (Eigen::MatrixXd(4, 2) << 1, 0, 1, 0, 1, 0, 1e-12, 1 - 1e-12).finished();
  const std::vector<double> weights = {1.0, 1.0, 1.0, 1e-13};
  LabelShiftProblem problem{.target = {f}, .target_weights = weights};
  problem.source_prior = Eigen::Vector2d(0.5, 0.5);
  const LabelShiftResult result = analyse_label_shift(problem, {});
  ASSERT_LT(result.target_prior[1], 1e-4);
  EXPECT_GE(result.intervals.prior_high[1], 0.63159);
}

TEST(Intervals, OfUnequalWeightsHoldTheShareOfAClassThatSeemsAbsent) {
  // 10 rows with weights so uneven that they count like two or three. Coverage of at least 0.95 has a standard
  // deviation of 0.01 in 500 draws: three of them below 0.95 is 0.92.
  const GaussianProblem problem{.source_prior = Eigen::Vector3d::Constant(1.0 / 3)};
  const Eigen::Vector3d q(0.3, 0.4, 0.3);
  Rng rng(6);
  int absent = 0;
  int covered = 0;
  while (absent < 500) {
    const GaussianSample target = problem.sample(10, q, rng);
    std::vector<double> weights(10);
    for (double& w : weights) w = std::exp(3.0 * rng.normal());
    LabelShiftProblem known{.target = {target.probs}, .target_weights = weights};
    known.source_prior = problem.source_prior;
    const LabelShiftResult result = analyse_label_shift(known, {});
    for (Index c = 0; c < 3; ++c) {
      if (!is_absent(result.target_prior[c], result.target_rows)) continue;
      ++absent;
      covered += q[c] <= result.intervals.prior_high[c];
    }
  }
  EXPECT_GE(covered, 0.92 * absent);
}

TEST(Intervals, OfUnequalWeightsHoldTheTruthAsOftenAsTheySay) {
  // Weights exp(N(0, 1)) of 20 rows count like 10, of 50 rows like 22. The classes' intervals of one draw are not
  // independent, so 600 draws have a coverage of 0.95 with a standard deviation of at most sqrt(0.95 * 0.05 / 600) =
  // 0.0089 for the mean over classes as well as for a class: three of them below 0.95 is 0.923 for the mean, four of
  // them 0.914 for the least of a few classes. Scores alone, which a fit to heavy rows has made smaller, give 0.90.
  const GaussianProblem problem{.source_prior = Eigen::Vector3d::Constant(1.0 / 3)};
  const Eigen::Vector3d q(0.3, 0.4, 0.3);
  constexpr int kRepetitions = 600;
  const double error = std::sqrt(0.95 * 0.05 / kRepetitions);
  for (const Index rows : {20, 50}) {
    Rng rng(29, static_cast<std::uint64_t>(rows));
    Eigen::Vector3d covered = Eigen::Vector3d::Zero();
    double effective = 0.0;
    for (int i = 0; i < kRepetitions; ++i) {
      const GaussianSample target = problem.sample(rows, q, rng);
      std::vector<double> weights(static_cast<std::size_t>(rows));
      for (double& w : weights) w = std::exp(rng.normal());
      LabelShiftProblem known{.target = {target.probs}, .target_weights = weights};
      known.source_prior = problem.source_prior;
      const LabelShiftResult result = analyse_label_shift(known, {});
      effective += result.target_rows / kRepetitions;
      const Intervals& found = result.intervals;
      for (Index c = 0; c < 3; ++c) covered[c] += q[c] >= found.prior_low[c] && q[c] <= found.prior_high[c];
    }
    covered /= kRepetitions;
    EXPECT_NEAR(effective, rows == 20 ? 10.0 : 22.0, 0.7);
    EXPECT_GE(covered.mean(), 0.95 - 3.0 * error) << rows << " rows: " << covered.transpose();
    EXPECT_GE(covered.minCoeff(), 0.95 - 4.0 * error) << rows << " rows: " << covered.transpose();
    EXPECT_LE(covered.maxCoeff(), 0.95 + 4.0 * error) << rows << " rows: " << covered.transpose();
  }
}

}  // namespace
}  // namespace labelshift
