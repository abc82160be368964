#pragma once

#include <cstddef>

#include "labelshift/report/svg.hpp"

namespace labelshift {

/// So many styles can be told apart.
inline constexpr std::size_t kMaxSeriesStyles = 16;

/// How one of several series looks. Two differ in colour or in marker, and in dashes if they are neighbours, so that
/// they can be told apart by the colour-blind and in grey print.
struct SeriesStyle {
  std::size_t number = 0;  // among the series; below kMaxSeriesStyles

  const char* colour() const;
  const char* dashes() const;  // nullptr: solid
  bool hollow() const;         // whether its markers are
};

void draw_marker(Svg& svg, SvgPoint at, const SeriesStyle& style, const char* css_class);

}  // namespace labelshift
