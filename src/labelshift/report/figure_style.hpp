#pragma once

namespace labelshift {

// What figures look like, so that those of one page go together.
inline constexpr const char* kInkColour = "#1d2733";
inline constexpr const char* kQuietColour = "#5b6673";
inline constexpr const char* kGridColour = "#e6e9ed";
inline constexpr const char* kFrameColour = "#9aa3ad";

inline constexpr double kMargin = 16.0;
inline constexpr double kLabelSize = 11.0;
inline constexpr double kTickSize = 10.0;
inline constexpr double kLineHeight = 16.0;  // of text of these two sizes

}  // namespace labelshift
