#include "labelshift/core/calibration/calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/calibration/prediction_quality.hpp"

namespace labelshift {

void PrintTo(const CalibrationEntry& entry, std::ostream* out) {
  *out << entry.name;
}

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::HasSubstr;

struct Sample {
  MatrixXd scores;  // (n, m)
  std::vector<int> labels;
  std::vector<double> weights;  // or empty

  Scores logits() const { return {scores, /*logits=*/true}; }
  Scores probs() const { return {scores}; }
};

/// softmax(W z + bias), z = log softmax(logits), as a textbook has it.
VectorXd plain_softmax(const Calibration& calibration, const VectorXd& logits) {
  const VectorXd z = logits.array() - std::log(logits.array().exp().sum());
  MatrixXd w = calibration.scale.asDiagonal();
  if (calibration.mixing.size() > 0) w += calibration.mixing;
  const VectorXd e = (w * z + calibration.bias).array().exp();
  return e / e.sum();
}

/// What fit_calibration says it minimises, for logits, row by row.
double plain_objective(CalibrationKind kind, const Calibration& calibration, const Sample& sample) {
  double loss = 0.0;
  double total = 0.0;
  double squares = 0.0;
  for (Index i = 0; i < sample.scores.rows(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double w = sample.weights.empty() ? 1.0 : sample.weights[at];
    loss -= w * std::log(plain_softmax(calibration, sample.scores.row(i).transpose())[sample.labels[at]]);
    total += w;
    squares += w * w;
  }
  const VectorXd excess = calibration.scale.array() - 1.0;
  const double scale_penalty = kind == CalibrationKind::kVector ? excess.squaredNorm() : excess[0] * excess[0];
  const double examples = total * total / squares;
  return loss / total + 0.01 / (2.0 * examples) * (scale_penalty + calibration.bias.squaredNorm()) +
         kMatrixStrength / (2.0 * examples) * calibration.mixing.squaredNorm();
}

/// The directions a kind can move in, the bias ones keeping the sum of the biases.
std::vector<Calibration> directions(CalibrationKind kind, Index m) {
  std::vector<Calibration> all;
  const VectorXd zero = VectorXd::Zero(m);
  const double share = 1.0 / static_cast<double>(m);
  if (kind == CalibrationKind::kVector)
    for (Index c = 0; c < m; ++c) all.push_back({.scale = VectorXd::Unit(m, c), .bias = zero});
  else
    all.push_back({.scale = VectorXd::Ones(m), .bias = zero});
  if (kind != CalibrationKind::kTemperature)
    for (Index c = 0; c < m; ++c) all.push_back({.scale = zero, .bias = VectorXd::Unit(m, c).array() - share});
  if (kind == CalibrationKind::kMatrix)
    for (Index k = 0; k < m * m; ++k)
      all.push_back({.scale = zero, .bias = zero, .mixing = VectorXd::Unit(m * m, k).reshaped(m, m)});
  return all;
}

Calibration moved(const Calibration& from, const Calibration& direction, double length) {
  Calibration to{.scale = from.scale + length * direction.scale,
                 .bias = from.bias + length * direction.bias,
                 .mixing = from.mixing};
  if (direction.mixing.size() > 0) to.mixing += length * direction.mixing;
  return to;
}

/// Overlapping Gaussian classes of unequal size, with logits that are too confident and biased.
Sample noisy_sample(Index n, Index m, std::uint64_t seed) {
  Rng rng(seed);
  Sample sample{.scores = MatrixXd(n, m), .labels = std::vector<int>(static_cast<std::size_t>(n)), .weights = {}};
  for (Index i = 0; i < n; ++i) {
    const auto y = static_cast<int>(std::min(rng.below(m), rng.below(m)));
    sample.labels[static_cast<std::size_t>(i)] = y;
    for (Index c = 0; c < m; ++c)
      sample.scores(i, c) = 2.0 * (rng.normal() + (c == y ? 1.5 : 0.0)) + 0.3 * static_cast<double>(c % 4);
  }
  return sample;
}

/// A population rather than a sample from one: every x occurs once with each label c, weighted by p(c | x), where p is
/// the calibration `truth` of the logits. So the best calibration is `truth` but for the penalty.
Sample exact_population(const Calibration& truth, Index points, std::uint64_t seed) {
  const Index m = truth.scale.size();
  Rng rng(seed);
  Sample sample{.scores = MatrixXd(points * m, m), .labels = {}, .weights = {}};
  for (Index i = 0; i < points; ++i) {
    VectorXd logits(m);
    for (Index c = 0; c < m; ++c) logits[c] = 2.0 * rng.normal();
    const VectorXd posterior = plain_softmax(truth, logits);
    for (Index c = 0; c < m; ++c) {
      sample.scores.row(i * m + c) = logits.transpose();
      sample.labels.push_back(static_cast<int>(c));
      sample.weights.push_back(posterior[c]);
    }
  }
  return sample;
}

CalibrationFit fit_logits(CalibrationKind kind, const Sample& sample) {
  return fit_calibration(kind, sample.logits(), sample.labels, sample.weights);
}

/// How much each row moved each number of the calibration.
struct Influences {
  MatrixXd scale, bias;  // (n, m)
  MatrixXd mixing;       // (n, m m) row by row

  Influences(const CalibrationFit& fit, const Sample& sample, Index first, Index count) {
    const Index m = sample.scores.cols();
    const Index k = 2 * m + m * m;
    CalibrationResponse response{.scale = Eigen::ArrayXXd::Zero(k, m),
                                 .bias = Eigen::ArrayXXd::Zero(k, m),
                                 .mixing = Eigen::ArrayXXd::Zero(k, fit.kind == CalibrationKind::kMatrix ? m * m : 0)};
    // A shared scale moves by what the response to class 0's scale is.
    const bool shared = fit.kind != CalibrationKind::kVector;
    for (Index c = 0; c < m; ++c) response.scale(c, shared ? 0 : c) = 1.0;
    response.bias.middleRows(m, m).matrix().setIdentity();
    if (response.mixing.size() > 0) response.mixing.bottomRows(m * m).matrix().setIdentity();
    const MatrixXd rows =
        CalibrationInfluence(fit, sample.logits(), sample.labels, sample.weights, response).rows(first, count);
    scale = rows.leftCols(m);
    bias = rows.middleCols(m, m);
    mixing = rows.rightCols(m * m);
  }
};

class EveryCalibration : public testing::TestWithParam<CalibrationEntry> {
 protected:
  CalibrationKind kind() const { return GetParam().kind; }
};

class EveryFittedCalibration : public EveryCalibration {};

std::string name_of(const testing::TestParamInfo<CalibrationEntry>& entry) {
  return entry.param.name;
}

INSTANTIATE_TEST_SUITE_P(Core, EveryCalibration, testing::ValuesIn(calibrations()), name_of);
INSTANTIATE_TEST_SUITE_P(Core, EveryFittedCalibration, testing::ValuesIn(calibrations().subspan(1)), name_of);

TEST(Calibrations, AreFoundByName) {
  EXPECT_EQ(find_calibration("none").kind, CalibrationKind::kNone);
  EXPECT_EQ(find_calibration("ts").kind, CalibrationKind::kTemperature);
  EXPECT_EQ(find_calibration("bcts").kind, CalibrationKind::kBiasCorrected);
  EXPECT_EQ(find_calibration("vs").kind, CalibrationKind::kVector);
  EXPECT_EQ(find_calibration("matrix").kind, CalibrationKind::kMatrix);
}

TEST(Calibrations, AMisspeltNameGetsASuggestion) {
  try {
    find_calibration("bct");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "unknown calibration \"bct\"; did you mean \"bcts\"? (known: none, ts, bcts, vs, matrix)");
  }
}

TEST_P(EveryFittedCalibration, RecoversTheDistortionOfExactPosteriors) {
  const Index m = 4;
  Calibration truth = Calibration::identity(m);
  truth.scale *= 0.6;
  if (kind() != CalibrationKind::kTemperature) truth.bias << 0.5, -1.0, 0.2, 0.3;
  if (kind() == CalibrationKind::kVector) truth.scale << 0.6, 0.8, 0.5, 1.2;
  const Sample population = exact_population(truth, 3000, 11);
  const CalibrationFit fit = fit_logits(kind(), population);
  EXPECT_TRUE(fit.converged);
  // Only the penalty moves the optimum: by at most 0.01 / n |theta - 1| / (least curvature). Here n > 3000, |theta - 1|
  // < 2 and the curvature is above 0.02, so by less than 4e-4.
  EXPECT_LE((fit.calibration.scale - truth.scale).norm(), 4e-4);
  EXPECT_LE((fit.calibration.bias - truth.bias).norm(), 4e-4);
  EXPECT_LE(fit.calibration.mixing.norm(), 4e-4);
  EXPECT_LT(fit.ece_after, 0.01);
  EXPECT_LT(fit.ece_after, fit.ece_before);
}

TEST(FitCalibration, FindsTheTemperatureOfSampledLabelsWithinItsStandardError) {
  const Index n = 20000;
  Rng rng(5);
  Sample sample{.scores = MatrixXd(n, 3), .labels = {}, .weights = {}};
  double information = 0.0;  // sum over rows of Var_f(z), the Fisher information about the scale at the truth
  for (Index i = 0; i < n; ++i) {
    for (Index c = 0; c < 3; ++c) sample.scores(i, c) = 3.0 * rng.normal();
    const Calibration truth{.scale = VectorXd::Constant(3, 0.5), .bias = VectorXd::Zero(3)};
    const VectorXd f = plain_softmax(truth, sample.scores.row(i).transpose());
    const double u = rng.uniform();
    sample.labels.push_back(u < f[0] ? 0 : u < f[0] + f[1] ? 1 : 2);
    const double mean = sample.scores.row(i) * f;
    information += f.dot((sample.scores.row(i).transpose().array() - mean).square().matrix());
  }
  const CalibrationFit fit = fit_logits(CalibrationKind::kTemperature, sample);
  // A normal variate is beyond 4 standard errors once in 16,000.
  EXPECT_LE(std::abs(fit.calibration.scale[0] - 0.5), 4.0 / std::sqrt(information));
}

TEST_P(EveryFittedCalibration, LeavesCalibratedScoresAlone) {
  const Sample population = exact_population(Calibration::identity(3), 2000, 3);
  const CalibrationFit fit = fit_logits(kind(), population);
  EXPECT_LE((fit.calibration.scale.array() - 1.0).abs().maxCoeff(), 1e-8);  // the penalty is 0 at the optimum
  EXPECT_LE(fit.calibration.bias.cwiseAbs().maxCoeff(), 1e-8);
  EXPECT_LE(fit.calibration.mixing.norm(), 1e-7);
}

TEST(MatrixScaling, RecoversAMixingOfTheScores) {
  Calibration truth{.scale = VectorXd::Constant(3, 0.7),
                    .bias = Eigen::Vector3d(0.4, -0.3, -0.1),
                    .mixing = MatrixXd{{0.0, 0.4, -0.2}, {-0.3, 0.1, 0.2}, {0.1, 0.0, -0.1}}};
  // A row added to all rows of W changes nothing, and the fit takes the smallest W; so the truth has columns of sum 0.
  truth.mixing.rowwise() -= truth.mixing.colwise().mean().eval();
  truth.scale.array() += truth.mixing.diagonal().mean();
  truth.mixing.diagonal().array() -= truth.mixing.diagonal().mean();
  truth.mixing.rowwise() -= truth.mixing.colwise().mean().eval();
  const Sample population = exact_population(truth, 3000, 12);
  const CalibrationFit fit =
      fit_calibration(CalibrationKind::kMatrix, population.logits(), population.labels, population.weights, 0.01);
  EXPECT_TRUE(fit.converged);
  const auto found = apply_calibration(fit.calibration, population.logits());
  const auto expected = apply_calibration(truth, population.logits());
  // The penalty moves theta by at most 0.01 / n |theta - 1| / (least curvature) < 4e-4, and logits of up to ten times
  // it.
  EXPECT_LE((std::get<1>(found.values) - std::get<1>(expected.values)).cwiseAbs().maxCoeff(), 4e-3);
  EXPECT_LT(fit.nll_after, fit_logits(CalibrationKind::kVector, population).nll_after - 0.01);
}

TEST(MatrixScaling, OfInfiniteStrengthIsBcts) {
  const Sample sample = noisy_sample(500, 4, 23);
  const CalibrationFit bcts = fit_logits(CalibrationKind::kBiasCorrected, sample);
  double distance = std::numeric_limits<double>::infinity();
  for (const double strength : {1e2, 1e5, 1e8}) {
    const Calibration found =
        fit_calibration(CalibrationKind::kMatrix, sample.logits(), sample.labels, {}, strength).calibration;
    const double next = (found.scale - bcts.calibration.scale).norm() + (found.bias - bcts.calibration.bias).norm() +
                        found.mixing.norm();
    EXPECT_LT(next, 0.1 * distance);
    distance = next;
  }
  EXPECT_LE(distance, 1e-5);
}

TEST(MatrixScaling, TheWeakerThePenaltyTheBetterTheFit) {
  const Sample sample = noisy_sample(500, 4, 24);
  double last = fit_logits(CalibrationKind::kBiasCorrected, sample).nll_after;
  for (const double strength : {1e4, 1e2, 1.0, 1e-2}) {
    const double nll =
        fit_calibration(CalibrationKind::kMatrix, sample.logits(), sample.labels, {}, strength).nll_after;
    EXPECT_LT(nll, last);
    last = nll;
  }
}

TEST(MatrixScaling, IsNotForManyClassesOrAStrengthThatIsNone) {
  const auto expect_error = [](Index classes, double strength, const char* message) {
    const Sample sample = noisy_sample(100, classes, 25);
    try {
      fit_calibration(CalibrationKind::kMatrix, sample.logits(), sample.labels, {}, strength);
      ADD_FAILURE() << "no error: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  expect_error(33, 1.0, "matrix scaling has 1123 numbers to fit for 33 classes and is for up to 32; use vs or bcts");
  expect_error(3, 0.0, "the strength of matrix scaling is 0, expected a number above 0");
}

TEST_P(EveryFittedCalibration, EndsWhereThePlainObjectiveIsStationaryAndLeast) {
  Sample sample = noisy_sample(400, 5, 21);
  Rng rng(22);
  for (int i = 0; i < 400; ++i) sample.weights.push_back(0.5 + rng.uniform());
  const CalibrationFit fit = fit_logits(kind(), sample);
  EXPECT_TRUE(fit.converged);
  const double least = plain_objective(kind(), fit.calibration, sample);
  for (const Calibration& direction : directions(kind(), 5)) {
    // Step 1e-4: the central difference errs by 1e-8 times the third derivative (about 1) and by rounding, 1e-12.
    const double up = plain_objective(kind(), moved(fit.calibration, direction, 1e-4), sample);
    const double down = plain_objective(kind(), moved(fit.calibration, direction, -1e-4), sample);
    EXPECT_NEAR((up - down) / 2e-4, 0.0, 2e-7);
    EXPECT_GT(plain_objective(kind(), moved(fit.calibration, direction, 0.1), sample), least);
    EXPECT_GT(plain_objective(kind(), moved(fit.calibration, direction, -0.1), sample), least);
  }
}

TEST_P(EveryFittedCalibration, EndsAtTheSameCalibrationFromANearStartAndSooner) {
  const Sample sample = noisy_sample(400, 4, 12);
  const auto fit_from = [&](const std::optional<Calibration>& near) {
    return fit_calibration(kind(), sample.logits(), sample.labels, {}, kMatrixStrength, near);
  };
  const CalibrationFit far = fit_from(std::nullopt);
  // A matrix may be parted into scale and mixing in another way than the fit did, which one step mends.
  EXPECT_GT(far.iterations, 1);
  EXPECT_LE(fit_from(far.calibration).iterations, kind() == CalibrationKind::kMatrix ? 1 : 0);
  Calibration moved = far.calibration;
  moved.scale *= 1.01;
  const CalibrationFit near = fit_from(moved);
  EXPECT_TRUE(near.converged);
  EXPECT_LE(near.iterations, far.iterations);
  // Both are within 1e-6 standard errors of the optimum, and standard errors of 400 rows are below 1.
  EXPECT_LE((near.calibration.scale - far.calibration.scale).norm(), 4e-6);
  EXPECT_LE((near.calibration.bias - far.calibration.bias).norm(), 4e-6);
}

TEST(FitCalibration, AgreesWithASearchOverTheTemperature) {
  const Sample sample = noisy_sample(300, 3, 8);
  const auto objective = [&](double scale) {
    return plain_objective(CalibrationKind::kTemperature,
                           {.scale = VectorXd::Constant(3, scale), .bias = VectorXd::Zero(3)}, sample);
  };
  double low = 0.0;
  double high = 5.0;
  while (high - low > 1e-7) {  // ternary search: the objective is convex
    const double third = (high - low) / 3.0;
    if (objective(low + third) < objective(high - third))
      high -= third;
    else
      low += third;
  }
  // Near the minimum values that differ by less than 1e-16 look alike, which a distance of 1e-8 / sqrt(curvature)
  // makes.
  EXPECT_NEAR(fit_logits(CalibrationKind::kTemperature, sample).calibration.scale[0], low, 1e-6);
}

TEST_P(EveryCalibration, GivesTheSameForLogitsAndTheirProbabilities) {
  Sample logits = noisy_sample(500, 4, 31);
  Sample probs = logits;
  for (Index i = 0; i < 500; ++i) {
    probs.scores.row(i) = plain_softmax(Calibration::identity(4), logits.scores.row(i).transpose()).transpose();
    logits.scores.row(i).array() += static_cast<double>(i % 7);  // changes no probability
  }
  const CalibrationFit from_logits = fit_logits(kind(), logits);
  const CalibrationFit from_probs = fit_calibration(kind(), probs.probs(), probs.labels);
  const CalibratedProbabilities a = apply_calibration(from_logits.calibration, logits.logits());
  const CalibratedProbabilities b = apply_calibration(from_probs.calibration, probs.probs());
  // Rounding of the probabilities, and each optimum to a millionth of a standard error (0.1).
  EXPECT_LE((std::get<1>(a.values) - std::get<1>(b.values)).cwiseAbs().maxCoeff(), 1e-7);
  EXPECT_NEAR(from_logits.nll_before, from_probs.nll_before, 1e-12);
  EXPECT_NEAR(from_logits.nll_after, from_probs.nll_after, 1e-12);
}

TEST_P(EveryCalibration, PermutingClassesPermutesTheFit) {
  const Sample sample = noisy_sample(300, 4, 41);
  const int to[] = {2, 0, 3, 1};
  Sample permuted = sample;
  for (Index c = 0; c < 4; ++c) permuted.scores.col(to[c]) = sample.scores.col(c);
  for (int& y : permuted.labels) y = to[y];
  const Calibration a = fit_logits(kind(), sample).calibration;
  const Calibration b = fit_logits(kind(), permuted).calibration;
  for (Index c = 0; c < 4; ++c) {
    EXPECT_NEAR(b.scale[to[c]], a.scale[c], 1e-6);
    EXPECT_NEAR(b.bias[to[c]], a.bias[c], 1e-6);
    for (Index d = 0; d < a.mixing.cols(); ++d) EXPECT_NEAR(b.mixing(to[c], to[d]), a.mixing(c, d), 1e-6);
  }
}

TEST_P(EveryFittedCalibration, AWeightOfTwoIsARowTwice) {
  Sample weighted = noisy_sample(1500, 3, 51);
  Sample repeated = weighted;
  repeated.scores.resize(2250, 3);
  repeated.scores.topRows(1500) = weighted.scores;
  for (Index i = 0; i < 1500; ++i) weighted.weights.push_back(i % 2 == 0 ? 2.0 : 1.0);
  for (Index i = 0; i < 750; ++i) {
    repeated.scores.row(1500 + i) = weighted.scores.row(2 * i);
    repeated.labels.push_back(weighted.labels[static_cast<std::size_t>(2 * i)]);
  }
  const CalibrationFit a = fit_logits(kind(), weighted);
  const CalibrationFit b = fit_logits(kind(), repeated);
  EXPECT_NEAR(a.nll_before, b.nll_before, 1e-12);
  EXPECT_NEAR(a.ece_before, b.ece_before, 1e-12);
  // Kish's n is 1350 rather than 2250, so the penalties differ by 3e-6 |theta - 1| with |theta - 1| < 2, and the
  // parameters by at most that over the least curvature, 0.02.
  if (kind() == CalibrationKind::kMatrix) return;  // its penalty is no trifle
  EXPECT_LE((a.calibration.scale - b.calibration.scale).norm(), 3e-4);
  EXPECT_LE((a.calibration.bias - b.calibration.bias).norm(), 3e-4);
}

TEST_P(EveryCalibration, RowsOfWeightZeroDoNotCount) {
  Sample sample = noisy_sample(300, 3, 52);
  const CalibrationFit without = fit_logits(kind(), sample);
  sample.scores.conservativeResize(330, 3);
  sample.scores.bottomRows(30).setConstant(1.0);
  sample.labels.resize(330, 2);
  sample.weights.assign(330, 1.0);
  std::fill(sample.weights.begin() + 300, sample.weights.end(), 0.0);
  const CalibrationFit with = fit_logits(kind(), sample);
  EXPECT_LE((with.calibration.scale - without.calibration.scale).norm(), 1e-6);
  EXPECT_LE((with.calibration.bias - without.calibration.bias).norm(), 1e-6);
  EXPECT_NEAR(with.nll_after, without.nll_after, 1e-12);
  EXPECT_NEAR(with.ece_after, without.ece_after, 1e-9);
}

TEST_P(EveryCalibration, SeparableDataStayFinite) {
  Sample sample = noisy_sample(60, 3, 61);
  for (Index i = 0; i < 60; ++i)
    for (Index c = 0; c < 3; ++c) sample.scores(i, c) = c == sample.labels[static_cast<std::size_t>(i)] ? 0.5 : 0.0;
  const CalibrationFit fit = fit_logits(kind(), sample);
  EXPECT_TRUE(fit.converged);
  EXPECT_LE(fit.calibration.scale.cwiseAbs().maxCoeff(), 100.0);  // ten standard deviations of the prior
  EXPECT_LE(fit.calibration.bias.cwiseAbs().maxCoeff(), 100.0);
  if (kind() != CalibrationKind::kNone) {
    EXPECT_LT(fit.nll_after, 0.01);
  }
}

TEST_P(EveryCalibration, AClassWithoutExamplesStaysFinite) {
  Sample sample = noisy_sample(200, 4, 62);
  for (int& y : sample.labels) y = std::min(y, 2);
  const CalibrationFit fit = fit_logits(kind(), sample);
  EXPECT_TRUE(fit.converged);
  EXPECT_LE(fit.calibration.scale.cwiseAbs().maxCoeff(), 100.0);
  EXPECT_LE(fit.calibration.bias.cwiseAbs().maxCoeff(), 100.0);
  EXPECT_NEAR(fit.calibration.bias.sum(), 0.0, 1e-12);
}

TEST_P(EveryCalibration, AZeroForTheLabelDoesNotDominate) {
  Sample sample{.scores = MatrixXd(100, 2), .labels = {}, .weights = {}};
  for (Index i = 0; i < 100; ++i) {
    sample.scores.row(i) << 0.7, 0.3;
    sample.labels.push_back(i % 10 < 7 ? 0 : 1);
  }
  sample.scores.row(0) << 0.0, 1.0;
  sample.labels[0] = 0;
  const CalibrationFit fit = fit_calibration(kind(), sample.probs(), sample.labels);
  EXPECT_TRUE(fit.converged);
  EXPECT_TRUE(fit.calibration.scale.allFinite() && fit.calibration.bias.allFinite());
  // By hand: 69 of 0.7, 30 of 0.3 and one at the floor of 1e-12.
  EXPECT_NEAR(fit.nll_before, -(69.0 * std::log(0.7) + 30.0 * std::log(0.3) + std::log(1e-12)) / 100.0, 1e-9);
  EXPECT_LE(fit.nll_after, fit.nll_before);
}

TEST_P(EveryCalibration, NeverMakesTheLikelihoodWorse) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const CalibrationFit fit = fit_logits(kind(), noisy_sample(50, 3, 100 + seed));
    EXPECT_TRUE(fit.converged);
    EXPECT_LE(fit.nll_after, fit.nll_before + 1e-14);  // the penalty is 0 at the start
  }
}

TEST(FitCalibration, NoneChangesNothing) {
  const Sample sample = noisy_sample(100, 3, 63);
  const CalibrationFit fit = fit_logits(CalibrationKind::kNone, sample);
  EXPECT_EQ(fit.calibration.scale, VectorXd::Ones(3));
  EXPECT_EQ(fit.calibration.bias, VectorXd::Zero(3));
  EXPECT_EQ(fit.nll_before, fit.nll_after);
  EXPECT_EQ(fit.ece_before, fit.ece_after);
  EXPECT_EQ(fit.iterations, 0);
  EXPECT_TRUE(fit.converged);
}

TEST_P(EveryFittedCalibration, ConvergesWhateverTheUnitsOfTheLogits) {
  const Sample sample = noisy_sample(500, 3, 64);
  const CalibrationFit natural = fit_logits(kind(), sample);
  Sample huge = sample;
  huge.scores *= 1e6;
  const CalibrationFit fit = fit_logits(kind(), huge);
  EXPECT_TRUE(fit.converged);
  if (kind() >= CalibrationKind::kVector) {
    // The log softmax of huge logits is their distance to the largest one, not the same feature: no fixed answer, but
    // vector and matrix scaling can do all that one scale with biases can.
    EXPECT_LE(fit.nll_after, fit_logits(CalibrationKind::kBiasCorrected, huge).nll_after + 1e-4);
  } else {
    // The penalty differs, by at most 0.01 / (2 n) * |theta - 1|^2 < 1e-4.
    EXPECT_NEAR(fit.nll_after, natural.nll_after, 1e-4);
  }
}

TEST_P(EveryFittedCalibration, AStartFromPartOfTheRowsDoesNotShow) {
  // Enough rows for the fit to begin with every 17th, or matrix scaling with every 30th, and an order in which those
  // are all of one class.
  const Index step = kind() == CalibrationKind::kMatrix ? 30 : 17;
  const Index n = 60000;
  Sample sample = noisy_sample(n, 3, 65);
  std::vector<Index> of_first, of_others;
  for (Index i = 0; i < n; ++i) (sample.labels[static_cast<std::size_t>(i)] == 0 ? of_first : of_others).push_back(i);
  Sample ordered = sample;
  std::size_t first = 0, other = 0;
  for (Index i = 0; i < n; ++i) {
    const bool take_first = other == of_others.size() || (i % step == 0 && first < of_first.size());
    const Index from = take_first ? of_first[first++] : of_others[other++];
    ordered.scores.row(i) = sample.scores.row(from);
    ordered.labels[static_cast<std::size_t>(i)] = sample.labels[static_cast<std::size_t>(from)];
  }
  const CalibrationFit a = fit_logits(kind(), sample);
  const CalibrationFit b = fit_logits(kind(), ordered);
  EXPECT_TRUE(a.converged);
  EXPECT_TRUE(b.converged);
  // A random part starts within sqrt(17) standard errors, 0.1 at most; squaring the distance, Newton's method is at
  // 1e-8 of it in three steps or four.
  EXPECT_LE(a.iterations, kind() == CalibrationKind::kMatrix ? 20 : 4);  // of matrix scaling with a part's Hessian
  if (kind() == CalibrationKind::kBiasCorrected || kind() == CalibrationKind::kVector) {
    // The bias of the one class that the part has is worse for the whole than no calibration: as if there were no part.
    const CalibrationFit from_none =
        fit_calibration(kind(), ordered.logits(), ordered.labels, {}, kMatrixStrength, Calibration::identity(3));
    EXPECT_EQ(b.iterations, from_none.iterations);
    EXPECT_EQ(b.calibration.bias, from_none.calibration.bias);
  }
  // Both to a millionth of a standard error, which is below 0.1 for every parameter.
  EXPECT_LE((a.calibration.scale - b.calibration.scale).norm(), 1e-6);
  EXPECT_LE((a.calibration.bias - b.calibration.bias).norm(), 1e-6);
}

TEST_P(EveryFittedCalibration, ManyClassesAreFittedByConjugateGradientsToTheSameStandard) {
  if (kind() == CalibrationKind::kMatrix) return;  // is not for many classes
  const Index m = 420;
  const Sample sample = noisy_sample(600, m, 66);
  const CalibrationFit fit = fit_logits(kind(), sample);
  EXPECT_TRUE(fit.converged);
  const std::vector<Calibration> all = directions(kind(), m);
  for (std::size_t k = 0; k < all.size(); k += 97) {
    const double up = plain_objective(kind(), moved(fit.calibration, all[k], 1e-4), sample);
    const double down = plain_objective(kind(), moved(fit.calibration, all[k], -1e-4), sample);
    EXPECT_NEAR((up - down) / 2e-4, 0.0, 2e-7);
  }
  EXPECT_NEAR(fit.calibration.bias.sum(), 0.0, 1e-9);
}

TEST(FitCalibration, ConvergesWithAThousandClasses) {
  const CalibrationFit fit = fit_logits(CalibrationKind::kBiasCorrected, noisy_sample(300, 1000, 67));
  EXPECT_TRUE(fit.converged);
  EXPECT_LT(fit.nll_after, fit.nll_before);
}

TEST_P(EveryCalibration, FitsTheSameBitsTwice) {
  const Sample sample = noisy_sample(300, 3, 68);
  const CalibrationFit a = fit_logits(kind(), sample);
  const CalibrationFit b = fit_logits(kind(), sample);
  EXPECT_EQ(a.calibration.scale, b.calibration.scale);
  EXPECT_EQ(a.calibration.bias, b.calibration.bias);
}

TEST(FitCalibration, RefusesWhatDoesNotFit) {
  const Sample good = noisy_sample(10, 3, 69);
  const auto expect_error = [](const Scores& scores, const std::vector<int>& labels, const std::vector<double>& weights,
                               const char* message) {
    try {
      fit_calibration(CalibrationKind::kTemperature, scores, labels, weights);
      ADD_FAILURE() << "no error: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  expect_error(good.logits(), {0, 1}, {},
               "source labels has 2 labels for 10 rows; check that both are of the same rows");
  expect_error(good.logits(), std::vector<int>(10, 3), {}, "source labels, row 1: found label 3, expected 0 to 2");
  expect_error(good.logits(), good.labels, {1.0},
               "source weights has 1 weights for 10 rows; check that both are of the same rows");
}

TEST(ApplyCalibration, IsTheSoftmaxOfScaledAndShiftedLogScores) {
  // m = 2: f_0 / f_1 = exp(2 log 0.8 + 0.5 - (log 0.2 - 0.5)) = 0.64 e / 0.2.
  const Calibration calibration{.scale = Eigen::Vector2d(2.0, 1.0), .bias = Eigen::Vector2d(0.5, -0.5)};
  const MatrixXd probs{{0.8, 0.2}};
  const double odds = 0.64 * std::exp(1.0) / 0.2;
  const auto f = std::get<1>(apply_calibration(calibration, {probs}).values);
  EXPECT_NEAR(f(0, 0), odds / (1.0 + odds), 1e-15);
  EXPECT_NEAR(f(0, 1), 1.0 / (1.0 + odds), 1e-15);
}

TEST(ApplyCalibration, KeepsThePrecisionOfItsInputInEitherOrder) {
  const RowMajorMatrix<float> rows = noisy_sample(40, 3, 71).scores.cast<float>();
  const Eigen::MatrixXf columns = rows;
  const Calibration calibration{.scale = VectorXd::Constant(3, 0.5), .bias = Eigen::Vector3d(0.1, 0.2, -0.3)};
  const CalibratedProbabilities a = apply_calibration(calibration, {rows, /*logits=*/true});
  const CalibratedProbabilities b = apply_calibration(calibration, {columns, /*logits=*/true});
  ASSERT_TRUE(std::holds_alternative<RowMajorMatrix<float>>(a.values));
  EXPECT_EQ(std::get<0>(a.values), std::get<0>(b.values));
  EXPECT_EQ(a.view().rows(), 40);
  for (Index i = 0; i < 40; ++i) {
    const VectorXd expected = plain_softmax(calibration, rows.row(i).transpose().cast<double>());
    for (Index c = 0; c < 3; ++c) EXPECT_NEAR(a.view()(i, c), expected[c], 1e-7);  // float rounds at 6e-8
  }
}

TEST(ApplyCalibration, WritesABlockOfRowsIntoABuffer) {
  const Sample sample = noisy_sample(50, 3, 72);
  const Calibration calibration{.scale = VectorXd::Constant(3, 0.5), .bias = Eigen::Vector3d(0.1, 0.2, -0.3)};
  const auto whole = std::get<1>(apply_calibration(calibration, sample.logits()).values);
  RowMajorMatrix<double> block(7, 3);
  apply_calibration(calibration, sample.logits(), 20, block);
  EXPECT_LE((block - whole.middleRows(20, 7)).cwiseAbs().maxCoeff(), 1e-15);
  RowMajorMatrix<float> narrow(7, 3);
  apply_calibration(calibration, sample.logits(), 20, narrow);
  EXPECT_LE((narrow.cast<double>() - whole.middleRows(20, 7)).cwiseAbs().maxCoeff(), 1e-7);
}

TEST(ApplyCalibration, TheIdentityCopiesProbabilitiesBitForBit) {
  const MatrixXd probs{{0.0, 1.0}, {0.3, 0.7}, {0.25, 0.7501}};  // a zero, and a row that was rounded
  EXPECT_EQ(MatrixXd(std::get<1>(apply_calibration(Calibration::identity(2), {probs}).values)), probs);
}

TEST(ApplyCalibration, TheIdentityTurnsHugeLogitsIntoTheirSoftmax) {
  const MatrixXd logits{{1e308, -1e308}, {1000.0, 1001.0}, {-5e4, -5e4}};
  const auto f = std::get<1>(apply_calibration(Calibration::identity(2), {logits, /*logits=*/true}).values);
  EXPECT_NEAR(f(0, 0), 1.0, 1e-15);
  EXPECT_NEAR(f(0, 1), 0.0, 1e-15);
  EXPECT_NEAR(f(1, 0), 1.0 / (1.0 + std::exp(1.0)), 1e-14);
  EXPECT_NEAR(f(2, 1), 0.5, 1e-15);
}

TEST_P(EveryFittedCalibration, InfluenceIsHowRefittingMovesWithARowsWeight) {
  const Index m = 3;
  const Index n = 2000;
  Sample sample = noisy_sample(n, m, 81);
  sample.weights.assign(static_cast<std::size_t>(n), 1.0);
  const CalibrationFit fit = fit_logits(kind(), sample);
  const Influences all(fit, sample, 0, n);
  const auto& [d_scale, d_bias, d_mixing] = all;
  EXPECT_LE(d_bias.rowwise().sum().cwiseAbs().maxCoeff(), 1e-10);
  for (const Index i : {Index{0}, Index{5}, Index{1234}}) {
    double& w = sample.weights[static_cast<std::size_t>(i)];
    w = 1.5;
    const Calibration up = fit_logits(kind(), sample).calibration;
    w = 0.5;
    const Calibration down = fit_logits(kind(), sample).calibration;
    w = 1.0;
    // Differentiating the stationarity condition: d theta / d w_i = (influence_i - mean influence) / sum w. (The mean
    // is the pull of the penalty, 1e-5.) The difference is of second order, with a third derivative of about 1 / n^2.
    const VectorXd scale_change = (up.scale - down.scale) * static_cast<double>(n);
    const VectorXd bias_change = (up.bias - down.bias) * static_cast<double>(n);
    const double size = std::hypot(scale_change.norm(), bias_change.norm());
    EXPECT_LE(((d_scale.row(i) - d_scale.colwise().mean()).transpose() - scale_change).norm(), 1e-4 * size);
    EXPECT_LE(((d_bias.row(i) - d_bias.colwise().mean()).transpose() - bias_change).norm(), 1e-4 * size);
    if (kind() == CalibrationKind::kMatrix) {
      const RowMajorMatrix<double> change = (up.mixing - down.mixing) * static_cast<double>(n);
      EXPECT_LE(((d_mixing.row(i) - d_mixing.colwise().mean()).transpose() - change.reshaped<Eigen::RowMajor>()).norm(),
                1e-4 * size);
    }
  }
}

TEST_P(EveryFittedCalibration, InfluenceOfEveryLabelHasThatOfTheLabelItHas) {
  const Index m = 3, n = 700;
  const Sample sample = noisy_sample(n, m, 84);
  const CalibrationFit fit = fit_logits(kind(), sample);
  Rng rng(85);
  const auto random = [&](Index cols) -> Eigen::ArrayXXd {
    Eigen::ArrayXXd values(2, cols);
    for (double& x : values.reshaped()) x = rng.normal();
    return values;
  };
  const CalibrationResponse response{.scale = random(kind() == CalibrationKind::kVector ? m : 1),
                                     .bias = random(m),
                                     .mixing = random(kind() == CalibrationKind::kMatrix ? m * m : 0)};
  const CalibrationInfluence influence(fit, sample.logits(), sample.labels, sample.weights, response);
  const MatrixXd rows = influence.rows(0, n);
  const MatrixXd f = std::get<1>(apply_calibration(fit.calibration, sample.logits()).values);
  Index found = 0;
  influence.for_each_label(n, [&](Index i, Index y, const Eigen::RowVectorXd& of_label, double probability) {
    EXPECT_NEAR(probability, f(i, y), 1e-12);
    if (y != sample.labels[static_cast<std::size_t>(i)]) return;
    EXPECT_LE((of_label - rows.row(i)).norm(), 1e-10 * (1.0 + rows.norm())) << i;
    ++found;
  });
  EXPECT_EQ(found, n);
  std::vector<Index> spread;  // at most 300 of 700 rows: every third
  influence.for_each_label(300, [&](Index i, Index y, const Eigen::RowVectorXd&, double) {
    if (y == 0) spread.push_back(i);
  });
  ASSERT_EQ(spread.size(), 234U);
  EXPECT_EQ(spread.back(), 699);
}

TEST_P(EveryCalibration, InfluencesOfAFitAverageToThePullOfThePenalty) {
  const Index n = 1500;  // several blocks of rows
  Sample sample = noisy_sample(n, 4, 82);
  Rng rng(83);
  for (Index i = 0; i < n; ++i) sample.weights.push_back(0.5 + rng.uniform());
  const CalibrationFit fit = fit_logits(kind(), sample);
  const auto [d_scale, d_bias, d_mixing] = Influences(fit, sample, 0, n);
  const Eigen::Map<const Eigen::RowVectorXd> w(sample.weights.data(), n);
  // The gradient of the mean NLL is minus the penalty's, 0.01 / n |theta - 1| < 2e-5, over a curvature above 0.02.
  if (kind() != CalibrationKind::kMatrix) {  // whose penalty pulls harder
    EXPECT_LE((w * d_scale / w.sum()).norm(), 1e-3);
    EXPECT_LE((w * d_bias / w.sum()).norm(), 1e-3);
  }
  const auto [some_scale, some_bias, some_mixing] = Influences(fit, sample, 1020, 10);
  EXPECT_LE((some_mixing - d_mixing.middleRows(1020, 10)).norm(), 1e-12 * (1.0 + d_mixing.norm()));
  EXPECT_LE((some_scale - d_scale.middleRows(1020, 10)).norm(), 1e-12 * (1.0 + d_scale.norm()));
  EXPECT_LE((some_bias - d_bias.middleRows(1020, 10)).norm(), 1e-12 * (1.0 + d_bias.norm()));
  if (kind() == CalibrationKind::kNone) {
    EXPECT_EQ(d_scale.norm() + d_bias.norm() + d_mixing.norm(), 0.0);
  }
  if (kind() == CalibrationKind::kTemperature) {
    EXPECT_EQ(d_bias.norm(), 0.0);
  }
  if (kind() != CalibrationKind::kVector) {
    EXPECT_EQ(d_scale.col(0), d_scale.col(3));
  }
}

TEST_P(EveryFittedCalibration, InfluenceGivesTheSamplingVariance) {
  // The variance over samples of the fitted scale of class 0, against the sum of squared influences in each of them.
  // Over 300 samples a variance has a relative standard error of sqrt(2 / 300) = 0.08; 4 of them, and 1/n.
  const int samples = 300;
  const Index n = 300;
  double sum = 0.0, squares = 0.0, predicted = 0.0;
  for (int k = 0; k < samples; ++k) {
    const Sample sample = noisy_sample(n, 2, 1000 + static_cast<std::uint64_t>(k));
    const CalibrationFit fit = fit_logits(kind(), sample);
    const MatrixXd d_scale = Influences(fit, sample, 0, n).scale;
    sum += fit.calibration.scale[0];
    squares += fit.calibration.scale[0] * fit.calibration.scale[0];
    predicted += d_scale.col(0).squaredNorm() / static_cast<double>(n * n);
  }
  const double variance = (squares - sum * sum / samples) / (samples - 1);
  EXPECT_NEAR(predicted / samples / variance, 1.0, 0.36);
}

TEST(PredictionQuality, OfFourRowsByHand) {
  const MatrixXd probs{{0.9, 0.1}, {0.9, 0.1}, {0.4, 0.6}, {0.0, 1.0}};
  const std::vector<int> labels = {0, 1, 1, 1};
  const PredictionQuality quality = prediction_quality({.probs = probs, .labels = labels, .weights = {}});
  EXPECT_NEAR(quality.nll, -(std::log(0.9) + std::log(0.1) + std::log(0.6)) / 4.0, 1e-15);
  // Bins: {0.9, 0.9} with accuracy 1/2; {0.6} right; {1.0} right. (2 * 0.4 + 0.4 + 0) / 4.
  EXPECT_NEAR(quality.ece, 0.3, 1e-15);
  ASSERT_EQ(quality.bins.size(), 3u);
  EXPECT_EQ(quality.bins[0].rows, 1);
  EXPECT_NEAR(quality.bins[0].confidence, 0.6, 1e-15);
  EXPECT_NEAR(quality.bins[0].accuracy, 1.0, 1e-15);
  EXPECT_EQ(quality.bins[1].rows, 2);
  EXPECT_NEAR(quality.bins[1].share, 0.5, 1e-15);
  EXPECT_NEAR(quality.bins[1].accuracy, 0.5, 1e-15);
  const std::vector<double> weights = {3.0, 1.0, 0.0, 4.0};
  const PredictionQuality weighted = prediction_quality({.probs = probs, .labels = labels, .weights = weights});
  EXPECT_NEAR(weighted.nll, -(3.0 * std::log(0.9) + std::log(0.1)) / 8.0, 1e-15);
  EXPECT_NEAR(weighted.ece, (4.0 * 0.9 - 3.0) / 8.0, 1e-15);
  ASSERT_EQ(weighted.bins.size(), 2u);  // the row in the third weighs nothing
  EXPECT_NEAR(weighted.bins[0].accuracy, 0.75, 1e-15);
}

TEST(PredictionQuality, IsWhatAFitReports) {
  const Sample sample = noisy_sample(200, 3, 91);
  const CalibrationFit fit = fit_logits(CalibrationKind::kBiasCorrected, sample);
  const auto before = apply_calibration(Calibration::identity(3), sample.logits());
  const auto after = apply_calibration(fit.calibration, sample.logits());
  const PredictionQuality a = prediction_quality({before.view(), sample.labels, {}});
  const PredictionQuality b = prediction_quality({after.view(), sample.labels, {}});
  EXPECT_NEAR(a.nll, fit.nll_before, 1e-12);
  EXPECT_NEAR(a.ece, fit.ece_before, 1e-12);
  EXPECT_NEAR(b.nll, fit.nll_after, 1e-12);
  EXPECT_NEAR(b.ece, fit.ece_after, 1e-12);
  for (const auto& [bins, ece] : {std::pair{fit.bins_before, fit.ece_before}, {fit.bins_after, fit.ece_after}}) {
    double sum = 0.0;  // what the error is made of
    for (const ConfidenceBin& bin : bins) sum += bin.share * std::abs(bin.confidence - bin.accuracy);
    EXPECT_NEAR(sum, ece, 1e-12);
  }
}

}  // namespace
}  // namespace labelshift
