#pragma once

#include <string>
#include <vector>

#include "labelshift/report/svg.hpp"

namespace labelshift {

/// What stands for a series before its name.
enum class LegendSample { kLine, kMarker };

/// The names of series, each after a sample of its line and marker or of its marker alone, from left to right in rows.
/// The i-th name has the i-th SeriesStyle.
class Legend {
 public:
  /// Rows are at most `width` wide; a name that is wider alone is shortened, but never two to the same text.
  Legend(std::vector<std::string> names, double width, LegendSample sample = LegendSample::kLine);

  double height() const;
  void draw(Svg& svg, double left, double top) const;

 private:
  struct Entry {
    std::string name, label;
    double x;
    int row;
  };
  std::vector<Entry> entries_;
  LegendSample sample_;
};

}  // namespace labelshift
