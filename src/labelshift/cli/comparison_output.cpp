#include "labelshift/cli/comparison_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/cli/result_output.hpp"
#include "labelshift/cli/terminal.hpp"

namespace labelshift::cli {
namespace {

using Table = std::vector<std::vector<std::string>>;

constexpr std::size_t kMostColumns = 10;   // of nodes
constexpr std::size_t kMostWarnings = 10;  // on a screen

std::string accuracy_text(const MeanDeviation& value) {
  if (std::isnan(value.mean)) return "-";
  if (std::isnan(value.deviation)) return fmt::format("{:.4f}", value.mean);
  return fmt::format("{:.4f} +- {:.4f}", value.mean, value.deviation);
}

std::string paper_text(const PaperFigure& paper) {
  if (!paper.accuracy) return "-";
  return accuracy_text({*paper.accuracy, paper.deviation.value_or(kUnknown)});
}

std::string bytes_text(double bytes) {
  if (bytes < 10'000.0) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e7) return fmt::format("{:.0f} kB", bytes / 1e3);
  return bytes < 1e10 ? fmt::format("{:.0f} MB", bytes / 1e6) : fmt::format("{:.0f} GB", bytes / 1e9);
}

bool any(const ComparisonResult& result, bool (*holds)(const RowResult&)) {
  return std::any_of(result.rows.begin(), result.rows.end(), holds);
}

/// What the phases of the first seed that was run cost.
std::vector<PhaseCost> first_costs(const RowResult& row) {
  return row.runs.empty() ? std::vector<PhaseCost>() : row.runs.front().state.phases;
}

std::string average_table(const Experiment& experiment, const ComparisonResult& result) {
  const bool paper = any(result, [](const RowResult& row) { return row.paper.accuracy.has_value(); });
  Table table{{"run", "accuracy"}};
  if (paper) table[0].push_back("paper");
  table[0].push_back("iterations");
  for (std::size_t r = 0; r < result.rows.size(); ++r) {
    const RowResult& row = result.rows[r];
    std::vector<std::string>& line = table.emplace_back();
    line = {row.name, accuracy_text(row.accuracy)};
    if (paper) line.push_back(paper_text(row.paper));
    const FederationSettings& settings = experiment.runs[r].settings.federation;
    line.push_back(settings.local.epochs > 0 ? fmt::format("{} rounds", settings.rounds)
                                             : fmt::format("{}", std::int64_t{settings.rounds} * settings.local.steps));
  }
  const std::size_t seeds = experiment.seeds.size();
  std::vector<MeanDeviation> nodes;
  for (const RowResult& row : result.rows)
    if (nodes.empty()) nodes = row.nodes;
  const auto judged = static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [](const MeanDeviation& node) { return !std::isnan(node.mean); }));
  std::string whose = judged == 1 ? "1 node" : fmt::format("{} nodes", judged);
  if (judged < nodes.size())
    whose = fmt::format("{} of {} nodes, those with labelled test examples,", judged, nodes.size());
  const std::string what = experiment.report_node > 0
                               ? fmt::format("The accuracy of node {}", experiment.report_node)
                               : fmt::format("The average of the accuracies of {} on their test data", whose);
  return aligned(table) + what +
         (seeds > 1 ? fmt::format(", mean +- standard deviation over {} seeds.\n", seeds) : ", one seed.\n");
}

std::string node_table(const ComparisonResult& result) {
  std::size_t nodes = 0;
  for (const RowResult& row : result.rows) nodes = std::max(nodes, row.nodes.size());
  const std::size_t shown = nodes <= kMostColumns ? nodes : 0;
  Table table{{"run", "average"}};
  for (std::size_t k = 0; k < shown; ++k) table[0].push_back(fmt::format("node {}", k + 1));
  if (shown == 0) table[0].insert(table[0].end(), {"worst", "best"});
  table[0].push_back("spread");
  for (const RowResult& row : result.rows) {
    std::vector<std::string>& line = table.emplace_back();
    line = {row.name, accuracy_text(row.accuracy)};
    for (std::size_t k = 0; k < shown; ++k) line.push_back(k < row.nodes.size() ? accuracy_text(row.nodes[k]) : "");
    if (shown == 0) line.insert(line.end(), {accuracy_text(row.worst), accuracy_text(row.best)});
    line.push_back(accuracy_text(row.spread));
    if (!row.paper.accuracy) continue;
    std::vector<std::string>& paper = table.emplace_back();
    paper = {"  paper", fmt::format("{:.4f}", *row.paper.accuracy)};
    for (std::size_t k = 0; k < shown; ++k)
      paper.push_back(k < row.paper.nodes.size() ? fmt::format("{:.4f}", row.paper.nodes[k]) : "");
    paper.resize(table[0].size());
  }
  return aligned(table) + "Spread is the standard deviation between the accuracies of the nodes.\n";
}

std::string spread_table(const ComparisonResult& result) {
  Table table{{"run", "worst node", "average", "best node", "spread"}};
  for (const RowResult& row : result.rows)
    table.push_back({row.name, accuracy_text(row.worst), accuracy_text(row.accuracy), accuracy_text(row.best),
                     accuracy_text(row.spread)});
  return aligned(table) + "Spread is the standard deviation between the accuracies of the nodes.\n";
}

/// What can be said where test data have no labels, in words that nobody takes for a test accuracy.
std::string reweighted_table(const ComparisonResult& result) {
  Table table{{"run", "node", "reweighted source accuracy", "95 % interval", "effective examples"}};
  for (const RowResult& row : result.rows)
    for (const NodeEvaluation& node : row.runs.empty() ? std::vector<NodeEvaluation>() : row.runs.front().last()) {
      if (std::isnan(node.reweighted_accuracy) || !std::isnan(node.accuracy)) continue;
      table.push_back({row.name, fmt::format("{}", node.node + 1), fmt::format("{:.4f}", node.reweighted_accuracy),
                       fmt::format("{:.4f} to {:.4f}", node.reweighted_low, node.reweighted_high),
                       fmt::format("{:.1f}", node.reweighted_examples)});
    }
  if (table.size() == 1) return "";
  return aligned(table) +
         "No test accuracy: held-out training examples, weighted to the label mix that was estimated for test data "
         "without labels. It is as right as that estimate. First seed.\n";
}

std::string weight_table(const ComparisonResult& result) {
  Table table{{"importance weights", "largest", "effective examples", "error of sum q"}};
  for (const RowResult& row : result.rows) {
    std::vector<double> largest, effective, error;
    for (const RunResult& run : row.runs) {
      if (run.state.ratios.empty()) continue;
      double most = 0.0, examples = 0.0, useful = 0.0;
      for (const NodeRatio& node : run.state.ratios) {
        most = std::max(most, node.largest);
        examples += node.examples;
        useful += node.effective_examples;
      }
      largest.push_back(most);
      effective.push_back(useful / examples);
      error.push_back(run.state.target_error);
    }
    if (largest.empty()) continue;
    const double wrong = mean_deviation(error).mean;
    table.push_back({row.name, fmt::format("{:.3g}", *std::max_element(largest.begin(), largest.end())),
                     fmt::format("{:.1f} %", 100.0 * mean_deviation(effective).mean),
                     std::isnan(wrong) ? "-" : fmt::format("{:.3f}", wrong)});
  }
  return table.size() == 1 ? "" : aligned(table);
}

/// What each phase sent, as it was encoded, and took; of the first seed.
std::string cost_table(const ComparisonResult& result) {
  std::vector<std::string> phases;
  for (const char* name : {"join", "predictor", "ratio", "training", "evaluation"})
    for (const RowResult& row : result.rows)
      for (const PhaseCost& phase : first_costs(row))
        if (phase.name == name && (phases.empty() || phases.back() != name)) phases.emplace_back(name);
  Table table{{"rounds, bytes up / down a node"}}, seconds{{"seconds"}};
  for (Table* one : {&table, &seconds}) one->front().insert(one->front().end(), phases.begin(), phases.end());
  for (const RowResult& row : result.rows) {
    std::vector<std::string> sent{row.name}, took{row.name};
    const auto nodes = static_cast<double>(std::max<std::size_t>(row.nodes.size(), 1));
    for (const std::string& name : phases) {
      sent.emplace_back("-");
      took.emplace_back("-");
      for (const PhaseCost& phase : first_costs(row)) {
        if (phase.name != name) continue;
        sent.back() =
            fmt::format("{}, {} / {}", phase.rounds, bytes_text(static_cast<double>(phase.traffic.up) / nodes),
                        bytes_text(static_cast<double>(phase.traffic.down) / nodes));
        took.back() = fmt::format("{:.1f}", phase.seconds);
      }
    }
    table.push_back(std::move(sent));
    seconds.push_back(std::move(took));
  }
  std::string text = aligned(table);
  const bool summed = any(result, [](const RowResult& row) {
    const auto costs = first_costs(row);
    return std::any_of(costs.begin(), costs.end(),
                       [](const PhaseCost& phase) { return phase.name == "ratio" && phase.rounds == 2; });
  });
  if (summed)
    text +=
        "Ratios take one round in which a node sends its m numbers, and one that brings the sum of all nodes back.\n";
  return text + "\n" + aligned(seconds);
}

std::string tuning_text(const ComparisonResult& result) {
  Table table{{"tuned on seed 1000", "chosen", "of"}};
  for (const RowResult& row : result.rows)
    if (!row.trials.empty() && !row.runs.empty())
      table.push_back({row.name, row.trials[row.chosen].settings, fmt::format("{}", row.trials.size())});
  return table.size() == 1 ? "" : aligned(table) + "\n";
}

}  // namespace

void show_warnings(const ComparisonResult& result) {
  for (std::size_t i = 0; i < result.warnings.size() && i < kMostWarnings; ++i) warn(result.warnings[i]);
  if (result.warnings.size() > kMostWarnings)
    warn(fmt::format("{} more like these are in {}", result.warnings.size() - kMostWarnings, result.summary));
}

std::optional<Error> failure_of(const ComparisonResult& result) {
  if (result.failures.empty()) return std::nullopt;
  const RunFailure& first = result.failures.front();
  std::size_t runs = result.failures.size();
  for (const RowResult& row : result.rows) runs += row.runs.size();
  return first.error.reworded(fmt::format("{} of {} runs failed, the first: {}, seed {}: {}", result.failures.size(),
                                          runs, first.row, first.seed, first.error.what()));
}

std::string comparison_text(const Experiment& experiment, const ComparisonResult& result, ComparisonView view) {
  std::string text = experiment.title + "\n\n";
  const bool judged = any(result, [](const RowResult& row) { return !std::isnan(row.accuracy.mean); });
  if (judged && view == ComparisonView::kAverage) text += average_table(experiment, result) + "\n";
  if (judged && view == ComparisonView::kNodes) text += node_table(result) + "\n";
  if (judged && view == ComparisonView::kSpread) text += spread_table(result) + "\n";
  if (const std::string table = reweighted_table(result); !table.empty()) text += table + "\n";
  if (view == ComparisonView::kAverage) {
    if (const std::string table = weight_table(result); !table.empty()) text += table + "\n";
    text += cost_table(result) + "\n" + tuning_text(result);
  }
  for (const std::string& note : result.notes) text += "Note: " + note + "\n";
  const auto was_there = [](const RunResult& run) { return run.was_there; };
  for (const RunFailure& failure : result.failures)
    text += fmt::format("Failed: {}, seed {}: {}\n", failure.row, failure.seed, failure.error.what());
  if (result.failures.empty() && std::all_of(result.rows.begin(), result.rows.end(), [&](const RowResult& row) {
        return std::all_of(row.runs.begin(), row.runs.end(), was_there);
      }))
    text += fmt::format("Note: all of this was in {} already and nothing was run; another --output runs it again.\n",
                        result.folder);
  if (!result.figure.empty() && view != ComparisonView::kSpread) text += "Figure:  " + result.figure + "\n";
  if (!result.spread_figure.empty() && view == ComparisonView::kSpread)
    text += "Figure:  " + result.spread_figure + "\n";
  text += fmt::format("Summary: {}\nNodes:   {}\n", result.summary, result.table);
  if (result.rows.size() == 1 && result.rows[0].runs.size() == 1)
    text += fmt::format("Run:     {}\n", result.rows[0].runs[0].folder);
  return text;
}

}  // namespace labelshift::cli
