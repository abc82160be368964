#pragma once

#include <vector>

#include "labelshift/federation/federation.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

/// What is known of an evaluation of a node. Nodes are counted from 1 in all that people read.
std::vector<Column> evaluation_columns();

/// A cell for each of these columns.
std::vector<Cell> evaluation_cells(const NodeEvaluation& evaluation);

/// A row for each evaluation of a run, with its round.
Table rounds_table(const std::vector<NodeEvaluation>& history);

/// The columns that are known where test data have no labels, which are the last of evaluation_columns().
std::vector<Column> reweighted_columns();
std::vector<Cell> reweighted_cells(const NodeEvaluation& evaluation);

}  // namespace labelshift
