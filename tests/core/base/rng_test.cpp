#include "labelshift/core/base/rng.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace labelshift {
namespace {

TEST(Rng, GivesTheSameBitsForTheSameSeedAndStreamOnly) {
  Rng a(1, 2), b(1, 2), other_seed(2, 2), other_stream(1, 3), swapped(2, 1);
  std::set<std::uint64_t> first = {other_seed(), other_stream(), swapped()};
  const std::uint64_t value = a();
  EXPECT_EQ(value, b());
  first.insert(value);
  EXPECT_EQ(first.size(), 4u);
}

TEST(Rng, IsUniform) {
  Rng rng(3);
  std::array<int, 10> counts{};
  std::array<int, 7> below{};
  double sum = 0.0;
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++counts[static_cast<std::size_t>(10.0 * u)];
    ++below[static_cast<std::size_t>(rng.below(7))];
  }
  // Five standard errors: sqrt(1 / 12 / n) of the mean, sqrt(n p) of the counts.
  EXPECT_NEAR(sum / kDraws, 0.5, 5.0 * std::sqrt(1.0 / 12.0 / kDraws));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 10, 5.0 * std::sqrt(kDraws / 10.0));
  for (const int count : below) EXPECT_NEAR(count, kDraws / 7, 5.0 * std::sqrt(kDraws / 7.0));
  EXPECT_EQ(rng.below(1), 0);
}

TEST(Rng, HasTheMomentsOfNormalAndGamma) {
  Rng rng(4);
  constexpr int kDraws = 100'000;
  double mean = 0.0, square = 0.0, fourth = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    ASSERT_TRUE(std::isfinite(x));
    mean += x / kDraws;
    square += x * x / kDraws;
    fourth += x * x * x * x / kDraws;
  }
  // Five standard errors: the variances of x, x^2 and x^4 are 1, 2 and 96.
  EXPECT_NEAR(mean, 0.0, 5.0 / std::sqrt(kDraws));
  EXPECT_NEAR(square, 1.0, 5.0 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(fourth, 3.0, 5.0 * std::sqrt(96.0 / kDraws));
  for (const double shape : {0.1, 0.7, 1.0, 4.0}) {
    double gamma_mean = 0.0, gamma_square = 0.0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = rng.gamma(shape);
      ASSERT_GE(x, 0.0);
      gamma_mean += x / kDraws;
      gamma_square += (x - shape) * (x - shape) / kDraws;
    }
    // Mean and variance are `shape`; the fourth central moment is 3 shape^2 + 6 shape.
    EXPECT_NEAR(gamma_mean, shape, 5.0 * std::sqrt(shape / kDraws));
    EXPECT_NEAR(gamma_square, shape, 5.0 * std::sqrt((2.0 * shape * shape + 6.0 * shape) / kDraws));
  }
}

}  // namespace
}  // namespace labelshift
