#pragma once

#include <span>

namespace labelshift {

// What figures look like, so that those of one page go together.
inline constexpr const char* kInkColour = "#1d2733";
inline constexpr const char* kQuietColour = "#5b6673";
inline constexpr const char* kGridColour = "#e6e9ed";
inline constexpr const char* kFrameColour = "#9aa3ad";
inline constexpr const char* kPaperColour = "#ffffff";
inline constexpr const char* kBarColour = "#c3c9d1";  // grey that stays apart from other colours in grey print

inline constexpr double kMargin = 16.0;
inline constexpr double kLabelSize = 11.0;
inline constexpr double kTickSize = 10.0;
inline constexpr double kLineHeight = 16.0;  // of text of these two sizes
inline constexpr double kTitleSize = 14.0;
inline constexpr double kTitleHeight = 18.0;  // of a line of the title

/// A colour of figures, and what a page that is dark shows in its place.
struct SchemeColour {
  const char* light;
  const char* dark;
};

/// All colours that figures are drawn in.
std::span<const SchemeColour> scheme_colours();

}  // namespace labelshift
