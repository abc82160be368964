#include "labelshift/data/normalisation.hpp"

#include <cmath>

namespace labelshift {

Normalisation fit_normalisation(const Dataset& data, std::span<const Index> rows) {
  const bool table = data.shape.channels == 1 && data.shape.height == 1;
  const Index parts = table ? data.shape.width : data.shape.channels;
  const Index each = data.shape.size() / parts;  // neighbouring values that share a mean
  std::vector<double> sum(parts), squares(parts);
  std::visit(
      [&](const auto& values) {
        for (const Index row : rows)
          for (Index part = 0; part < parts; ++part) {
            const auto* x = values.data() + row * data.shape.size() + part * each;
            for (Index i = 0; i < each; ++i) {
              const double value = static_cast<double>(x[i]);
              sum[part] += value;
              squares[part] += value * value;
            }
          }
      },
      data.values);
  Normalisation result;
  const double count = static_cast<double>(rows.size()) * static_cast<double>(each);
  for (Index part = 0; part < parts; ++part) {
    const double mean = sum[part] / count;
    const double variance = squares[part] / count - mean * mean;
    // A column that never changes has a variance of rounding alone.
    const bool constant = variance <= 1e-12 * (squares[part] / count);
    result.mean.push_back(static_cast<float>(mean));
    result.scale.push_back(constant ? 1.0F : static_cast<float>(1.0 / std::sqrt(variance)));
  }
  return result;
}

}  // namespace labelshift
