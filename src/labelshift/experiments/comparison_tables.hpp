#pragma once

#include <vector>

#include "labelshift/experiments/comparison.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

/// What is shown of a comparison: averages with weights and costs, every node, or the best and the worst node.
enum class ComparisonView { kAverage, kNodes, kSpread };

/// The tables of a view that have anything to say, in the order in which they are read.
std::vector<Table> comparison_tables(const Experiment& experiment, const ComparisonResult& result, ComparisonView view);

/// A row for each row of the comparison, seed and node: what the other tables are made of.
Table evaluation_table(const ComparisonResult& result);

}  // namespace labelshift
