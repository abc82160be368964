#include "labelshift/report/legend.hpp"

#include <utility>

#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/series_style.hpp"

namespace labelshift {
namespace {

constexpr double kSampleWidth = 30.0;
constexpr double kNameOffset = 36.0;  // from the start of an entry to its name
constexpr double kGap = 18.0;         // between entries

}  // namespace

Legend::Legend(std::vector<std::string> names, double width) : width_(width) {
  double x = 0.0;
  int row = 0;
  for (std::string& name : names) {
    const double entry = kNameOffset + text_width(name, kLabelSize);
    if (x > 0.0 && x + entry > width) {
      x = 0.0;
      ++row;
    }
    entries_.push_back({std::move(name), x, row});
    x += entry + kGap;
  }
}

double Legend::height() const {
  return entries_.empty() ? 0.0 : kLineHeight * (entries_.back().row + 1);
}

void Legend::draw(Svg& svg, double left, double top) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const SeriesStyle style{i};
    const double x = left + entries_[i].x, y = top + kLineHeight * (entries_[i].row + 0.5);
    svg.line(x, y, x + kSampleWidth, y, {.colour = style.colour(), .width = 1.5, .dashes = style.dashes()});
    draw_marker(svg, {x + kSampleWidth / 2.0, y}, style, "legend-marker");
    svg.text(x + kNameOffset, y, entries_[i].name,
             {.size = kLabelSize, .fill = kInkColour, .max_width = width_ - kNameOffset}, "legend");
  }
}

}  // namespace labelshift
