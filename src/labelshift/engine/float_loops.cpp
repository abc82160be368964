#include "labelshift/engine/float_loops.hpp"

#include <bit>
#include <cassert>
#include <cstdint>

#include "labelshift/core/base/cpu.hpp"

namespace labelshift {
namespace {

LABELSHIFT_INLINE inline void divide(const double* __restrict from, std::size_t size, double by, float* __restrict to) {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<float>(from[i] / by);
}

/// Of a float or double that is not finite all bits of the exponent are set. Integers are compared, so that the loop
/// has no branch and no mode of floating point matters.
template <typename Bits, typename Value>
LABELSHIFT_INLINE inline bool finite(const Value* values, std::size_t size, Bits exponent) {
  Bits found = 0;
  for (std::size_t i = 0; i < size; ++i)
    found |= static_cast<Bits>((std::bit_cast<Bits>(values[i]) & exponent) == exponent);
  return found == 0;
}

}  // namespace

void divide_to_floats(std::span<const double> sum, double by, std::span<float> out) {
  assert(sum.size() == out.size());
  on_this_cpu([&]() LABELSHIFT_INLINE { divide(sum.data(), sum.size(), by, out.data()); });
}

bool all_finite(std::span<const float> values) {
  bool good = true;
  on_this_cpu([&]() LABELSHIFT_INLINE { good = finite<std::uint32_t>(values.data(), values.size(), 0x7f800000U); });
  return good;
}

bool all_finite(std::span<const double> values) {
  bool good = true;
  on_this_cpu(
      [&]() LABELSHIFT_INLINE { good = finite<std::uint64_t>(values.data(), values.size(), 0x7ff0000000000000U); });
  return good;
}

}  // namespace labelshift
