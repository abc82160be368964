#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/comparison_output.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/experiments/convergence_report.hpp"
#include "labelshift/experiments/paper_tables.hpp"
#include "labelshift/experiments/ratio_report.hpp"
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
  Table table{.columns = {{.name = "name", .key = "name"},
                          {.name = "what", .key = "what"},
                          {.name = "training", .key = "training"},
                          {.name = "trials", .key = "trials"}}};
  for (const RatioFigure& figure : ratio_figures()) {
    if (!has_panels(figure, settings.scale)) continue;
    const StudyCost cost = estimate_cost(figure, settings, training);
    table.rows.push_back({figure.name, figure.summary, duration_text(cost.training_seconds / cores),
                          duration_text(cost.trial_seconds / cores)});
  }
  if (settings.scale.data.empty())
    for (const PaperTable& one : paper_tables()) {
      double seconds = 0.0;
      for (const std::string& name : one.experiments)
        seconds += comparison_seconds(shipped_experiment(name), settings.output, training);
      table.rows.push_back({one.name, one.summary, duration_text(seconds / cores), Cell()});
    }
  if (settings.scale.data.empty())
    table.rows.push_back({kConvergence, "Prop. 4.1 and the convergence theorems, measured",
                          duration_text(convergence_seconds(convergence_figures(), settings.output) / cores), Cell()});
  progress.reset();
  print(table_text(table) +
        fmt::format("\nTimes are estimates for {:.0f} cores of this machine when nothing else runs; predictors are "
                    "shared, so the second figure on the same data trains none, and tables share runs.\n",
                    cores));
}

/// Runs the experiments of a table that are not there yet, and shows them.
void reproduce_federation(const PaperTable& table, const ReproduceOptions& options, const DeferInterrupt& interrupt) {
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
    for (const std::string& name : table.experiments) {
      Experiment experiment = shipped_experiment(name);
      if (options.seed_given) experiment.seeds = {options.study.scale.seed};
      if (options.rounds > 0) experiment.note = fmt::format("{} rounds for every row, by --rounds.", options.rounds);
      for (ComparedRun& run : experiment.runs) {
        if (options.rounds > 0) run.settings.federation.rounds = options.rounds;
        if (options.device_given) run.settings.federation.device = options.study.device;
      }
      const ComparisonResult result = run_comparison(experiment, settings, showing(*progress, interrupt));
      progress.reset();
      show_comparison(experiment, result, table.view);
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

void reproduce_convergence(const ReproduceOptions& options, const DeferInterrupt& interrupt) {
  std::vector<std::string> unread = options.figure_only;
  if (options.device_given) unread.emplace_back("--device");
  if (options.rounds > 0) unread.emplace_back("--rounds");
  if (!unread.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{} is no option of {}", unread.front(), kConvergence));
  const ConvergenceSettings settings{.output = options.study.output,
                                     .seed = options.study.scale.seed,
                                     .workers = options.study.workers,
                                     .prepare_thread = flush_denormals_on_this_thread};
  std::optional<Progress> progress(std::in_place);
  progress->show("reading data");
  try {
    const std::span<const ConvergenceFigure> figures = convergence_figures();
    const ConvergenceResult result = run_convergence_study(figures, settings, showing(*progress, interrupt));
    progress.reset();
    std::string text;
    for (std::size_t i = 0; i < figures.size(); ++i)
      text +=
          table_text(convergence_table(figures[i], result.figures[i])) + fmt::format("Figure: {}\n\n", result.plots[i]);
    print(text + fmt::format("Summary: {}\nRuns:    {}\nReport:  {}\n", result.summary, result.runs, result.report));
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
  if (options.name == kConvergence) return reproduce_convergence(options, interrupt);
  if (const PaperTable* table = find_paper_table(options.name)) return reproduce_federation(*table, options, interrupt);
  if (options.rounds > 0)
    throw Error(ErrorKind::kUsage, fmt::format("--rounds is for federations, and {} has none", options.name));
  options.study.prepare_thread = flush_denormals_on_this_thread;
  const RatioFigure& figure = find_ratio_figure(options.name);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading data");
  try {
    const StudyResult result = run_ratio_study(figure, options.study, showing(*progress, interrupt));
    progress.reset();
    std::string text = figure.title + "\n\n";
    for (const Table& table : ratio_tables(result)) text += table_text(table) + "\n";
    for (const std::string& note : result.notes) text += "Note: " + note + "\n";
    print(text + fmt::format("Figure:  {}\nSummary: {}\nTrials:  {}\nReport:  {}\n", result.figure, result.summary,
                             result.trials, result.report));
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
      ->type_name(fmt::format("{{{}}}", fmt::join(reproducible_names(), ",")));  // for completion
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
