#include "labelshift/engine/float_sums.hpp"

#include <cassert>

#include "labelshift/core/cpu.hpp"

namespace labelshift {
namespace {

LABELSHIFT_INLINE inline void add(const float* __restrict from, std::size_t size, double* __restrict to) {
  for (std::size_t i = 0; i < size; ++i) to[i] += static_cast<double>(from[i]);
}

LABELSHIFT_INLINE inline void divide(const double* __restrict from, std::size_t size, double by, float* __restrict to) {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<float>(from[i] / by);
}

}  // namespace

std::vector<double> as_doubles(std::span<const float> values) {
  return {values.begin(), values.end()};
}

void add_floats(std::span<const float> values, std::span<double> sum) {
  assert(values.size() == sum.size());
  on_this_cpu([&]() LABELSHIFT_INLINE { add(values.data(), values.size(), sum.data()); });
}

void divide_to_floats(std::span<const double> sum, double by, std::span<float> out) {
  assert(sum.size() == out.size());
  on_this_cpu([&]() LABELSHIFT_INLINE { divide(sum.data(), sum.size(), by, out.data()); });
}

}  // namespace labelshift
