#pragma once

#include <string>
#include <vector>

#include "labelshift/experiments/comparison_tables.hpp"

namespace labelshift::cli {

/// The values of --show, in the order of ComparisonView.
inline const std::vector<std::string> kComparisonViews = {"average", "nodes", "spread"};

/// Prints a comparison. The first warnings of its runs go to standard error, and where the others are.
void show_comparison(const Experiment& experiment, const ComparisonResult& result, ComparisonView view);

}  // namespace labelshift::cli
