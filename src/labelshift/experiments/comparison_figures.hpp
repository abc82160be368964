#pragma once

#include "labelshift/experiments/comparison.hpp"
#include "labelshift/report/line_plot.hpp"
#include "labelshift/report/range_plot.hpp"

namespace labelshift {

/// Accuracy against iterations, a line for each row of the comparison.
LinePlot accuracy_plot(const Experiment& experiment, const ComparisonResult& result);

/// Worst, average and best node of each row.
RangePlot spread_plot(const Experiment& experiment, const ComparisonResult& result);

}  // namespace labelshift
