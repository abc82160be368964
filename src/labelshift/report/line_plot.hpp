#pragma once

#include <string>
#include <vector>

#include "labelshift/report/axis.hpp"

namespace labelshift {

struct LineSeries {
  std::string name;          // series of one name look alike in all panels and have one entry in the legend
  std::vector<double> x;     // (n) finite, increasing unless they are points alone, positive on a log axis
  std::vector<double> y;     // (n) NaN or infinite: no point, and the line is broken
  std::vector<double> low;   // (n) ends of the error band, or both empty: no band
  std::vector<double> high;  // (n)
  bool joined = true;        // false: points alone, each with a whisker in place of the band
};

struct LinePanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  AxisScale x_scale = AxisScale::kLog;
  AxisScale y_scale = AxisScale::kLog;
  std::vector<LineSeries> series;
};

struct LinePlot {
  std::string title;
  std::string subtitle;  // what the points and bands are; wrapped
  std::vector<LinePanel> panels;
  std::vector<std::string> names = {};  // of series, which have the first styles in this order; others follow
  bool for_page = false;                // panels below each other, each as wide as a phone
};

/// An SVG document with the panels side by side, four to a row, under one legend. A marker's tooltip says its
/// values. Series differ in colour, in marker
/// and in dashes, so that they can be told apart by the colour-blind and in grey print. A point of y <= 0 on a log axis
/// is a triangle on the axis, and a band that reaches down to there ends at the axis; a note says so, and how many
/// points had no value at all. Bands stretch a log axis by a factor of ten at most. Throws Error{kInput} if a series'
/// vectors do not fit each other, its x are not as above, a band's end is the wrong way round, or there is nothing to
/// draw or more than 16 names.
std::string line_plot(const LinePlot& plot);

}  // namespace labelshift
