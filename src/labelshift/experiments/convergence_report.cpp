#include "labelshift/experiments/convergence_report.hpp"

#include <fmt/format.h>

#include <cmath>

namespace labelshift {
namespace {

std::string panel_name(const ConvergencePanel& panel) {
  return panel.title.empty() ? x_label(panel.knob) : fmt::format("{}: {}", x_label(panel.knob), panel.title);
}

/// The line of the predicted slope through the first point of the first series or, where the slope is of its quotient
/// by the second, what the second makes of it. Nothing if nothing is predicted or no point was reached.
std::optional<LineSeries> predicted_line(const ConvergencePanelResult& panel) {
  const ConvergenceLine& line = panel.lines.front();
  const std::optional<double> slope = panel.ratio ? panel.ratio->predicted : line.predicted;
  std::size_t first = 0;
  while (first < line.x.size() && std::isnan(line.y[first].mean)) ++first;
  if (!slope || first == line.x.size()) return std::nullopt;
  LineSeries drawn{.name = "predicted"};
  for (std::size_t i = first; i < line.x.size(); ++i) {
    const double baseline = panel.ratio ? panel.lines[1].y[i].mean / panel.lines[1].y[first].mean : 1.0;
    drawn.x.push_back(line.x[i]);
    drawn.y.push_back(line.y[first].mean * baseline * std::pow(line.x[i] / line.x[first], *slope));
  }
  return drawn;
}

}  // namespace

std::string x_label(Knob knob) {
  switch (knob) {
    case Knob::kShift:
      return "r_max / K";
    case Knob::kShiftRootCondition:
      return "r_max sqrt(kappa) / K";
    case Knob::kRootShiftCondition:
      return "sqrt(r_max kappa / K)";
    case Knob::kDecay:
      return "kappa";
    case Knob::kLocalSteps:
      return "tau";
    case Knob::kNodes:
      return "K";
    case Knob::kSampled:
      return "nodes in a round";
    case Knob::kVariance:
      return "1 + q / K";
    case Knob::kAccuracy:
      return "1 / epsilon";
    case Knob::kDecades:
      return "log10(1 / epsilon)";
    case Knob::kGradients:
      return "T";
    case Knob::kExamples:
      return "n";
  }
  return "";
}

std::string y_label(Measure measure) {
  switch (measure) {
    case Measure::kRounds:
      return "rounds to epsilon";
    case Measure::kGradient:
      return "mean |grad F|^2";
    case Measure::kExcess:
      return "excess risk";
  }
  return "";
}

Table convergence_table(const ConvergenceFigure& figure, const std::vector<ConvergencePanelResult>& panels) {
  Table table{
      .title = figure.title,
      .columns = {text_column("against", "panel"), text_column("series", "series"),
                  significant_column("first", "first", 3), significant_column("last", "last", 3),
                  number_column("slope", "slope", 2), interval_column("95 % interval", "slope"),
                  number_column("predicted", "predicted", 2), significant_column("within 10 % up to", "level_until", 3),
                  text_column("verdict", "verdict")}};
  table.columns[5].digits = 2;
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const auto add = [&](const ConvergenceLine& line) {
      table.rows.push_back({panel_name(figure.panels[p]), line.name, line.y.front().mean, line.y.back().mean,
                            line.slope.mean, IntervalEnds{line.slope.low, line.slope.high},
                            line.predicted ? Cell(*line.predicted) : Cell(),
                            line.predicted && *line.predicted > 0.0 ? Cell(line.level_until) : Cell(),
                            std::string(verdict_text(line.verdict))});
    };
    for (const ConvergenceLine& line : panels[p].lines) add(line);
    if (panels[p].ratio) add(*panels[p].ratio);
  }
  return table;
}

LinePlot convergence_plot(const ConvergenceFigure& figure, const std::vector<ConvergencePanelResult>& panels,
                          int seeds) {
  LinePlot plot{.title = figure.title};
  plot.subtitle = fmt::format(
      "Geometric means over {} seeds; bands are 95 % intervals over seeds. Slopes on these scales, with such "
      "intervals:",
      seeds);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const ConvergencePanel& panel = figure.panels[p];
    LinePanel drawn{.title = panel.title, .x_label = x_label(panel.knob), .y_label = y_label(panel.measure)};
    for (const ConvergenceLine& line : panels[p].lines) {
      LineSeries series{.name = line.name, .x = line.x};
      for (const MeanInterval& y : line.y) {
        series.y.push_back(y.mean);
        series.low.push_back(y.low);
        series.high.push_back(y.high);
      }
      drawn.series.push_back(std::move(series));
    }
    const ConvergenceLine& judged = panels[p].ratio ? *panels[p].ratio : panels[p].lines.front();
    plot.subtitle += fmt::format("{} {}, {}: {:.2f} ({:.2f} to {:.2f})", p > 0 ? ";" : "", panel_name(panel),
                                 judged.name, judged.slope.mean, judged.slope.low, judged.slope.high);
    if (judged.predicted) plot.subtitle += fmt::format(", predicted {:.2f}", *judged.predicted);
    if (const auto line = predicted_line(panels[p])) drawn.series.push_back(*line);
    plot.panels.push_back(std::move(drawn));
  }
  plot.subtitle += ".";
  return plot;
}

}  // namespace labelshift
