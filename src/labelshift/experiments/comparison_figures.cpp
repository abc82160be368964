#include "labelshift/experiments/comparison_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "labelshift/report/series_style.hpp"

namespace labelshift {
namespace {

std::string subtitle(const std::string& of_several, const Experiment& experiment, const ComparisonResult& result) {
  std::string text = experiment.seeds.size() > 1 ? of_several : "One seed.";
  for (const std::string& note : result.notes) text += " " + note;
  return text;
}

std::string reported_accuracy(const Experiment& experiment, const ComparisonResult& result) {
  if (experiment.report_node == 0) return "average accuracy of the nodes";
  for (const RowResult& row : result.rows)
    if (!row.runs.empty()) return "accuracy of " + row.runs.front().name_of(experiment.report_node - 1);
  return fmt::format("accuracy of node {}", experiment.report_node);
}

std::string means_over(const Experiment& experiment) {
  return fmt::format("Means over {} seeds; bands are one standard deviation.", experiment.seeds.size());
}

double known_deviation(const MeanDeviation& value) {
  return std::isnan(value.deviation) ? 0.0 : value.deviation;
}

/// A number of the evaluations of a row against rounds, or against iterations of the row that is given.
LineSeries progress_line(const Experiment& experiment, const RowResult& row, double NodeEvaluation::*number,
                         const ComparedRun* compared) {
  std::map<int, std::vector<double>> by_round;  // a value for each run
  for (const RunResult& run : row.runs) {
    RunResult until{.state = {}};  // the evaluations of one round
    const std::vector<NodeEvaluation>& history = run.state.history;
    for (std::size_t i = 0; i < history.size(); ++i) {
      until.state.history.push_back(history[i]);
      if (i + 1 < history.size() && history[i + 1].round == history[i].round) continue;
      by_round[history[i].round].push_back(judged_by(experiment, until, number));
      until.state.history.clear();
    }
  }
  LineSeries series{.name = row.name};
  for (const auto& [round, values] : by_round) {
    const MeanDeviation value = mean_deviation(values);
    series.x.push_back(compared ? mean_iterations(experiment, *compared, round) : round);
    series.y.push_back(value.mean);
    series.low.push_back(value.mean - known_deviation(value));
    series.high.push_back(value.mean + known_deviation(value));
  }
  return series;
}

constexpr std::size_t kMostPoints = 300;  // of nodes and classes in one panel

/// The nodes whose estimate and true mix are both known; of too many some, from all parts of the list.
std::vector<const NodeRatio*> nodes_with_mixes(const RunResult& run) {
  std::vector<const NodeRatio*> known, some;
  for (const NodeRatio& node : run.state.ratios)
    if (node.estimate.size() > 0 && node.truth.size() == node.estimate.size()) known.push_back(&node);
  if (known.empty()) return known;
  const auto classes = static_cast<std::size_t>(known.front()->estimate.size());
  const std::size_t most = std::max<std::size_t>(kMostPoints / classes, 1);
  if (known.size() <= most) return known;
  for (std::size_t i = 0; i < most; ++i) some.push_back(known[i * known.size() / most]);
  return some;
}

/// A series for each class, or one for all where there are too many to tell apart.
LinePanel mix_panel(const RowResult& row, const RunResult& run, const std::vector<const NodeRatio*>& nodes) {
  LinePanel panel{.title = row.name,
                  .x_label = "true share",
                  .y_label = "estimated share",
                  .x_scale = AxisScale::kLinear,
                  .y_scale = AxisScale::kLinear};
  const Index classes = nodes.front()->estimate.size();
  const bool apart = classes < static_cast<Index>(kMaxSeriesStyles);
  double most = 0.0;
  for (Index c = 0; c < classes; ++c) {
    if (apart || c == 0) panel.series.push_back({.name = apart ? run.class_name(c) : "a class", .joined = false});
    LineSeries& series = panel.series.back();
    for (const NodeRatio* node : nodes) {
      const bool has_interval = node->low.size() == classes && node->high.size() == classes;
      series.x.push_back(node->truth[c]);
      series.y.push_back(node->estimate[c]);
      series.low.push_back(has_interval ? node->low[c] : kUnknown);
      series.high.push_back(has_interval ? node->high[c] : kUnknown);
      most = std::max({most, node->truth[c], node->estimate[c]});
    }
  }
  panel.series.push_back({.name = "estimate = truth", .x = {0.0, most}, .y = {0.0, most}});
  return panel;
}

}  // namespace

std::optional<LinePlot> mix_plot(const Experiment& experiment, const ComparisonResult& result) {
  LinePlot plot{
      .title = experiment.title,
      .subtitle = "A point is the share of a class at a node, and its whisker the 95 % interval, where there is one."};
  std::size_t shown = 0, of = 0;
  for (const RowResult& row : result.rows)
    for (const RunResult& run : row.runs) {
      const std::vector<const NodeRatio*> nodes = nodes_with_mixes(run);
      if (nodes.empty()) continue;
      plot.panels.push_back(mix_panel(row, run, nodes));
      shown = std::max(shown, nodes.size());
      of = std::max(of, run.state.ratios.size());
      break;
    }
  if (plot.panels.empty()) return std::nullopt;
  if (experiment.seeds.size() > 1) plot.subtitle += " First seed.";
  if (shown < of) plot.subtitle += fmt::format(" {} of {} nodes are shown.", shown, of);
  return plot;
}

LinePlot accuracy_plot(const Experiment& experiment, const ComparisonResult& result) {
  LinePanel panel{.x_label = "iterations",
                  .y_label = reported_accuracy(experiment, result),
                  .x_scale = AxisScale::kLinear,
                  .y_scale = AxisScale::kLinear};
  for (std::size_t r = 0; r < result.rows.size() && r < kMaxSeriesStyles; ++r)
    if (!result.rows[r].runs.empty())
      panel.series.push_back(progress_line(experiment, result.rows[r], &NodeEvaluation::accuracy, &experiment.runs[r]));
  const std::string of_several = means_over(experiment);
  return {.title = experiment.title, .subtitle = subtitle(of_several, experiment, result), .panels = {panel}};
}

LinePlot progress_plot(const Experiment& experiment, const ComparisonResult& result, double NodeEvaluation::*number,
                       const std::string& label) {
  LinePlot plot{.panels = {{.x_label = "rounds of training",
                            .y_label = label,
                            .x_scale = AxisScale::kLinear,
                            .y_scale = AxisScale::kLinear}}};
  if (experiment.seeds.size() > 1) plot.subtitle = means_over(experiment);
  for (std::size_t r = 0; r < result.rows.size() && r < kMaxSeriesStyles; ++r) {
    if (result.rows[r].runs.empty()) continue;
    LineSeries line = progress_line(experiment, result.rows[r], number, nullptr);
    plot.names.push_back(line.name);
    if (std::any_of(line.y.begin(), line.y.end(), has_value)) plot.panels[0].series.push_back(std::move(line));
  }
  return plot;
}

DotPlot spread_plot(const Experiment& experiment, const ComparisonResult& result) {
  const std::string of_several =
      fmt::format("Whiskers are one standard deviation over {} seeds.", experiment.seeds.size());
  DotPlot plot{.title = experiment.title,
               .subtitle = subtitle(of_several, experiment, result),
               .row_label = "run",
               .x_label = "accuracy (share of test examples)",
               .series = {{.name = "average"}, {.name = "worst node"}, {.name = "best node"}},
               .joined = true,
               .shown = {.low = 0.0, .high = 1.0}};
  const auto add = [](DotSeries& series, const MeanDeviation& value) {
    const double deviation = known_deviation(value);
    series.values.push_back(value.mean);
    series.low.push_back(deviation > 0.0 ? value.mean - deviation : kUnknown);
    series.high.push_back(deviation > 0.0 ? value.mean + deviation : kUnknown);
  };
  for (const RowResult& row : result.rows) {
    if (row.runs.empty()) continue;
    std::vector<double> averages;
    for (const RunResult& run : row.runs) averages.push_back(average_accuracy(run.state.history));
    plot.rows.push_back(row.name);
    add(plot.series[0], mean_deviation(averages));
    add(plot.series[1], row.worst);
    add(plot.series[2], row.best);
  }
  return plot;
}

}  // namespace labelshift
