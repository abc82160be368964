#include "labelshift/report/series_style.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <numbers>

namespace labelshift {
namespace {

// Okabe and Ito's palette without its yellow, which is lost on white, and with a brown in its place.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#000000", "#56b4e9", "#e69f00", "#7f4f24"};
constexpr const char* kDashes[] = {nullptr, "7 2.5", "2 2", "8 2 2 2"};
constexpr std::size_t kShapes = std::size(kColours);
static_assert(kMaxSeriesStyles == 2 * kShapes);  // filled markers, then hollow ones

/// `corners` on a circle, the first at `turn` clockwise from the top.
std::string regular(SvgPoint at, int corners, double radius, double turn) {
  std::vector<SvgPoint> points;
  for (int i = 0; i < corners; ++i) {
    const double angle = turn + 2.0 * std::numbers::pi * i / corners;
    points.push_back({at.x + radius * std::sin(angle), at.y - radius * std::cos(angle)});
  }
  return svg_polygon(points);
}

/// Two bars that cross at right angles, one of them at `turn` from upright.
std::string cross(SvgPoint at, double turn) {
  constexpr double kLong = 4.2, kThick = 1.35;
  std::vector<SvgPoint> points;
  for (int arm = 0; arm < 4; ++arm) {
    const double angle = turn + std::numbers::pi / 2.0 * arm;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    for (const SvgPoint corner : {SvgPoint{-kThick, kLong}, SvgPoint{kThick, kLong}, SvgPoint{kThick, kThick}})
      points.push_back({at.x + corner.x * cosine + corner.y * sine, at.y + corner.x * sine - corner.y * cosine});
  }
  return svg_polygon(points);
}

/// The outline of a marker; all look about equally large.
std::string marker(SvgPoint at, std::size_t shape) {
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

}  // namespace

const char* SeriesStyle::colour() const {
  return kColours[number % kShapes];
}

const char* SeriesStyle::dashes() const {
  return kDashes[number % std::size(kDashes)];
}

bool SeriesStyle::hollow() const {
  return number >= kShapes;
}

void draw_marker(Svg& svg, SvgPoint at, const SeriesStyle& style, const char* css_class) {
  // The white rim of a filled marker keeps it apart from lines that pass behind it.
  const Fill fill = style.hollow()
                        ? Fill{.colour = "#ffffff", .outline = Stroke{.colour = style.colour(), .width = 1.2}}
                        : Fill{.colour = style.colour(), .outline = Stroke{.colour = "#ffffff", .width = 0.6}};
  svg.area(marker(at, style.number % kShapes), fill, css_class);
}

}  // namespace labelshift
