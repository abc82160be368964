#pragma once

#include <string>
#include <vector>

#include "labelshift/experiments/convergence_study.hpp"
#include "labelshift/report/line_plot.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

std::string x_label(Knob knob);
std::string y_label(Measure measure);

/// Every series of a figure with its measured slope, the predicted one and what follows.
Table convergence_table(const ConvergenceFigure& figure, const std::vector<ConvergencePanelResult>& panels);

/// What was measured, next to lines of the slopes that are predicted for the first series.
LinePlot convergence_plot(const ConvergenceFigure& figure, const std::vector<ConvergencePanelResult>& panels,
                          int seeds);

}  // namespace labelshift
