#include "labelshift/report/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace labelshift {
namespace {

// Axes reach this far at most, so that a little more than their ends is still a finite number, and not 0.
constexpr double kLargest = 1e300;

std::string with_minus_sign(const std::string& number) {
  return number.starts_with('-') ? "\u2212" + number.substr(1) : number;
}

std::vector<Tick> linear_ticks(double low, double high) {
  const double step = nice_step((high - low) / 5.0);
  const auto order = [](double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); };
  const int largest = order(std::max(std::abs(low), std::abs(high)));
  const int exponent = largest > 4 || largest < -3 ? largest : 0;  // taken out of all labels alike
  const int decimals = std::clamp(exponent - order(step), 0, 12);
  std::vector<Tick> ticks;
  for (double i = std::ceil(low / step - 1e-9); i <= std::floor(high / step + 1e-9); ++i) {
    if (i == 0.0) {
      ticks.push_back({.value = 0.0, .base = "0", .exponent = ""});
      continue;
    }
    const std::string digits = with_minus_sign(fmt::format("{:.{}f}", i * step / std::pow(10.0, exponent), decimals));
    ticks.push_back({.value = i * step,
                     .base = exponent == 0 ? digits : digits + "\u00d710",
                     .exponent = exponent == 0 ? "" : with_minus_sign(fmt::format("{}", exponent))});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  const double decades = std::log10(high) - std::log10(low);
  const int every = 1 + static_cast<int>(decades / 7.0);  // labels are so many decades apart
  // 0.1 reads better than a power, but next to 0.00001 it does not.
  const bool plain = low >= 0.9e-2 && high <= 2e4;
  std::vector<Tick> ticks;
  int labelled = 0;
  for (int exponent = first; exponent <= last; ++exponent)
    for (int digit = 1; digit < 10; ++digit) {
      const double value = digit * std::pow(10.0, exponent);
      if (value < low * (1.0 - 1e-9) || value > high * (1.0 + 1e-9)) continue;
      const bool power = digit == 1 && exponent % every == 0;
      const bool between = decades < 2.05 && (digit == 2 || digit == 5);
      if (!power && every > 1) continue;
      Tick tick{.value = value, .base = "", .exponent = "", .between_powers = between};
      if (power || between) {
        ++labelled;
        tick.base = plain ? fmt::format("{:.{}f}", value, std::max(0, -exponent))
                          : (power ? "10" : fmt::format("{}\u00d710", digit));
        if (!plain) tick.exponent = with_minus_sign(fmt::format("{}", exponent));
      }
      ticks.push_back(tick);
    }
  return labelled >= 2 ? ticks : linear_ticks(low, high);  // less than a factor of about three
}

}  // namespace

double Axis::at(double value) const {
  const auto along = [this](double x) { return scale == AxisScale::kLog ? std::log10(x) : x; };
  const double share = (along(std::clamp(value, low, high)) - along(low)) / (along(high) - along(low));
  return start + (end - start) * share;
}

void ValueRange::add(double value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

bool has_value(double value) {
  return std::abs(value) <= kLargest;  // false for NaN
}

bool can_show(AxisScale scale, double value) {
  return has_value(value) && (scale == AxisScale::kLinear || value >= 1.0 / kLargest);
}

double nice_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1.0 - 1e-9)) return factor * power;
  return 10.0 * power;
}

Axis make_axis(AxisScale scale, ValueRange range, double padding) {
  Axis axis{.scale = scale};
  if (scale == AxisScale::kLog) {
    if (range.empty()) range = {.low = 0.1, .high = 1.0};
    const double decades = std::log10(range.high) - std::log10(range.low);
    const double stretch = decades < 0.02 ? 2.0 : std::pow(10.0, std::min(padding * decades, 1.0));  // 2: one value
    axis.low = range.low / stretch;
    axis.high = range.high * stretch;
    axis.ticks = log_ticks(axis.low, axis.high);
  } else {
    if (range.empty()) range = {.low = 0.0, .high = 1.0};
    double extra = padding * (range.high - range.low);
    if (extra <= 1e-9 * std::max(std::abs(range.high), std::abs(range.low)))
      extra = range.high == 0.0 ? 1.0 : 0.5 * std::abs(range.high);  // one value
    axis.low = range.low - extra;
    axis.high = range.high + extra;
    if (range.low >= 0.0 && axis.low < 0.0) axis.low = 0.0;  // what cannot be negative has no axis below 0
    axis.ticks = linear_ticks(axis.low, axis.high);
  }
  return axis;
}

}  // namespace labelshift
