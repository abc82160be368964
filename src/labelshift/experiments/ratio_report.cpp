#include "labelshift/experiments/ratio_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace labelshift {
namespace {

/// The predictors of a panel, those of one zeta together.
Table quality_table(const PanelSummary& panel, const std::vector<PredictorQuality>& quality) {
  Table table{.title = panel.title,
              .columns = {text_column("zeta", "zeta"), number_column("accuracy", "accuracy"),
                          number_column("ECE", "ece"), count_column("predictors", "predictors")}};
  std::vector<Zeta> zetas;
  for (const PredictorQuality& one : quality)
    if (std::find(zetas.begin(), zetas.end(), one.zeta) == zetas.end()) zetas.push_back(one.zeta);
  for (const Zeta& zeta : zetas) {
    std::vector<double> accuracy, error;
    for (const PredictorQuality& one : quality) {
      if (one.zeta != zeta) continue;
      accuracy.push_back(one.accuracy);
      error.push_back(one.calibration_error);
    }
    table.rows.push_back(
        {zeta_text(zeta), mean_deviation(accuracy).mean, mean_deviation(error).mean, std::ssize(accuracy)});
  }
  return table;
}

/// The methods of a panel next to each other.
Table method_table(const PanelSummary& panel) {
  const std::string& first = panel.methods.front().method;
  Table table{.columns = {text_column("method", "method"), significant_column("MSE (geometric mean)", "mse", 3),
                          significant_column(fmt::format("ratio to {}", first), "ratio", 3),
                          significant_column("95 % interval", "ratio", 3, ColumnKind::kInterval),
                          number_column("slope of RMSE", "rmse_slope", 2),
                          significant_column("MSE floor", "mse_floor", 2)}};
  for (const MethodSummary& method : panel.methods) {
    std::vector<Cell>& row = table.rows.emplace_back(std::vector<Cell>{method.method, method.geometric_mean});
    row.resize(table.columns.size());
    if (method.method == first) row[2] = 1.0;
    for (const Comparison& pair : panel.comparisons) {  // first against method; shown the other way round
      if (pair.a != first || pair.b != method.method) continue;
      row[2] = 1.0 / pair.ratio.mean;
      row[3] = IntervalEnds{1.0 / pair.ratio.high, 1.0 / pair.ratio.low};
    }
    if (!method.size_law) continue;
    row[4] = method.size_law->slope.mean;
    row[5] = method.size_law->floor;
  }
  return table;
}

}  // namespace

std::vector<Table> ratio_tables(const StudyResult& result) {
  std::vector<Table> tables;
  for (std::size_t i = 0; i < result.panels.size(); ++i) {
    tables.push_back(quality_table(result.panels[i], result.quality[i]));
    tables.push_back(method_table(result.panels[i]));
  }
  return tables;
}

LinePlot ratio_plot(const RatioFigure& figure, const FigureScale& scale, const StudyResult& result) {
  LinePlot plot{.title = figure.title};
  int fewest = figure.panels.front().predictors, most = fewest;
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    const RatioPanel& panel = figure.panels[i];
    fewest = std::min(fewest, panel.predictors);
    most = std::max(most, panel.predictors);
    LinePanel drawn{.title = panel.title,
                    .x_label = panel.sweep == Sweep::kAlpha ? "alpha of the Dirichlet shift" : "test examples",
                    .y_label = "MSE of the ratios"};
    for (const MethodSummary& method : result.panels[i].methods) {
      LineSeries series{.name = method.method, .x = result.panels[i].values};
      for (const MeanInterval& mse : method.mse) {
        series.y.push_back(mse.mean);
        series.low.push_back(mse.low);
        series.high.push_back(mse.high);
      }
      drawn.series.push_back(std::move(series));
    }
    plot.panels.push_back(std::move(drawn));
  }
  const std::string range = fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  plot.subtitle =
      most > 1
          ? fmt::format(
                "Means over {} trials, then geometric means over {} predictors; bands are 95 % intervals "
                "over predictors.",
                scale.trials, range)
          : fmt::format("Means over {} trials of one predictor; bands are 95 % intervals over trials.", scale.trials);
  for (const std::string& note : result.notes) plot.subtitle += " " + note;
  return plot;
}

}  // namespace labelshift
