#include "labelshift/experiments/comparison_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

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

double known_deviation(const MeanDeviation& value) {
  return std::isnan(value.deviation) ? 0.0 : value.deviation;
}

LineSeries accuracy_line(const Experiment& experiment, const RowResult& row, const ComparedRun& compared) {
  LineSeries series{.name = row.name};
  std::set<int> rounds;
  for (const NodeEvaluation& one : row.runs.front().state.history) rounds.insert(one.round);
  for (const int round : rounds) {
    std::vector<double> values;
    for (const RunResult& run : row.runs) {
      RunResult until{.state = {}};
      for (const NodeEvaluation& one : run.state.history)
        if (one.round == round) until.state.history.push_back(one);
      values.push_back(judged_accuracy(experiment, until));
    }
    const MeanDeviation value = mean_deviation(values);
    series.x.push_back(mean_iterations(experiment, compared, round));
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
      panel.series.push_back(accuracy_line(experiment, result.rows[r], experiment.runs[r]));
  const std::string of_several =
      fmt::format("Means over {} seeds; bands are one standard deviation.", experiment.seeds.size());
  return {.title = experiment.title, .subtitle = subtitle(of_several, experiment, result), .panels = {panel}};
}

RangePlot spread_plot(const Experiment& experiment, const ComparisonResult& result) {
  const auto point = [](const MeanDeviation& value) { return RangePoint{value.mean, known_deviation(value)}; };
  const std::string of_several =
      fmt::format("Whiskers are one standard deviation over {} seeds.", experiment.seeds.size());
  RangePlot plot{
      .title = experiment.title, .subtitle = subtitle(of_several, experiment, result), .x_label = "accuracy"};
  for (const RowResult& row : result.rows) {
    if (row.runs.empty()) continue;
    std::vector<double> averages;
    for (const RunResult& run : row.runs) averages.push_back(average_accuracy(run.state.history));
    plot.rows.push_back({row.name, point(row.worst), point(mean_deviation(averages)), point(row.best)});
  }
  return plot;
}

}  // namespace labelshift
