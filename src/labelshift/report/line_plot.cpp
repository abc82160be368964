#include "labelshift/report/line_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMaxColumns = 4;
constexpr double kMargin = 16.0;
constexpr double kTickSize = 10.0;
constexpr double kLabelSize = 11.0;
constexpr double kTitleSize = 14.0;
constexpr double kBoldWidth = 1.12;    // how much wider bold letters are
constexpr double kTitleHeight = 18.0;  // of a line of the title
constexpr double kLineHeight = 16.0;
constexpr double kLegendSample = 36.0;  // from the start of an entry to its name
constexpr double kMarkerPitch = 26.0;   // markers of a line are at least so far apart

constexpr const char* kInkColour = "#1d2733";
constexpr const char* kQuietColour = "#5b6673";
constexpr const char* kGridColour = "#e6e9ed";
constexpr const char* kFrameColour = "#9aa3ad";

// Okabe and Ito's palette without its yellow, which is lost on white, and with a brown in its place.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#000000", "#56b4e9", "#e69f00", "#7f4f24"};
constexpr const char* kDashes[] = {nullptr, "7 2.5", "2 2", "8 2 2 2"};
constexpr std::size_t kShapes = std::size(kColours);
constexpr std::size_t kMaxNames = 2 * kShapes;  // filled markers, then hollow ones

struct Point {
  double x, y;
};

/// How the series of one name looks.
struct Style {
  std::size_t number;  // among the names, in order of appearance

  const char* colour() const { return kColours[number % kShapes]; }
  const char* dashes() const { return kDashes[number % std::size(kDashes)]; }
  bool hollow() const { return number >= kShapes; }
};

std::string polygon(const std::vector<Point>& points) {
  std::string data;
  for (const Point& point : points)
    data += fmt::format("{}{} {}", data.empty() ? "M" : "L", svg_number(point.x), svg_number(point.y));
  return data + "Z";
}

/// `corners` on a circle, the first at `turn` clockwise from the top.
std::string regular(Point at, int corners, double radius, double turn) {
  std::vector<Point> points;
  for (int i = 0; i < corners; ++i) {
    const double angle = turn + 2.0 * std::numbers::pi * i / corners;
    points.push_back({at.x + radius * std::sin(angle), at.y - radius * std::cos(angle)});
  }
  return polygon(points);
}

/// Two bars that cross at right angles, one of them at `turn` from upright.
std::string cross(Point at, double turn) {
  constexpr double kLong = 4.2, kThick = 1.35;
  std::vector<Point> points;
  for (int arm = 0; arm < 4; ++arm) {
    const double angle = turn + std::numbers::pi / 2.0 * arm;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    for (const Point corner : {Point{-kThick, kLong}, Point{kThick, kLong}, Point{kThick, kThick}})
      points.push_back({at.x + corner.x * cosine + corner.y * sine, at.y + corner.x * sine - corner.y * cosine});
  }
  return polygon(points);
}

/// The outline of a marker; all look about equally large.
std::string marker(Point at, std::size_t shape) {
  constexpr double kPi = std::numbers::pi;
  switch (shape) {
    case 0:
      return fmt::format("M{0} {1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", svg_number(at.x - 3.0), svg_number(at.y));
    case 1:
      return regular(at, 4, 3.8, kPi / 4.0);  // square
    case 2:
      return regular({at.x, at.y + 0.7}, 3, 4.2, 0.0);  // triangle
    case 3:
      return regular(at, 4, 4.1, 0.0);  // diamond
    case 4:
      return cross(at, kPi / 4.0);
    case 5:
      return regular({at.x, at.y - 0.7}, 3, 4.2, kPi);  // triangle, pointing down
    case 6:
      return cross(at, 0.0);
    default:
      return regular(at, 3, 4.2, kPi / 2.0);  // triangle, pointing right
  }
}

void draw_marker(Svg& svg, Point at, const Style& style, const char* css_class) {
  // The white rim of a filled marker keeps it apart from lines that pass behind it.
  const Fill fill = style.hollow()
                        ? Fill{.colour = "#ffffff", .outline = Stroke{.colour = style.colour(), .width = 1.2}}
                        : Fill{.colour = style.colour(), .outline = Stroke{.colour = "#ffffff", .width = 0.6}};
  svg.area(marker(at, style.number % kShapes), fill, css_class);
}

struct Tick {
  double value;
  std::string base, exponent;   // both empty: a minor tick
  bool between_powers = false;  // of a log axis: its label gives way to those of powers of ten

  double width() const { return text_width(base, kTickSize) + text_width(exponent, 0.75 * kTickSize); }
};

/// From data to picture, along one direction.
struct Axis {
  AxisScale scale = AxisScale::kLinear;
  double low = 0.0, high = 1.0;   // the data at the ends
  double start = 0.0, end = 1.0;  // the coordinates of the ends
  std::vector<Tick> ticks;

  double along(double value) const { return scale == AxisScale::kLog ? std::log10(value) : value; }
  double at(double value) const {
    const double share = (along(std::clamp(value, low, high)) - along(low)) / (along(high) - along(low));
    return start + (end - start) * share;
  }
};

// Axes reach this far at most, so that a little more than their ends is still a finite number, and not 0.
constexpr double kLargest = 1e300;

bool has_value(double value) {
  return std::abs(value) <= kLargest;  // false for NaN
}

bool can_show(AxisScale scale, double value) {
  return has_value(value) && (scale == AxisScale::kLinear || value >= 1.0 / kLargest);
}

/// 1, 2 or 5 times a power of ten, such that about four steps make `span`.
double nice_step(double span) {
  const double least = span / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1.0 - 1e-9)) return factor * power;
  return 10.0 * power;
}

std::string with_minus_sign(const std::string& number) {
  return number.starts_with('-') ? "\u2212" + number.substr(1) : number;
}

std::vector<Tick> linear_ticks(double low, double high) {
  const double step = nice_step(high - low);
  const auto order = [](double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); };
  const int largest = order(std::max(std::abs(low), std::abs(high)));
  const int exponent = largest > 4 || largest < -3 ? largest : 0;  // taken out of all labels alike
  const int decimals = std::clamp(exponent - order(step), 0, 12);
  std::vector<Tick> ticks;
  for (double i = std::ceil(low / step - 1e-9); i <= std::floor(high / step + 1e-9); ++i) {
    if (i == 0.0) {
      ticks.push_back({.value = 0.0, .base = "0", .exponent = ""});
      continue;
    }
    const std::string digits = with_minus_sign(fmt::format("{:.{}f}", i * step / std::pow(10.0, exponent), decimals));
    ticks.push_back({.value = i * step,
                     .base = exponent == 0 ? digits : digits + "\u00d710",
                     .exponent = exponent == 0 ? "" : with_minus_sign(fmt::format("{}", exponent))});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  const double decades = std::log10(high) - std::log10(low);
  const int every = 1 + static_cast<int>(decades / 7.0);  // labels are so many decades apart
  // 0.1 reads better than a power, but next to 0.00001 it does not.
  const bool plain = low >= 0.9e-2 && high <= 2e4;
  std::vector<Tick> ticks;
  int labelled = 0;
  for (int exponent = first; exponent <= last; ++exponent)
    for (int digit = 1; digit < 10; ++digit) {
      const double value = digit * std::pow(10.0, exponent);
      if (value < low * (1.0 - 1e-9) || value > high * (1.0 + 1e-9)) continue;
      const bool power = digit == 1 && exponent % every == 0;
      const bool between = decades < 2.05 && (digit == 2 || digit == 5);
      if (!power && every > 1) continue;
      Tick tick{.value = value, .base = "", .exponent = "", .between_powers = between};
      if (power || between) {
        ++labelled;
        tick.base = plain ? fmt::format("{:.{}f}", value, std::max(0, -exponent))
                          : (power ? "10" : fmt::format("{}\u00d710", digit));
        if (!plain) tick.exponent = with_minus_sign(fmt::format("{}", exponent));
      }
      ticks.push_back(tick);
    }
  return labelled >= 2 ? ticks : linear_ticks(low, high);  // less than a factor of about three
}

/// The smallest and largest of what was added.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return low > high; }
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// An axis that shows `range` and a little more.
Axis make_axis(AxisScale scale, Range range, double padding) {
  Axis axis{.scale = scale};
  if (scale == AxisScale::kLog) {
    if (range.empty()) range = {.low = 0.1, .high = 1.0};
    const double decades = std::log10(range.high) - std::log10(range.low);
    const double stretch = decades < 0.02 ? 2.0 : std::pow(10.0, std::min(padding * decades, 1.0));  // 2: one value
    axis.low = range.low / stretch;
    axis.high = range.high * stretch;
    axis.ticks = log_ticks(axis.low, axis.high);
  } else {
    if (range.empty()) range = {.low = 0.0, .high = 1.0};
    double extra = padding * (range.high - range.low);
    if (extra <= 1e-9 * std::max(std::abs(range.high), std::abs(range.low)))
      extra = range.high == 0.0 ? 1.0 : 0.5 * std::abs(range.high);  // one value
    axis.low = range.low - extra;
    axis.high = range.high + extra;
    if (range.low >= 0.0 && axis.low < 0.0) axis.low = 0.0;  // what cannot be negative has no axis below 0
    axis.ticks = linear_ticks(axis.low, axis.high);
  }
  return axis;
}

Axis x_axis(const LinePanel& panel) {
  Range range;
  for (const LineSeries& series : panel.series)
    for (const double x : series.x) range.add(x);
  return make_axis(panel.x_scale, range, 0.03);
}

Axis y_axis(const LinePanel& panel) {
  Range values, bands;
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
    if (i > 0 && series.x[i] <= series.x[i - 1])
      fail(fmt::format("x of point {} is {} after {}, expected more", i, series.x[i], series.x[i - 1]));
    if (has_band && series.low[i] > series.high[i])
      fail(fmt::format("the band of point {} goes from {} down to {}, expected up", i, series.low[i], series.high[i]));
  }
}

/// The names of all series in order of appearance. Checks everything.
std::vector<std::string> names_of(const LinePlot& plot) {
  std::vector<std::string> names;
  for (const LinePanel& panel : plot.panels)
    for (const LineSeries& series : panel.series) {
      check(series, panel);
      if (std::find(names.begin(), names.end(), series.name) == names.end()) names.push_back(series.name);
    }
  if (names.empty()) throw Error(ErrorKind::kInput, "line plot: there is no series, expected at least one");
  if (names.size() > kMaxNames)
    throw Error(ErrorKind::kInput, fmt::format("line plot: there are {} different series, expected at most {}, which "
                                               "is all that can be told apart",
                                               names.size(), kMaxNames));
  return names;
}

struct Frame {
  double left, top, width, height;
  double tick_room;  // to its left, for the labels of the y axis
};

void draw_axes(Svg& svg, const LinePanel& panel, const Axis& x, const Axis& y, const Frame& frame, bool y_label) {
  const double right = frame.left + frame.width, bottom = frame.top + frame.height;
  const auto label = [&](double at_x, double at_y, const Tick& tick, Anchor anchor) {
    const TextStyle style{.size = kTickSize, .fill = kQuietColour, .anchor = anchor};
    if (tick.exponent.empty())
      svg.text(at_x, at_y, tick.base, style, "tick");
    else
      svg.power(at_x, at_y, tick.base, tick.exponent, style, "tick");
  };
  struct Taken {
    double from, to;
  };
  std::vector<Taken> taken;  // by labels of the x axis: others that would touch them are left out
  for (const bool between : {false, true})
    for (const Tick& tick : x.ticks) {
      if (tick.between_powers != between) continue;
      const double at = x.at(tick.value);
      const bool minor = tick.base.empty();
      if (!minor) svg.line(at, frame.top, at, bottom, {.colour = kGridColour}, "grid");
      svg.line(at, bottom, at, bottom + (minor ? 2.0 : 4.0), {.colour = kFrameColour});
      const Taken place{at - tick.width() / 2.0 - 2.0, at + tick.width() / 2.0 + 2.0};
      const auto touches = [&](const Taken& other) { return place.from < other.to && other.from < place.to; };
      if (minor || std::any_of(taken.begin(), taken.end(), touches)) continue;
      label(at, bottom + 12.0, tick, Anchor::kMiddle);
      taken.push_back(place);
    }
  for (const Tick& tick : y.ticks) {
    const double at = y.at(tick.value);
    const bool minor = tick.base.empty();
    if (!minor) svg.line(frame.left, at, right, at, {.colour = kGridColour}, "grid");
    svg.line(frame.left - (minor ? 2.0 : 4.0), at, frame.left, at, {.colour = kFrameColour});
    if (!minor) label(frame.left - 6.0, at, tick, Anchor::kEnd);
  }
  svg.text(frame.left + frame.width / 2.0, frame.top - 11.0, panel.title,
           {.size = 11.5, .fill = kInkColour, .anchor = Anchor::kMiddle, .bold = true, .max_width = frame.width},
           "panel-title");
  svg.text(frame.left + frame.width / 2.0, bottom + 28.0, panel.x_label,
           {.size = kLabelSize, .fill = kInkColour, .anchor = Anchor::kMiddle, .max_width = frame.width}, "x-label");
  if (y_label)
    svg.text(frame.left - frame.tick_room - 9.0, frame.top + frame.height / 2.0, panel.y_label,
             {.size = kLabelSize,
              .fill = kInkColour,
              .anchor = Anchor::kMiddle,
              .max_width = frame.height + 30.0,
              .upwards = true},
             "y-label");
}

/// A run of neighbouring points that can be drawn, [first, last).
struct Run {
  std::size_t first, last;
};

/// The runs of points for which can_draw(i).
template <typename CanDraw>
std::vector<Run> runs(std::size_t n, CanDraw&& can_draw) {
  std::vector<Run> found;
  for (std::size_t i = 0; i < n; ++i) {
    if (!can_draw(i)) continue;
    if (found.empty() || found.back().last != i) found.push_back({i, i});
    found.back().last = i + 1;
  }
  return found;
}

void draw_band(Svg& svg, const LineSeries& series, const Axis& x, const Axis& y, const Style& style) {
  if (series.low.empty()) return;
  // A lower end at or below 0 goes to the bottom of a log axis, where at() puts everything that is lower.
  const auto has_band = [&](std::size_t i) {
    return can_show(y.scale, series.y[i]) && has_value(series.low[i]) && can_show(y.scale, series.high[i]);
  };
  for (const Run& run : runs(series.x.size(), has_band)) {
    if (run.last - run.first == 1) {  // no width: a whisker
      const double at = x.at(series.x[run.first]);
      const std::string low = svg_number(y.at(series.low[run.first])), high = svg_number(y.at(series.high[run.first]));
      const std::string left = svg_number(at - 3.0), right = svg_number(at + 3.0);
      svg.path(fmt::format("M{0} {1}H{2}M{3} {1}V{4}M{0} {4}H{2}", left, low, right, svg_number(at), high),
               {.colour = style.colour(), .width = 1.0}, "whisker");
      continue;
    }
    std::vector<Point> points;
    for (std::size_t i = run.first; i < run.last; ++i) points.push_back({x.at(series.x[i]), y.at(series.high[i])});
    for (std::size_t i = run.last; i > run.first; --i)
      points.push_back({x.at(series.x[i - 1]), y.at(series.low[i - 1])});
    svg.area(polygon(points), {.colour = style.colour(), .opacity = 0.14}, "band");
  }
}

void draw_line(Svg& svg, const LineSeries& series, const Axis& x, const Axis& y, const Style& style) {
  svg.begin_group(series.name);
  const auto shown = [&](std::size_t i) { return can_show(y.scale, series.y[i]); };
  const std::vector<Run> lines = runs(series.x.size(), shown);
  for (const Run& run : lines) {
    if (run.last - run.first == 1) continue;
    std::string data;
    for (std::size_t i = run.first; i < run.last; ++i)
      data += fmt::format("{}{} {}", data.empty() ? "M" : "L", svg_number(x.at(series.x[i])),
                          svg_number(y.at(series.y[i])));
    svg.path(data, {.colour = style.colour(), .width = 1.5, .dashes = style.dashes()}, "line");
  }
  for (const Run& run : lines) {
    // Many points have markers on some only, not the same ones for every series, and every run has one.
    const double length = x.at(series.x[run.last - 1]) - x.at(series.x[run.first]);
    const double pitch = length / static_cast<double>(std::max<std::size_t>(run.last - run.first - 1, 1));
    const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(kMarkerPitch / std::max(pitch, 1e-3) - 0.5)));
    const std::size_t skip = std::min(style.number * 3 % every, (run.last - run.first - 1) / 2);
    for (std::size_t i = run.first + skip; i < run.last; i += every)
      draw_marker(svg, {x.at(series.x[i]), y.at(series.y[i])}, style, "marker");
  }
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (shown(i) || !has_value(series.y[i])) continue;
    const double at = x.at(series.x[i]);
    svg.area(polygon({{at - 4.0, y.start - 7.0}, {at + 4.0, y.start - 7.0}, {at, y.start}}), {.colour = style.colour()},
             "at-zero");
  }
  svg.end_group();
}

struct LegendEntry {
  double x;
  int row;
};

/// Where each name goes: from left to right in rows.
std::vector<LegendEntry> legend_layout(const std::vector<std::string>& names, double width) {
  constexpr double kGap = 18.0;
  std::vector<LegendEntry> entries;
  double x = 0.0;
  int row = 0;
  for (const std::string& name : names) {
    const double entry = kLegendSample + text_width(name, kLabelSize);
    if (x > 0.0 && x + entry > width) {
      x = 0.0;
      ++row;
    }
    entries.push_back({x, row});
    x += entry + kGap;
  }
  return entries;
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

}  // namespace

std::string line_plot(const LinePlot& plot) {
  const std::vector<std::string> names = names_of(plot);
  const std::size_t columns = std::min(plot.panels.size(), kMaxColumns);
  const std::size_t rows = (plot.panels.size() + columns - 1) / columns;
  // One panel fills a column of a paper and four its page.
  constexpr Point kPanelSizes[] = {{420.0, 280.0}, {330.0, 230.0}, {240.0, 190.0}, {190.0, 170.0}};
  const auto [panel_width, panel_height] = kPanelSizes[columns - 1];

  const bool one_y_label = std::all_of(plot.panels.begin(), plot.panels.end(),
                                       [&](const LinePanel& panel) { return panel.y_label == plot.panels[0].y_label; });
  struct Axes {
    Axis x, y;
  };
  std::vector<Axes> axes;
  double tick_room = 0.0;
  for (const LinePanel& panel : plot.panels) {
    axes.push_back({x_axis(panel), y_axis(panel)});
    for (const Tick& tick : axes.back().y.ticks) tick_room = std::max(tick_room, tick.width() + 6.0);
  }
  const double label_room = 18.0;
  const double pitch_x = panel_width + tick_room + (one_y_label ? 18.0 : 18.0 + label_room);
  const double first_left = kMargin + label_room + tick_room;
  const double width = first_left + pitch_x * static_cast<double>(columns - 1) + panel_width + kMargin;
  const double full_width = width - 2.0 * kMargin;
  const double pitch_y = panel_height + 72.0;

  const std::vector<std::string> subtitle = wrapped(plot.subtitle, kLabelSize, full_width);
  const std::vector<LegendEntry> legend = legend_layout(names, full_width);
  const std::vector<std::string> title = wrapped(plot.title, kBoldWidth * kTitleSize, full_width);
  const double subtitle_top = kMargin + (title.empty() ? 0.0 : 6.0 + kTitleHeight * static_cast<double>(title.size()));
  const double legend_top = subtitle_top + kLineHeight * static_cast<double>(subtitle.size()) + 4.0;
  const bool titled =
      std::any_of(plot.panels.begin(), plot.panels.end(), [](const LinePanel& panel) { return !panel.title.empty(); });
  const double panels_top = legend_top + kLineHeight * (legend.back().row + 1) + (titled ? 30.0 : 14.0);

  const double notes_top = panels_top + pitch_y * static_cast<double>(rows) - 30.0;
  const std::vector<std::string> notes = wrapped(note(plot), kTickSize, full_width);
  const double height = notes_top + kLineHeight * static_cast<double>(notes.size()) + 6.0;

  Svg svg(width, height, plot.title,
          fmt::format("Line chart with {} of {}.", counted(plot.panels.size(), "panel", "panels"),
                      counted(names.size(), "series", "series")));
  for (std::size_t i = 0; i < title.size(); ++i)
    svg.text(kMargin, kMargin + 7.0 + kTitleHeight * static_cast<double>(i), title[i],
             {.size = kTitleSize, .fill = kInkColour, .bold = true, .max_width = full_width}, "title");
  for (std::size_t i = 0; i < subtitle.size(); ++i)
    svg.text(kMargin, subtitle_top + kLineHeight * (static_cast<double>(i) + 0.5), subtitle[i],
             {.size = kLabelSize, .fill = kQuietColour, .max_width = full_width}, "subtitle");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Style style{i};
    const double x = kMargin + legend[i].x, y = legend_top + kLineHeight * (legend[i].row + 0.5);
    svg.line(x, y, x + 30.0, y, {.colour = style.colour(), .width = 1.5, .dashes = style.dashes()});
    draw_marker(svg, {x + 15.0, y}, style, "legend-marker");
    svg.text(x + kLegendSample, y, names[i],
             {.size = kLabelSize, .fill = kInkColour, .max_width = full_width - kLegendSample}, "legend");
  }

  for (std::size_t p = 0; p < plot.panels.size(); ++p) {
    const LinePanel& panel = plot.panels[p];
    const Frame frame{.left = first_left + pitch_x * static_cast<double>(p % columns),
                      .top = panels_top + pitch_y * static_cast<double>(p / columns),
                      .width = panel_width,
                      .height = panel_height,
                      .tick_room = tick_room};
    auto& [x, y] = axes[p];
    x.start = frame.left, x.end = frame.left + frame.width;
    y.start = frame.top + frame.height, y.end = frame.top;
    draw_axes(svg, panel, x, y, frame, !one_y_label || p % columns == 0);
    const auto style_of = [&](const LineSeries& series) {
      return Style{static_cast<std::size_t>(std::find(names.begin(), names.end(), series.name) - names.begin())};
    };
    // All bands lie behind all lines, and the series named first, which is the one of interest, is in front.
    for (auto series = panel.series.rbegin(); series != panel.series.rend(); ++series)
      draw_band(svg, *series, x, y, style_of(*series));
    for (auto series = panel.series.rbegin(); series != panel.series.rend(); ++series)
      draw_line(svg, *series, x, y, style_of(*series));
    svg.path(
        fmt::format("M{} {}V{}H{}", svg_number(x.start), svg_number(y.end), svg_number(y.start), svg_number(x.end)),
        {.colour = kFrameColour}, "frame");
  }
  for (std::size_t i = 0; i < notes.size(); ++i)
    svg.text(kMargin, notes_top + kLineHeight * (static_cast<double>(i) + 0.5), notes[i],
             {.size = kTickSize, .fill = kQuietColour}, "note");
  return svg.str();
}

}  // namespace labelshift
