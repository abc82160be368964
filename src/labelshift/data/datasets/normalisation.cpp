#include "labelshift/data/datasets/normalisation.hpp"

#include <cmath>

namespace labelshift {

ValueSums value_sums(const Dataset& data, std::span<const Index> rows) {
  const bool table = data.shape.channels == 1 && data.shape.height == 1;
  const Index parts = table ? data.shape.width : data.shape.channels;
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

Normalisation fit_normalisation(const Dataset& data, std::span<const Index> rows) {
  return normalisation_of(value_sums(data, rows));
}

}  // namespace labelshift
