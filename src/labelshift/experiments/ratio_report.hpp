#pragma once

#include <vector>

#include "labelshift/experiments/ratio_study.hpp"
#include "labelshift/report/line_plot.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

/// How good the predictors of each panel are, and its methods next to each other.
std::vector<Table> ratio_tables(const StudyResult& result);

/// The error of every method against what the panels vary. `figure` is the one that was made: scaled().
LinePlot ratio_plot(const RatioFigure& figure, const FigureScale& scale, const StudyResult& result);

}  // namespace labelshift
