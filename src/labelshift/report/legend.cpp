#include "labelshift/report/legend.hpp"

#include <utility>

#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/series_style.hpp"

namespace labelshift {
namespace {

constexpr double kGap = 18.0;  // between entries

double sample_width(LegendSample sample) {
  return sample == LegendSample::kLine ? 30.0 : 10.0;
}

}  // namespace

Legend::Legend(std::vector<std::string> names, double width, LegendSample sample) : sample_(sample) {
  const double offset = sample_width(sample) + 6.0;  // from the start of an entry to its name
  const std::vector<std::string> labels = distinct_labels(names, kLabelSize, width - offset);
  double x = 0.0;
  int row = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double entry = offset + text_width(labels[i], kLabelSize);
    if (x > 0.0 && x + entry > width) {
      x = 0.0;
      ++row;
    }
    entries_.push_back({std::move(names[i]), labels[i], x, row});
    x += entry + kGap;
  }
}

double Legend::height() const {
  return entries_.empty() ? 0.0 : kLineHeight * (entries_.back().row + 1);
}

void Legend::draw(Svg& svg, double left, double top) const {
  const double sample = sample_width(sample_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const SeriesStyle style{i};
    const double x = left + entry.x, y = top + kLineHeight * (entry.row + 0.5);
    if (entry.label != entry.name) svg.begin_group(entry.name);
    if (sample_ == LegendSample::kLine)
      svg.line(x, y, x + sample, y, {.colour = style.colour(), .width = 1.5, .dashes = style.dashes()});
    draw_marker(svg, {x + sample / 2.0, y}, style, "legend-marker");
    svg.text(x + sample + 6.0, y, entry.label, {.size = kLabelSize, .fill = kInkColour}, "legend");
    if (entry.label != entry.name) svg.end_group();
  }
}

}  // namespace labelshift
