#pragma once

#include <limits>
#include <string>
#include <vector>

namespace labelshift {

enum class AxisScale { kLinear, kLog };

/// A value that is marked on an axis.
struct Tick {
  double value = 0.0;
  std::string base, exponent;   // of its label, "10" and "2" or "0.5" alone; both empty: a minor tick, without a label
  bool between_powers = false;  // of a log axis: its label gives way to those of powers of ten

  bool minor() const { return base.empty(); }
};

/// From data to picture, along one direction.
struct Axis {
  AxisScale scale = AxisScale::kLinear;
  double low = 0.0, high = 1.0;   // the data at the ends
  double start = 0.0, end = 1.0;  // the coordinates of the ends
  std::vector<Tick> ticks;

  /// The coordinate of a value; what is beyond an end of the axis goes to that end.
  double at(double value) const;
};

/// The smallest and largest of what was added.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return low > high; }
  void add(double value);
};

/// Whether `value` is a number that an axis can reach: NaN, infinities and what is next to them are not.
bool has_value(double value);

/// Whether `value` has a place on an axis of this scale: on a log axis, one above 0.
bool can_show(AxisScale scale, double value);

/// The first of 1, 2 and 5 times the powers of ten that is at least `least`, which is positive.
double nice_step(double least);

/// An axis with ticks, from 0 to 1 in the picture, that shows `range` and `padding` times its length more on each side;
/// of a linear one that is above 0. What is never negative has no linear axis below 0, one value stands in the middle
/// of its axis, and an empty range has an axis too.
Axis make_axis(AxisScale scale, ValueRange range, double padding);

}  // namespace labelshift
