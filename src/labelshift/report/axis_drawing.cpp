#include "labelshift/report/axis_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labelshift/report/figure_style.hpp"

namespace labelshift {
namespace {

constexpr double kLabelGap = 6.0;  // from a vertical axis to its labels

double tick_length(const Tick& tick) {
  return tick.minor() ? 2.0 : 4.0;
}

void draw_label(Svg& svg, double x, double y, const Tick& tick, Anchor anchor) {
  const TextStyle style{.size = kTickSize, .fill = kQuietColour, .anchor = anchor};
  if (tick.exponent.empty())
    svg.text(x, y, tick.base, style, "tick");
  else
    svg.power(x, y, tick.base, tick.exponent, style, "tick");
}

}  // namespace

double label_width(const Tick& tick) {
  return text_width(tick.base, kTickSize) + text_width(tick.exponent, 0.75 * kTickSize);
}

double label_room(const Axis& y) {
  double room = 0.0;
  for (const Tick& tick : y.ticks) room = std::max(room, label_width(tick) + kLabelGap);
  return room;
}

void draw_ticks(Svg& svg, const Axis& x, const Axis& y) {
  const double left = x.start, right = x.end, top = y.end, bottom = y.start;
  struct Taken {
    double from, to;
  };
  std::vector<Taken> taken;  // by labels of the x axis: others that would touch them are left out
  for (const bool between : {false, true})
    for (const Tick& tick : x.ticks) {
      if (tick.between_powers != between) continue;
      const double at = x.at(tick.value);
      if (!tick.minor()) svg.line(at, top, at, bottom, {.colour = kGridColour}, "grid");
      svg.line(at, bottom, at, bottom + tick_length(tick), {.colour = kFrameColour});
      const double half = label_width(tick) / 2.0 + 2.0;
      const Taken place{at - half, at + half};
      const auto touches = [&](const Taken& other) { return place.from < other.to && other.from < place.to; };
      if (tick.minor() || std::any_of(taken.begin(), taken.end(), touches)) continue;
      draw_label(svg, at, bottom + 12.0, tick, Anchor::kMiddle);
      taken.push_back(place);
    }
  for (const Tick& tick : y.ticks) {
    const double at = y.at(tick.value);
    if (!tick.minor()) svg.line(left, at, right, at, {.colour = kGridColour}, "grid");
    svg.line(left - tick_length(tick), at, left, at, {.colour = kFrameColour});
    if (!tick.minor()) draw_label(svg, left - kLabelGap, at, tick, Anchor::kEnd);
  }
}

void draw_frame(Svg& svg, const Axis& x, const Axis& y) {
  svg.path(fmt::format("M{} {}V{}H{}", svg_number(x.start), svg_number(y.end), svg_number(y.start), svg_number(x.end)),
           {.colour = kFrameColour}, "frame");
}

}  // namespace labelshift
