#pragma once

#include "labelshift/report/axis.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {

/// How wide the label of a tick is.
double label_width(const Tick& tick);

/// How much room the labels of a vertical axis need on its left.
double label_room(const Axis& y);

/// The ticks of both axes, their labels below and to the left, and the lines of the grid. A label of `x` that would
/// touch another is left out, those between powers of ten first. The axes' coordinates are those of the frame.
void draw_ticks(Svg& svg, const Axis& x, const Axis& y);

/// The lines of both axes.
void draw_frame(Svg& svg, const Axis& x, const Axis& y);

}  // namespace labelshift
