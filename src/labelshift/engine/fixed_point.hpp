#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

// The numbers of phases 1 and 2 are added as integers of 2^-40 mod 2^64. Such a sum does not depend on its order, and
// masks that cancel can be added to it (engine/masking/), so every engine gets the same bits, masked or not.
//
// A word holds -2^23 to 2^23, and nothing would tell of a sum that wrapped around. So each of K nodes may add 2^23 / K
// at most; it refuses to send more. What does not fit that range is sent in other units, and what has no unit known
// beforehand, the values of somebody's table, as digits, of which every one fits.
//
// Nodes could tell their largest values instead and scale by them; but a largest value is that of one example. Sums of
// digits tell the sum, and besides it only how often digits carry over: a number from 0 to K - 1 for each digit.

namespace labelshift {

/// The most that each of `nodes` nodes may add to a sum.
double largest_summand(Index nodes);

/// The nearest word. Throws Error{kInput} for a number that is not finite, or above largest_summand().
std::uint64_t to_fixed(double value, Index nodes);
double from_fixed(std::uint64_t word);

std::vector<std::uint64_t> to_fixed(std::span<const double> values, Index nodes);
std::vector<double> from_fixed(std::span<const std::uint64_t> words);

/// Throws Error{kPeer} for a word that is above largest_summand().
void check_summand(std::uint64_t word, Index nodes);

/// A number in base 2^40, for sums of which nobody knows how large or small they will be. Its digits are given as
/// d / 2^40, so each is below 1 in size and exact in a word.
struct DigitForm {
  int unit = 0;    // the last digit counts multiples of 2^unit
  int digits = 0;  // numbers are below 2^(unit + 40 digits)
};
/// Of float32 values, of which the smallest is 2^-149 and all are below 2^128, and of their squares: any sum of 2^43
/// of them fits, and none loses a bit.
inline constexpr DigitForm kValueDigits{.unit = -149, .digits = 8};
inline constexpr DigitForm kSquareDigits{.unit = -298, .digits = 15};

/// (n digits) of (n) numbers, those of a number side by side. What is below 2^unit is dropped. Throws Error{kInput} for
/// a number that is not finite or does not fit.
Eigen::VectorXd to_digits(std::span<const double> values, const DigitForm& form);
/// (n), also of sums of digits: exact but for the last bits of a double, up to 2^13 summands.
std::vector<double> from_digits(const Eigen::VectorXd& digits, const DigitForm& form);

}  // namespace labelshift
