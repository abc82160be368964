#include "labelshift/report/figure_style.hpp"

namespace labelshift {

std::span<const SchemeColour> scheme_colours() {
  static constexpr SchemeColour kColours[] = {
      {kInkColour, "#e8ecf1"},
      {"#222222", "#e8ecf1"},
      {kQuietColour, "#a3adb9"},
      {kGridColour, "#2b333d"},
      {kFrameColour, "#6b7682"},
      {kPaperColour, "#161b21"},
      {kBarColour, "#4a545f"},
      // Of series, in the order of SeriesStyle; as light as they are dark on paper.
      {"#0072b2", "#5aaeea"},
      {"#d55e00", "#ff8f47"},
      {"#009e73", "#34cfa0"},
      {"#cc79a7", "#eaa6cb"},
      {"#000000", "#f2f4f7"},
      {"#56b4e9", "#a5dbff"},
      {"#e69f00", "#ffc859"},
      {"#7f4f24", "#c8986b"},
      {"#3a8dc7", "#5aaeea"},  // the target's bars
  };
  return kColours;
}

}  // namespace labelshift
