#include "labelshift/experiments/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/experiments/comparison_figures.hpp"
#include "labelshift/experiments/comparison_page.hpp"
#include "labelshift/experiments/comparison_tables.hpp"
#include "labelshift/experiments/idle_keys.hpp"
#include "labelshift/experiments/run_tasks.hpp"
#include "labelshift/experiments/tuning.hpp"
#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

RunTask task_of(const Experiment& experiment, const ComparedRun& run, std::uint64_t seed, const std::string& name,
                const std::string& output) {
  RunTask task{.folder = fmt::format("{}/{}/{}", output, experiment.name, name),
               .settings = run.settings,
               .predictors = output + "/predictors"};
  task.settings.federation.seed = seed;
  task.settings_file = write_experiment(experiment, {.name = run.name, .settings = task.settings}, seed);
  return task;
}

RunTask task_of(const Experiment& experiment, const ComparedRun& run, std::uint64_t seed, const std::string& output) {
  return task_of(experiment, run, seed, fmt::format("{}-seed-{}", run.folder_name(), seed), output);
}

RunTask trial_task(const Experiment& experiment, const ComparedRun& row, const TuningCandidate& candidate,
                   std::size_t number, const std::string& output) {
  return task_of(experiment, candidate.run, kTuningSeed, fmt::format("{}-tune-{}", row.folder_name(), number + 1),
                 output);
}

RunOptions run_options(const ComparisonSettings& settings) {
  return {.resume = settings.resume,
          .workers = settings.workers,
          .prepare_thread = settings.prepare_thread,
          .open_nodes = settings.open_nodes};
}

/// Throws if a net cannot have the settings it is to be made with. Some data are as good as others to find that out.
void check_net(const NetChoice& choice, const char* key) {
  const auto entries = nets();
  if (std::none_of(entries.begin(), entries.end(), [&](const NetEntry& entry) { return entry.name == choice.name; }))
    return;  // a TorchScript file, which knows the shape of its data
  try {
    make_net({.name = choice.name, .settings = choice.settings, .shape = {1, 28, 28}, .classes = 10}, /*seed=*/0);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;  // LibTorch cannot be loaded
    throw SettingError(key, error.what());
  }
}

/// What is wrong with a row is said before another one has trained for hours.
void check_rows(const Experiment& experiment) {
  std::set<std::pair<std::string, std::map<std::string, std::string>>> nets_seen;
  const auto check_new_net = [&](const NetChoice& choice, const char* key) {
    if (nets_seen.insert({choice.name, choice.settings}).second) check_net(choice, key);
  };
  for (const ComparedRun& run : experiment.runs)
    for (const TuningCandidate& candidate : candidates_of(run)) {
      const RunSettings& settings = candidate.run.settings;
      try {
        check_data_settings(settings.data);
        const Index nodes = node_count(settings.data);
        if (nodes > 1 && experiment.report_node > nodes)
          throw SettingError("report-node",
                             fmt::format("report-node is {}, expected a node from 1 to {}, or 0 for the average",
                                         experiment.report_node, nodes));
        check_settings(settings.federation, nodes);
        check_new_net(settings.federation.model, "model.net-settings");
        if (settings.federation.ratio.estimated()) check_new_net(settings.federation.ratio.net, "ratio.net-settings");
      } catch (const SettingError& error) {
        throw error.reworded(fmt::format("{}: {}", run.place_of(error.key()), error.what()));
      } catch (const Error& error) {
        throw error.reworded(fmt::format("{}: {}", run.place, error.what()));
      }
    }
}

/// What is run to tune rows, candidate by candidate.
std::vector<RunTask> trial_tasks(const Experiment& experiment, const std::string& output) {
  std::vector<RunTask> tasks;
  for (const ComparedRun& row : experiment.runs) {
    if (row.tune.empty()) continue;
    const std::vector<TuningCandidate> candidates = candidates_of(row);
    for (std::size_t i = 0; i < candidates.size(); ++i)
      tasks.push_back(trial_task(experiment, row, candidates[i], i, output));
  }
  return tasks;
}

/// The runs of rows that have nothing to tune, and the row of each.
struct ComparedTasks {
  std::vector<RunTask> tasks;
  std::vector<std::size_t> rows;
};

ComparedTasks compared_tasks(const Experiment& experiment, const std::string& output) {
  ComparedTasks result;
  for (std::size_t r = 0; r < experiment.runs.size(); ++r) {
    if (!experiment.runs[r].tune.empty()) continue;
    for (const std::uint64_t seed : experiment.seeds) {
      result.tasks.push_back(task_of(experiment, experiment.runs[r], seed, output));
      result.rows.push_back(r);
    }
  }
  return result;
}

/// Tries the candidates of all rows and gives each row its best. A row that has none that can be run is a failure.
Experiment tuned(const Experiment& experiment, const ComparisonSettings& settings, const Observer& observer,
                 ComparisonResult& comparison) {
  std::vector<RowResult>& rows = comparison.rows;
  Experiment result = experiment;
  const std::vector<RunTask> tasks = trial_tasks(experiment, settings.output);
  const std::vector<TaskResult> trials = run_tasks(tasks, run_options(settings), "tuning", observer);
  auto trial = trials.begin();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (experiment.runs[r].tune.empty()) continue;
    const std::vector<TuningCandidate> candidates = candidates_of(experiment.runs[r]);
    double best = -1.0;
    for (const TuningCandidate& candidate : candidates) {
      const auto& [tried, failure] = *trial++;
      const double accuracy = failure ? kUnknown : judged_accuracy(experiment, tried);
      if (!failure && std::isnan(accuracy))
        throw Error(ErrorKind::kUsage, fmt::format("{}: no test labels tell which settings are best; take tune away",
                                                   experiment.runs[r].name));
      rows[r].trials.push_back({candidate.text, accuracy});
      if (!(accuracy > best)) continue;
      best = accuracy;
      rows[r].chosen = rows[r].trials.size() - 1;
    }
    if (best < 0.0) {
      comparison.failures.push_back({rows[r].name, kTuningSeed, *(trial - 1)->failure});
      continue;
    }
    result.runs[r] = candidates[rows[r].chosen].run;
  }
  return result;
}

void summarise_row(const Experiment& experiment, RowResult& row) {
  std::vector<double> accuracy, reweighted, adapted, majority, worst, best, spread;
  std::vector<std::vector<double>> nodes;
  for (const RunResult& run : row.runs) {
    accuracy.push_back(judged_accuracy(experiment, run));
    adapted.push_back(judged_by(experiment, run, &NodeEvaluation::adapted));
    majority.push_back(judged_by(experiment, run, &NodeEvaluation::majority));
    std::vector<double> known, source;
    const std::vector<NodeEvaluation> last = run.last();
    nodes.resize(std::max(nodes.size(), last.size()));
    for (const NodeEvaluation& node : last) {
      nodes[static_cast<std::size_t>(node.node)].push_back(node.accuracy);
      if (!std::isnan(node.accuracy)) known.push_back(node.accuracy);
      source.push_back(node.reweighted_accuracy);
    }
    reweighted.push_back(mean_deviation(source).mean);
    worst.push_back(known.empty() ? kUnknown : *std::min_element(known.begin(), known.end()));
    best.push_back(known.empty() ? kUnknown : *std::max_element(known.begin(), known.end()));
    spread.push_back(mean_deviation(known).deviation);
  }
  row.accuracy = mean_deviation(accuracy);
  row.reweighted_accuracy = mean_deviation(reweighted);
  row.nodes.clear();  // of an earlier call
  for (const auto& values : nodes) row.nodes.push_back(mean_deviation(values));
  row.adapted = mean_deviation(adapted);
  row.majority = mean_deviation(majority);
  row.worst = mean_deviation(worst);
  row.best = mean_deviation(best);
  row.spread = mean_deviation(spread);
}

Json json_of(const MeanDeviation& value) {
  return {{"mean", json_number(value.mean)}, {"sd", json_number(value.deviation)}};
}

std::string summary_text(const Experiment& experiment, const ComparisonResult& result) {
  Json json{{"name", experiment.name},   {"title", experiment.title}, {"version", version()},
            {"seeds", experiment.seeds}, {"notes", result.notes},     {"warnings", result.warnings},
            {"rows", Json::array()}};
  for (const RunFailure& failure : result.failures)
    json["failures"].push_back({{"row", failure.row}, {"seed", failure.seed}, {"error", failure.error.what()}});
  if (!experiment.claim.empty()) json["claim"] = experiment.claim;
  if (experiment.report_node > 0) json["reported_node"] = experiment.report_node;
  for (const RowResult& row : result.rows) {
    Json one{{"name", row.name},
             {"accuracy", json_of(row.accuracy)},
             {"reweighted_source_accuracy", json_of(row.reweighted_accuracy)},
             {"worst_node", json_of(row.worst)},
             {"best_node", json_of(row.best)},
             {"spread_between_nodes", json_of(row.spread)}};
    if (!std::isnan(row.adapted.mean)) {
      one["adapted"] = json_of(row.adapted);
      one["majority"] = json_of(row.majority);
    }
    if (row.paper.accuracy) one["paper"] = *row.paper.accuracy;
    if (row.paper.deviation) one["paper_sd"] = *row.paper.deviation;
    if (!row.paper.nodes.empty()) one["paper_nodes"] = row.paper.nodes;
    for (const MeanDeviation& node : row.nodes) one["nodes"].push_back(json_of(node));
    for (const TuningTrial& trial : row.trials)
      one["tuning"].push_back({{"settings", trial.settings},
                               {fmt::format("accuracy_on_seed_{}", kTuningSeed), json_number(trial.accuracy)}});
    if (!row.trials.empty() && !std::isnan(row.trials[row.chosen].accuracy))
      one["tuned"] = row.trials[row.chosen].settings;
    for (const RunResult& run : row.runs)  // seen from the summary, so that a folder of results can be moved
      one["runs"].push_back(std::filesystem::path(run.folder).lexically_relative(result.folder).generic_string());
    json["rows"].push_back(std::move(one));
  }
  for (const PairedDifference& one : paired_differences(experiment, result))
    json["paired_differences"].push_back({{"row", one.row},
                                          {"of", one.of},
                                          {"seeds", one.seeds},
                                          {"mean", one.difference.mean},
                                          {"low", one.difference.low},
                                          {"high", one.difference.high}});
  return json_text(json);
}

/// What to say where no site's test data have labels and nothing stands in for them; empty otherwise. One process sees
/// beforehand that there are none.
std::string nothing_judged(const Experiment& experiment, const ComparisonResult& result) {
  if (!experiment.runs.front().settings.data.at_sites() || result.is_judged()) return "";
  for (const RowResult& row : result.rows)
    for (const RunResult& run : row.runs)
      for (const NodeEvaluation& node : run.last())
        if (!std::isnan(node.reweighted_accuracy)) return "";
  const bool held_out = std::any_of(experiment.runs.begin(), experiment.runs.end(), [](const ComparedRun& run) {
    return run.settings.federation.ratio.weighted() && run.settings.federation.source_holdout > 0.0;
  });
  return held_out
             ? "Nothing was judged: no site has labels of its test data, and the training examples that are held "
               "out say nothing where a site lacks a class or keeps its label mix to itself. Where it lacks one, "
               "ratio.predictor = \"federated\" may help."
             : "Nothing was judged: no site has labels of its test data. With run.source-holdout = 0.2 and a method "
               "of [ratio] a fifth of the training examples would be held out to judge by.";
}

/// What to say where there is nothing else.
Error failure_of_all(const ComparisonResult& result) {
  const RunFailure& first = result.failures.front();
  if (result.failures.size() == 1) return first.error;
  std::set<std::string> said;
  std::string text;
  for (const RunFailure& failure : result.failures)
    if (said.insert(failure.error.what()).second)
      text += fmt::format("; {}, seed {}: {}", failure.row, failure.seed, failure.error.what());
  return first.error.reworded(fmt::format("all {} runs failed{}", result.failures.size(), text));
}

}  // namespace

bool ComparisonResult::is_judged() const {
  return std::any_of(rows.begin(), rows.end(), [](const RowResult& row) { return !std::isnan(row.accuracy.mean); });
}

double judged_accuracy(const Experiment& experiment, const RunResult& run) {
  return judged_by(experiment, run, &NodeEvaluation::accuracy);
}

double judged_by(const Experiment& experiment, const RunResult& run, double NodeEvaluation::*number) {
  const std::vector<NodeEvaluation> last = run.last();
  if (experiment.report_node == 0 || last.size() == 1) return average_of(run.state.history, number);
  if (experiment.report_node > std::ssize(last)) return kUnknown;
  return last[static_cast<std::size_t>(experiment.report_node - 1)].*number;
}

double mean_iterations(const Experiment& experiment, const ComparedRun& row, int rounds) {
  std::vector<double> of_seeds;
  FederationSettings settings = row.settings.federation;
  for (const std::uint64_t seed : experiment.seeds) {
    settings.seed = seed;
    of_seeds.push_back(static_cast<double>(iterations(settings, rounds)));
  }
  return mean_deviation(of_seeds).mean;
}

std::vector<PairedDifference> paired_differences(const Experiment& experiment, const ComparisonResult& result) {
  std::size_t measure = 0;  // what all rows are measured by
  for (std::size_t r = result.rows.size(); r-- > 0;)
    if (experiment.runs[r].settings.federation.ratio.method == "true") measure = r;
  std::vector<PairedDifference> found;
  for (std::size_t r = 0; r < result.rows.size(); ++r) {
    if (r == measure) continue;
    std::vector<double> differences;
    for (const RunResult& run : result.rows[r].runs)
      for (const RunResult& other : result.rows[measure].runs)
        if (run.seed == other.seed)
          if (const double d = judged_accuracy(experiment, run) - judged_accuracy(experiment, other); !std::isnan(d))
            differences.push_back(d);
    if (differences.size() > 1)
      found.push_back({.row = result.rows[r].name,
                       .of = result.rows[measure].name,
                       .seeds = differences.size(),
                       .difference = mean_interval(differences)});
  }
  return found;
}

void take_run(const ComparedRun& run, std::size_t row_number, RunResult made, ComparisonResult& result) {
  RowResult& row = result.rows[row_number];
  const FederationState& state = made.state;
  const FederationSettings& settings = run.settings.federation;
  const auto note = [&](const std::string& text) {
    if (std::find(result.notes.begin(), result.notes.end(), text) == result.notes.end()) result.notes.push_back(text);
  };
  for (const std::string& of_data : made.notes) note("Data: " + of_data + ".");
  if (const double q = state.compression_variance; !std::isnan(q))
    note(fmt::format("{}: updates are compressed by {}, with q = {:.3g} of E |Q(x) - x|^2 <= q |x|^2.", row.name,
                     settings.compression.codec, q));
  if (const auto& step = state.step)
    note(fmt::format("{}, seed {}: {} is {:.3g}, by the theorem, with r_max = {:.4g} and beta = {:.4g}.", row.name,
                     made.seed, step_key(settings), step->rate, step->largest_weight, step->smoothness));
  if (state.drawn_steps > 0)
    note(fmt::format("{}, seed {}: each node took {} steps in {} rounds.", row.name, made.seed, state.drawn_steps,
                     state.round));
  if (state.zeros > 0.0)
    note(fmt::format("{}, seed {}: {:.0f} parameters of the model are exactly 0.", row.name, made.seed, state.zeros));
  for (const std::string& warning : state.warnings) {
    const std::string text = result.rows.size() > 1 ? row.name + ": " + warning : warning;
    if (std::find(result.warnings.begin(), result.warnings.end(), text) == result.warnings.end())
      result.warnings.push_back(text);
  }
  row.runs.push_back(std::move(made));
}

void summarise(const Experiment& experiment, ComparisonResult& result) {
  for (RowResult& row : result.rows) summarise_row(experiment, row);
}

double comparison_seconds(const Experiment& experiment, const std::string& output, TrainingCost& cost) {
  double seconds = 0.0;
  const auto add = [&](const RunTask& task) {
    if (!is_finished(task)) seconds += cost.of_federation(task.settings);
  };
  for (const ComparedRun& row : experiment.runs) {
    const std::vector<TuningCandidate> candidates = candidates_of(row);
    if (!row.tune.empty())
      for (std::size_t i = 0; i < candidates.size(); ++i) add(trial_task(experiment, row, candidates[i], i, output));
    for (const std::uint64_t seed : experiment.seeds) add(task_of(experiment, row, seed, output));
  }
  return seconds;
}

void check_comparison(const Experiment& experiment, const ComparisonSettings& settings) {
  if (settings.output.empty())
    throw Error(ErrorKind::kUsage, "the name of the output folder is empty; choose one", Remedy::kOutputFolder);
  check_rows(experiment);
  check_folders(trial_tasks(experiment, settings.output), settings.resume);
  check_folders(compared_tasks(experiment, settings.output).tasks, settings.resume);
}

ComparisonResult run_comparison(const Experiment& experiment, const ComparisonSettings& settings,
                                const Observer& observer) {
  check_comparison(experiment, settings);
  const std::string folder = settings.output + "/" + experiment.name;
  ComparisonResult result{.folder = folder, .table = folder + "/nodes.csv", .summary = folder + "/summary.json"};
  for (const ComparedRun& run : experiment.runs) result.rows.push_back({.name = run.name, .paper = run.paper});
  const Experiment chosen = tuned(experiment, settings, observer, result);

  const auto [tasks, row_of] = compared_tasks(chosen, settings.output);  // not of rows where nothing could be chosen
  std::vector<TaskResult> runs = run_tasks(tasks, run_options(settings), "training", observer);
  if (!experiment.note.empty()) result.notes.push_back(experiment.note);
  for (std::string& note : idle_key_notes(experiment)) result.notes.push_back(std::move(note));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (const auto& failure = runs[i].failure) {
      result.failures.push_back({result.rows[row_of[i]].name, tasks[i].settings.federation.seed, *failure});
      continue;
    }
    take_run(chosen.runs[row_of[i]], row_of[i], std::move(runs[i].result), result);
  }
  if (std::all_of(result.rows.begin(), result.rows.end(), [](const RowResult& row) { return row.runs.empty(); }))
    throw failure_of_all(result);
  summarise(experiment, result);
  if (const std::string note = nothing_judged(experiment, result); !note.empty()) result.notes.push_back(note);

  write_file(result.table, table_csv(evaluation_table(result)));
  write_file(result.summary, summary_text(experiment, result));
  if (result.is_judged()) {
    result.figure = folder + "/accuracy.svg";
    result.spread_figure = folder + "/spread.svg";
    write_file(result.figure, line_plot(accuracy_plot(chosen, result)));
    write_file(result.spread_figure, dot_plot(spread_plot(experiment, result)));
  }
  if (const auto mixes = mix_plot(experiment, result)) {
    result.mix_figure = folder + "/node-mixes.svg";
    write_file(result.mix_figure, line_plot(*mixes));
  }
  result.report = folder + "/report.html";
  write_file(result.report, page_html(comparison_page(chosen, result)));
  return result;
}

}  // namespace labelshift
