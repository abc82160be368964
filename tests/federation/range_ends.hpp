#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "labelshift/federation/setting_ranges.hpp"

namespace labelshift {

/// The next number, but at 0 one that every reader of numbers knows.
inline double next_below(double value) {
  return value == 0.0 ? -1e-300 : std::nextafter(value, -std::numeric_limits<double>::infinity());
}
inline double next_above(double value) {
  return -next_below(-value);
}

/// The first and the last number of a range.
inline std::vector<double> ends_of(const Range& range) {
  return {range.open_low ? next_above(range.low) : range.low, range.open_high ? next_below(range.high) : range.high};
}

/// The last number before a range, the first after it, and what is no finite number.
inline std::vector<double> just_outside(const Range& range) {
  if (range.whole) return {range.low - 1.0, range.high + 1.0};
  return {range.open_low ? range.low : next_below(range.low), range.open_high ? range.high : next_above(range.high),
          std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()};
}

}  // namespace labelshift
