#include "labelshift/core/inference/shift_hypothesis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "labelshift/core/base/distributions.hpp"
#include "labelshift/core/base/error.hpp"
#include "tests/core/fashion_mnist_example.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_rows(Index rows, Index cols, Rng& rng) {
  MatrixXd result(rows, cols);
  for (Index i = 0; i < result.size(); ++i) result.data()[i] = rng.gamma(0.5);
  return result.array().colwise() / result.rowwise().sum().array();
}

Moments moments_of(const MatrixView& rows, std::span<const double> weights = {}) {
  Moments result;
  result.add(rows, weights);
  return result;
}

void expect_same(const Moments& found, const Moments& expected, double tolerance) {
  EXPECT_NEAR(found.weight, expected.weight, tolerance * expected.weight);
  EXPECT_NEAR(found.squared_weight, expected.squared_weight, tolerance * expected.squared_weight);
  EXPECT_LE((found.mean - expected.mean).norm(), tolerance);
  EXPECT_LE((found.covariance() - expected.covariance()).norm(), tolerance);
  EXPECT_LE((found.squares - expected.squares).norm(), tolerance * expected.weight);
  EXPECT_LE((found.cubes - expected.cubes).norm(), tolerance * expected.weight);
}

TEST(Moments, AreThoseOfTheDefinition) {
  Rng rng(1);
  const Index n = 1300;  // more than two blocks
  const MatrixXd x = random_rows(n, 3, rng);
  std::vector<double> weights(static_cast<std::size_t>(n));
  for (double& w : weights) w = rng.gamma(1.0);
  const Eigen::Map<const VectorXd> w(weights.data(), n);

  const Moments found = moments_of(x, weights);
  const VectorXd mean = x.transpose() * w / w.sum();
  const MatrixXd centred = (x.rowwise() - mean.transpose()).array().colwise() * w.array();  // w (x - mean)
  EXPECT_NEAR(found.effective_rows(), w.sum() * w.sum() / w.squaredNorm(), 1e-9);
  EXPECT_LE((found.mean - mean).norm(), 1e-13);
  EXPECT_LE((found.squares - x.cwiseAbs2().transpose() * w).norm(), 1e-12 * w.sum());
  EXPECT_LE((found.cubes - x.array().cube().matrix().transpose() * w).norm(), 1e-12 * w.sum());
  // Covariance of the mean: sum w^2 (x - mean)(x - mean)^T / (sum w)^2.
  const MatrixXd expected = centred.transpose() * centred / (w.sum() * w.sum());
  EXPECT_LE((found.covariance() / found.effective_rows() - expected).norm(), 1e-13 * expected.norm());
}

TEST(Moments, DoNotDependOnBatchesStorageOrOrderOfTheMatrix) {
  Rng rng(2);
  const MatrixXd x = random_rows(700, 4, rng);
  const Moments whole = moments_of(x);
  Moments batches;
  for (Index first = 0; first < 700; first += 7) batches.add(MatrixView(x).middle_rows(first, 7));
  expect_same(batches, whole, 1e-13);
  const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> floats = x.cast<float>();
  expect_same(moments_of(floats), whole, 1e-7);  // 700 roundings of 6e-8 average out
}

TEST(Moments, KeepTheirDigitsFarFromZero) {
  // Textbook sums of squares would lose 1e16 of the 1e-16 available; the spread itself needs only that of x, 1e-8.
  const MatrixXd x = (MatrixXd(4, 1) << 1e8 + 1, 1e8 + 2, 1e8 + 3, 1e8 + 6).finished();
  EXPECT_NEAR(moments_of(x).covariance()(0, 0), 3.5, 1e-7);
}

TEST(Moments, ForgetByScalingEveryWeight) {
  Rng rng(3);
  const MatrixXd old_rows = random_rows(30, 3, rng);
  const MatrixXd new_rows = random_rows(50, 3, rng);
  Moments found = moments_of(old_rows);
  found.scale(0.25);
  found.add(new_rows);
  MatrixXd all(80, 3);
  all << old_rows, new_rows;
  std::vector<double> weights(80, 1.0);
  std::fill_n(weights.begin(), 30, 0.25);
  expect_same(found, moments_of(all, weights), 1e-14);
}

TEST(Moments, RefuseRowsOfAnotherWidth) {
  Moments moments = moments_of(MatrixXd(MatrixXd::Constant(2, 3, 1.0 / 3)));
  try {
    moments.add(MatrixXd(MatrixXd::Constant(2, 2, 0.5)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(),
                 "found rows with 2 columns after rows with 3; expected one column a class in all of them");
  }
}

TEST(NoShiftTest, IsTheSquaredTTestForTwoClasses) {
  const MatrixXd source = (MatrixXd(4, 2) << 0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.6, 0.4).finished();
  const MatrixXd target = (MatrixXd(3, 2) << 0.5, 0.5, 0.7, 0.3, 0.9, 0.1).finished();
  const HypothesisTest test = no_shift_test(moments_of(source), moments_of(target));
  // Means 0.3 and 0.7, sums of squares 0.14 and 0.08, pooled variance 0.22 / 5: t^2 = 0.16 / (0.044 (1/4 + 1/3)).
  const double t_squared = 0.16 / (0.044 * (1.0 / 4 + 1.0 / 3));
  EXPECT_NEAR(test.statistic, t_squared, 1e-12);
  EXPECT_EQ(test.degrees_of_freedom, 1.0);
  EXPECT_NEAR(test.p_value, f_survival(t_squared, 1, 5), 1e-12);
}

TEST(NoShiftTestExact, IsTheOneSampleTTestForTwoClasses) {
  const MatrixXd target = (MatrixXd(4, 2) << 0.5, 0.5, 0.7, 0.3, 0.7, 0.3, 0.9, 0.1).finished();
  const HypothesisTest test = no_shift_test_exact(Eigen::Vector2d(0.4, 0.6), moments_of(target));
  EXPECT_NEAR(test.statistic, 13.5, 1e-12);  // 0.3^2 / (0.08 / 3 / 4)
  EXPECT_NEAR(test.p_value, f_survival(13.5, 1, 3), 1e-12);
}

TEST(NoShiftTest, IsOneWithoutRowsToCompare) {
  const Moments some = moments_of((MatrixXd(2, 2) << 0.1, 0.9, 0.2, 0.8).finished());
  EXPECT_EQ(no_shift_test(some, Moments{}).p_value, 1.0);
  EXPECT_EQ(no_shift_test(Moments{}, some).p_value, 1.0);
  EXPECT_EQ(no_shift_test(some, some).degrees_of_freedom, 0.0);  // four rows are too few for a direction
  const Moments constant = moments_of(MatrixXd(MatrixXd::Constant(50, 2, 0.5)));
  EXPECT_EQ(no_shift_test(constant, constant).p_value, 1.0);
}

TEST(NoShiftTest, SeesNothingInTheRoundingOfOneConstantPrediction) {
  const Eigen::MatrixXd row = Eigen::RowVector3d(0.7, 0.2, 0.1);
  Moments source, target;
  source.add(Eigen::MatrixXd(row.replicate(800, 1)));
  target.add(Eigen::MatrixXd(row.replicate(601, 1)));
  EXPECT_EQ(no_shift_test(source, target).p_value, 1.0);
}

TEST(NoShiftTest, IsCertainWhereConstantPredictionsDiffer) {
  // Nothing varies within either sample, so the covariance within is zero; it must not be mistaken for no evidence.
  const Moments first = moments_of((MatrixXd(1, 2) << 1.0, 0.0).finished().replicate(40, 1).eval());
  const Moments second = moments_of((MatrixXd(1, 2) << 0.0, 1.0).finished().replicate(40, 1).eval());
  const HypothesisTest test = no_shift_test(first, second);
  EXPECT_LE(test.p_value, 1e-100);
  EXPECT_TRUE(std::isfinite(test.statistic));
}

TEST(NoShiftTest, DoesNotDependOnTheOrderOfClasses) {
  Rng rng(4);
  const MatrixXd source = random_rows(60, 4, rng);
  const MatrixXd target = random_rows(40, 4, rng);
  const HypothesisTest test = no_shift_test(moments_of(source), moments_of(target));
  const HypothesisTest reversed =
      no_shift_test(moments_of(source.rowwise().reverse().eval()), moments_of(target.rowwise().reverse().eval()));
  EXPECT_NEAR(test.statistic, reversed.statistic, 1e-10 * test.statistic);
  EXPECT_EQ(test.degrees_of_freedom, 3.0);
}

TEST(NoShiftTest, KeepsFewerDirectionsThanAThirdOfTheRows) {
  Rng rng(5);
  const HypothesisTest test = no_shift_test(moments_of(random_rows(12, 30, rng)), moments_of(random_rows(8, 30, rng)));
  EXPECT_EQ(test.degrees_of_freedom, 6.0);  // (12 + 8 - 2) / 3
  EXPECT_GT(test.p_value, 1e-4);
}

/// Four rows (1/2 +- x, ..., 1/100 +- y), whose three entries sum to 1, 25 times.
Moments spread_along_two_directions(double x, double y) {
  MatrixXd rows(4, 3);
  for (Index i = 0; i < 4; ++i) {
    rows(i, 0) = 0.5 + (i % 2 == 0 ? x : -x);
    rows(i, 2) = 0.01 + (i < 2 ? y : -y);
    rows(i, 1) = 1.0 - rows(i, 0) - rows(i, 2);
  }
  return moments_of(rows.replicate(25, 1).eval());
}

TEST(NoShiftTest, LeavesOutDirectionsThatHardlyVary) {
  // The direction (1, -1, 0) has a variance of 2 x^2, and what is orthogonal to it and to (1, 1, 1), that is (1, 1,
  // -2), one of 3/2 y^2. Two samples of n rows have a scatter of 2 n times that.
  const auto directions = [](double x, double y) {
    const Moments rows = spread_along_two_directions(x, y);
    return no_shift_test(rows, rows).degrees_of_freedom;
  };
  // One of less than 1e-10 of the largest is left out: at x = 0.4 one of y below sqrt(1e-10 0.32 / 1.5) = 4.62e-6.
  EXPECT_EQ(directions(0.4, 3.5e-6), 1.0);
  EXPECT_EQ(directions(0.4, 6e-6), 2.0);
  // So is one of less than 1e-12 (n / 2 + 2 n), the rounding of float32: of x below sqrt(1e-12 2.5 / 4) = 7.9e-7.
  EXPECT_EQ(directions(6e-7, 0.0), 0.0);
  EXPECT_EQ(directions(1.05e-6, 0.0), 1.0);
}

GaussianProblem miscalibrated(Index classes) {
  return {.source_prior = VectorXd::Constant(classes, 1.0 / static_cast<double>(classes)),
          .sharpness = 3.0,
          .bias = VectorXd::LinSpaced(classes, -1.0, 1.0)};
}

// Rejections at 5 % in 400 repetitions are binomial with standard deviation 4.36: 4 of them around 20 is 3 to 37.
constexpr int kRepetitions = 400;
constexpr int kFewest = 3;
constexpr int kMost = 37;

TEST(NoShiftTest, HoldsItsLevelOnAMiscalibratedPredictor) {
  for (const Index classes : {3, 10}) {
    const GaussianProblem problem = miscalibrated(classes);
    Rng rng(6, static_cast<std::uint64_t>(classes));
    int rejections = 0;
    for (int k = 0; k < kRepetitions; ++k) {
      const Moments source = moments_of(problem.sample(500, problem.source_prior, rng).probs);
      const Moments target = moments_of(problem.sample(300, problem.source_prior, rng).probs);
      rejections += no_shift_test(source, target).p_value < 0.05;
    }
    EXPECT_GE(rejections, kFewest) << classes;
    EXPECT_LE(rejections, kMost) << classes;
  }
}

TEST(NoShiftTest, HoldsItsLevelAtAMillionTargetRowsWhereTheExactOneCannot) {
  // The mean of n target rows is normal for n = 1e6, so it is drawn as such, with the moments of a large sample.
  const GaussianProblem problem = miscalibrated(10);
  Rng rng(7);
  const Moments population = moments_of(problem.sample(200'000, problem.source_prior, rng).probs);
  const double n = 1e6;
  const MatrixXd covariance = population.covariance();
  const MatrixXd pool = problem.sample(20'000, problem.source_prior, rng).probs.rowwise() - population.mean.transpose();
  int rejections = 0;
  int exact_rejections = 0;
  for (int k = 0; k < kRepetitions; ++k) {
    const Moments source = moments_of(problem.sample(2000, problem.source_prior, rng).probs);
    VectorXd deviation = VectorXd::Zero(10);  // of variance covariance / n: a sum of 100 rows is normal enough
    for (int i = 0; i < 100; ++i) deviation += pool.row(rng.below(pool.rows())).transpose();
    const VectorXd mean = population.mean + deviation / std::sqrt(100.0 * n);
    const Moments target{
        .weight = n, .mean = mean, .squared_weight = n, .squared_mean = mean, .scatter = n * covariance};
    rejections += no_shift_test(source, target).p_value < 0.05;
    exact_rejections += no_shift_test_exact(problem.source_prior, target).p_value < 0.05;
  }
  EXPECT_GE(rejections, kFewest);
  EXPECT_LE(rejections, kMost);
  EXPECT_EQ(exact_rejections, kRepetitions);  // as its documentation warns
}

TEST(NoShiftTestExact, HoldsItsLevelOnExactPosteriors) {
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.2, 0.3, 0.5)};
  Rng rng(8);
  int rejections = 0;
  for (int k = 0; k < kRepetitions; ++k)
    rejections +=
        no_shift_test_exact(problem.source_prior, moments_of(problem.sample(500, problem.source_prior, rng).probs))
            .p_value < 0.05;
  EXPECT_GE(rejections, kFewest);
  EXPECT_LE(rejections, kMost);
}

TEST(NoShiftTest, HoldsItsLevelUnderForgettingAndUnequalWeights) {
  const GaussianProblem problem = miscalibrated(3);
  Rng rng(9);
  int rejections = 0;
  for (int k = 0; k < kRepetitions; ++k) {
    const MatrixXd rows = problem.sample(600, problem.source_prior, rng).probs;
    std::vector<double> weights(600);
    for (double& w : weights) w = rng.gamma(1.0);
    Moments target;
    for (int batch = 0; batch < 20; ++batch) {
      target.scale(0.9);
      target.add(problem.sample(50, problem.source_prior, rng).probs);
    }
    rejections += no_shift_test(moments_of(rows, weights), target).p_value < 0.05;
  }
  EXPECT_GE(rejections, kFewest);
  EXPECT_LE(rejections, kMost);
}

/// Rows of certain predictions: class c in a share rates[c] of them, drawn at random.
MatrixXd certain_rows(Index rows, const VectorXd& rates, Rng& rng) {
  MatrixXd result = MatrixXd::Zero(rows, rates.size());
  for (Index i = 0; i < rows; ++i) {
    Index label = 0;
    for (double left = rng.uniform(); label + 1 < rates.size() && left >= rates[label]; ++label) left -= rates[label];
    result(i, label) = 1.0;
  }
  return result;
}

TEST(NoShiftTest, HoldsItsLevelWhereTheSmallerSampleHasFewPredictionsOfAClass) {
  // Hotelling's alone rejects 8 to 11 % of these at a rate of 0.01 or less. In 1,000 repetitions 5 % have a standard
  // deviation of 6.9, and four of them above 50 are 77.
  for (const Index classes : {3, 10})
    for (const double rate : {0.002, 0.01, 0.05}) {
      VectorXd rates = VectorXd::Constant(classes, (1.0 - rate) / static_cast<double>(classes - 1));
      rates[0] = rate;
      Rng rng(12, static_cast<std::uint64_t>(classes));
      // One large sample stands for all: its noise is a hundredth of the small one's.
      const Moments large = moments_of(certain_rows(20'000, rates, rng));
      for (const Index rows : {50, 200}) {
        int rejections = 0;
        int reversed = 0;
        for (int k = 0; k < 1000; ++k) {
          const Moments small = moments_of(certain_rows(rows, rates, rng));
          rejections += no_shift_test(small, large).p_value < 0.05;
          reversed += no_shift_test(large, small).p_value < 0.05;
        }
        EXPECT_LE(rejections, 77) << classes << " classes, rate " << rate << ", " << rows << " rows";
        EXPECT_EQ(rejections, reversed) << "it does not matter which sample is the source";
      }
    }
}

TEST(NoShiftTest, SeesAClassThatWasRareBecomeCommon) {
  Rng rng(13);
  const Moments source = moments_of(certain_rows(20'000, Eigen::Vector3d(0.002, 0.5, 0.498), rng));
  const Moments target = moments_of(certain_rows(50, Eigen::Vector3d(0.3, 0.35, 0.35), rng));
  // About 15 of 50 rows where 0.14 are to be expected: 0.14^15 / 15! = 1e-25.
  EXPECT_LE(no_shift_test(source, target).p_value, 1e-10);
  EXPECT_LE(no_shift_test(target, source).p_value, 1e-10);
}

TEST(NoShiftTest, ComparesCommonClassesBesideARareOne) {
  // By hand: class 0 is not in the small sample, where 50 * 8 / 20,050 = 0.02 are to be expected. Classes 1 and 2 then
  // are one direction, compared by the t-test of class 1 or 2, at four fifths of the level.
  MatrixXd large = MatrixXd::Zero(20'000, 3);
  large.col(0).head(8).setOnes();
  large.col(1).segment(8, 10'000).setOnes();
  large.col(2).tail(9'992).setOnes();
  MatrixXd small = MatrixXd::Zero(50, 3);
  small.col(1).head(33).setOnes();
  small.col(2).tail(17).setOnes();
  const HypothesisTest test = no_shift_test(moments_of(large), moments_of(small));
  const double difference = 33.0 / 50 - 0.5;
  const double variance = (20'000 * 0.25 + 50 * 0.66 * 0.34) / 20'048;
  const double t_squared = difference * difference / (variance * (1.0 / 50 + 1.0 / 20'000));
  EXPECT_EQ(test.degrees_of_freedom, 1.0);
  EXPECT_NEAR(test.statistic, t_squared, 1e-3);
  EXPECT_NEAR(test.p_value, f_survival(t_squared, 1, 20'048) / 0.8, 1e-5);
}

TEST(NoShiftTest, HasThePowerOfTheExactTestWhenTheSourceIsLarge) {
  // With a source twenty times the target the variance of the difference is 5 % larger than the exact test's, so on
  // exact posteriors the power may fall behind by little: at non-centrality near 7.7 with 2 degrees of freedom, 5 % of
  // it is 0.03 of power. Twice the standard deviation of a difference of paired rejections, below 0.025, adds 0.05.
  const GaussianProblem problem{.source_prior = VectorXd::Constant(3, 1.0 / 3)};
  const Eigen::Vector3d shifted(0.43, 0.30, 0.27);
  Rng rng(10);
  double power = 0.0;
  double exact_power = 0.0;
  for (int k = 0; k < kRepetitions; ++k) {
    const Moments source = moments_of(problem.sample(6000, problem.source_prior, rng).probs);
    const Moments target = moments_of(problem.sample(300, shifted, rng).probs);
    power += (no_shift_test(source, target).p_value < 0.05) / static_cast<double>(kRepetitions);
    exact_power +=
        (no_shift_test_exact(problem.source_prior, target).p_value < 0.05) / static_cast<double>(kRepetitions);
  }
  EXPECT_GT(exact_power, 0.5);
  EXPECT_LT(exact_power, 0.95);
  EXPECT_GT(power, exact_power - 0.08);
}

TEST(NoShiftTest, HoldsItsLevelOnHalvesOfARealClassifiersRows) {
  const FashionMnistExample example = read_fashion_mnist_example();
  const Index half = example.probs.rows() / 2;
  Rng rng(11);
  int rejections = 0;
  for (int k = 0; k < kRepetitions; ++k) {
    const FashionMnistExample rows = shuffled(example, rng);
    const Moments source = moments_of(MatrixView(rows.probs).middle_rows(0, half));
    const Moments target = moments_of(MatrixView(rows.probs).middle_rows(half, half));
    rejections += no_shift_test(source, target).p_value < 0.05;
  }
  EXPECT_GE(rejections, kFewest);
  EXPECT_LE(rejections, kMost);
}

}  // namespace
}  // namespace labelshift
