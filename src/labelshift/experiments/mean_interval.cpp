#include "labelshift/experiments/mean_interval.hpp"

#include <cmath>
#include <numeric>

#include "labelshift/core/base/distributions.hpp"

namespace labelshift {
namespace {

constexpr double kLevel = 0.95;

/// The t with P(|T| > t) = 1 - kLevel: T^2 has an F distribution.
double student_quantile(double degrees) {
  double low = 0.0;
  double high = 1e4;
  for (int i = 0; i < 100; ++i) {
    const double t = 0.5 * (low + high);
    (f_survival(t * t, 1.0, degrees) > 1.0 - kLevel ? low : high) = t;
  }
  return high;
}

}  // namespace

MeanInterval mean_interval(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return {mean, mean, mean};
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double half = student_quantile(n - 1.0) * std::sqrt(squares / (n - 1.0) / n);
  return {mean, mean - half, mean + half};
}

MeanInterval geometric_interval(std::vector<double> values) {
  for (double& value : values) value = std::log(value);
  const MeanInterval logs = mean_interval(values);
  return {std::exp(logs.mean), std::exp(logs.low), std::exp(logs.high)};
}

}  // namespace labelshift
