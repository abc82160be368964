#include "labelshift/experiments/ratio_study.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/data/files/csv_reader.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/experiments/ratio_report.hpp"
#include "labelshift/experiments/study_pages.hpp"
#include "labelshift/experiments/study_parts.hpp"
#include "labelshift/learning/methods.hpp"
#include "labelshift/learning/model_selection.hpp"
#include "labelshift/learning/trainer.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {
namespace {

Json describe(const RatioPanel& panel, const std::vector<double>& values) {
  return {{"title", panel.title},
          {"data", panel.recipe.data},
          {"net", panel.recipe.net},
          {"net_settings", panel.recipe.settings},
          {"examples", panel.recipe.examples},
          {"held_out", panel.recipe.held_out},
          {"epochs", panel.recipe.epochs},
          {"learning_rate", panel.recipe.learning_rate},
          {"weight_decay", panel.recipe.weight_decay},
          {"shift", panel.augmentation},
          {"varied", panel.sweep == Sweep::kAlpha ? "alpha" : "size"},
          {"alpha", panel.sweep == Sweep::kAlpha ? Json() : Json(panel.alpha)},
          {"size", panel.sweep == Sweep::kAlpha ? Json(panel.size) : Json()},
          {"values", values},
          {"methods", panel.methods},
          {"predictors", panel.predictors}};
}

Json describe(const RatioFigure& figure, const FigureScale& scale) {
  Json json{{"figure", figure.name}, {"trials", scale.trials}, {"seed", scale.seed}, {"version", version()}};
  for (const RatioPanel& panel : figure.panels) json["panels"].push_back(describe(panel, sweep_values(panel, scale)));
  return json;
}

/// Where the predictors of this version and seed are; those of another version could be others.
std::string predictor_folder(const StudySettings& settings) {
  return fmt::format("{}/predictors/{}-seed-{}", settings.output, version(), settings.scale.seed);
}

/// Trials at one point of a panel: where they are kept, and what makes them.
struct Point {
  std::size_t panel;
  std::size_t index;
  double alpha;
  Index size;
  std::string path;
};

void write_point(const std::string& path, const std::vector<TrialRow>& rows) {
  std::string text = "method,predictor,trial,mse\n";
  for (const TrialRow& row : rows)
    text += fmt::format("{},{},{},{}\n", row.method, row.predictor, row.trial, row.mse);  // shortest that reads back
  write_part(path, text);
}

std::vector<TrialRow> read_point(const std::string& path, const RatioPanel& panel, int trials) {
  std::istringstream text(read_part(path).value_or(""));
  RowReader reader(text, /*columns=*/4, path);
  std::vector<TrialRow> rows;
  for (int method = 0; method < static_cast<int>(panel.methods.size()); ++method)
    for (int predictor = 0; predictor < panel.predictors; ++predictor)
      for (int trial = 0; trial < trials; ++trial) rows.push_back({method, predictor, trial});
  std::vector<double> cells;
  bool valid = true;
  for (TrialRow& row : rows) {
    valid = valid && reader.next(cells) && cells[0] == row.method && cells[1] == row.predictor &&
            cells[2] == row.trial && cells[3] >= 0.0;
    if (valid) row.mse = cells[3];
  }
  if (!valid || reader.next(cells))
    throw Error(ErrorKind::kInput, fmt::format("{} is not a part of this study; remove it to make it again", path));
  return rows;
}

std::vector<Point> points_of(const RatioFigure& figure, const FigureScale& scale, const std::string& folder) {
  std::vector<Point> points;
  for (std::size_t panel = 0; panel < figure.panels.size(); ++panel) {
    const RatioPanel& one = figure.panels[panel];
    const std::vector<double> values = sweep_values(one, scale);
    for (std::size_t i = 0; i < values.size(); ++i)
      points.push_back({panel, i, one.sweep == Sweep::kAlpha ? values[i] : one.alpha,
                        one.sweep == Sweep::kAlpha ? one.size : static_cast<Index>(values[i]),
                        fmt::format("{}/parts/{}-{:02}.csv", folder, panel, i)});
  }
  return points;
}

/// Every predictor the figure needs, once.
std::vector<PredictorKey> predictors_of(const RatioFigure& figure) {
  std::vector<PredictorKey> keys;
  std::set<std::string> seen;
  for (const RatioPanel& panel : figure.panels)
    for (PredictorKey& key : predictors_of(panel))
      if (seen.insert(key.name()).second) keys.push_back(std::move(key));
  return keys;
}

/// Seconds of work(), after one call to warm up.
template <typename Work>
double seconds_of(const Work& work) {
  work();
  const auto start = std::chrono::steady_clock::now();
  int calls = 0;
  double elapsed = 0.0;
  for (; elapsed < 0.1; ++calls) {
    work();
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return elapsed / calls;
}

/// What making a predictor takes, if a step takes so long for each of its examples.
double training_seconds(const PredictorKey& key, Index available, double per_example) {
  const PredictorRecipe& recipe = key.recipe;
  const double trainings = key.zeta ? 1.0 : static_cast<double>(SelectionSettings().zetas.size());
  const auto examples = static_cast<double>(recipe.examples > 0 ? recipe.examples : available);
  return per_example * trainings * examples * (1.0 - recipe.held_out) * recipe.epochs;
}

/// Trains every predictor of the figure and asks each about every kind of test set.
void prepare_predictors(const RatioFigure& figure, const StudySettings& settings, PredictorStore& store,
                        const Observer& observer) {
  std::vector<StudyJob> trainings, predictions;
  TrainingCost cost(settings.device);  // for what shares of all the work they are
  for (const PredictorKey& key : predictors_of(figure)) {
    if (store.has(key)) continue;
    const Dataset& train = store.data(key.recipe.data).parts.train;
    const double per_example = cost.per_example({key.recipe.net, key.recipe.settings}, train.shape, train.classes());
    trainings.push_back({training_seconds(key, train.size(), per_example),
                         [&store, key](const Observer& watch) { store.train(key, watch); }});
  }
  run_jobs(fmt::format("training {} predictors", trainings.size()), trainings,
           {settings.workers, settings.prepare_thread}, observer);
  std::set<std::string> seen;
  for (const RatioPanel& panel : figure.panels)
    for (const PredictorKey& key : predictors_of(panel)) {
      if (store.has_predicted(key, panel.augmentation) || !seen.insert(key.name() + panel.augmentation).second)
        continue;
      predictions.push_back(
          {1.0, [&store, key, kind = panel.augmentation](const Observer& watch) { store.predict(key, kind, watch); }});
    }
  run_jobs("predicting test sets", predictions, {settings.workers, settings.prepare_thread}, observer);
}

Json interval(const MeanInterval& value) {
  return {value.mean, value.low, value.high};
}

std::string summary_text(const RatioFigure& figure, const Json& settings, const StudyResult& result) {
  Json json = settings;
  json["interval"] =
      "mean, low and high of Student's 95 % interval over predictors (of MSE: over logarithms); over trials where "
      "there is one predictor";
  json["notes"] = result.notes;
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    Json& panel = json["panels"][i];
    for (const PredictorQuality& quality : result.quality[i])
      panel["predictor_quality"].push_back({{"zeta", zeta_text(quality.zeta)},
                                            {"predictor", quality.predictor},
                                            {"accuracy", quality.accuracy},
                                            {"ece", quality.calibration_error}});
    for (const MethodSummary& method : result.panels[i].methods) {
      Json one{{"method", method.method}, {"geometric_mean_mse", method.geometric_mean}};
      for (const MeanInterval& mse : method.mse) one["mse"].push_back(interval(mse));
      if (method.size_law) {
        one["rmse_slope"] = interval(method.size_law->slope);
        one["mse_floor"] = method.size_law->floor;
        one["mse_times_n"] = method.size_law->variance;
      }
      panel["results"].push_back(std::move(one));
    }
    for (const Comparison& pair : result.panels[i].comparisons)
      panel["comparisons"].push_back({{"a", pair.a},
                                      {"b", pair.b},
                                      {"mse_ratio", interval(pair.ratio)},
                                      {"points_where_a_is_lower", pair.lower_at}});
  }
  return json_text(json);
}

/// What programs call the columns of trials.csv, and what they hold.
std::vector<Column> trial_columns() {
  constexpr ColumnKind kText = ColumnKind::kText, kCount = ColumnKind::kCount, kNumber = ColumnKind::kNumber;
  const std::pair<const char*, ColumnKind> kinds[] = {
      {"figure", kText},         {"panel", kText},      {"data", kText},       {"net", kText},
      {"examples", kCount},      {"held_out", kNumber}, {"epochs", kCount},    {"learning_rate", kNumber},
      {"weight_decay", kNumber}, {"shift", kText},      {"method", kText},     {"zeta", kText},
      {"calibration", kText},    {"estimator", kText},  {"predictor", kCount}, {"alpha", kNumber},
      {"size", kCount},          {"trial", kCount},     {"seed", kText},       {"mse", kNumber},
      {"version", kText}};
  std::vector<Column> columns;
  for (const auto& [key, kind] : kinds) columns.push_back({.name = key, .key = key, .kind = kind});
  return columns;
}

/// One row an estimate, with everything that it depends on.
void write_trials(const std::string& path, const RatioFigure& figure, const FigureScale& scale,
                  const std::vector<PanelTrials>& panels) {
  OutputFile file(path);
  Table table{.title = "", .columns = trial_columns(), .rows = {}, .notes = {}};
  file.write(table_csv(table));
  for (const PanelTrials& trials : panels) {
    const RatioPanel& panel = trials.panel;
    std::string net = panel.recipe.net;
    for (const auto& [key, value] : panel.recipe.settings) net += fmt::format(" {}={}", key, value);
    for (std::size_t point = 0; point < trials.points.size(); ++point) {
      table.rows.clear();  // a table of all would be hundreds of MB
      for (const TrialRow& row : trials.points[point]) {
        const Method& parts = find_method(panel.methods[row.method]);
        const bool alpha = panel.sweep == Sweep::kAlpha;
        table.rows.push_back({figure.name,
                              panel.title,
                              panel.recipe.data,
                              net,
                              std::int64_t{panel.recipe.examples},
                              panel.recipe.held_out,
                              std::int64_t{panel.recipe.epochs},
                              panel.recipe.learning_rate,
                              panel.recipe.weight_decay,
                              panel.augmentation,
                              panel.methods[row.method],
                              zeta_text(parts.zeta),
                              std::string(parts.chooses() ? "auto" : parts.calibration),
                              std::string(parts.estimator),
                              std::int64_t{row.predictor},
                              alpha ? trials.values[point] : panel.alpha,
                              std::int64_t{alpha ? panel.size : static_cast<Index>(trials.values[point])},
                              std::int64_t{row.trial},
                              std::to_string(scale.seed),
                              row.mse,
                              version()});
      }
      file.write(table_csv(table, /*with_keys=*/false));
    }
  }
  file.commit();
}

std::vector<std::string> notes_of(const RatioFigure& figure, PredictorStore& store) {
  std::set<std::string> notes;
  for (const RatioPanel& panel : figure.panels) {
    if (panel.recipe.net == "resnet18")
      notes.insert(
          fmt::format("ResNet-18 here has width {} (the paper's: 64) and is trained for {} epochs at learning "
                      "rate {:g} (the paper's: 1e-4).",
                      panel.recipe.settings.at("width"), panel.recipe.epochs, panel.recipe.learning_rate));
    if (const std::string& note = store.data(panel.recipe.data).note; !note.empty())
      notes.insert("Data: " + note + ".");
  }
  return {notes.begin(), notes.end()};
}

double seconds_per_row(const std::string& estimator, Index classes) {
  constexpr Index kRows = 5000;
  RowMajorMatrix<float> probs(kRows, classes);
  Rng rng(0);
  Eigen::VectorXd row(classes);
  std::vector<int> labels;
  for (Index i = 0; i < kRows; ++i) {
    for (Index c = 0; c < classes; ++c) row[c] = rng.gamma(0.05) + 1e-6;
    row /= row.sum();
    probs.row(i) = row.cast<float>();
    labels.push_back(static_cast<int>(i % classes));
  }
  const SourceSummary source =
      summarise_source({probs, labels, {}}, Eigen::VectorXd::Constant(classes, 1.0 / static_cast<double>(classes)));
  const auto solver = make_estimator(find_estimator(estimator));
  return seconds_of([&] { solver->estimate(source, {.probs = probs}); }) / kRows;
}

}  // namespace

StudyResult run_ratio_study(const RatioFigure& whole, const StudySettings& settings, const Observer& observer) {
  if (settings.output.empty())
    throw Error(ErrorKind::kUsage, "the name of the output folder is empty; choose one", Remedy::kOutputFolder);
  const FigureScale& scale = settings.scale;
  const RatioFigure figure = scaled(whole, scale);
  const std::string folder = settings.output + "/" + figure.name;
  const Json described = describe(figure, scale);
  if (settings.prepare_thread) settings.prepare_thread();
  PredictorStore store(predictor_folder(settings), scale.seed, settings.device);
  StudyResult result{.notes = notes_of(figure, store),
                     .trials = folder + "/trials.csv",
                     .summary = folder + "/summary.json",
                     .figure = folder + "/figure.svg",
                     .report = folder + "/report.html"};
  claim_folder(
      folder, json_text(described));  // after the data sets were found: a study that cannot start leaves nothing behind
  prepare_predictors(figure, settings, store, observer);

  const std::vector<Point> points = points_of(figure, scale, folder);
  std::vector<PanelTrials> panels;
  std::vector<PanelMethods> methods;
  for (const RatioPanel& panel : figure.panels) {
    tell(observer, "calibrating", static_cast<double>(methods.size()) / static_cast<double>(figure.panels.size()));
    const std::vector<double> values = sweep_values(panel, scale);
    methods.emplace_back(panel, store);
    panels.push_back({panel, values, std::vector<std::vector<TrialRow>>(values.size()), methods.back().quality()});
  }
  std::vector<StudyJob> todo;
  for (const Point& point : points) {
    if (read_part(point.path)) continue;
    todo.push_back(
        {static_cast<double>(point.size) * figure.panels[point.panel].predictors, [&](const Observer& watch) {
           const auto stream = (static_cast<std::uint64_t>(point.panel) << 16) + point.index;
           write_point(point.path,
                       methods[point.panel].run(point.alpha, point.size, scale.trials, scale.seed, stream, watch));
         }});
  }
  run_jobs("trials", todo, {settings.workers, settings.prepare_thread}, observer);
  // Read back, so that a study that was stopped and one that was not end in the same bits.
  for (const Point& point : points)
    panels[point.panel].points[point.index] = read_point(point.path, panels[point.panel].panel, scale.trials);
  for (const PanelTrials& trials : panels) {
    result.panels.push_back(summarise(trials));
    result.quality.push_back(trials.quality);
  }
  write_trials(result.trials, figure, scale, panels);
  write_file(result.summary, summary_text(figure, described, result));
  write_file(result.figure, line_plot(ratio_plot(figure, scale, result)));
  write_file(result.report, page_html(ratio_page(figure, scale, result, provenance_here())));
  return result;
}

StudyCost estimate_cost(const RatioFigure& whole, const StudySettings& settings, TrainingCost& training) {
  const FigureScale& scale = settings.scale;
  const RatioFigure figure = scaled(whole, scale);
  const std::string folder = settings.output + "/" + figure.name;
  const PredictorStore store(predictor_folder(settings), scale.seed);
  StudyCost cost;
  for (const PredictorKey& key : predictors_of(figure)) {
    if (store.has(key)) continue;
    const KnownDataset& known = find_known_dataset(key.recipe.data);
    const double per_example =
        training.per_example({key.recipe.net, key.recipe.settings}, shape_of(known), known.classes);
    cost.training_seconds += training_seconds(key, known.train_size, per_example);
  }
  std::map<std::string, double> per_row;
  for (const Point& point : points_of(figure, scale, folder)) {
    if (read_part(point.path)) continue;
    const RatioPanel& panel = figure.panels[point.panel];
    for (const std::string& method : panel.methods) {
      const std::string estimator = find_method(method).estimator;
      auto known = per_row.find(estimator);
      if (known == per_row.end()) known = per_row.emplace(estimator, seconds_per_row(estimator, 10)).first;
      cost.trial_seconds +=
          known->second * static_cast<double>(point.size) * scale.trials * static_cast<double>(panel.predictors);
    }
  }
  return cost;
}

}  // namespace labelshift
