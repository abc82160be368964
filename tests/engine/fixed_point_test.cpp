#include "labelshift/engine/fixed_point.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "labelshift/core/base/rng.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

constexpr double kHalfUnit = 0x1p-41;

TEST(FixedPoint, RoundsToTheNearestMultipleOfTwoToTheMinusForty) {
  EXPECT_EQ(to_fixed(0.0, 3), 0U);
  EXPECT_EQ(to_fixed(1.0, 3), std::uint64_t{1} << 40);
  EXPECT_EQ(to_fixed(-1.0, 3), -(std::uint64_t{1} << 40));
  EXPECT_EQ(to_fixed(0x1p-40, 3), 1U);
  EXPECT_EQ(to_fixed(0.4 * 0x1p-40, 3), 0U);
  EXPECT_EQ(to_fixed(-0.6 * 0x1p-40, 3), ~std::uint64_t{0});
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    const double value = 1e6 * rng.normal();
    EXPECT_NEAR(from_fixed(to_fixed(value, 1)), value, kHalfUnit);
  }
}

TEST(FixedPoint, AddsWithAnErrorOfHalfAUnitANode) {
  Rng rng(2);
  for (const int nodes : {3, 50, 1000}) {
    std::uint64_t sum = 0;
    long double exact = 0.0L;
    for (int k = 0; k < nodes; ++k) {
      const double share = rng.uniform();
      sum += to_fixed(share, nodes);
      exact += share;
    }
    EXPECT_LE(std::abs(static_cast<long double>(from_fixed(sum)) - exact), nodes * kHalfUnit) << nodes;
  }
}

TEST(FixedPoint, LetsNoSumOfAllNodesWrapAround) {
  for (const Index nodes : {1, 2, 3, 7, 1000}) {
    const double most = largest_summand(nodes);
    EXPECT_NEAR(most * static_cast<double>(nodes), 0x1p23, 1e-6);
    // The largest double that is let through, and the first that is not.
    double last = most;
    while (last * 0x1p40 * static_cast<double>(nodes) >= 0x1p63) last = std::nextafter(last, 0.0);
    for (const double sign : {1.0, -1.0}) {
      const auto word = static_cast<std::int64_t>(to_fixed(sign * last, nodes));
      const __int128 sum = static_cast<__int128>(word) * nodes;
      EXPECT_LE(sum, std::numeric_limits<std::int64_t>::max()) << nodes;
      EXPECT_GE(sum, std::numeric_limits<std::int64_t>::min()) << nodes;
      EXPECT_THROW(to_fixed(sign * std::nextafter(most, 1e9) * (1.0 + 1e-15), nodes), Error) << nodes;
    }
  }
  expect_error(ErrorKind::kInput,
               "a number of its answer is 4e+06, and each of 3 nodes can add 2.7962e+06 to a sum at most; train the "
               "predictor with a smaller learning rate, or run with fewer nodes or examples",
               [] { to_fixed(4e6, 3); });
  for (const double huge : {1e300, -1e300, 0x1p63, 0x1p23}) EXPECT_THROW(to_fixed(huge, 1), Error) << huge;
  for (const double bad : std::vector<double>{std::nan(""), INFINITY, -INFINITY})
    expect_error(ErrorKind::kInput,
                 "a number of its answer is not finite; use a smaller learning rate, or look for extreme values in its "
                 "data",
                 [&] { to_fixed(bad, 3); });
}

TEST(FixedPoint, ChecksASummandOfAPeer) {
  check_summand(to_fixed(-2.7e6, 3), 3);
  for (const double value : {2.8e6, -2.8e6}) EXPECT_THROW(check_summand(to_fixed(value, 1), 3), Error) << value;
  EXPECT_THROW(check_summand(std::uint64_t{1} << 63, 1), Error);
}

/// The sum of numbers as nodes and a coordinator take it: digits, words, their sum, and back.
double summed(const std::vector<double>& summands, const DigitForm& form) {
  std::vector<std::uint64_t> sum(static_cast<std::size_t>(form.digits));
  for (const double value : summands) {
    const Eigen::VectorXd digits = to_digits(std::vector{value}, form);
    EXPECT_LT(digits.lpNorm<Eigen::Infinity>(), 1.0);
    for (int i = 0; i < form.digits; ++i) sum[i] += to_fixed(digits[i], std::ssize(summands));
  }
  const std::vector<double> found = from_fixed(sum);
  return from_digits(Eigen::Map<const Eigen::VectorXd>(found.data(), std::ssize(found)), form).at(0);
}

TEST(FixedPoint, AddsDigitsOfNumbersOfAnyUnitWithoutAnError) {
  Rng rng(3);
  for (const DigitForm& form : {kValueDigits, kSquareDigits})
    for (const double unit : {1e-40, 1e-20, 1e-8, 1.0, 255.0, 1e9, 1e20, 1e38})
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<double> values;  // such as sums of floats: multiples of the form's unit
        for (int k = 0; k < 7; ++k)
          values.push_back(static_cast<double>(static_cast<float>(unit * rng.normal())) * 3.0);
        const long double exact = std::accumulate(values.begin(), values.end(), 0.0L);
        EXPECT_NEAR(summed(values, form) / static_cast<double>(exact), 1.0, 4e-16) << unit;
      }
  const double least = 0x1p-149, most = 0x1.fffffep127;
  EXPECT_EQ(summed({least, least, least}, kValueDigits), 3.0 * least);
  EXPECT_EQ(summed({0x1p42 * most, 0x1p42 * most}, kValueDigits), 0x1p43 * most);
  EXPECT_EQ(summed({least * least, -0.0, least * least}, kSquareDigits), 2.0 * least * least);
  EXPECT_EQ(summed({0x1p43 * most * most}, kSquareDigits), 0x1p43 * most * most);
  EXPECT_EQ(summed({0.0, 0.0}, kValueDigits), 0.0);
}

TEST(FixedPoint, CancelsDigitsExactly) {
  EXPECT_EQ(summed({1e30, 1.0, -1e30}, kValueDigits), 1.0);  // doubles would give 0
  EXPECT_EQ(summed({0x1p40, -(0x1p40 - 1.0)}, kValueDigits), 1.0);
  EXPECT_EQ(summed({0x1p80, -(0x1p80 - 0x1p28)}, kValueDigits), 0x1p28);
  EXPECT_EQ(summed({0x1p-149 - 0x1p-109, 0x1p-109}, kValueDigits), 0x1p-149);
  EXPECT_EQ(summed({-3.25, 1.0, -0.75}, kValueDigits), -3.0);
}

TEST(FixedPoint, RefusesNumbersThatHaveNoDigits) {
  expect_error(
      ErrorKind::kInput,
      "a sum over its data is 2.99316e+51, which is too large to be added to those of others; use other units, "
      "or fewer examples",
      [] { to_digits(std::vector{0x1p171}, kValueDigits); });
  to_digits(std::vector{std::nextafter(0x1p171, 0.0)}, kValueDigits);
  EXPECT_THROW(to_digits(std::vector{1.0, std::nan("")}, kValueDigits), Error);
  EXPECT_THROW(to_digits(std::vector<double>{-INFINITY}, kSquareDigits), Error);
}

}  // namespace
}  // namespace labelshift
