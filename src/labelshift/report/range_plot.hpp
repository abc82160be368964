#pragma once

#include <string>
#include <vector>

namespace labelshift {

/// A value and how far it varies to either side.
struct RangePoint {
  double value = 0.0;
  double deviation = 0.0;
};

/// One row: the worst, the average and the best of a group.
struct RangeRow {
  std::string name;
  RangePoint worst;
  RangePoint average;
  RangePoint best;
};

struct RangePlot {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::vector<RangeRow> rows;
};

/// An SVG document with one line a row on an axis from 0 to 1: a bar from the worst to the best, marks for these two
/// and the average, and whiskers of one deviation. Rows without values (NaN) have their name alone. Throws
/// Error{kInput} if there are no rows or a value is outside [0, 1].
std::string range_plot(const RangePlot& plot);

}  // namespace labelshift
