#pragma once

#include <string>
#include <vector>

#include "labelshift/report/svg.hpp"

namespace labelshift {

/// The names of series, each after a sample of its line and marker, from left to right in rows. The i-th name has the
/// i-th SeriesStyle.
class Legend {
 public:
  /// Rows are at most `width` wide; a name that is wider alone is cut.
  Legend(std::vector<std::string> names, double width);

  double height() const;
  void draw(Svg& svg, double left, double top) const;

 private:
  struct Entry {
    std::string name;
    double x;
    int row;
  };
  std::vector<Entry> entries_;
  double width_;
};

}  // namespace labelshift
