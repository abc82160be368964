#include "labelshift/engine/float_sums.hpp"

#include <cassert>

namespace labelshift {

void add_floats(std::span<const float> values, std::span<double> sum) {
  assert(values.size() == sum.size());
  const float* __restrict from = values.data();
  double* __restrict to = sum.data();
  for (std::size_t i = 0; i < values.size(); ++i) to[i] += static_cast<double>(from[i]);
}

void divide_to_floats(std::span<const double> sum, double by, std::span<float> out) {
  assert(sum.size() == out.size());
  const double* __restrict from = sum.data();
  float* __restrict to = out.data();
  for (std::size_t i = 0; i < sum.size(); ++i) to[i] = static_cast<float>(from[i] / by);
}

}  // namespace labelshift
