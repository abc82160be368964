#include "labelshift/core/inference/wilson.hpp"

#include <algorithm>
#include <cmath>

namespace labelshift {
namespace {

constexpr double kTwoSided95 = 1.959963984540054;  // quantile 0.975 of the normal law

/// The end on the side of z of those x with (x - q)^2 <= z^2 (fixed + rate x (1 - x)).
double end(double q, double fixed, double rate, double z) {
  const double scale = 1.0 + z * z * rate;
  const double middle = (q + 0.5 * z * z * rate) / scale;
  const double half = std::sqrt(std::max(middle * middle - (q * q - z * z * std::max(fixed, 0.0)) / scale, 0.0));
  return std::clamp(middle + std::copysign(half, z), 0.0, 1.0);
}

}  // namespace

WilsonInterval wilson_interval(double q, double rows, double z) {
  return {end(q, 0.0, 1.0 / rows, -z), end(q, 0.0, 1.0 / rows, z)};
}

WilsonInterval wilson_interval(double q, double rows) {
  return wilson_interval(q, rows, kTwoSided95);
}

WilsonInterval wilson_interval(double q, double variance, double of_source, double rows, double z) {
  const double counted = q * (1.0 - q);
  // A share of 0 would be blurred as well: like one of two standard errors.
  const double growth = of_source > 0.0 ? of_source / std::max(counted, 2.0 * std::sqrt(of_source)) : 0.0;
  return {end(q, variance - counted / rows, 1.0 / rows, -z),
          end(q, variance - counted * (1.0 / rows + growth), 1.0 / rows + growth, z)};
}

}  // namespace labelshift
