#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/comparison_output.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/experiments/comparison.hpp"
#include "labelshift/learning/training_threads.hpp"
#ifdef LABELSHIFT_WITH_MPI
#include "labelshift/cli/advice.hpp"
#include "labelshift/experiments/mpi/mpi_runs.hpp"
#endif
#ifdef LABELSHIFT_WITH_SITES
#include "labelshift/cli/local_sites.hpp"
#endif

namespace labelshift::cli {
namespace {

/// An option that stands for a key of the file.
struct Shorthand {
  const char* option;
  const char* key;
  const char* type;  // what follows it
  const char* description;
};
constexpr Shorthand kShorthands[] = {
    {"--rounds", "training.rounds", "N", "Rounds of training"},
    {"--predictor", "ratio.predictor", "{local,federated}",
     "Whether each node trains a predictor of its own, or all nodes one together"},
    {"--ratio-exchange", "ratio.exchange", "{local,pairwise}",
     "Whether a predictor sees its own node's test data, or every node's"},
    {"--weighting", "training.weighting", "{nodes,pooled}", "Whether every node counts the same, or every example"},
    {"--max-ratio", "ratio.max-ratio", "NUMBER", "Cut importance weights above this to it"},
    {"--target-holdout", "run.target-holdout", "FRACTION",
     "Estimate ratios on this part of the test data, and accuracy on the rest"},
    {"--device", "run.device", "{cpu,cuda}", "Where to train"},
};

struct RunCommandOptions {
  std::string file;
  std::string engine = "in-process";
  std::string show = kComparisonViews[0];
  std::optional<std::uint64_t> seed;
  std::vector<std::optional<std::string>> shorthands{std::size(kShorthands)};
  std::vector<std::string> settings;  // SECTION.KEY=VALUE
  std::optional<int> deadline;        // seconds
  ComparisonSettings comparison{.resume = false};
};

const std::vector<std::string> kEngines = {
    "in-process",
#ifdef LABELSHIFT_WITH_MPI
    "mpi",
#endif
#ifdef LABELSHIFT_WITH_SITES
    "grpc",
#endif
};

void change_setting(ComparedRun& run, const std::string& key, const std::string& value, const std::string& place) {
  labelshift::change_setting(run.settings, key, value, place);
  run.places[key] = place;
}

void override_settings(const RunCommandOptions& options, Experiment& experiment) {
  if (options.seed) experiment.seeds = {*options.seed};
  if (const auto& rounds = options.shorthands[0])  // what the file says of its rounds no longer holds
    experiment.note = fmt::format("{} rounds for every row, by --rounds.", *rounds);
  for (ComparedRun& run : experiment.runs) {
    const bool called_by_algorithm = run.name == run.settings.federation.algorithm;
    for (std::size_t i = 0; i < std::size(kShorthands); ++i)
      if (const auto& value = options.shorthands[i])
        change_setting(run, kShorthands[i].key, *value, kShorthands[i].option);
    for (const auto& text : options.settings) {
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos)
        throw Error(ErrorKind::kUsage,
                    fmt::format("--set {}: expected SECTION.KEY=VALUE, such as training.rounds=100", text));
      if (text.starts_with("seed=") || text.starts_with("seeds="))
        throw Error(ErrorKind::kUsage, fmt::format("--set {}: the seed has an option of its own; give --seed N", text));
      change_setting(run, text.substr(0, equals), text.substr(equals + 1), "--set " + text);
    }
    if (called_by_algorithm) run.name = run.settings.federation.algorithm;
  }
}

void compare(const RunCommandOptions& options, const DeferInterrupt& interrupt, OpenNodes open_nodes) {
  Experiment experiment = read_experiment(options.file);
  override_settings(options, experiment);
  if (!experiment.version.empty() && experiment.version != version())
    warn(fmt::format("{} was written by version {} and this is {}, so the bits may differ", options.file,
                     experiment.version, version()));
  ComparisonSettings settings = options.comparison;
  settings.prepare_thread = flush_denormals_on_this_thread;
  settings.open_nodes = std::move(open_nodes);
#ifdef LABELSHIFT_WITH_SITES
  std::optional<LocalSites> sites;
  if (options.engine == "grpc") {
    check_comparison(experiment, settings);  // before processes are started
    sites.emplace(experiment, fmt::format("{}/{}/site-memory", settings.output, experiment.name));
    settings.open_nodes = [&](const RunTask& task) { return sites->open(task); };
  }
#endif
  std::optional<Progress> progress(std::in_place);
  try {
    const ComparisonResult result = run_comparison(experiment, settings, showing(*progress, interrupt));
    progress.reset();
#ifdef LABELSHIFT_WITH_SITES
    if (sites) sites->forget();
#endif
    const auto shown = std::find(kComparisonViews.begin(), kComparisonViews.end(), options.show);
    show_comparison(experiment, result, static_cast<ComparisonView>(shown - kComparisonViews.begin()));
    if (const auto failure = failure_of(result)) throw *failure;
  } catch (const Stopped&) {
    progress.reset();
    warn("stopped; the same command with --resume goes on from here");
  }
}

#ifdef LABELSHIFT_WITH_MPI
/// This process as one rank of a job. What goes wrong on rank 0 ends all ranks in order; what goes wrong elsewhere, or
/// on the way, ends the job at once.
void run_over_mpi(const RunCommandOptions& options, const DeferInterrupt& interrupt) {
  MpiContext mpi;
  MpiSettings settings{.workers = {.workers = std::max(1u, options.comparison.workers),
                                   .prepare_thread = flush_denormals_on_this_thread}};
  if (options.deadline) settings.deadline = std::chrono::seconds(*options.deadline);
  settings.on_lost = [&](const Error& error) {
    print_error(error);
    mpi.abort(exit_status(ErrorKind::kPeer));
  };
  if (mpi.rank() > 0) {
    flush_denormals_on_this_thread();
    take_termination();  // by which mpirun ends a job; rank 0 tells the others of all else that is to stop the work
    try {
      serve_mpi_runs(mpi, settings);
      mpi.finish(settings.deadline);
    } catch (const std::exception& error) {
      settings.on_lost({ErrorKind::kPeer, fmt::format("rank {}: {}", mpi.rank(), error.what())});
    }
    return;
  }
  std::exception_ptr failure;
  try {
    MpiRuns runs(mpi, settings);
    compare(options, interrupt, [&](const RunTask& task) { return runs.open(task); });
  } catch (...) {
    failure = std::current_exception();
  }
  mpi.finish(settings.deadline);
  if (failure) std::rethrow_exception(failure);
}
#endif

/// How many processes a job has that this one is part of; 1 if it is part of none.
int job_size() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name)) return std::atoi(size);
  return 1;
}

void run_experiment(const RunCommandOptions& options) {
  if (const int size = job_size(); size > 1 && options.engine != "mpi")
    throw Error(ErrorKind::kUsage,
                fmt::format("mpirun started {} processes, and all would do the same work in the same folder; add "
                            "--engine mpi, or start one process without mpirun",
                            size));
  const DeferInterrupt interrupt;  // before LibTorch starts threads, which take its mask over
  use_one_torch_thread();
  keep_freed_memory();
#ifdef LABELSHIFT_WITH_MPI
  if (options.engine == "mpi") return run_over_mpi(options, interrupt);
#endif
  if (options.deadline)
    throw Error(ErrorKind::kUsage, "--round-deadline goes with --engine mpi; leave it out, or use that engine");
  compare(options, interrupt, {});
}

}  // namespace

void add_run(CLI::App& app) {
  const auto options = std::make_shared<RunCommandOptions>();
  CLI::App& command = *app.add_subcommand("run", "Run the federations of an experiment file and compare them");
  command.add_option("file", options->file, "The experiment, in TOML")->type_name("FILE")->check(no_dash())->required();
  add_choice(command, "--engine", options->engine, "engine", kEngines, "What the nodes run on");
  command
      .add_option("--workers", options->comparison.workers,
                  "Threads; one a core by default, over MPI one a rank. Results do not depend on it")
      ->transform(whole_number({.from = 1, .to = 1'000'000}));
  command
      .add_option("--round-deadline", options->deadline,
                  "Over MPI: end the job when a rank gives no sign of life for so long; 600 by default")
      ->transform(whole_number({.from = 1, .to = 1'000'000}))
      ->type_name("SECONDS");
  command.add_option("--seed", options->seed, "Run this seed alone, instead of the file's")
      ->transform(whole_number({.from = 0, .to = std::numeric_limits<std::int64_t>::max()}))
      ->type_name("N");
  command.add_option("--output", options->comparison.output, "Folder for results; whole runs in it are not repeated")
      ->type_name("FOLDER")
      ->capture_default_str();
  add_choice(command, "--show", options->show, "view", kComparisonViews,
             "Which table: averages with weights and costs, every node, or the best and worst node");
  command.add_flag("--resume", options->comparison.resume, "Go on with runs that were stopped");
  for (std::size_t i = 0; i < std::size(kShorthands); ++i)
    command
        .add_option(kShorthands[i].option, options->shorthands[i],
                    fmt::format("{}: {}", kShorthands[i].description, kShorthands[i].key))
        ->type_name(kShorthands[i].type)
        ->group("Instead of what the file says, for all of its runs");
  command.add_option("--set", options->settings, "A value for any key of the file; may be repeated")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false)
      ->group("Instead of what the file says, for all of its runs");
  command.footer("Example:\n  labelshift run examples/federation.toml --rounds 20 --output results-quick");
  command.callback([options] { run_experiment(*options); });
}

}  // namespace labelshift::cli
