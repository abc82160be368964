#include "labelshift/experiments/comparison_figures.hpp"

#include <fmt/format.h>

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

LineSeries accuracy_line(const Experiment& experiment, const RowResult& row, const LocalSettings& local) {
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
    series.x.push_back(static_cast<double>(local.iterations(round)));
    series.y.push_back(value.mean);
    series.low.push_back(value.mean - known_deviation(value));
    series.high.push_back(value.mean + known_deviation(value));
  }
  return series;
}

}  // namespace

LinePlot accuracy_plot(const Experiment& experiment, const ComparisonResult& result) {
  LinePanel panel{.x_label = "iterations",
                  .y_label = reported_accuracy(experiment, result),
                  .x_scale = AxisScale::kLinear,
                  .y_scale = AxisScale::kLinear};
  for (std::size_t r = 0; r < result.rows.size() && r < kMaxSeriesStyles; ++r)
    if (!result.rows[r].runs.empty())
      panel.series.push_back(accuracy_line(experiment, result.rows[r], experiment.runs[r].settings.federation.local));
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
