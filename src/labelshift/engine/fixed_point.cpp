#include "labelshift/engine/fixed_point.hpp"

#include <fmt/format.h>

#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

constexpr int kBits = 40;
constexpr double kOne = static_cast<double>(std::int64_t{1} << kBits);

/// In units of 2^-40.
std::int64_t most(Index nodes) {
  assert(nodes > 0);
  return std::numeric_limits<std::int64_t>::max() / nodes;
}

void check_finite(double value) {
  if (!std::isfinite(value))
    throw Error(
        ErrorKind::kInput,
        "a number of its answer is not finite; use a smaller learning rate, or look for extreme values in its data");
}

}  // namespace

double largest_summand(Index nodes) {
  return static_cast<double>(most(nodes)) / kOne;
}

std::uint64_t to_fixed(double value, Index nodes) {
  check_finite(value);
  if (std::abs(value) * kOne < 0x1p63)
    if (const std::int64_t word = std::llround(value * kOne); std::abs(word) <= most(nodes))
      return std::bit_cast<std::uint64_t>(word);
  throw Error(ErrorKind::kInput,
              fmt::format("a number of its answer is {:.6g}, and each of {} nodes can add {:.6g} to a sum at most; "
                          "train the predictor with a smaller learning rate, or run with fewer nodes or examples",
                          value, nodes, largest_summand(nodes)));
}

double from_fixed(std::uint64_t word) {
  return static_cast<double>(std::bit_cast<std::int64_t>(word)) / kOne;
}

std::vector<std::uint64_t> to_fixed(std::span<const double> values, Index nodes) {
  std::vector<std::uint64_t> words;
  words.reserve(values.size());
  for (const double value : values) words.push_back(to_fixed(value, nodes));
  return words;
}

std::vector<double> from_fixed(std::span<const std::uint64_t> words) {
  std::vector<double> values;
  values.reserve(words.size());
  for (const std::uint64_t word : words) values.push_back(from_fixed(word));
  return values;
}

void check_summand(std::uint64_t word, Index nodes) {
  const auto value = std::bit_cast<std::int64_t>(word);
  if (value > most(nodes) || value < -most(nodes))
    throw Error(ErrorKind::kPeer,
                fmt::format("it adds {:.6g} to a sum, and each of {} nodes can add {:.6g} at most; does it run this "
                            "version?",
                            from_fixed(word), nodes, largest_summand(nodes)));
}

Eigen::VectorXd to_digits(std::span<const double> values, const DigitForm& form) {
  Eigen::VectorXd digits(std::ssize(values) * form.digits);
  for (Index n = 0; n < std::ssize(values); ++n) {
    check_finite(values[n]);
    double rest = std::abs(values[n]);
    if (rest >= std::ldexp(1.0, form.unit + kBits * form.digits))
      throw Error(ErrorKind::kInput,
                  fmt::format("a sum over its data is {:.6g}, which is too large to be added to those of others; use "
                              "other units, or fewer examples",
                              values[n]));
    for (int i = form.digits - 1; i >= 0; --i) {
      const double digit = std::floor(std::ldexp(rest, -(form.unit + kBits * i)));
      rest -= std::ldexp(digit, form.unit + kBits * i);
      digits[n * form.digits + i] = std::copysign(digit / kOne, values[n]);
    }
  }
  return digits;
}

std::vector<double> from_digits(const Eigen::VectorXd& digits, const DigitForm& form) {
  assert(digits.size() % form.digits == 0);
  std::vector<double> values(static_cast<std::size_t>(digits.size() / form.digits));
  std::vector<std::int64_t> whole(static_cast<std::size_t>(form.digits));
  for (Index n = 0; n < std::ssize(values); ++n) {
    // Digits of a sum are larger than their base and of both signs. Carried to the nearest, those that are left are at
    // most half the base, so the first that is not 0 has the sign and the size of the number, and nothing cancels.
    std::int64_t carry = 0;
    for (int i = 0; i < form.digits; ++i) {
      std::int64_t digit = std::llround(digits[n * form.digits + i] * kOne) + carry;
      carry = 0;
      if (i + 1 < form.digits) {
        carry = (digit + (std::int64_t{1} << (kBits - 1))) >> kBits;
        digit -= carry << kBits;
      }
      whole[i] = digit;
    }
    for (int i = form.digits - 1; i >= 0; --i)
      values[n] += std::ldexp(static_cast<double>(whole[i]), form.unit + kBits * i);
  }
  return values;
}

}  // namespace labelshift
