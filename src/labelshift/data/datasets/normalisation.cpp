#include "labelshift/data/datasets/normalisation.hpp"

#include <algorithm>
#include <cmath>

namespace labelshift {

namespace {

/// Columns of a table, or channels of an image.
Index parts_of(const ExampleShape& shape) {
  return shape.channels == 1 && shape.height == 1 ? shape.width : shape.channels;
}

}  // namespace

ValueSums value_sums(const Dataset& data, std::span<const Index> rows) {
  const Index parts = parts_of(data.shape);
  const Index each = data.shape.size() / parts;  // neighbouring values that share a mean
  ValueSums sums{.count = static_cast<double>(rows.size()) * static_cast<double>(each),
                 .sum = std::vector<double>(parts),
                 .squares = std::vector<double>(parts)};
  std::visit(
      [&](const auto& values) {
        for (const Index row : rows)
          for (Index part = 0; part < parts; ++part) {
            const auto* x = values.data() + row * data.shape.size() + part * each;
            for (Index i = 0; i < each; ++i) {
              const double value = static_cast<double>(x[i]);
              sums.sum[part] += value;
              sums.squares[part] += value * value;
            }
          }
      },
      data.values);
  return sums;
}

Normalisation normalisation_of(const ValueSums& sums) {
  Normalisation result;
  for (std::size_t part = 0; part < sums.sum.size(); ++part) {
    const double mean = sums.sum[part] / sums.count;
    const double variance = sums.squares[part] / sums.count - mean * mean;
    // A column that never changes has a variance of rounding alone.
    const bool constant = variance <= 1e-12 * (sums.squares[part] / sums.count);
    result.mean.push_back(static_cast<float>(mean));
    result.scale.push_back(constant ? 1.0F : static_cast<float>(1.0 / std::sqrt(variance)));
  }
  return result;
}

double largest_square(const Dataset& data, std::span<const Index> rows, const Normalisation& normalisation) {
  const Index parts = parts_of(data.shape), each = data.shape.size() / parts;
  double largest = 0.0;
  std::visit(
      [&](const auto& values) {
        for (const Index row : rows) {
          double square = 0.0;
          for (Index i = 0; i < data.shape.size(); ++i) {
            const double value = static_cast<double>(values[row * data.shape.size() + i]);
            const double x = (value - normalisation.mean[i / each]) * normalisation.scale[i / each];
            square += x * x;
          }
          largest = std::max(largest, square);
        }
      },
      data.values);
  return largest;
}

Normalisation fit_normalisation(const Dataset& data, std::span<const Index> rows) {
  return normalisation_of(value_sums(data, rows));
}

}  // namespace labelshift
