#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/experiments/comparison.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

/// What is shown of a comparison: averages with weights and costs, every node, or the best and the worst node.
enum class ComparisonView { kAverage, kNodes, kSpread };

// One table each; without rows where there is nothing to say.
Table average_table(const Experiment& experiment, const ComparisonResult& result);
Table paired_table(const Experiment& experiment, const ComparisonResult& result);
Table node_table(const ComparisonResult& result);
Table spread_table(const ComparisonResult& result);
Table reweighted_table(const ComparisonResult& result);  // where test data have no labels, under its own name
Table weight_table(const ComparisonResult& result);
Table traffic_table(const ComparisonResult& result);
Table time_table(const ComparisonResult& result);
Table tuning_table(const ComparisonResult& result);

/// The tables of a view that have anything to say, in the order in which they are read.
std::vector<Table> comparison_tables(const Experiment& experiment, const ComparisonResult& result, ComparisonView view);

/// A row for each row of the comparison, seed and node: what the other tables are made of. Where nodes say what they
/// estimated, which they do in a simulation alone, it has each node's q_k, its intervals and the truth too.
Table evaluation_table(const ComparisonResult& result);

/// What has to be said beside the tables, one sentence each. Where nothing was run, since all of it was there, one says
/// so; `how_to_repeat` goes on from it.
std::vector<std::string> comparison_notes(const ComparisonResult& result, const std::string& how_to_repeat = "");

/// A comparison as text: the tables, notes, what failed, and where the files are.
std::string comparison_text(const Experiment& experiment, const ComparisonResult& result, ComparisonView view,
                            const std::string& how_to_repeat = "");

/// What to end with if some of the runs failed.
std::optional<Error> failure_of(const ComparisonResult& result);

}  // namespace labelshift
