#include "labelshift/report/dot_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/axis_drawing.hpp"
#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/legend.hpp"
#include "labelshift/report/series_style.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {
namespace {

constexpr double kWidth = 420.0;          // fits a phone at about the size it is drawn in
constexpr double kMostNameWidth = 120.0;  // of names that stand to the left of their rows
constexpr double kLanePitch = 11.0;

void check(const DotPlot& plot) {
  const auto fail = [](const std::string& what) { throw Error(ErrorKind::kInput, "dot plot: " + what); };
  if (plot.rows.empty()) fail("there are no rows, expected at least one");
  if (plot.series.empty() || plot.series.size() > kMaxSeriesStyles)
    fail(fmt::format("there are {} series, expected 1 to {}, which is all that can be told apart", plot.series.size(),
                     kMaxSeriesStyles));
  for (const DotSeries& series : plot.series) {
    const std::size_t n = plot.rows.size();
    const bool ends_fit =
        (series.low.empty() && series.high.empty()) || (series.low.size() == n && series.high.size() == n);
    if (series.values.size() != n || !ends_fit)
      fail(fmt::format("series \"{}\" has {} values, {} lower and {} upper ends for {} rows", series.name,
                       series.values.size(), series.low.size(), series.high.size(), n));
    for (std::size_t i = 0; i < series.low.size(); ++i)  // NaN is in order
      if (series.low[i] > series.high[i])
        fail(fmt::format("series \"{}\", row \"{}\": the interval goes from {} down to {}, expected up", series.name,
                         plot.rows[i], series.low[i], series.high[i]));
  }
}

bool has_interval(const DotSeries& series, std::size_t row) {
  return !series.low.empty() && has_value(series.values[row]) && has_value(series.low[row]) &&
         has_value(series.high[row]);
}

ValueRange range_of(const DotPlot& plot) {
  ValueRange range = plot.shown;
  for (const DotSeries& series : plot.series)
    for (std::size_t i = 0; i < plot.rows.size(); ++i) {
      if (!has_value(series.values[i])) continue;
      range.add(series.values[i]);
      if (!has_interval(series, i)) continue;
      range.add(series.low[i]);
      range.add(series.high[i]);
    }
  return range;
}

std::string tooltip(const DotPlot& plot, std::size_t row) {
  std::string text;
  for (const DotSeries& series : plot.series) {
    if (!has_value(series.values[row])) continue;
    text += fmt::format("{} {} {:.4g}", text.empty() ? ":" : ",", series.name, series.values[row]);
    if (has_interval(series, row)) text += fmt::format(" ({:.4g} to {:.4g})", series.low[row], series.high[row]);
  }
  return plot.rows[row] + text;
}

void draw_whisker(Svg& svg, double low, double high, double y, const SeriesStyle& style) {
  svg.path(fmt::format("M{0} {1}V{2}M{0} {3}H{4}M{4} {1}V{2}", svg_number(low), svg_number(y - 3.0),
                       svg_number(y + 3.0), svg_number(y), svg_number(high)),
           {.colour = style.colour(), .width = 1.4}, "whisker");
}

void draw_row(Svg& svg, const DotPlot& plot, std::size_t row, const Axis& x, double middle) {
  const auto count = static_cast<double>(plot.series.size());
  ValueRange reach;
  for (const DotSeries& series : plot.series)
    if (series.on_bar && has_value(series.values[row])) reach.add(series.values[row]);
  if (plot.joined && !reach.empty() && reach.low < reach.high)
    svg.line(x.at(reach.low), middle, x.at(reach.high), middle, {.colour = kBarColour, .width = 5.0}, "range");
  for (std::size_t s = plot.series.size(); s-- > 0;) {  // the first is in front
    const DotSeries& series = plot.series[s];
    if (!has_value(series.values[row])) continue;
    const double y = plot.joined ? middle : middle + kLanePitch * (static_cast<double>(s) - (count - 1.0) / 2.0);
    const SeriesStyle style{s};
    if (has_interval(series, row)) draw_whisker(svg, x.at(series.low[row]), x.at(series.high[row]), y, style);
    draw_marker(svg, {x.at(series.values[row]), y}, style, "marker");
  }
}

}  // namespace

std::string dot_plot(const DotPlot& plot) {
  check(plot);
  double names = 0.0;
  for (const std::string& name : plot.rows) names = std::max(names, text_width(name, kLabelSize));
  const bool above = names > kMostNameWidth;  // their rows
  const double left = kMargin + (above ? 0.0 : names + 10.0);
  const double right = kWidth - kMargin;
  const std::vector<std::string> labels = distinct_labels(plot.rows, kLabelSize, above ? right - left : names);
  const double lanes = kLanePitch * (plot.joined ? 2.0 : static_cast<double>(plot.series.size())) + 8.0;
  const double pitch = lanes + (above ? kLineHeight : 0.0);

  const double full_width = kWidth - 2.0 * kMargin;
  const std::vector<std::string> title = wrapped(plot.title, kBoldWidth * kTitleSize, full_width);
  const std::vector<std::string> subtitle = wrapped(plot.subtitle, kLabelSize, full_width);
  std::vector<std::string> series_names;
  for (const DotSeries& series : plot.series) series_names.push_back(series.name);
  const Legend legend(series_names, full_width, LegendSample::kMarker);
  const double subtitle_top = kMargin + (title.empty() ? 0.0 : 6.0 + kTitleHeight * static_cast<double>(title.size()));
  const double legend_top = subtitle_top + kLineHeight * static_cast<double>(subtitle.size());
  const double top = legend_top + legend.height() + 10.0;
  const double bottom = top + pitch * static_cast<double>(plot.rows.size());

  constexpr double kPadding = 0.03;
  ValueRange range = range_of(plot);
  if (range.high == plot.shown.high) range.high = (range.high + kPadding * range.low) / (1.0 + kPadding);  // the end
  Axis x = make_axis(AxisScale::kLinear, range, kPadding);
  x.start = left;
  x.end = right;
  Svg svg(kWidth, bottom + 42.0, plot.title,
          fmt::format("Dot chart of {} rows, each with up to {} marks.", plot.rows.size(), plot.series.size()));
  svg.lines(kMargin, kMargin + 7.0, kTitleHeight, title, {.size = kTitleSize, .fill = kInkColour, .bold = true},
            "title");
  svg.lines(kMargin, subtitle_top + kLineHeight / 2.0, kLineHeight, subtitle,
            {.size = kLabelSize, .fill = kQuietColour}, "subtitle");
  legend.draw(svg, kMargin, legend_top);
  draw_ticks(svg, x, {.start = bottom, .end = top});
  for (std::size_t i = 0; i < plot.rows.size(); ++i) {
    const double row_top = top + pitch * static_cast<double>(i);
    const double middle = row_top + (above ? kLineHeight : 0.0) + lanes / 2.0;
    svg.begin_group(tooltip(plot, i), "row");
    svg.hit_area(kMargin, row_top, right - kMargin, pitch);
    if (above)
      svg.text(left, row_top + kLineHeight / 2.0 + 2.0, labels[i], {.size = kLabelSize, .fill = kInkColour}, "name");
    else
      svg.text(left - 8.0, middle, labels[i], {.size = kLabelSize, .fill = kInkColour, .anchor = Anchor::kEnd}, "name");
    if (i > 0) svg.line(kMargin, row_top, right, row_top, {.colour = kGridColour}, "grid");
    draw_row(svg, plot, i, x, middle);
    svg.end_group();
  }
  draw_frame(svg, x, {.start = bottom, .end = top});
  svg.text((left + right) / 2.0, bottom + 28.0, plot.x_label,
           {.size = kLabelSize, .fill = kInkColour, .anchor = Anchor::kMiddle}, "x-label");
  return svg.str();
}

}  // namespace labelshift
