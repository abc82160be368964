#pragma once

#include <vector>

#include "labelshift/federation/federation.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

/// What is known of an evaluation of a node. Nodes are counted from 1 in all that people read.
std::vector<Column> evaluation_columns();

/// A cell for each of these columns.
std::vector<Cell> evaluation_cells(const NodeEvaluation& evaluation);

/// Of the model corrected at a node for the node's own mix, and of always saying the most frequent class of that mix.
/// These columns are shown where is_adapted() holds for some evaluation.
std::vector<Column> adapted_columns();
std::vector<Cell> adapted_cells(const NodeEvaluation& evaluation);
bool is_adapted(const NodeEvaluation& evaluation);

/// A row for each evaluation of a run, with its round.
Table rounds_table(const std::vector<NodeEvaluation>& history);

/// The columns that are known where test data have no labels, which are the last of evaluation_columns().
std::vector<Column> reweighted_columns();
std::vector<Cell> reweighted_cells(const NodeEvaluation& evaluation);

}  // namespace labelshift
