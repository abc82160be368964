#include "labelshift/report/line_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/axis_drawing.hpp"
#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/legend.hpp"
#include "labelshift/report/series_style.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMaxColumns = 4;
constexpr double kMarkerPitch = 26.0;      // markers of a line are at least so far apart
constexpr double kPageMarkerPitch = 13.0;  // on a page they can be pointed at
constexpr double kYLabelRoom = 18.0;
constexpr double kHitReach = 8.0;  // of a marker, for the pointer

void check(const LineSeries& series, const LinePanel& panel) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInput,
                fmt::format("line plot: panel \"{}\", series \"{}\": {}", panel.title, series.name, what));
  };
  const std::size_t n = series.x.size();
  if (series.y.size() != n) fail(fmt::format("{} values of y for {} of x", series.y.size(), n));
  const bool has_band = !series.low.empty() || !series.high.empty();
  if (has_band && (series.low.size() != n || series.high.size() != n))
    fail(
        fmt::format("the band has {} lower and {} upper ends for {} points", series.low.size(), series.high.size(), n));
  for (std::size_t i = 0; i < n; ++i) {
    if (!can_show(panel.x_scale, series.x[i]))
      fail(fmt::format("x of point {} is {}, expected a {}number", i, series.x[i],
                       panel.x_scale == AxisScale::kLog ? "positive " : ""));
    if (series.joined && i > 0 && series.x[i] <= series.x[i - 1])
      fail(fmt::format("x of point {} is {} after {}, expected more", i, series.x[i], series.x[i - 1]));
    if (has_band && series.low[i] > series.high[i])
      fail(fmt::format("the band of point {} goes from {} down to {}, expected up", i, series.low[i], series.high[i]));
  }
}

/// The names of all series in order of appearance. Checks everything.
std::vector<std::string> names_of(const LinePlot& plot) {
  std::vector<std::string> names = plot.names;
  for (const LinePanel& panel : plot.panels)
    for (const LineSeries& series : panel.series) {
      check(series, panel);
      if (std::find(names.begin(), names.end(), series.name) == names.end()) names.push_back(series.name);
    }
  if (names.empty()) throw Error(ErrorKind::kInput, "line plot: there is no series, expected at least one");
  if (names.size() > kMaxSeriesStyles)
    throw Error(ErrorKind::kInput, fmt::format("line plot: there are {} different series, expected at most {}, which "
                                               "is all that can be told apart",
                                               names.size(), kMaxSeriesStyles));
  return names;
}

Axis x_axis(const LinePanel& panel) {
  ValueRange range;
  for (const LineSeries& series : panel.series)
    for (const double x : series.x) range.add(x);
  return make_axis(panel.x_scale, range, 0.03);
}

Axis y_axis(const LinePanel& panel) {
  ValueRange values, bands;
  for (const LineSeries& series : panel.series) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      if (!can_show(panel.y_scale, series.y[i])) continue;
      values.add(series.y[i]);
      if (series.low.empty()) continue;
      if (can_show(panel.y_scale, series.low[i])) bands.add(series.low[i]);
      if (can_show(panel.y_scale, series.high[i])) bands.add(series.high[i]);
    }
  }
  if (!bands.empty()) {
    // A lower end next to 0 would otherwise press all lines into the top of the panel.
    const bool log = panel.y_scale == AxisScale::kLog;
    values.low = std::min(values.low, log ? std::max(bands.low, values.low / 10.0) : bands.low);
    values.high = std::max(values.high, log ? std::min(bands.high, values.high * 10.0) : bands.high);
  }
  return make_axis(panel.y_scale, values, 0.05);
}

/// A run of neighbouring points that can be drawn, [first, last).
struct Run {
  std::size_t first, last;
};

/// The runs of points for which can_draw(i); of points alone each is a run.
template <typename CanDraw>
std::vector<Run> runs(const LineSeries& series, CanDraw&& can_draw) {
  std::vector<Run> found;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!can_draw(i)) continue;
    if (found.empty() || found.back().last != i || !series.joined) found.push_back({i, i});
    found.back().last = i + 1;
  }
  return found;
}

void draw_band(Svg& svg, const LineSeries& series, const Axis& x, const Axis& y, const SeriesStyle& style) {
  if (series.low.empty()) return;
  // A lower end at or below 0 goes to the bottom of a log axis, where at() puts everything that is lower.
  const auto has_band = [&](std::size_t i) {
    return can_show(y.scale, series.y[i]) && has_value(series.low[i]) && can_show(y.scale, series.high[i]);
  };
  for (const Run& run : runs(series, has_band)) {
    if (run.last - run.first == 1) {  // no width: a whisker
      const double at = x.at(series.x[run.first]);
      const std::string low = svg_number(y.at(series.low[run.first])), high = svg_number(y.at(series.high[run.first]));
      const std::string left = svg_number(at - 3.0), right = svg_number(at + 3.0);
      svg.path(fmt::format("M{0} {1}H{2}M{3} {1}V{4}M{0} {4}H{2}", left, low, right, svg_number(at), high),
               {.colour = style.colour(), .width = 1.0}, "whisker");
      continue;
    }
    std::vector<SvgPoint> points;
    for (std::size_t i = run.first; i < run.last; ++i) points.push_back({x.at(series.x[i]), y.at(series.high[i])});
    for (std::size_t i = run.last; i > run.first; --i)
      points.push_back({x.at(series.x[i - 1]), y.at(series.low[i - 1])});
    svg.area(svg_polygon(points), {.colour = style.colour(), .opacity = 0.14}, "band");
  }
}

std::string tooltip(const LinePanel& panel, const LineSeries& series, std::size_t i) {
  std::string text =
      fmt::format("{}: {} {:.6g}, {} {:.4g}", series.name, panel.x_label, series.x[i], panel.y_label, series.y[i]);
  if (!series.low.empty() && has_value(series.low[i]) && has_value(series.high[i]) && series.low[i] < series.high[i])
    text += fmt::format(" ({:.4g} to {:.4g})", series.low[i], series.high[i]);
  return text;
}

void draw_line(Svg& svg, const LinePanel& panel, const LineSeries& series, const Axis& x, const Axis& y,
               const SeriesStyle& style, double marker_pitch) {
  svg.begin_group(series.name);
  const auto shown = [&](std::size_t i) { return can_show(y.scale, series.y[i]); };
  const std::vector<Run> lines = runs(series, shown);
  for (const Run& run : lines) {
    if (run.last - run.first == 1) continue;
    std::vector<SvgPoint> points;
    for (std::size_t i = run.first; i < run.last; ++i) points.push_back({x.at(series.x[i]), y.at(series.y[i])});
    svg.path(svg_polyline(points), {.colour = style.colour(), .width = 1.5, .dashes = style.dashes()}, "line");
  }
  for (const Run& run : lines) {
    // Many points have markers on some only, not the same ones for every series, and every run has one.
    const double length = x.at(series.x[run.last - 1]) - x.at(series.x[run.first]);
    const double pitch = length / static_cast<double>(std::max<std::size_t>(run.last - run.first - 1, 1));
    const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(marker_pitch / std::max(pitch, 1e-3) - 0.5)));
    const std::size_t skip = std::min(style.number * 3 % every, (run.last - run.first - 1) / 2);
    for (std::size_t i = run.first + skip; i < run.last; i += every) {
      const SvgPoint at{x.at(series.x[i]), y.at(series.y[i])};
      svg.begin_group(tooltip(panel, series, i), "point");
      svg.hit_area(at.x - kHitReach, at.y - kHitReach, 2.0 * kHitReach, 2.0 * kHitReach);
      draw_marker(svg, at, style, "marker");
      svg.end_group();
    }
  }
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (shown(i) || !has_value(series.y[i])) continue;
    const double at = x.at(series.x[i]);
    svg.area(svg_polygon({{at - 4.0, y.start - 7.0}, {at + 4.0, y.start - 7.0}, {at, y.start}}),
             {.colour = style.colour()}, "at-zero");
  }
  svg.end_group();
}

std::string counted(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// What could not be drawn as it is.
std::string note(const LinePlot& plot) {
  std::size_t missing = 0, at_zero = 0;
  for (const LinePanel& panel : plot.panels)
    for (const LineSeries& series : panel.series)
      for (const double y : series.y) {
        missing += !has_value(y);
        at_zero += has_value(y) && !can_show(panel.y_scale, y);
      }
  std::string text;
  if (at_zero > 0)
    text = fmt::format("Triangles on the axis: {} 0 or below, which a log axis cannot show. ",
                       counted(at_zero, "value of", "values of"));
  if (missing > 0) text += fmt::format("Left out: {} without a value. ", counted(missing, "point", "points"));
  return text;
}

/// One panel with all that is in it; the coordinates of its axes are those of its frame. `y_label_x` is the middle of
/// the label of the y axis, or there is none.
void draw_panel(Svg& svg, const LinePanel& panel, const Axis& x, const Axis& y, const std::vector<std::string>& names,
                std::optional<double> y_label_x, double marker_pitch) {
  const double width = x.end - x.start, height = y.start - y.end;
  const double middle_x = x.start + width / 2.0, middle_y = y.end + height / 2.0;
  draw_ticks(svg, x, y);
  svg.text(middle_x, y.end - 11.0, panel.title,
           {.size = 11.5, .fill = kInkColour, .anchor = Anchor::kMiddle, .bold = true, .max_width = width},
           "panel-title");
  const TextStyle label{.size = kLabelSize, .fill = kInkColour, .anchor = Anchor::kMiddle, .max_width = width};
  svg.text(middle_x, y.start + 28.0, panel.x_label, label, "x-label");
  if (y_label_x) {
    TextStyle upwards = label;
    upwards.max_width = height + 30.0;
    upwards.upwards = true;
    svg.text(*y_label_x, middle_y, panel.y_label, upwards, "y-label");
  }
  const auto style_of = [&](const LineSeries& series) {
    return SeriesStyle{static_cast<std::size_t>(std::find(names.begin(), names.end(), series.name) - names.begin())};
  };
  // All bands lie behind all lines, and the series named first, which is the one of interest, is in front.
  for (auto series = panel.series.rbegin(); series != panel.series.rend(); ++series)
    draw_band(svg, *series, x, y, style_of(*series));
  for (auto series = panel.series.rbegin(); series != panel.series.rend(); ++series)
    draw_line(svg, panel, *series, x, y, style_of(*series), marker_pitch);
  draw_frame(svg, x, y);
}

}  // namespace

std::string line_plot(const LinePlot& plot) {
  const std::vector<std::string> names = names_of(plot);
  const std::size_t columns = std::min(plot.panels.size(), plot.for_page ? 1 : kMaxColumns);
  const std::size_t rows = (plot.panels.size() + columns - 1) / columns;
  // One panel fills a column of a paper and four its page; on a page of a report a panel fills a phone.
  constexpr SvgPoint kPageSize{330.0, 220.0};
  constexpr SvgPoint kPanelSizes[] = {{420.0, 280.0}, {330.0, 230.0}, {240.0, 190.0}, {190.0, 170.0}};
  const auto [panel_width, panel_height] = plot.for_page ? kPageSize : kPanelSizes[columns - 1];

  const bool one_y_label = std::all_of(plot.panels.begin(), plot.panels.end(),
                                       [&](const LinePanel& panel) { return panel.y_label == plot.panels[0].y_label; });
  struct Axes {
    Axis x, y;
  };
  std::vector<Axes> axes;
  double tick_room = 0.0;
  for (const LinePanel& panel : plot.panels) {
    axes.push_back({x_axis(panel), y_axis(panel)});
    tick_room = std::max(tick_room, label_room(axes.back().y));
  }
  const double pitch_x = panel_width + tick_room + (one_y_label ? 18.0 : 18.0 + kYLabelRoom);
  const double first_left = kMargin + kYLabelRoom + tick_room;
  const double width = first_left + pitch_x * static_cast<double>(columns - 1) + panel_width + kMargin;
  const double full_width = width - 2.0 * kMargin;
  const double pitch_y = panel_height + 72.0;

  const std::vector<std::string> title = wrapped(plot.title, kBoldWidth * kTitleSize, full_width);
  const std::vector<std::string> subtitle = wrapped(plot.subtitle, kLabelSize, full_width);
  const std::vector<std::string> notes = wrapped(note(plot), kTickSize, full_width);
  const Legend legend(names, full_width);
  const bool titled =
      std::any_of(plot.panels.begin(), plot.panels.end(), [](const LinePanel& panel) { return !panel.title.empty(); });
  const double subtitle_top = kMargin + (title.empty() ? 0.0 : 6.0 + kTitleHeight * static_cast<double>(title.size()));
  const double legend_top = subtitle_top + kLineHeight * static_cast<double>(subtitle.size()) + 4.0;
  const double panels_top = legend_top + legend.height() + (titled ? 30.0 : 14.0);
  const double notes_top = panels_top + pitch_y * static_cast<double>(rows) - 30.0;
  const double height = notes_top + kLineHeight * static_cast<double>(notes.size()) + 6.0;

  Svg svg(width, height, plot.title,
          fmt::format("Line chart with {} of {}.", counted(plot.panels.size(), "panel", "panels"),
                      counted(names.size(), "series", "series")));
  svg.lines(kMargin, kMargin + 7.0, kTitleHeight, title,
            {.size = kTitleSize, .fill = kInkColour, .bold = true, .max_width = full_width}, "title");
  svg.lines(kMargin, subtitle_top + kLineHeight / 2.0, kLineHeight, subtitle,
            {.size = kLabelSize, .fill = kQuietColour, .max_width = full_width}, "subtitle");
  legend.draw(svg, kMargin, legend_top);
  for (std::size_t p = 0; p < plot.panels.size(); ++p) {
    auto& [x, y] = axes[p];
    x.start = first_left + pitch_x * static_cast<double>(p % columns);
    x.end = x.start + panel_width;
    y.end = panels_top + pitch_y * static_cast<double>(p / columns);
    y.start = y.end + panel_height;
    const bool has_y_label = !one_y_label || p % columns == 0;
    draw_panel(svg, plot.panels[p], x, y, names,
               has_y_label ? std::optional(x.start - tick_room - kYLabelRoom / 2.0) : std::nullopt,
               plot.for_page ? kPageMarkerPitch : kMarkerPitch);
  }
  svg.lines(kMargin, notes_top + kLineHeight / 2.0, kLineHeight, notes, {.size = kTickSize, .fill = kQuietColour},
            "note");
  return svg.str();
}

}  // namespace labelshift
