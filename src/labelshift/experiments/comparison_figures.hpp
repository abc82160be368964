#pragma once

#include <optional>

#include "labelshift/experiments/comparison.hpp"
#include "labelshift/report/dot_plot.hpp"
#include "labelshift/report/line_plot.hpp"

namespace labelshift {

/// Accuracy against iterations, a line for each row of the comparison.
LinePlot accuracy_plot(const Experiment& experiment, const ComparisonResult& result);

/// A number of the evaluations against rounds of training, a line for each row that has it.
LinePlot progress_plot(const Experiment& experiment, const ComparisonResult& result, double NodeEvaluation::*number,
                       const std::string& label);

/// Estimated shares of classes at nodes against the true ones, a panel for each row that knows both, of its first seed;
/// of many nodes some. Nothing if no row does.
std::optional<LinePlot> mix_plot(const Experiment& experiment, const ComparisonResult& result);

/// Worst, average and best node of each row.
DotPlot spread_plot(const Experiment& experiment, const ComparisonResult& result);

}  // namespace labelshift
