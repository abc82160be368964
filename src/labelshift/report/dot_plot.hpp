#pragma once

#include <string>
#include <vector>

#include "labelshift/report/axis.hpp"

namespace labelshift {

/// One kind of mark, with a value for each row.
struct DotSeries {
  std::string name;
  std::vector<double> values;  // (rows) NaN: no mark
  std::vector<double> low;     // (rows) ends of the intervals, NaN: none; or both empty
  std::vector<double> high;    // (rows)
  bool on_bar = true;          // whether the bar of a joined row reaches it
};

struct DotPlot {
  std::string title;
  std::string subtitle;  // wrapped
  std::string row_label = "row";
  std::string x_label;
  std::vector<std::string> rows;  // their names
  std::vector<DotSeries> series;
  /// Whether the marks of a row lie on one line, on a bar from the least value to the largest. Otherwise each series
  /// has a line of its own, so that marks of like values do not hide each other.
  bool joined = false;
  ValueRange shown = {.low = 0.0, .high = 0.0};  // the axis has at least this
};

/// An SVG document with a row for each name: a mark for each series, and a whisker where it has an interval. Marks
/// differ in colour and in shape. Names that are too long for the left edge stand above their rows; where even that is
/// too short they are shortened, but never two to the same text. A row without values has its name alone.
///
/// Throws Error{kInput} if there are no rows, or no series or more than 16, if the vectors of a series do not fit the
/// rows, or if an interval is the wrong way round.
std::string dot_plot(const DotPlot& plot);

}  // namespace labelshift
