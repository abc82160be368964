#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/comparison_output.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/result_output.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/experiments/comparison.hpp"
#include "labelshift/experiments/ratio_study.hpp"
#include "labelshift/experiments/shipped_experiments.hpp"
#include "labelshift/learning/training_threads.hpp"

namespace labelshift::cli {
namespace {

struct ReproduceOptions {
  std::string name;
  std::string device = "cpu";
  bool device_given = false;
  bool seed_given = false;
  int rounds = 0;                        // of a federation; 0: what its file says
  std::vector<std::string> figure_only;  // options that are there and mean nothing to a federation
  StudySettings study;
};

/// A table or figure of the paper that federations make. Several may show the same runs.
struct FederationTable {
  const char* name;
  const char* summary;
  std::vector<const char*> experiments;  // files in experiments/
  ComparisonView view = ComparisonView::kAverage;
};

const std::vector<FederationTable>& federation_tables() {
  static const std::vector<FederationTable> rows = {
      {"table-1", "four kinds of label shift: node 1 by its formula, alone, with FedAvg", {"table-1"}},
      {"table-2", "Fashion-MNIST, LeNet, 5 nodes: IW-ERM against every baseline", {"table-2"}},
      {"table-3", "CIFAR-10, narrow ResNet-18, 5 nodes", {"table-3"}},
      {"table-4", "the same with 5 of 100 and of 200 nodes a round", {"table-4-100", "table-4-200"}},
      {"table-6", "every node of table-2", {"table-2"}, ComparisonView::kNodes},
      {"table-7", "every node of table-3", {"table-3"}, ComparisonView::kNodes},
      {"figure-6", "best, average and worst node of table-2", {"table-2"}, ComparisonView::kSpread},
      {"figure-7", "best, average and worst node of table-3", {"table-3"}, ComparisonView::kSpread},
      {"mnist-lenet", "MNIST, LeNet, 5 nodes", {"mnist-lenet"}},
      {"table-3-full", "table-3 with the paper's ResNet-18, for a GPU", {"table-3-full"}},
      {"table-4-full", "table-4 with the same", {"table-4-100-full", "table-4-200-full"}},
  };
  return rows;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const RatioFigure& figure : ratio_figures()) names.push_back(figure.name);
  for (const FederationTable& table : federation_tables()) names.emplace_back(table.name);
  return names;
}

/// Nothing if a study of ratios has this name.
const FederationTable* find_federation_table(const std::string& name) {
  for (const RatioFigure& figure : ratio_figures())
    if (figure.name == name) return nullptr;
  for (const FederationTable& table : federation_tables())
    if (table.name == name) return &table;
  throw unknown_name("table or figure", name, all_names());
}

std::string duration_text(double seconds) {
  if (seconds == 0.0) return "done";
  if (seconds < 1.0) return "1 s";
  if (seconds < 90.0) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400.0) return fmt::format("{:.0f} min", seconds / 60.0);
  return fmt::format("{:.1f} h", seconds / 3600.0);
}

void list(const StudySettings& settings) {
  std::optional<Progress> progress(std::in_place);
  progress->show("timing the parts of each experiment");
  const double cores = settings.workers > 0 ? settings.workers : std::max(1u, std::thread::hardware_concurrency());
  TrainingCost training(settings.device);
  std::vector<std::vector<std::string>> rows{{"name", "what", "training", "trials"}};
  for (const RatioFigure& figure : ratio_figures()) {
    if (!has_panels(figure, settings.scale)) continue;
    const StudyCost cost = estimate_cost(figure, settings, training);
    rows.push_back({figure.name, figure.summary, duration_text(cost.training_seconds / cores),
                    duration_text(cost.trial_seconds / cores)});
  }
  if (settings.scale.data.empty())
    for (const FederationTable& table : federation_tables()) {
      double seconds = 0.0;
      for (const char* name : table.experiments)
        seconds += comparison_seconds(shipped_experiment(name), settings.output, training);
      rows.push_back({table.name, table.summary, duration_text(seconds / cores), ""});
    }
  progress.reset();
  std::size_t widest = 0;
  for (const auto& row : rows) widest = std::max(widest, row[1].size());
  std::string text;
  for (const auto& row : rows)
    text += fmt::format("{:<12} {:<{}} {:>9} {:>9}\n", row[0], row[1], widest, row[2], row[3]);
  print(text + fmt::format("\nTimes are estimates for {:.0f} cores of this machine when nothing else runs; predictors "
                           "are shared, so the second figure on the same data trains none, and tables share runs.\n",
                           cores));
}

/// The methods of a panel next to each other.
std::string panel_table(const PanelSummary& panel, const std::vector<PredictorQuality>& quality) {
  std::vector<std::vector<std::string>> rows{{"method", "MSE (geometric mean)",
                                              fmt::format("ratio to {}", panel.methods.front().method), "95 % interval",
                                              "slope of RMSE", "MSE floor"}};
  for (const MethodSummary& method : panel.methods) {
    std::vector<std::string> row{method.method, fmt::format("{:.3g}", method.geometric_mean)};
    if (&method == &panel.methods.front()) {
      row.insert(row.end(), {"1", ""});
    } else {
      for (const Comparison& pair : panel.comparisons) {  // first against method; shown the other way round
        if (pair.a != panel.methods.front().method || pair.b != method.method) continue;
        row.push_back(fmt::format("{:.3g}", 1.0 / pair.ratio.mean));
        row.push_back(fmt::format("{:.3g} to {:.3g}", 1.0 / pair.ratio.high, 1.0 / pair.ratio.low));
      }
    }
    row.push_back(method.size_law ? fmt::format("{:.2f}", method.size_law->slope.mean) : "");
    row.push_back(method.size_law ? fmt::format("{:.2g}", method.size_law->floor) : "");
    rows.push_back(std::move(row));
  }
  std::string text = panel.title + "\n";
  std::vector<Zeta> zetas;
  for (const PredictorQuality& one : quality)
    if (std::find(zetas.begin(), zetas.end(), one.zeta) == zetas.end()) zetas.push_back(one.zeta);
  for (const Zeta& zeta : zetas) {
    double accuracy = 0.0, error = 0.0, count = 0.0;
    for (const PredictorQuality& one : quality) {
      if (one.zeta != zeta) continue;
      accuracy += one.accuracy;
      error += one.calibration_error;
      count += 1.0;
    }
    text += fmt::format("zeta {}: accuracy {:.4f}, ECE {:.4f}, {:.0f} predictors\n", zeta_text(zeta), accuracy / count,
                        error / count, count);
  }
  return text + aligned(rows);
}

/// Runs the experiments of a table that are not there yet, and shows them.
void reproduce_federation(const FederationTable& table, const ReproduceOptions& options,
                          const DeferInterrupt& interrupt) {
  if (!options.figure_only.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{} is no option of {}; for other settings copy its file and use "
                                               "labelshift run",
                                               options.figure_only.front(), table.name));
  const ComparisonSettings settings{.output = options.study.output,
                                    .workers = options.study.workers,
                                    .prepare_thread = flush_denormals_on_this_thread};
  std::optional<Progress> progress(std::in_place);
  std::optional<Error> failure;
  try {
    for (const char* name : table.experiments) {
      Experiment experiment = shipped_experiment(name);
      if (options.seed_given) experiment.seeds = {options.study.scale.seed};
      if (options.rounds > 0) experiment.note = fmt::format("{} rounds for every row, by --rounds.", options.rounds);
      for (ComparedRun& run : experiment.runs) {
        if (options.rounds > 0) run.settings.federation.rounds = options.rounds;
        if (options.device_given) run.settings.federation.device = options.study.device;
      }
      const ComparisonResult result = run_comparison(experiment, settings, [&](std::string_view stage, double done) {
        progress->show(stage, done);
        return !interrupt.requested();
      });
      progress.reset();
      show_warnings(result);
      print(comparison_text(experiment, result, table.view));
      if (!failure) failure = failure_of(result);
      progress.emplace();
    }
    progress.reset();
    if (failure) throw *failure;
  } catch (const Stopped&) {
    progress.reset();
    warn("stopped; the same command goes on from here");
  }
}

void reproduce(ReproduceOptions options) {
  const DeferInterrupt interrupt;  // before LibTorch starts threads, which take its mask over
  use_one_torch_thread();
  keep_freed_memory();
  options.study.device = options.device == "cuda" ? Device::kCuda : Device::kCpu;
  if (options.name.empty()) return list(options.study);
  if (const FederationTable* table = find_federation_table(options.name))
    return reproduce_federation(*table, options, interrupt);
  if (options.rounds > 0)
    throw Error(ErrorKind::kUsage, fmt::format("--rounds is for federations, and {} has none", options.name));
  options.study.prepare_thread = flush_denormals_on_this_thread;
  const RatioFigure& figure = find_ratio_figure(options.name);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading data");
  try {
    const StudyResult result = run_ratio_study(figure, options.study, [&](std::string_view stage, double done) {
      progress->show(stage, done);
      return !interrupt.requested();
    });
    progress.reset();
    std::string text = figure.title + "\n\n";
    for (std::size_t i = 0; i < result.panels.size(); ++i)
      text += panel_table(result.panels[i], result.quality[i]) + "\n";
    for (const std::string& note : result.notes) text += "Note: " + note + "\n";
    print(text + fmt::format("Figure:  {}\nSummary: {}\nTrials:  {}\n", result.figure, result.summary, result.trials));
  } catch (const Stopped&) {
    progress.reset();
    warn("stopped; the same command goes on from here");
  }
}

}  // namespace

void add_reproduce(CLI::App& app) {
  const auto options = std::make_shared<ReproduceOptions>();
  FigureScale& scale = options->study.scale;
  CLI::App& command =
      *app.add_subcommand("reproduce", "Make a table or figure of the paper; without a name, list them");
  command.add_option("name", options->name, "The table or figure, such as table-2")
      ->type_name(fmt::format("{{{}}}", fmt::join(all_names(), ",")));  // for completion
  command.add_option("--output", options->study.output, "Folder for results; what is in it is used again")
      ->capture_default_str();
  command.add_option("--trials", scale.trials, "Test sets drawn at each point, for each predictor")
      ->transform(whole_number({.from = 1, .to = 1'000'000}))
      ->capture_default_str();
  command.add_option("--alphas", scale.alphas, "Values of alpha, from 0.1 to 10")
      ->transform(whole_number({.from = 1, .to = 1'000'000}))
      ->capture_default_str();
  command.add_option("--sizes", scale.sizes, "Sizes of test sets, from 200 to 10,000")
      ->transform(whole_number({.from = 1, .to = 1'000'000}))
      ->capture_default_str();
  command.add_option("--predictors", scale.predictors, "Predictors trained from different seeds")
      ->transform(whole_number({.from = 1, .to = 1'000'000}));
  command.add_option("--epochs", scale.epochs, "Epochs of training")
      ->transform(whole_number({.from = 1, .to = 1'000'000}));
  command.add_option("--width", scale.width, "Width of ResNet-18; the paper's is 64")
      ->transform(whole_number({.from = 1, .to = 1'000'000}));
  command.add_option("--data", scale.data, "Only the panels on this data set; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      .add_option("--workers", options->study.workers, "Threads; one a core by default. Results do not depend on it")
      ->transform(whole_number({.from = 1, .to = 1'000'000}));
  command.add_option("--rounds", options->rounds, "Rounds of training of every federation, to try a table out")
      ->transform(whole_number({.from = 1, .to = 1'000'000'000}));
  add_seed_option(command, scale.seed);
  command.get_option("--seed")->group("Options")->description(
      "The seed of a figure's random numbers. A table runs several seeds of its own; with --seed it runs this one "
      "alone");
  add_choice(command, "--device", options->device, "device", {"cpu", "cuda"}, "Where to train");
  command.footer(
      "Example:\n  labelshift reproduce figure-5 --trials 5 --alphas 3 --sizes 3 --predictors 1 --epochs 1 "
      "--output results-quick");
  command.callback([options, &command] {
    options->seed_given = command.count("--seed") > 0;
    options->device_given = command.count("--device") > 0;
    for (const char* name : {"--trials", "--alphas", "--sizes", "--predictors", "--epochs", "--width", "--data"})
      if (command.count(name) > 0) options->figure_only.emplace_back(name);
    reproduce(*options);
  });
}

}  // namespace labelshift::cli
