#include "labelshift/experiments/evaluation_table.hpp"

#include <iterator>
#include <utility>

namespace labelshift {
namespace {

template <typename Item>
std::vector<Item> joined(std::vector<Item> first, std::vector<Item> second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  return first;
}

}  // namespace

std::vector<Column> reweighted_columns() {
  return {number_column("reweighted source accuracy", "reweighted_source_accuracy"),
          interval_column("95 % interval", "reweighted"),
          number_column("effective examples", "reweighted_effective_examples", 1)};
}

std::vector<Cell> reweighted_cells(const NodeEvaluation& evaluation) {
  return {evaluation.reweighted_accuracy, IntervalEnds{evaluation.reweighted_low, evaluation.reweighted_high},
          evaluation.reweighted_examples};
}

std::vector<Column> evaluation_columns() {
  return joined({count_column("node", "node"), count_column("examples", "examples"),
                 number_column("accuracy", "accuracy"), number_column("loss", "loss")},
                reweighted_columns());
}

std::vector<Cell> evaluation_cells(const NodeEvaluation& evaluation) {
  return joined(
      {std::int64_t{evaluation.node + 1}, std::int64_t{evaluation.examples}, evaluation.accuracy, evaluation.loss},
      reweighted_cells(evaluation));
}

Table rounds_table(const std::vector<NodeEvaluation>& history) {
  Table table{.columns = joined({count_column("round", "round")}, evaluation_columns())};
  table.rows.reserve(history.size());
  for (const NodeEvaluation& one : history)
    table.rows.push_back(joined({Cell(std::int64_t{one.round})}, evaluation_cells(one)));
  return table;
}

}  // namespace labelshift
