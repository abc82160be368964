#include "labelshift/report/mean_deviation.hpp"

#include <cmath>

namespace labelshift {

MeanDeviation mean_deviation(const std::vector<double>& values) {
  double sum = 0.0, squares = 0.0, count = 0.0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    count += 1.0;
  }
  if (count == 0.0) return {};
  MeanDeviation result{.mean = sum / count};
  for (const double value : values)
    if (!std::isnan(value)) squares += (value - result.mean) * (value - result.mean);
  if (count > 1.0) result.deviation = std::sqrt(squares / (count - 1.0));
  return result;
}

}  // namespace labelshift
