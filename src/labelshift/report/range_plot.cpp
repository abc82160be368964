#include "labelshift/report/range_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {
namespace {

constexpr double kRowHeight = 30.0;
constexpr double kAxisWidth = 420.0;
constexpr const char* kBarColour = "#b8cfe6";

struct Mark {
  const char* name;
  const char* colour;
  double raised;  // whiskers of the three lie beside each other
};
constexpr Mark kWorst{"worst node", "#b2182b", 6.0};
constexpr Mark kAverage{"average", "#222222", 0.0};
constexpr Mark kBest{"best node", "#2166ac", -6.0};

void check(const RangeRow& row) {
  for (const RangePoint& point : {row.worst, row.average, row.best})
    if (point.value < 0.0 || point.value > 1.0 || point.deviation < 0.0)
      throw Error(ErrorKind::kInput, fmt::format("range plot, row {}: found {} +- {}, expected a value from 0 to 1",
                                                 row.name, point.value, point.deviation));
}

}  // namespace

std::string range_plot(const RangePlot& plot) {
  if (plot.rows.empty()) throw Error(ErrorKind::kInput, "range plot: there are no rows, expected at least one");
  double names = 0.0;
  for (const RangeRow& row : plot.rows) {
    check(row);
    names = std::max(names, text_width(row.name, kLabelSize));
  }
  const double left = kMargin + std::min(names, 260.0) + 10.0;
  const double width = left + kAxisWidth + kMargin;
  const std::vector<std::string> subtitle = wrapped(plot.subtitle, kLabelSize, width - 2.0 * kMargin);
  const double top = kMargin + 24.0 + kLineHeight * static_cast<double>(subtitle.size()) + 24.0;
  const double bottom = top + kRowHeight * static_cast<double>(plot.rows.size());
  const auto at = [&](double value) { return left + kAxisWidth * std::clamp(value, 0.0, 1.0); };

  Svg svg(width, bottom + 44.0, plot.title, fmt::format("Worst, average and best of {} rows.", plot.rows.size()));
  svg.text(kMargin, kMargin + 7.0, plot.title, {.size = 14.0, .bold = true, .max_width = width - 2.0 * kMargin},
           "title");
  svg.lines(kMargin, kMargin + 28.0, kLineHeight, subtitle, {.size = kLabelSize, .fill = kQuietColour}, "subtitle");
  double legend = left;
  for (const Mark& mark : {kWorst, kAverage, kBest}) {
    svg.rect(legend, top - 22.0, 8.0, 8.0, mark.colour, "legend-mark");
    svg.text(legend + 13.0, top - 18.0, mark.name, {.size = kLabelSize}, "legend");
    legend += 32.0 + text_width(mark.name, kLabelSize);
  }
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double x = at(tenth / 10.0);
    svg.line(x, top, x, bottom, {.colour = kGridColour}, "grid");
    svg.text(x, bottom + 11.0, fmt::format("{:.1f}", tenth / 10.0), {.size = kTickSize, .anchor = Anchor::kMiddle},
             "tick");
  }
  svg.text(at(0.5), bottom + 29.0, plot.x_label, {.size = kLabelSize, .anchor = Anchor::kMiddle}, "x-label");
  for (std::size_t i = 0; i < plot.rows.size(); ++i) {
    const RangeRow& row = plot.rows[i];
    const double y = top + kRowHeight * (static_cast<double>(i) + 0.5);
    svg.text(left - 10.0, y, row.name, {.size = kLabelSize, .anchor = Anchor::kEnd, .max_width = 260.0}, "row");
    if (std::isnan(row.average.value)) continue;
    svg.begin_group(fmt::format("{}: worst {:.4f}, average {:.4f}, best {:.4f}", row.name, row.worst.value,
                                row.average.value, row.best.value));
    svg.rect(at(row.worst.value), y - 3.0, at(row.best.value) - at(row.worst.value), 6.0, kBarColour, "range");
    const auto draw = [&](const RangePoint& point, const Mark& mark) {
      if (point.deviation > 0.0)
        svg.line(at(point.value - point.deviation), y + mark.raised, at(point.value + point.deviation), y + mark.raised,
                 {.colour = mark.colour, .width = 1.5}, "whisker");
      svg.rect(at(point.value) - 2.5, y - 8.0, 5.0, 16.0, mark.colour, "mark");
    };
    draw(row.worst, kWorst);
    draw(row.best, kBest);
    draw(row.average, kAverage);
    svg.end_group();
  }
  return svg.str();
}

}  // namespace labelshift
