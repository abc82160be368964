#include "labelshift/data/datasets/shifts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(DirichletPrior, IsAlwaysADistribution) {
  Rng rng(1);
  for (const double alpha : {1e-6, 1e-3, 0.1, 1.0, 10.0, 1e6})
    for (int draw = 0; draw < 200; ++draw) {
      const Eigen::VectorXd prior = dirichlet_prior(10, alpha, rng);
      ASSERT_TRUE((prior.array() >= 0.0).all()) << alpha;
      ASSERT_NEAR(prior.sum(), 1.0, 1e-12) << alpha;
    }
}

TEST(DirichletPrior, PutsAllMassInOneClassForTheSmallestAlpha) {
  // Minus the logarithms of the m = 10 gammas are exponential with mean 1 / alpha, so the chance that the largest two
  // are within log(100) of each other is about 9 * 4.6e-6 a draw.
  Rng rng(1);
  for (int draw = 0; draw < 200; ++draw) EXPECT_GT(dirichlet_prior(10, 1e-6, rng).maxCoeff(), 0.99);
}

TEST(DirichletPrior, HasTheVarianceThatAlphaGivesIt) {
  // Var of an entry is (m - 1) / (m^2 (m alpha + 1)), here of m = 4 classes. The mean of n = 20000 squared deviations
  // of entries in [0, 1] has a standard error of at most sqrt(Var / n), as (p - 1/4)^2 < 1; 4 of them. For
  // alpha = 10 entries are nearly normal and their squares have a relative one of sqrt(2 / n) = 1%: 10% is enough too.
  constexpr int kDraws = 20000;
  for (const double alpha : {0.1, 1.0, 10.0}) {
    Rng rng(2);
    const double variance = 3.0 / (16.0 * (4.0 * alpha + 1.0));
    const double tolerance = 4.0 * std::sqrt(variance / kDraws);
    Eigen::Array4d sum = Eigen::Array4d::Zero(), squares = Eigen::Array4d::Zero();
    for (int draw = 0; draw < kDraws; ++draw) {
      const Eigen::Array4d prior = dirichlet_prior(4, alpha, rng).array();
      sum += prior;
      squares += (prior - 0.25).square();
    }
    for (int c = 0; c < 4; ++c) {
      EXPECT_NEAR(sum[c] / kDraws, 0.25, tolerance) << alpha;
      EXPECT_NEAR(squares[c] / kDraws, variance, std::min(tolerance, 0.1 * variance)) << alpha;
    }
  }
}

TEST(DirichletPrior, RefusesParametersThatGiveNoDistribution) {
  Rng rng(1);
  expect_error(ErrorKind::kUsage, "Dirichlet prior: 0 classes, expected at least 1",
               [&] { dirichlet_prior(0, 1.0, rng); });
  expect_error(ErrorKind::kUsage, "Dirichlet prior: alpha is 0, expected 1e-06 to 1e+06",
               [&] { dirichlet_prior(3, 0.0, rng); });
  expect_error(ErrorKind::kUsage, "Dirichlet prior: alpha is nan, expected 1e-06 to 1e+06",
               [&] { dirichlet_prior(3, kNan, rng); });
  expect_error(ErrorKind::kUsage, "Dirichlet prior: alpha is inf, expected 1e-06 to 1e+06",
               [&] { dirichlet_prior(3, std::numeric_limits<double>::infinity(), rng); });
}

TEST(ExplicitPrior, IsWhatWasWrittenUpToRounding) {
  const Eigen::VectorXd prior = explicit_prior(std::vector<double>{0.333, 0.333, 0.333});
  EXPECT_TRUE(prior.isApprox(Eigen::Vector3d::Constant(1.0 / 3.0), 1e-15));
}

TEST(ExplicitPrior, RefusesWhatIsNoDistribution) {
  expect_error(ErrorKind::kInput, "target prior: class 1 has the share -0.5, expected 0 to 1", [] {
    explicit_prior(std::vector<double>{1.5, -0.5});
  });
  expect_error(ErrorKind::kInput, "target prior: class 0 has the share nan, expected 0 to 1", [] {
    explicit_prior(std::vector<double>{kNan, 1.0});
  });
  expect_error(ErrorKind::kInput, "target prior: the shares of 2 classes sum to 0.9, expected 1", [] {
    explicit_prior(std::vector<double>{0.5, 0.4});
  });
  expect_error(ErrorKind::kInput, "target prior: the shares of 0 classes sum to 0, expected 1",
               [] { explicit_prior({}); });
}

TEST(NodePrior, IsTheRowOfTheTable) {
  const NodeDistributions test = find_node_table("paper-100").test_distributions();
  Eigen::VectorXd expected = Eigen::VectorXd::Constant(10, 0.05 / 9.0);
  expected[9 - 3] = 0.95;
  EXPECT_TRUE(node_prior(test, 37).isApprox(expected, 1e-14));
}

TEST(NodePrior, RefusesANodeThatIsNotThere) {
  const NodeDistributions test = find_node_table("paper-5").test_distributions();
  expect_error(ErrorKind::kUsage, "node 5 asked for, expected 0 to 4", [&] { node_prior(test, 5); });
  expect_error(ErrorKind::kUsage, "node -1 asked for, expected 0 to 4", [&] { node_prior(test, -1); });
}

// Class 0 in rows 10 and 11, class 1 in none, class 2 in row 30.
const std::vector<std::vector<Index>> kRows = {{10, 11}, {}, {30}};
const Eigen::Vector3d kSource(0.5, 0.25, 0.25);

TEST(DrawShifted, FollowsTheTargetPriorAndDrawsRowsEvenly) {
  // A binomial share of n = 40000 draws has a standard deviation of at most 0.5 / 200 = 0.0025; 4 of them.
  Rng rng(3);
  const Index n = 40000;
  const ShiftedSample sample = draw_shifted(kRows, Eigen::Vector3d(0.8, 0.0, 0.2), kSource, n, rng);
  const auto share = [&](Index row) {
    return static_cast<double>(std::count(sample.rows.begin(), sample.rows.end(), row)) / n;
  };
  ASSERT_EQ(static_cast<Index>(sample.rows.size()), n);
  EXPECT_NEAR(share(10), 0.4, 0.01);
  EXPECT_NEAR(share(11), 0.4, 0.01);
  EXPECT_NEAR(share(30), 0.2, 0.01);
}

TEST(DrawShifted, CountsWhatItDrewAndTakesTheRatioOfThat) {
  Rng rng(4);
  const ShiftedSample sample = draw_shifted(kRows, Eigen::Vector3d(0.5, 0.0, 0.5), kSource, 100, rng);
  const Index of_last = std::count(sample.rows.begin(), sample.rows.end(), 30);
  EXPECT_NE(of_last, 50);  // else this would not tell drawn counts from the prior
  EXPECT_THAT(sample.class_counts, ElementsAre(100 - of_last, 0, of_last));
  const double share = static_cast<double>(of_last) / 100.0;
  EXPECT_TRUE(sample.ratio.isApprox(Eigen::Vector3d((1.0 - share) / 0.5, 0.0, share / 0.25), 1e-14));
}

TEST(DrawShifted, DoesNotMindTheScaleOfTheTargetPrior) {
  Rng one(5), other(5);
  EXPECT_EQ(draw_shifted(kRows, Eigen::Vector3d(0.5, 0.0, 0.5), kSource, 50, one).rows,
            draw_shifted(kRows, Eigen::Vector3d(2.0, 0.0, 2.0), kSource, 50, other).rows);
}

TEST(DrawShifted, GivesASmallerSampleAsTheStartOfALargerOne) {
  Rng one(6), other(6);
  const Eigen::Vector3d prior(0.5, 0.0, 0.5);
  const auto few = draw_shifted(kRows, prior, kSource, 20, one).rows;
  auto many = draw_shifted(kRows, prior, kSource, 60, other).rows;
  many.resize(20);
  EXPECT_EQ(few, many);
}

TEST(DrawShifted, WorksWithEveryDirichletPrior) {
  Rng rng(7);
  const std::vector<std::vector<Index>> rows = {{0}, {1}, {2}, {3}};
  for (int trial = 0; trial < 1000; ++trial) {
    const auto sample = draw_shifted(rows, dirichlet_prior(4, 0.1, rng), Eigen::VectorXd::Constant(4, 0.25), 20, rng);
    ASSERT_NEAR(sample.ratio.mean(), 1.0, 1e-12);  // the source prior is uniform
  }
}

TEST(DrawShifted, RefusesAClassItShouldDrawButCannot) {
  Rng rng(1);
  expect_error(ErrorKind::kInput, "shifted sample: class 1 has no rows to draw from, but a target prior of 0.1",
               [&] { draw_shifted(kRows, Eigen::Vector3d(0.8, 0.1, 0.1), kSource, 10, rng); });
}

TEST(DrawShifted, RefusesPriorsThatAreNone) {
  Rng rng(1);
  expect_error(ErrorKind::kInput, "shifted sample: the target prior of class 0 is nan, expected 0 or more",
               [&] { draw_shifted(kRows, Eigen::Vector3d(kNan, 0.0, 1.0), kSource, 10, rng); });
  expect_error(ErrorKind::kInput, "shifted sample: the target prior of class 2 is -1, expected 0 or more",
               [&] { draw_shifted(kRows, Eigen::Vector3d(2.0, 0.0, -1.0), kSource, 10, rng); });
  expect_error(ErrorKind::kInput, "shifted sample: the target prior sums to 0, expected 1",
               [&] { draw_shifted(kRows, Eigen::Vector3d::Zero(), kSource, 10, rng); });
  expect_error(
      ErrorKind::kInput,
      "shifted sample: the source prior of class 2 is 0, expected more than 0, since a ratio divides by it",
      [&] { draw_shifted(kRows, kSource.cwiseProduct(Eigen::Vector3d(1, 0, 1)), Eigen::Vector3d(1, 1, 0), 10, rng); });
  expect_error(ErrorKind::kInput,
               "shifted sample: the target prior has 2 entries and the source prior 3, expected one for each of the 3 "
               "classes",
               [&] { draw_shifted(kRows, Eigen::Vector2d(0.5, 0.5), kSource, 10, rng); });
}

TEST(DrawShifted, RefusesSizesThatCannotBe) {
  Rng rng(1);
  const Eigen::Vector3d prior(0.5, 0.0, 0.5);
  expect_error(ErrorKind::kUsage, "shifted sample: 0 rows asked for, expected 1 to 100000000",
               [&] { draw_shifted(kRows, prior, kSource, 0, rng); });
  expect_error(ErrorKind::kUsage, "shifted sample: 100000001 rows asked for, expected 1 to 100000000",
               [&] { draw_shifted(kRows, prior, kSource, 100'000'001, rng); });
}

}  // namespace
}  // namespace labelshift
