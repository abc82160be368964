#include "labelshift/core/likelihood/softmax.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/base/vector_math.hpp"

namespace labelshift {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiniest = std::numeric_limits<double>::denorm_min();

/// How far apart two doubles are, in units in the last place of the second.
double ulps(double found, double expected) {
  if (std::isnan(expected)) return std::isnan(found) ? 0.0 : kInfinity;
  if (found == expected) return 0.0;
  const double unit = std::nextafter(std::abs(expected), kInfinity) - std::abs(expected);
  return std::abs(found - expected) / unit;
}

TEST(VectorExp, IsTheNearestDoubleOrNextToThatOfTheStandardLibraryEverywhere) {
  Rng rng(1);
  // It is within 1.1 ulp of the truth and the library within 0.6, so they are at most one double apart.
  for (int i = 0; i < 200'000; ++i) {
    const double u = rng.uniform();
    for (const double x : {-750.0 + 1470.0 * u, u - 0.5, -40.0 * u, -745.2 + 37.0 * u, 1e-6 * (u - 0.5)})
      ASSERT_LE(ulps(vector_exp(x), std::exp(x)), 1.0) << x;
  }
  for (const double x : {0.0, -0.0, kInfinity, -kInfinity, kNan, 709.782712893384, 709.782712893385, -745.13321910194,
                         -745.1332191019412, -708.4, 1e308, -1e308, kTiniest, -kTiniest})
    EXPECT_LE(ulps(vector_exp(x), std::exp(x)), 1.0) << x;
}

TEST(VectorLog, IsTheNearestDoubleOrNextToThatOfTheStandardLibraryEverywhere) {
  Rng rng(2);
  for (int i = 0; i < 200'000; ++i) {
    const double u = rng.uniform();
    const double any = std::bit_cast<double>(static_cast<std::uint64_t>(rng()));  // of any sign and exponent
    for (const double x : {any, u, 4.0 * u, 1.0 + 1e-3 * (u - 0.5), 0x1p-1022 * u})
      ASSERT_LE(ulps(vector_log(x), std::log(x)), 1.0) << x;
  }
  for (const double x : {0.0, -0.0, kInfinity, -kInfinity, kNan, -1.0, 1.0, kTiniest, -kTiniest, 0x1p-1022,
                         std::numeric_limits<double>::max(), std::nextafter(1.0, 0.0)})
    EXPECT_LE(ulps(vector_log(x), std::log(x)), 1.0) << x;
}

TEST(LogOfFloored, TakesTheLogarithmOfEveryEntryAndOfTheFloorBelowIt) {
  for (const Index count : {1, 7, 64, 101}) {  // what fills registers and what does not
    Rng rng(3);
    std::vector<double> x;
    for (Index i = 0; i < count; ++i) x.push_back(i % 3 == 0 ? 0.0 : rng.uniform());
    std::vector<double> logs = x;
    log_of_floored(1e-12, count, logs.data());
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_LE(ulps(logs[i], std::log(std::max(x[i], 1e-12))), 1.0) << count << " " << i;
  }
}

TEST(SoftmaxRows, AgreesWithTheTextbookRowByRow) {
  for (const Index rows : {1, 5, 8, 67}) {
    constexpr Index kCols = 7;
    Rng rng(4);
    std::vector<double> u;
    for (Index i = 0; i < rows * kCols; ++i) u.push_back(1000.0 + 40.0 * rng.uniform());
    std::vector<double> f = u;
    std::vector<double> log_normaliser(static_cast<std::size_t>(rows));
    softmax_rows(rows, kCols, f.data(), log_normaliser.data());
    for (Index i = 0; i < rows; ++i) {
      const auto at = [&](Index c) { return static_cast<std::size_t>(c * rows + i); };
      double sum = 0.0;
      for (Index c = 0; c < kCols; ++c) sum += std::exp(u[at(c)] - 1000.0);
      const double normaliser = 1000.0 + std::log(sum);
      EXPECT_NEAR(log_normaliser[static_cast<std::size_t>(i)], normaliser, 1e-12);  // a few ulps of 1000
      for (Index c = 0; c < kCols; ++c)  // relative: the rounding of u - top, at most 40, and of a few operations
        EXPECT_NEAR(f[at(c)] / (std::exp(u[at(c)] - 1000.0) / sum), 1.0, 1e-14) << rows << " " << i << " " << c;
    }
  }
}

TEST(SoftmaxRows, AndLogarithmsWriteNothingBeyondTheirEntries) {
  for (const Index rows : {1, 5, 8, 67}) {
    const auto n = static_cast<std::size_t>(rows);
    std::vector<double> f(3 * n + 1, 0.25), log_normaliser(n + 1, 7.0);
    softmax_rows(rows, 3, f.data(), log_normaliser.data());
    EXPECT_EQ(f.back(), 0.25) << rows;
    EXPECT_EQ(log_normaliser.back(), 7.0) << rows;
    log_of_floored(1e-12, 3 * rows, f.data());
    EXPECT_EQ(f.back(), 0.25) << rows;
  }
}

TEST(SoftmaxRows, HoldsWhereExponentsWouldOverflowAndVanish) {
  std::vector<double> f = {-1e100, 800.0, 800.0, -900.0};  // (2, 2): the rows (-1e100, 800) and (800, -900)
  std::vector<double> log_normaliser(2);
  softmax_rows(2, 2, f.data(), log_normaliser.data());
  EXPECT_EQ(f, (std::vector<double>{0.0, 1.0, 1.0, 0.0}));
  EXPECT_EQ(log_normaliser, (std::vector<double>{800.0, 800.0}));
}

}  // namespace
}  // namespace labelshift
