#include "labelshift/core/inference/wilson.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "labelshift/core/base/distributions.hpp"

namespace labelshift {
namespace {

constexpr double kRounding = 1e-15;  // a few roundings of numbers below 1, which no cancellation magnifies here

TEST(WilsonInterval, IsTheOneWorkedOutByHand) {
  // q = 1/2, n = 12, z = 2: the centre is (1/2 + 4/24) / (1 + 4/12) = 1/2, and half the width is
  // 2 / (4/3) sqrt(1/48 + 4/576) = 3/2 sqrt(1/36) = 1/4.
  const WilsonInterval even = wilson_interval(0.5, 12.0, 2.0);
  EXPECT_NEAR(even.low, 0.25, kRounding);
  EXPECT_NEAR(even.high, 0.75, kRounding);
  // q = 1, n = 4, z = 2: the centre is (1 + 1/2) / 2 = 3/4, and half the width is sqrt(4/64) = 1/4.
  const WilsonInterval all = wilson_interval(1.0, 4.0, 2.0);
  EXPECT_NEAR(all.low, 0.5, kRounding);
  EXPECT_NEAR(all.high, 1.0, kRounding);
  const WilsonInterval none = wilson_interval(0.0, 4.0, 2.0);
  EXPECT_NEAR(none.low, 0.0, kRounding);
  EXPECT_NEAR(none.high, 0.5, kRounding);
}

TEST(WilsonInterval, LeavesOutOneInTwentyUnlessAskedForMore) {
  const double z = -normal_quantile(0.025);
  for (const double q : {0.0, 0.3, 1.0}) {
    // Quantiles are right to some roundings; an end at 0 or 1 differs by their root.
    EXPECT_NEAR(wilson_interval(q, 100.0).low, wilson_interval(q, 100.0, z).low, 1e-8) << q;
    EXPECT_NEAR(wilson_interval(q, 100.0).high, wilson_interval(q, 100.0, z).high, 1e-8) << q;
  }
}

TEST(WilsonInterval, OfACountedVarianceIsWilsonsOwn) {
  for (const double q : {0.0, 0.01, 0.3, 0.9, 1.0}) {
    const WilsonInterval plain = wilson_interval(q, 50.0, 1.96);
    const WilsonInterval of_variance = wilson_interval(q, q * (1.0 - q) / 50.0, 0.0, 50.0, 1.96);
    // The variances differ by their rounding, and an end at 0 or 1 by its root.
    EXPECT_NEAR(of_variance.low, plain.low, 1e-8) << q;
    EXPECT_NEAR(of_variance.high, plain.high, 1e-8) << q;
  }
}

TEST(WilsonInterval, OfAVarianceThatDoesNotDependOnTheShareIsWalds) {
  // 1/2 -+ 2 sqrt(0.01).
  const WilsonInterval wald = wilson_interval(0.5, 0.01, 0.0, std::numeric_limits<double>::infinity(), 2.0);
  EXPECT_NEAR(wald.low, 0.3, kRounding);
  EXPECT_NEAR(wald.high, 0.7, kRounding);
}

TEST(WilsonInterval, GrowsUpwardsAloneWithTheSourcesPart) {
  const double variance = 0.2 * 0.8 / 100.0 + 0.004;
  const WilsonInterval fixed = wilson_interval(0.2, variance, 0.0, 100.0, 1.96);
  const WilsonInterval growing = wilson_interval(0.2, variance, 0.004, 100.0, 1.96);
  EXPECT_EQ(growing.low, fixed.low);
  // x solves (x - q)^2 = z^2 x (1 - x) (1 / n + 0.004 / (q (1 - q))): Wilson's of 1 / (1 / 100 + 0.025) rows.
  EXPECT_NEAR(growing.high, wilson_interval(0.2, 1.0 / 0.035, 1.96).high, 1e-14);
  EXPECT_GT(growing.high, fixed.high);
}

}  // namespace
}  // namespace labelshift
