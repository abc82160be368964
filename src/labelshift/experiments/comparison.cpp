#include "labelshift/experiments/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/parallel.hpp"
#include "labelshift/core/base/stopped.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/federation/setting_error.hpp"
#include "labelshift/report/line_plot.hpp"
#include "labelshift/report/range_plot.hpp"

namespace labelshift {
namespace {

using Json = nlohmann::ordered_json;

/// What one of the runs weighs against the others, in stochastic gradients of all nodes.
double weight_of(const RunSettings& settings) {
  const FederationSettings& federation = settings.federation;
  return static_cast<double>(federation.rounds) * federation.local.steps;
}

RunTask task_of(const Experiment& experiment, const ComparedRun& run, std::uint64_t seed, const std::string& name,
                const std::string& output) {
  RunTask task{.folder = fmt::format("{}/{}/{}", output, experiment.name, name), .settings = run.settings};
  task.settings.federation.seed = seed;
  task.settings_file = write_experiment(experiment, {.name = run.name, .settings = task.settings}, seed);
  return task;
}

RunTask task_of(const Experiment& experiment, const ComparedRun& run, std::uint64_t seed, const std::string& output) {
  return task_of(experiment, run, seed, fmt::format("{}-seed-{}", run.folder_name(), seed), output);
}

/// Every combination of the candidates of a row, the last key running fastest.
struct Candidate {
  std::string text;
  ComparedRun run;
};

std::vector<Candidate> candidates_of(const ComparedRun& run) {
  std::vector<Candidate> result{{"", run}};
  for (const TunedSetting& setting : run.tune) {
    std::vector<Candidate> longer;
    for (const Candidate& before : result)
      for (const std::string& value : setting.values) {
        Candidate& next = longer.emplace_back(before);
        next.text += fmt::format("{}{} = {}", next.text.empty() ? "" : ", ", setting.key, value);
        change_setting(next.run.settings, setting.key, value, run.name);
      }
    result = std::move(longer);
  }
  for (Candidate& candidate : result) candidate.run.tune.clear();
  return result;
}

RunTask trial_task(const Experiment& experiment, const ComparedRun& row, const Candidate& candidate, std::size_t number,
                   const std::string& output) {
  return task_of(experiment, candidate.run, kTuningSeed, fmt::format("{}-tune-{}", row.folder_name(), number + 1),
                 output);
}

/// What came of a task, or why nothing did.
struct Outcome {
  RunResult result;
  std::optional<Error> failure;
};

/// Runs tasks, tells the observer how much of all is done, and stops all if one is stopped.
class TaskRunner {
 public:
  TaskRunner(const std::vector<RunTask>& tasks, const ComparisonSettings& settings, const RunObserver& observer)
      : tasks_(tasks), settings_(settings), observer_(observer), outcomes_(tasks.size()), done_(tasks.size()) {}

  /// Side by side with one thread each; what is left over where threads do not divide the tasks shares all of them.
  std::vector<Outcome> run(const std::string& stage) {
    check_folders();
    std::vector<std::size_t> todo;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (is_finished(tasks_[i])) {
        run_one(i, /*workers=*/1, {});
        continue;
      }
      todo.push_back(i);
      whole_ += weight_of(tasks_[i].settings);
    }
    stage_ = todo.size() > 1 ? fmt::format("{} {} runs", stage, todo.size()) : "";
    // The longest first, so that the shortest are left over.
    std::stable_sort(todo.begin(), todo.end(), [&](std::size_t a, std::size_t b) {
      return weight_of(tasks_[a].settings) > weight_of(tasks_[b].settings);
    });
    const std::size_t workers =
        settings_.workers > 0 ? settings_.workers : std::max(1u, std::thread::hardware_concurrency());
    const std::size_t left_over = todo.size() % workers;
    run_some(std::span(todo).first(todo.size() - left_over), 1);
    if (left_over > 0) run_some(std::span(todo).last(left_over), static_cast<unsigned>(workers / left_over));
    return std::move(outcomes_);
  }

 private:
  /// What is wrong with the command is said before anything is run.
  void check_folders() const {
    for (const RunTask& task : tasks_) {
      try {
        check_folder(task, settings_.resume);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kUsage) throw;  // of others run_in_folder() throws the same
      }
    }
  }

  void run_one(std::size_t number, unsigned workers, const RunObserver& observer) {
    try {
      outcomes_[number].result = run_in_folder(
          tasks_[number], {.resume = settings_.resume, .workers = workers, .prepare_thread = settings_.prepare_thread},
          observer);
    } catch (const Error& error) {
      outcomes_[number].failure = error;
    }
  }

  void run_some(std::span<const std::size_t> todo, unsigned workers_each) {
    run_in_parallel(std::ssize(todo), settings_.workers, [&](Index which) {
      const std::size_t number = todo[static_cast<std::size_t>(which)];
      try {
        run_one(number, workers_each, [&](std::string_view phase, double done) { return report(number, phase, done); });
        report(number, "training", 1.0);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        throw;
      }
    });
  }

  bool report(std::size_t number, std::string_view phase, double done) {
    const std::lock_guard lock(mutex_);
    if (!stage_.empty()) {
      if (phase != "training") done = done_[number];  // what comes before takes little of the time
      total_ += (done - done_[number]) * weight_of(tasks_[number].settings) / whole_;
      done_[number] = done;
      phase = stage_;
      done = total_;
    }
    return !stopped_ && (!observer_ || observer_(phase, done));
  }

  const std::vector<RunTask>& tasks_;
  const ComparisonSettings& settings_;
  const RunObserver& observer_;
  std::string stage_;  // of several; empty: that of the one task
  std::vector<Outcome> outcomes_;
  double whole_ = 0.0;
  std::mutex mutex_;
  std::vector<double> done_;
  double total_ = 0.0;
  bool stopped_ = false;
};

/// The accuracy that a run is judged by.
double judged_accuracy(const Experiment& experiment, const RunResult& run) {
  const std::vector<NodeEvaluation> last = run.last();
  if (experiment.report_node == 0 || last.size() == 1) return average_accuracy(run.state.history);
  if (experiment.report_node > std::ssize(last)) return kUnknown;
  return last[static_cast<std::size_t>(experiment.report_node - 1)].accuracy;
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
    for (const Candidate& candidate : candidates_of(run)) {
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

/// Tries the candidates of all rows and gives each row its best. A row that has none that can be run is a failure.
Experiment tuned(const Experiment& experiment, const ComparisonSettings& settings, const RunObserver& observer,
                 ComparisonResult& comparison) {
  std::vector<RowResult>& rows = comparison.rows;
  Experiment result = experiment;
  std::vector<RunTask> tasks;
  for (const ComparedRun& row : experiment.runs) {
    if (row.tune.empty()) continue;
    const std::vector<Candidate> candidates = candidates_of(row);
    for (std::size_t i = 0; i < candidates.size(); ++i)
      tasks.push_back(trial_task(experiment, row, candidates[i], i, settings.output));
  }
  const std::vector<Outcome> trials = TaskRunner(tasks, settings, observer).run("tuning");
  auto trial = trials.begin();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (experiment.runs[r].tune.empty()) continue;
    const std::vector<Candidate> candidates = candidates_of(experiment.runs[r]);
    double best = -1.0;
    for (const Candidate& candidate : candidates) {
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

void summarise(const Experiment& experiment, RowResult& row) {
  std::vector<double> accuracy, reweighted, worst, best, spread;
  std::vector<std::vector<double>> nodes;
  for (const RunResult& run : row.runs) {
    accuracy.push_back(judged_accuracy(experiment, run));
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
  for (const auto& values : nodes) row.nodes.push_back(mean_deviation(values));
  row.worst = mean_deviation(worst);
  row.best = mean_deviation(best);
  row.spread = mean_deviation(spread);
}

std::string csv_text(const std::string& text) {
  std::string doubled;
  for (const char letter : text) doubled += letter == '"' ? "\"\"" : std::string(1, letter);
  return '"' + doubled + '"';
}

std::string table_text(const ComparisonResult& result) {
  const auto cell = [](double value) { return std::isnan(value) ? "" : fmt::format("{}", value); };
  std::string text =
      "run,seed,node,examples,accuracy,loss,reweighted_source_accuracy,reweighted_low,reweighted_high,"
      "reweighted_effective_examples\n";
  for (const RowResult& row : result.rows)
    for (const RunResult& run : row.runs)
      for (const NodeEvaluation& node : run.last())
        text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", csv_text(row.name), run.seed, node.node + 1,
                            node.examples, cell(node.accuracy), cell(node.loss), cell(node.reweighted_accuracy),
                            cell(node.reweighted_low), cell(node.reweighted_high), cell(node.reweighted_examples));
  return text;
}

Json json_of(const MeanDeviation& value) {
  const auto known = [](double number) { return std::isnan(number) ? Json(nullptr) : Json(number); };
  return {{"mean", known(value.mean)}, {"sd", known(value.deviation)}};
}

std::string summary_text(const Experiment& experiment, const ComparisonResult& result) {
  Json json{{"name", experiment.name},   {"title", experiment.title}, {"version", version()},
            {"seeds", experiment.seeds}, {"notes", result.notes},     {"warnings", result.warnings},
            {"rows", Json::array()}};
  for (const RunFailure& failure : result.failures)
    json["failures"].push_back({{"row", failure.row}, {"seed", failure.seed}, {"error", failure.error.what()}});
  if (experiment.report_node > 0) json["reported_node"] = experiment.report_node;
  for (const RowResult& row : result.rows) {
    Json one{{"name", row.name},
             {"accuracy", json_of(row.accuracy)},
             {"reweighted_source_accuracy", json_of(row.reweighted_accuracy)},
             {"worst_node", json_of(row.worst)},
             {"best_node", json_of(row.best)},
             {"spread_between_nodes", json_of(row.spread)}};
    if (row.paper.accuracy) one["paper"] = *row.paper.accuracy;
    if (row.paper.deviation) one["paper_sd"] = *row.paper.deviation;
    for (const MeanDeviation& node : row.nodes) one["nodes"].push_back(json_of(node));
    for (const TuningTrial& trial : row.trials)
      one["tuning"].push_back(
          {{"settings", trial.settings},
           {"accuracy_on_seed_1000", std::isnan(trial.accuracy) ? Json(nullptr) : Json(trial.accuracy)}});
    if (!row.trials.empty() && !std::isnan(row.trials[row.chosen].accuracy))
      one["tuned"] = row.trials[row.chosen].settings;
    for (const RunResult& run : row.runs)  // seen from the summary, so that a folder of results can be moved
      one["runs"].push_back(std::filesystem::path(run.folder).lexically_relative(result.folder).generic_string());
    json["rows"].push_back(std::move(one));
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
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

/// Accuracy against iterations, T = tau R.
std::string accuracy_figure(const Experiment& experiment, const ComparisonResult& result) {
  LinePanel panel{.x_label = "iterations",
                  .y_label = experiment.report_node > 0 ? fmt::format("accuracy of node {}", experiment.report_node)
                                                        : "average accuracy of the nodes",
                  .x_scale = AxisScale::kLinear,
                  .y_scale = AxisScale::kLinear};
  for (std::size_t r = 0; r < result.rows.size() && r < 16; ++r) {
    const RowResult& row = result.rows[r];
    if (row.runs.empty()) continue;
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
      const double deviation = std::isnan(value.deviation) ? 0.0 : value.deviation;
      series.x.push_back(static_cast<double>(round) * experiment.runs[r].settings.federation.local.steps);
      series.y.push_back(value.mean);
      series.low.push_back(value.mean - deviation);
      series.high.push_back(value.mean + deviation);
    }
    panel.series.push_back(std::move(series));
  }
  std::string subtitle =
      experiment.seeds.size() > 1
          ? fmt::format("Means over {} seeds; bands are one standard deviation.", experiment.seeds.size())
          : "One seed.";
  for (const std::string& note : result.notes) subtitle += " " + note;
  return line_plot({.title = experiment.title, .subtitle = subtitle, .panels = {panel}});
}

std::string spread_figure(const Experiment& experiment, const ComparisonResult& result) {
  const auto point = [](const MeanDeviation& value) {
    return RangePoint{value.mean, std::isnan(value.deviation) ? 0.0 : value.deviation};
  };
  RangePlot plot{
      .title = experiment.title,
      .subtitle = experiment.seeds.size() > 1
                      ? fmt::format("Whiskers are one standard deviation over {} seeds.", experiment.seeds.size())
                      : "One seed.",
      .x_label = "accuracy"};
  for (const std::string& note : result.notes) plot.subtitle += " " + note;
  for (const RowResult& row : result.rows) {
    if (row.runs.empty()) continue;
    std::vector<double> averages;
    for (const RunResult& run : row.runs) averages.push_back(average_accuracy(run.state.history));
    plot.rows.push_back({row.name, point(row.worst), point(mean_deviation(averages)), point(row.best)});
  }
  return range_plot(plot);
}

}  // namespace

MeanDeviation mean_deviation(const std::vector<double>& values) {
  double sum = 0.0, squares = 0.0, count = 0.0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    count += 1.0;
  }
  if (count == 0.0) return {};
  MeanDeviation result{.mean = sum / count};
  for (const double value : values)
    if (!std::isnan(value)) squares += (value - result.mean) * (value - result.mean);
  if (count > 1.0) result.deviation = std::sqrt(squares / (count - 1.0));
  return result;
}

double comparison_seconds(const Experiment& experiment, const std::string& output, TrainingCost& cost) {
  double seconds = 0.0;
  const auto add = [&](const RunTask& task) {
    if (!is_finished(task)) seconds += cost.of_federation(task.settings);
  };
  for (const ComparedRun& row : experiment.runs) {
    const std::vector<Candidate> candidates = candidates_of(row);
    if (!row.tune.empty())
      for (std::size_t i = 0; i < candidates.size(); ++i) add(trial_task(experiment, row, candidates[i], i, output));
    for (const std::uint64_t seed : experiment.seeds) add(task_of(experiment, row, seed, output));
  }
  return seconds;
}

ComparisonResult run_comparison(const Experiment& experiment, const ComparisonSettings& settings,
                                const RunObserver& observer) {
  if (settings.output.empty())
    throw Error(ErrorKind::kUsage, "the name of the output folder is empty; choose one", Remedy::kOutputFolder);
  check_rows(experiment);
  const std::string folder = settings.output + "/" + experiment.name;
  ComparisonResult result{.folder = folder, .table = folder + "/nodes.csv", .summary = folder + "/summary.json"};
  for (const ComparedRun& run : experiment.runs) result.rows.push_back({.name = run.name, .paper = run.paper});
  const Experiment chosen = tuned(experiment, settings, observer, result);

  std::vector<RunTask> tasks;
  std::vector<std::size_t> row_of;  // a task
  for (std::size_t r = 0; r < chosen.runs.size(); ++r) {
    if (!chosen.runs[r].tune.empty()) continue;  // nothing could be chosen
    for (const std::uint64_t seed : experiment.seeds) {
      tasks.push_back(task_of(chosen, chosen.runs[r], seed, settings.output));
      row_of.push_back(r);
    }
  }
  std::vector<Outcome> runs = TaskRunner(tasks, settings, observer).run("training");
  std::set<std::string> notes, warnings;
  if (!experiment.note.empty()) result.notes.push_back(experiment.note);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RowResult& row = result.rows[row_of[i]];
    if (const auto& failure = runs[i].failure) {
      result.failures.push_back({row.name, tasks[i].settings.federation.seed, *failure});
      continue;
    }
    RunResult& run = runs[i].result;
    for (const std::string& note : run.notes)
      if (notes.insert(note).second) result.notes.push_back("Data: " + note + ".");
    for (const std::string& warning : run.state.warnings)
      if (warnings.insert(row.name + warning).second)
        result.warnings.push_back(result.rows.size() > 1 ? row.name + ": " + warning : warning);
    row.runs.push_back(std::move(run));
  }
  if (std::all_of(result.rows.begin(), result.rows.end(), [](const RowResult& row) { return row.runs.empty(); }))
    throw failure_of_all(result);
  for (RowResult& row : result.rows) summarise(experiment, row);

  write_file(result.table, table_text(result));
  write_file(result.summary, summary_text(experiment, result));
  const bool judged = std::any_of(result.rows.begin(), result.rows.end(),
                                  [](const RowResult& row) { return !std::isnan(row.accuracy.mean); });
  if (judged) {
    result.figure = folder + "/accuracy.svg";
    result.spread_figure = folder + "/spread.svg";
    write_file(result.figure, accuracy_figure(chosen, result));
    write_file(result.spread_figure, spread_figure(experiment, result));
  }
  return result;
}

}  // namespace labelshift
