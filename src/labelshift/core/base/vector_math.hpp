#pragma once

#include <cstdint>

#include "labelshift/core/base/cpu.hpp"

/// exp and log without calls, branches or tables, so that a loop over them in on_this_cpu() is compiled to the
/// registers of each instruction set. Both are within 1.1 ulp over the whole range of doubles, denormal ones, zero,
/// infinities and NaN included. GCC needs -O3 -fno-trapping-math for that, see src/labelshift/CMakeLists.txt.
namespace labelshift {

namespace vector_math {

// Adding 1.5 * 2^52 rounds a double to a whole number, and leaves that number in the low bits.
inline constexpr double kRound = 0x1.8p52;
inline constexpr double kLn2High = 0x1.62e42feep-1;  // ends in zeros, so that its products with exponents are exact
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// 2^n for a whole number with -1022 <= n <= 1023.
LABELSHIFT_INLINE inline double power_of_two(double n) {
  return __builtin_bit_cast(double, (__builtin_bit_cast(std::uint64_t, n + kRound) + 1023) << 52);
}

}  // namespace vector_math

LABELSHIFT_INLINE inline double vector_exp(double x) {
  using namespace vector_math;
  x = x > 710.0 ? 710.0 : x;    // overflows to infinity
  x = x < -746.0 ? -746.0 : x;  // rounds to 0; NaN stays what it is
  // exp(x) = 2^n exp(r) with |r| <= log(2) / 2, where Taylor's 14 terms are enough.
  const double n = (x * 0x1.71547652b82fep0 + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double low = (1.0 / 2 + r * (1.0 / 6)) + r2 * (1.0 / 24 + r * (1.0 / 120));
  const double middle = (1.0 / 720 + r * (1.0 / 5040)) + r2 * (1.0 / 40320 + r * (1.0 / 362880));
  const double high = (1.0 / 3628800 + r * (1.0 / 39916800)) + r2 * (1.0 / 479001600 + r * (1.0 / 6227020800));
  const double y = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)));
  const double half = (0.5 * n + kRound) - kRound;  // 2^n itself may be beyond the normal numbers
  return y * power_of_two(half) * power_of_two(n - half);
}

/// After fdlibm's e_log.c (Sun Microsystems): x = 2^k (1 + f), s = f / (2 + f), log(1 + f) = 2 s + s^3 R(s^2).
LABELSHIFT_INLINE inline double vector_log(double x) {
  using namespace vector_math;
  constexpr double kInfinity = __builtin_inf();
  constexpr std::uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;  // the bits of sqrt(1/2), where 1 + f starts
  const bool denormal = x < 0x1p-1022;
  const double normal = denormal ? x * 0x1p54 : x;
  const auto bits = __builtin_bit_cast(std::uint64_t, normal);
  const std::uint64_t above = bits - kRootOfHalf;
  const std::uint64_t exponent = (above + (std::uint64_t{1024} << 52)) >> 52;  // k + 1024
  const double k =
      __builtin_bit_cast(double, exponent | 0x4330000000000000) - (denormal ? 0x1p52 + 1078 : 0x1p52 + 1024);
  const double f = __builtin_bit_cast(double, bits - (above & 0xfff0000000000000)) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  double y = k * kLn2High - ((half_square - (s * (half_square + (even + odd)) + k * kLn2Low)) - f);
  y = x < kInfinity ? y : x;  // infinity and NaN
  y = x > 0.0 ? y : (x == 0.0 ? -kInfinity : (x < 0.0 ? __builtin_nan("") : x));
  return y;
}

}  // namespace labelshift
