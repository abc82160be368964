#include "labelshift/experiments/comparison_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "labelshift/experiments/evaluation_table.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostNodes = 10;  // that have a column each
constexpr const char* kSpreadNote = "Spread is the standard deviation between the accuracies of the nodes.";
constexpr const char* kAdaptedNote =
    "Adapted is another number than accuracy: every node has corrected the model for its own estimated mix. Majority "
    "is "
    "always saying the most frequent class of that mix.";

template <typename Holds>
bool any_row(const ComparisonResult& result, const Holds& holds) {
  return std::any_of(result.rows.begin(), result.rows.end(), holds);
}

bool has_paper(const RowResult& row) {
  return row.paper.accuracy.has_value();
}

/// The names of nodes, where they have any.
std::vector<std::string> node_names(const ComparisonResult& result) {
  for (const RowResult& row : result.rows)
    for (const RunResult& run : row.runs)
      if (!run.node_names.empty()) return run.node_names;
  return {};
}

std::string name_of(const ComparisonResult& result, Index node) {
  return RunResult{.node_names = node_names(result)}.name_of(node);
}

/// The first run that knows a node's own mix, which leaves a node in a simulation alone; nullptr if none does.
const RunResult* run_with_mixes(const ComparisonResult& result) {
  for (const RowResult& row : result.rows)
    for (const RunResult& run : row.runs)
      for (const NodeRatio& node : run.state.ratios)
        if (node.estimate.size() > 0) return &run;
  return nullptr;
}

/// Columns of a node's own mix: for each class q_k, the ends of its interval, and the truth.
std::vector<Column> mix_columns(const RunResult& run) {
  Index classes = 0;
  for (const NodeRatio& node : run.state.ratios) classes = std::max(classes, node.estimate.size());
  std::vector<Column> columns{number_column("p-value of the mix", "p_value")};
  for (Index c = 0; c < classes; ++c) {
    const std::string name = run.class_name(c);
    for (const char* what : {"estimate", "low", "high", "truth"})
      columns.push_back(number_column(fmt::format("{} of {}", what, name), fmt::format("{}_{}", what, name)));
  }
  return columns;
}

/// A cell for each of so many of these columns.
std::vector<Cell> mix_cells(const RunResult& run, Index node, std::size_t columns) {
  std::vector<Cell> cells(columns);
  for (const NodeRatio& one : run.state.ratios) {
    if (one.node != node) continue;
    cells[0] = one.p_value;
    std::size_t first = 1;
    for (const Eigen::VectorXd* shares : {&one.estimate, &one.low, &one.high, &one.truth}) {
      std::size_t at = first++;
      for (Index c = 0; c < shares->size() && at < columns; ++c, at += 4) cells[at] = (*shares)[c];
    }
  }
  return cells;
}

/// A column of nodes, by their names or numbers, and a cell of it.
Column node_column(const ComparisonResult& result) {
  return node_names(result).empty() ? count_column("node", "node") : text_column("node", "node");
}
Cell node_cell(const RunResult& run, Index node) {
  return run.node_names.empty() ? Cell(std::int64_t{node + 1}) : Cell(run.name_of(node));
}

template <typename Item>
void append(std::vector<Item>& to, const std::vector<Item>& items) {
  to.insert(to.end(), items.begin(), items.end());
}

MeanDeviation of_paper(const PaperFigure& paper) {
  return {paper.accuracy.value_or(kUnknown), paper.deviation.value_or(kUnknown)};
}

/// What an accuracy of the comparison is, as a sentence.
std::string what_is_compared(const Experiment& experiment, const ComparisonResult& result) {
  std::vector<MeanDeviation> nodes;
  for (const RowResult& row : result.rows)
    if (nodes.empty()) nodes = row.nodes;
  const auto judged = static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [](const MeanDeviation& node) { return !std::isnan(node.mean); }));
  std::string whose = judged == 1 ? "1 node" : fmt::format("{} nodes", judged);
  if (judged < nodes.size())
    whose = fmt::format("{} of {} nodes, those that have labelled test examples and were there,", judged, nodes.size());
  const std::string what = experiment.report_node > 0
                               ? fmt::format("The accuracy of {}", name_of(result, experiment.report_node - 1))
                               : fmt::format("The average of the accuracies of {} on their test data", whose);
  const std::size_t seeds = experiment.seeds.size();
  return what + (seeds > 1 ? fmt::format(", mean +- standard deviation over {} seeds.", seeds) : ", one seed.");
}

/// The mean over nodes of |q_k - truth|_1, where it is known.
double mean_node_error(const FederationState& state) {
  std::vector<double> errors;
  for (const NodeRatio& node : state.ratios)
    if (!std::isnan(node.prior_error)) errors.push_back(node.prior_error);
  return mean_deviation(errors).mean;
}

/// What the phases of the first seed that was run cost.
std::vector<PhaseCost> first_costs(const RowResult& row) {
  return row.runs.empty() ? std::vector<PhaseCost>() : row.runs.front().state.phases;
}

/// A column for every phase that any row has, and `cell` of what the phase cost a row; of the first seed.
template <typename MakeCell>
Table cost_table(const ComparisonResult& result, const char* name, const Column& like, const MakeCell& cell) {
  Table table{.columns = {text_column(name, "run")}};
  std::vector<std::string> phases;
  for (const char* phase :
       {phase::kJoin, phase::kPredictor, phase::kRatio, phase::kTraining, phase::kRefresh, phase::kEvaluation}) {
    if (!any_row(result, [&](const RowResult& row) {
          const auto costs = first_costs(row);
          return std::any_of(costs.begin(), costs.end(), [&](const PhaseCost& cost) { return cost.name == phase; });
        }))
      continue;
    phases.emplace_back(phase);
    table.columns.push_back(like);
    table.columns.back().name = table.columns.back().key = phase;
  }
  for (const RowResult& row : result.rows) {
    std::vector<Cell>& line = table.rows.emplace_back(std::vector<Cell>{row.name});
    line.resize(table.columns.size());
    for (const PhaseCost& cost : first_costs(row)) {
      const auto at = std::find(phases.begin(), phases.end(), cost.name);
      if (at != phases.end()) line[static_cast<std::size_t>(at - phases.begin()) + 1] = cell(row, cost);
    }
  }
  return table;
}

}  // namespace

Table average_table(const Experiment& experiment, const ComparisonResult& result) {
  const bool paper = any_row(result, has_paper);
  const auto by_epochs = [](const ComparedRun& run) { return run.settings.federation.local.epochs > 0; };
  const bool rounds = std::any_of(experiment.runs.begin(), experiment.runs.end(), by_epochs);
  Table table{.columns = {text_column("run", "run"), mean_column("accuracy", "accuracy")},
              .notes = {what_is_compared(experiment, result)}};
  if (paper) table.columns.push_back(mean_column("paper", "paper"));
  const bool adapted = any_row(result, [](const RowResult& row) { return !std::isnan(row.adapted.mean); });
  if (adapted) {
    table.columns.insert(table.columns.end(), {mean_column("adapted", "adapted"), mean_column("majority", "majority")});
    table.notes.push_back(kAdaptedNote);
  }
  table.columns.push_back(count_column("iterations", "iterations"));
  if (rounds) table.columns.push_back(count_column("rounds", "rounds"));
  for (std::size_t r = 0; r < result.rows.size(); ++r) {
    const RowResult& row = result.rows[r];
    const FederationSettings& settings = experiment.runs[r].settings.federation;
    std::vector<Cell>& line = table.rows.emplace_back(std::vector<Cell>{row.name, row.accuracy});
    if (paper) line.emplace_back(of_paper(row.paper));
    if (adapted && std::isnan(row.adapted.mean))
      line.resize(line.size() + 2);
    else if (adapted)
      line.insert(line.end(), {row.adapted, row.majority});
    const double iterations = mean_iterations(experiment, experiment.runs[r], settings.rounds);
    line.push_back(by_epochs(experiment.runs[r]) ? Cell() : Cell(std::int64_t{std::llround(iterations)}));
    if (rounds) line.emplace_back(std::int64_t{settings.rounds});
  }
  return table;
}

Table paired_table(const Experiment& experiment, const ComparisonResult& result) {
  Table table{.columns = {text_column("seed by seed", "run"), number_column("difference", "difference"),
                          number_column("low", "low"), number_column("high", "high"), count_column("seeds", "seeds")}};
  for (const PairedDifference& one : paired_differences(experiment, result)) {
    table.columns[1].name = "more than " + one.of;
    table.rows.push_back(
        {one.row, one.difference.mean, one.difference.low, one.difference.high, static_cast<std::int64_t>(one.seeds)});
  }
  table.notes = {"Differences of accuracies, paired by seed; low and high are the ends of Student's 95 % interval."};
  return table;
}

Table node_table(const ComparisonResult& result) {
  std::size_t nodes = 0;
  for (const RowResult& row : result.rows) nodes = std::max(nodes, row.nodes.size());
  const std::size_t shown = nodes <= kMostNodes ? nodes : 0;
  const bool paper = any_row(result, has_paper);
  Table table{.columns = {text_column("run", "run")}, .notes = {kSpreadNote}};
  if (paper) table.columns.push_back(text_column("by", "by"));
  table.columns.push_back(mean_column("average", "average"));
  for (std::size_t k = 1; k <= shown; ++k)
    table.columns.push_back(mean_column(name_of(result, static_cast<Index>(k) - 1), fmt::format("node_{}", k)));
  if (shown == 0)
    table.columns.insert(table.columns.end(), {mean_column("worst", "worst"), mean_column("best", "best")});
  table.columns.push_back(mean_column("spread", "spread"));
  for (const RowResult& row : result.rows) {
    std::vector<Cell> line{row.name};
    if (paper) line.emplace_back("labelshift");
    line.emplace_back(row.accuracy);
    for (std::size_t k = 0; k < shown; ++k) line.push_back(k < row.nodes.size() ? Cell(row.nodes[k]) : Cell());
    if (shown == 0) line.insert(line.end(), {row.worst, row.best});
    line.emplace_back(row.spread);
    table.rows.push_back(std::move(line));
    if (!has_paper(row)) continue;
    std::vector<Cell> theirs{row.name, "paper", of_paper(row.paper)};
    for (std::size_t k = 0; k < std::min(shown, row.paper.nodes.size()); ++k)
      theirs.emplace_back(MeanDeviation{.mean = row.paper.nodes[k]});
    theirs.resize(table.columns.size());
    table.rows.push_back(std::move(theirs));
  }
  return table;
}

Table spread_table(const ComparisonResult& result) {
  Table table{
      .columns = {text_column("run", "run"), mean_column("worst node", "worst"), mean_column("average", "average"),
                  mean_column("best node", "best"), mean_column("spread", "spread")},
      .notes = {kSpreadNote}};
  for (const RowResult& row : result.rows)
    table.rows.push_back({row.name, row.worst, row.accuracy, row.best, row.spread});
  return table;
}

/// What can be said where test data have no labels, in words that nobody takes for a test accuracy.
Table reweighted_table(const ComparisonResult& result) {
  Table table{
      .columns = {text_column("run", "run"), node_column(result)},
      .notes = {"No test accuracy: held-out training examples, weighted to the label mix that was estimated for "
                "test data without labels. It is as right as that estimate. First seed."}};
  append(table.columns, reweighted_columns());
  for (const RowResult& row : result.rows)
    for (const NodeEvaluation& node : row.runs.empty() ? std::vector<NodeEvaluation>() : row.runs.front().last()) {
      if (std::isnan(node.reweighted_accuracy) || !std::isnan(node.accuracy)) continue;
      append(table.rows.emplace_back(std::vector<Cell>{row.name, node_cell(row.runs.front(), node.node)}),
             reweighted_cells(node));
    }
  return table;
}

Table weight_table(const ComparisonResult& result) {
  Column effective_column = number_column("effective examples", "effective_examples", 1);
  effective_column.unit = "%";
  Table table{.columns = {text_column("importance weights", "run"), significant_column("largest", "largest_weight", 3),
                          effective_column, number_column("error of a node's q", "node_error", 3),
                          number_column("error of sum q", "target_error", 3)}};
  for (const RowResult& row : result.rows) {
    std::vector<double> largest, effective, of_node, error;
    for (const RunResult& run : row.runs) {
      if (run.state.ratios.empty()) continue;
      largest.push_back(run.state.largest_weight);
      effective.push_back(run.state.effective_share);
      of_node.push_back(mean_node_error(run.state));
      error.push_back(run.state.target_error);
    }
    if (largest.empty()) continue;
    table.rows.push_back({row.name, *std::max_element(largest.begin(), largest.end()),
                          100.0 * mean_deviation(effective).mean, mean_deviation(of_node).mean,
                          mean_deviation(error).mean});
  }
  return table;
}

Table traffic_table(const ComparisonResult& result) {
  Table table = cost_table(result, "rounds, bytes up / down a node", {.kind = ColumnKind::kTransfer},
                           [](const RowResult& row, const PhaseCost& cost) {
                             const auto nodes = static_cast<double>(std::max<std::size_t>(row.nodes.size(), 1));
                             return Transfer{cost.rounds, static_cast<double>(cost.traffic.up) / nodes,
                                             static_cast<double>(cost.traffic.down) / nodes};
                           });
  const bool summed = any_row(result, [](const RowResult& row) {
    const auto costs = first_costs(row);
    return std::any_of(costs.begin(), costs.end(),
                       [](const PhaseCost& cost) { return cost.name == phase::kRatio && cost.rounds == 2; });
  });
  if (summed)
    table.notes = {
        "Ratios take one round in which a node sends its m numbers, and one that brings the sum of all nodes "
        "back."};
  return table;
}

Table time_table(const ComparisonResult& result) {
  return cost_table(result, "time", {.kind = ColumnKind::kNumber, .digits = 1, .unit = "s"},
                    [](const RowResult&, const PhaseCost& cost) { return cost.seconds; });
}

Table tuning_table(const ComparisonResult& result) {
  const std::string tuned = fmt::format("tuned on seed {}", kTuningSeed);
  Table table{
      .columns = {text_column(tuned, "run"), text_column("chosen", "chosen"), count_column("of", "candidates")}};
  for (const RowResult& row : result.rows)
    if (!row.trials.empty() && !row.runs.empty())
      table.rows.push_back({row.name, row.trials[row.chosen].settings, std::ssize(row.trials)});
  return table;
}

std::vector<Table> comparison_tables(const Experiment& experiment, const ComparisonResult& result,
                                     ComparisonView view) {
  std::vector<Table> tables;
  const auto add = [&](Table table) {
    if (!table.rows.empty()) tables.push_back(std::move(table));
  };
  if (result.is_judged()) {
    switch (view) {
      case ComparisonView::kAverage:
        add(average_table(experiment, result));
        break;
      case ComparisonView::kNodes:
        add(node_table(result));
        break;
      case ComparisonView::kSpread:
        add(spread_table(result));
        break;
    }
  }
  add(reweighted_table(result));
  if (view != ComparisonView::kAverage) return tables;
  if (result.is_judged()) add(paired_table(experiment, result));
  add(weight_table(result));
  add(traffic_table(result));
  add(time_table(result));
  add(tuning_table(result));
  return tables;
}

Table evaluation_table(const ComparisonResult& result) {
  Table table{.columns = {text_column("run", "run"), count_column("seed", "seed")}};
  append(table.columns, evaluation_columns());
  const std::size_t first = 2;  // of the columns of an evaluation, which is that of the node
  table.columns[first] = node_column(result);
  const bool adapted = any_row(result, [](const RowResult& row) {
    return std::any_of(row.runs.begin(), row.runs.end(), [](const RunResult& run) {
      const std::vector<NodeEvaluation> last = run.last();
      return std::any_of(last.begin(), last.end(), is_adapted);
    });
  });
  if (adapted) append(table.columns, adapted_columns());
  const RunResult* known = run_with_mixes(result);
  const std::vector<Column> mixes = known ? mix_columns(*known) : std::vector<Column>();
  append(table.columns, mixes);
  for (const RowResult& row : result.rows)
    for (const RunResult& run : row.runs)
      for (const NodeEvaluation& node : run.last()) {
        std::vector<Cell>& line = table.rows.emplace_back();
        line = {row.name, static_cast<std::int64_t>(run.seed)};
        append(line, evaluation_cells(node));
        line[first] = node_cell(run, node.node);
        if (adapted) append(line, adapted_cells(node));
        if (known) append(line, mix_cells(run, node.node, mixes.size()));
      }
  return table;
}

std::vector<std::string> comparison_notes(const ComparisonResult& result, const std::string& how_to_repeat) {
  std::vector<std::string> notes = result.notes;
  const bool any_run = any_row(result, [](const RowResult& row) {
    return std::any_of(row.runs.begin(), row.runs.end(), [](const RunResult& run) { return !run.was_there; });
  });
  if (result.failures.empty() && !any_run)
    notes.push_back(fmt::format("all of this was in {} already and nothing was run{}.", result.folder, how_to_repeat));
  return notes;
}

std::string comparison_text(const Experiment& experiment, const ComparisonResult& result, ComparisonView view,
                            const std::string& how_to_repeat) {
  std::string text = experiment.title + "\n\n";
  for (const Table& table : comparison_tables(experiment, result, view)) text += table_text(table) + "\n";
  for (const std::string& note : comparison_notes(result, how_to_repeat)) text += "Note: " + note + "\n";
  for (const RunFailure& failure : result.failures)
    text += fmt::format("Failed: {}, seed {}: {}\n", failure.row, failure.seed, failure.error.what());
  const std::string& figure = view == ComparisonView::kSpread ? result.spread_figure : result.figure;
  if (!figure.empty()) text += "Figure:  " + figure + "\n";
  if (!result.mix_figure.empty()) text += "Mixes:   " + result.mix_figure + "\n";
  if (!result.report.empty()) text += "Report:  " + result.report + "\n";
  text += fmt::format("Summary: {}\nNodes:   {}\n", result.summary, result.table);
  if (result.rows.size() == 1 && result.rows[0].runs.size() == 1)
    text += fmt::format("Run:     {}\n", result.rows[0].runs[0].folder);
  return text;
}

std::optional<Error> failure_of(const ComparisonResult& result) {
  if (result.failures.empty()) return std::nullopt;
  const RunFailure& first = result.failures.front();
  std::size_t runs = result.failures.size();
  for (const RowResult& row : result.rows) runs += row.runs.size();
  return first.error.reworded(fmt::format("{} of {} runs failed, the first: {}, seed {}: {}", result.failures.size(),
                                          runs, first.row, first.seed, first.error.what()));
}

}  // namespace labelshift
