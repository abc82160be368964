#include "labelshift/experiments/evaluation_table.hpp"

#include <algorithm>
#include <cmath>
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

std::vector<Column> adapted_columns() {
  return {number_column("adapted", "adapted"), interval_column("95 % interval", "adapted"),
          number_column("majority", "majority"), interval_column("95 % interval", "majority")};
}

std::vector<Cell> adapted_cells(const NodeEvaluation& evaluation) {
  return {evaluation.adapted, IntervalEnds{evaluation.adapted_low, evaluation.adapted_high}, evaluation.majority,
          IntervalEnds{evaluation.majority_low, evaluation.majority_high}};
}

bool is_adapted(const NodeEvaluation& evaluation) {
  return !std::isnan(evaluation.adapted);
}

Table rounds_table(const std::vector<NodeEvaluation>& history) {
  Table table{.columns = joined({count_column("round", "round")}, evaluation_columns())};
  const bool adapted = std::any_of(history.begin(), history.end(), is_adapted);
  if (adapted) table.columns = joined(std::move(table.columns), adapted_columns());
  table.rows.reserve(history.size());
  for (const NodeEvaluation& one : history) {
    table.rows.push_back(joined({Cell(std::int64_t{one.round})}, evaluation_cells(one)));
    if (adapted) table.rows.back() = joined(std::move(table.rows.back()), adapted_cells(one));
  }
  return table;
}

}  // namespace labelshift
