#include "labelshift/experiments/convergence_study.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/files/csv_reader.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/experiments/convergence_report.hpp"
#include "labelshift/experiments/study_pages.hpp"
#include "labelshift/experiments/study_parts.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {
namespace {

constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

const char* rule_of(const ConvergenceRecipe& recipe) {
  return recipe.step == StepChoice::kTuned ? "tuned" : "theorem";
}

Json describe(const ConvergenceRecipe& recipe) {
  return {{"algorithm", recipe.algorithm},
          {"net", recipe.net},
          {"weights", recipe.weighted},
          {"nodes", recipe.nodes},
          {"shift", recipe.shift},
          {"examples", recipe.examples},
          {"local_steps", recipe.local_steps},
          {"batch", recipe.batch},
          {"sampled", recipe.sampled},
          {"codec", recipe.codec},
          {"variance", recipe.variance},
          {"l2", recipe.l2},
          {"epsilon", recipe.accuracy},
          {"rounds", recipe.rounds},
          {"step", rule_of(recipe)}};
}

Json describe(std::span<const ConvergenceFigure> figures, const ConvergenceSettings& settings) {
  Json json{{"data", settings.data}, {"seeds", settings.seeds}, {"seed", settings.seed}, {"version", version()}};
  for (const ConvergenceFigure& figure : figures) {
    Json& one = json["figures"].emplace_back(Json{{"figure", figure.name}, {"title", figure.title}});
    for (const ConvergencePanel& panel : figure.panels) {
      Json& shown = one["panels"].emplace_back(
          Json{{"title", panel.title}, {"x", x_label(panel.knob)}, {"y", y_label(panel.measure)}});
      shown["values"] = panel.values;
      for (const ConvergenceSeries& series : panel.series) {
        Json& row = shown["series"].emplace_back(Json{{"name", series.name}});
        row.update(describe(series.recipe));
      }
    }
  }
  return json;
}

/// All runs of a series at one value of the knob, and where they are kept.
struct Point {
  std::size_t figure, panel, series, value;
  std::string path;
};

std::vector<Point> points_of(std::span<const ConvergenceFigure> figures, const std::string& folder) {
  std::vector<Point> points;
  for (std::size_t f = 0; f < figures.size(); ++f)
    for (std::size_t p = 0; p < figures[f].panels.size(); ++p)
      for (std::size_t s = 0; s < figures[f].panels[p].series.size(); ++s)
        for (std::size_t v = 0; v < figures[f].panels[p].values.size(); ++v)
          points.push_back({f, p, s, v, fmt::format("{}/parts/{}-{}-{}-{}.csv", folder, figures[f].name, p, s, v)});
  return points;
}

/// A column of a table for programs alone.
Column column(ColumnKind kind, const char* key) {
  return {.name = key, .key = key, .kind = kind};
}

void append(std::vector<Cell>& row, std::vector<Cell> cells) {
  row.insert(row.end(), std::make_move_iterator(cells.begin()), std::make_move_iterator(cells.end()));
}

std::vector<Column> row_columns() {
  std::vector<Column> columns{column(ColumnKind::kCount, "seed")};
  for (const char* key : {"x", "step", "y", "beta", "kappa", "gap"})
    columns.push_back(column(ColumnKind::kNumber, key));
  return columns;
}

std::vector<Cell> cells_of(const ConvergenceRow& row) {
  return {std::int64_t{row.seed}, row.x, row.step, row.y, row.beta, row.kappa, row.gap};
}

void write_rows(const std::string& path, const std::vector<ConvergenceRow>& rows) {
  Table table{.title = "", .columns = row_columns(), .rows = {}, .notes = {}};
  for (const ConvergenceRow& row : rows) table.rows.push_back(cells_of(row));
  write_part(path, table_csv(table));
}

/// All runs of a study: where in it, with what, and what came of it.
Table runs_table() {
  constexpr ColumnKind kText = ColumnKind::kText, kCount = ColumnKind::kCount, kNumber = ColumnKind::kNumber;
  Table table{
      .title = "",
      .columns = {column(kText, "figure"), column(kText, "panel"), column(kText, "series"), column(kText, "algorithm"),
                  column(kText, "net"), column(kText, "weights"), column(kCount, "nodes"), column(kNumber, "shift"),
                  column(kCount, "examples"), column(kCount, "local_steps"), column(kCount, "batch"),
                  column(kCount, "sampled"), column(kText, "codec"), column(kNumber, "variance"), column(kNumber, "l2"),
                  column(kNumber, "epsilon"), column(kCount, "rounds"), column(kText, "step_rule")},
      .rows = {},
      .notes = {}};
  for (Column& one : row_columns()) table.columns.push_back(std::move(one));
  table.columns.push_back(column(kText, "version"));
  return table;
}

std::vector<Cell> cells_of(const ConvergenceRecipe& recipe) {
  return {recipe.algorithm,
          recipe.net,
          recipe.weighted ? "true" : "false",
          std::int64_t{recipe.nodes},
          recipe.shift,
          std::int64_t{recipe.examples},
          std::int64_t{recipe.local_steps},
          std::int64_t{recipe.batch},
          std::int64_t{recipe.sampled},
          recipe.codec,
          recipe.variance,
          recipe.l2,
          recipe.accuracy,
          std::int64_t{recipe.rounds},
          rule_of(recipe)};
}

std::vector<ConvergenceRow> read_rows(const std::string& path, int seeds) {
  std::istringstream text(read_part(path).value_or(""));
  RowReader reader(text, /*columns=*/7, path);
  std::vector<ConvergenceRow> rows;
  std::vector<double> cells;
  while (reader.next(cells))
    rows.push_back({.seed = static_cast<int>(cells[0]),
                    .x = cells[1],
                    .step = cells[2],
                    .y = cells[3],
                    .beta = cells[4],
                    .kappa = cells[5],
                    .gap = cells[6]});
  bool valid = std::ssize(rows) == seeds;
  for (int i = 0; valid && i < seeds; ++i) valid = rows[i].seed == i && rows[i].x > 0.0 && rows[i].y >= 0.0;
  if (!valid)
    throw Error(ErrorKind::kInput, fmt::format("{} is not a part of this study; remove it to make it again", path));
  return rows;
}

Json interval(const MeanInterval& value) {
  return {json_number(value.mean), json_number(value.low), json_number(value.high)};
}

Json describe(const ConvergenceLine& line) {
  Json json{{"x", line.x},
            {"predicted_slope", line.predicted ? Json(*line.predicted) : Json()},
            {"slope", interval(line.slope)},
            {"verdict", verdict_text(line.verdict)},
            {"level_until", line.level_until}};
  for (const MeanInterval& y : line.y) json["y"].push_back(interval(y));
  return json;
}

SlopeVerdict judge(const MeanInterval& slope, std::optional<double> predicted) {
  if (!predicted) return SlopeVerdict::kBaseline;
  if (std::isnan(slope.mean)) return SlopeVerdict::kNotMeasured;
  if (slope.low > *predicted + kSlopeTolerance) return SlopeVerdict::kMore;
  if (slope.high < *predicted - kSlopeTolerance) return SlopeVerdict::kLess;
  return slope.high - slope.low > 1.0 ? SlopeVerdict::kOpen : SlopeVerdict::kAsPredicted;
}

/// (points) of the quotients of two series at the same seeds.
std::vector<std::vector<ConvergenceRow>> quotients(std::vector<std::vector<ConvergenceRow>> above,
                                                   const std::vector<std::vector<ConvergenceRow>>& below) {
  for (std::size_t v = 0; v < above.size(); ++v)
    for (std::size_t i = 0; i < above[v].size(); ++i)
      above[v][i].y = below[v][i].y > 0.0 ? above[v][i].y / below[v][i].y : 0.0;
  return above;
}

}  // namespace

const char* verdict_text(SlopeVerdict verdict) {
  switch (verdict) {
    case SlopeVerdict::kBaseline:
      return "";
    case SlopeVerdict::kNotMeasured:
      return "not reached";
    case SlopeVerdict::kAsPredicted:
      return "as predicted";
    case SlopeVerdict::kLess:
      return "less than the bound";
    case SlopeVerdict::kMore:
      return "more than the bound";
    case SlopeVerdict::kOpen:
      return "open";
  }
  return "";
}

ConvergenceLine summarise_line(const std::string& name, const std::vector<std::vector<ConvergenceRow>>& rows,
                               std::optional<double> predicted) {
  constexpr double kLevel = 1.1;
  ConvergenceLine line{.name = name, .predicted = predicted, .slope = {kUnmeasured, kUnmeasured, kUnmeasured}};
  std::vector<std::vector<double>> x(rows.front().size()), y = x;  // [seed][point that all have reached]
  bool level = true;
  for (const std::vector<ConvergenceRow>& point : rows) {
    std::vector<double> places, values;
    for (const ConvergenceRow& row : point) {
      places.push_back(row.x);
      if (row.y > 0.0) values.push_back(row.y);
    }
    const bool reached = values.size() == point.size();
    line.x.push_back(mean_interval(places).mean);
    line.y.push_back(reached ? geometric_interval(values) : MeanInterval{kUnmeasured, kUnmeasured, kUnmeasured});
    level = level && line.y.back().mean <= kLevel * line.y.front().mean;
    if (level) line.level_until = line.x.back();
    for (std::size_t i = 0; reached && i < values.size(); ++i) {
      x[i].push_back(places[i]);
      y[i].push_back(values[i]);
    }
  }
  if (x.front().size() > 1) {
    std::vector<double> slopes;
    for (std::size_t i = 0; i < x.size(); ++i) slopes.push_back(log_slope(x[i], y[i]));
    line.slope = mean_interval(slopes);
  }
  line.verdict = judge(line.slope, predicted);
  return line;
}

ConvergenceResult run_convergence_study(std::span<const ConvergenceFigure> figures, const ConvergenceSettings& settings,
                                        const Observer& observer) {
  if (settings.output.empty())
    throw Error(ErrorKind::kUsage, "the name of the output folder is empty; choose one", Remedy::kOutputFolder);
  const std::string folder = settings.output + "/" + kConvergence;
  Json json = describe(figures, settings);
  LoadedDataset data = load_dataset(settings.data);
  claim_folder(folder, json_text(json));
  ConvergenceTrials trials(std::move(data.parts.train), settings.seed);
  const std::vector<Point> points = points_of(figures, folder);
  std::vector<StudyJob> todo;
  for (const Point& point : points) {
    if (read_part(point.path)) continue;
    const ConvergencePanel& panel = figures[point.figure].panels[point.panel];
    todo.push_back({panel.seconds, [&](const Observer& watch) {
                      write_rows(point.path, trials.run(panel, panel.series[point.series].recipe,
                                                        panel.values[point.value], settings.seeds, watch));
                    }});
  }
  run_jobs("runs", todo, {settings.workers, settings.prepare_thread}, observer);

  ConvergenceResult result{.runs = folder + "/runs.csv", .summary = folder + "/summary.json"};
  json["interval"] = "mean, low and high of Student's 95 % interval over seeds, of y by logarithms";
  json["note"] = data.note;
  Table runs = runs_table();
  auto point = points.begin();
  for (std::size_t f = 0; f < figures.size(); ++f) {
    result.figures.emplace_back();
    for (std::size_t p = 0; p < figures[f].panels.size(); ++p) {
      const ConvergencePanel& panel = figures[f].panels[p];
      Json& shown = json["figures"][f]["panels"][p];
      ConvergencePanelResult& lines = result.figures.back().emplace_back();
      std::vector<std::vector<std::vector<ConvergenceRow>>> rows(panel.series.size());
      for (std::size_t s = 0; s < panel.series.size(); ++s) {
        for (const double value : panel.values) {
          rows[s].push_back(read_rows((point++)->path, settings.seeds));
          for (const ConvergenceRow& row : rows[s].back()) {
            std::vector<Cell>& cells =
                runs.rows.emplace_back(std::vector<Cell>{figures[f].name, panel.title, panel.series[s].name});
            append(cells, cells_of(turned(panel.series[s].recipe, panel.knob, value)));
            append(cells, cells_of(row));
            cells.emplace_back(version());
          }
        }
        lines.lines.push_back(summarise_line(panel.series[s].name, rows[s], panel.series[s].predicted));
        shown["series"][s].update(describe(lines.lines.back()));
      }
      if (!panel.ratio) continue;
      lines.ratio = summarise_line(fmt::format("{} / {}", panel.series[0].name, panel.series[1].name),
                                   quotients(rows[0], rows[1]), panel.ratio);
      shown["ratio"] = describe(*lines.ratio);
    }
    result.plots.push_back(fmt::format("{}/{}.svg", folder, figures[f].name));
    write_file(result.plots.back(), line_plot(convergence_plot(figures[f], result.figures.back(), settings.seeds)));
  }
  write_file(result.runs, table_csv(runs));
  write_file(result.summary, json_text(json));
  result.report = folder + "/report.html";
  write_file(result.report, page_html(convergence_page(figures, settings, result, provenance_here())));
  return result;
}

double convergence_seconds(std::span<const ConvergenceFigure> figures, const std::string& output) {
  double seconds = 0.0;
  for (const Point& point : points_of(figures, output + "/" + kConvergence))
    if (!read_part(point.path)) seconds += figures[point.figure].panels[point.panel].seconds;
  return seconds;
}

}  // namespace labelshift
