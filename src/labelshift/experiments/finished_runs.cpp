#include "labelshift/experiments/finished_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/data/files/input_file.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettingsName = "experiment.toml";
constexpr const char* kSummaryName = "summary.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void add_seed(std::uint64_t seed, std::vector<std::uint64_t>& seeds) {
  if (std::find(seeds.begin(), seeds.end(), seed) == seeds.end()) seeds.push_back(seed);
}

/// One run of a folder and the file that it was made from.
struct FinishedRun {
  Experiment experiment;
  RunResult run;
};

FinishedRun read_one(const std::string& folder) {
  const std::string file = (fs::path(folder) / kSettingsName).string();
  FinishedRun result{.experiment = read_experiment(file), .run = {}};
  RunTask task{.folder = folder, .settings_file = read_file(file), .settings = result.experiment.runs.front().settings};
  task.settings.federation.seed = result.experiment.seeds.front();
  result.run = read_run(task);
  return result;
}

/// The numbers that a summary has under a key; nothing where it is null or missing.
std::optional<double> number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::nullopt : std::optional(found->get<double>());
}

/// What the summary of a comparison says of a row, besides its runs.
void read_row(const Json& json, ComparedRun& run, RowResult& row) {
  run.name = row.name = json.at("name").get<std::string>();
  row.paper = {.accuracy = number_at(json, "paper"),
               .deviation = number_at(json, "paper_sd"),
               .nodes = json.value("paper_nodes", std::vector<double>())};
  run.paper = row.paper;
  const std::string chosen = json.value("tuned", "");
  const std::string accuracy_key = fmt::format("accuracy_on_seed_{}", kTuningSeed);
  for (const Json& trial : json.value("tuning", Json::array())) {
    row.trials.push_back({.settings = trial.at("settings").get<std::string>(),
                          .accuracy = number_at(trial, accuracy_key.c_str()).value_or(kUnknown)});
    if (row.trials.back().settings == chosen) row.chosen = row.trials.size() - 1;
  }
}

FinishedComparison read_comparison(const std::string& folder, const Json& json) {
  FinishedComparison found;
  Experiment& experiment = found.experiment;
  ComparisonResult& result = found.result;
  experiment.name = json.at("name").get<std::string>();
  experiment.title = json.at("title").get<std::string>();
  experiment.claim = json.value("claim", "");
  experiment.seeds = json.at("seeds").get<std::vector<std::uint64_t>>();
  experiment.report_node = json.value("reported_node", 0);
  for (const Json& row : json.at("rows")) {
    experiment.runs.emplace_back();
    read_row(row, experiment.runs.back(), result.rows.emplace_back());
  }
  result.notes = json.value("notes", std::vector<std::string>());
  result.warnings = json.value("warnings", std::vector<std::string>());
  for (const Json& failure : json.value("failures", Json::array()))
    result.failures.push_back({.row = failure.at("row").get<std::string>(),
                               .seed = failure.at("seed").get<std::uint64_t>(),
                               .error = Error(ErrorKind::kSystem, failure.at("error").get<std::string>())});
  for (std::size_t r = 0; r < result.rows.size(); ++r)
    for (const Json& name : json.at("rows").at(r).value("runs", Json::array())) {
      FinishedRun one = read_one((fs::path(folder) / name.get<std::string>()).string());
      experiment.runs[r].settings = one.experiment.runs.front().settings;
      take_run(experiment.runs[r], r, std::move(one.run), result);
    }
  if (std::ranges::all_of(result.rows, [](const RowResult& row) { return row.runs.empty(); }))
    throw Error(ErrorKind::kInput, fmt::format("{} has no run that has ended; run the comparison again", folder));
  return found;
}

}  // namespace

FinishedComparison alone(const RunTask& task, const RunResult& run) {
  FinishedComparison found{
      .experiment = parse_experiment(task.settings_file, task.folder + "/" + kSettingsName, task.folder),
      .result = {.folder = task.folder}};
  ComparedRun& row = found.experiment.runs.front();
  row.settings = task.settings;
  found.result.rows.push_back({.name = row.name});
  take_run(row, 0, run, found.result);
  summarise(found.experiment, found.result);
  return found;
}

FinishedComparison read_finished(const std::string& folder) {
  const fs::path settings = fs::path(folder) / kSettingsName, summary = fs::path(folder) / kSummaryName;
  if (is_there(settings)) {
    FinishedRun one = read_one(folder);
    FinishedComparison found{.experiment = std::move(one.experiment), .result = {.folder = folder}};
    found.result.rows.push_back({.name = found.experiment.runs.front().name});
    take_run(found.experiment.runs.front(), 0, std::move(one.run), found.result);
    summarise(found.experiment, found.result);
    return found;
  }
  if (!is_there(summary))
    throw Error(ErrorKind::kInput,
                fmt::format("{} has neither {} nor {}: expected the folder of a run, or of a comparison", folder,
                            kSettingsName, kSummaryName));
  FinishedComparison found;
  try {
    found = read_comparison(folder, Json::parse(read_file(summary)));
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kInput,
                fmt::format("{} is not what a comparison writes, or it is damaged; run the comparison again, which "
                            "repeats no whole run, or name the folder of a single run",
                            summary.string()));
  }
  found.result.folder = folder;
  summarise(found.experiment, found.result);
  return found;
}

FinishedComparison joined(std::span<const FinishedComparison> comparisons) {
  if (comparisons.size() == 1) return comparisons.front();
  FinishedComparison all;
  all.experiment.seeds.clear();
  all.experiment.name = "comparison";
  std::vector<std::string> titles, settings_of;  // a row
  for (const FinishedComparison& one : comparisons) {
    if (std::find(titles.begin(), titles.end(), one.experiment.title) == titles.end())
      titles.push_back(one.experiment.title);
    for (std::size_t r = 0; r < one.result.rows.size(); ++r) {
      const RowResult& row = one.result.rows[r];
      const std::string settings = settings_json(one.experiment.runs[r].settings);
      std::size_t at = 0;
      while (at < settings_of.size() && (settings_of[at] != settings || all.experiment.runs[at].name != row.name)) ++at;
      if (at == settings_of.size()) {
        settings_of.push_back(settings);
        all.experiment.runs.push_back(one.experiment.runs[r]);
        all.result.rows.push_back({.name = row.name, .paper = row.paper, .trials = row.trials, .chosen = row.chosen});
      }
      for (const RunResult& run : row.runs) {
        const std::vector<RunResult>& there = all.result.rows[at].runs;
        if (std::any_of(there.begin(), there.end(), [&](const RunResult& other) { return other.seed == run.seed; }))
          continue;
        add_seed(run.seed, all.experiment.seeds);
        take_run(all.experiment.runs[at], at, run, all.result);
      }
    }
    for (const RunFailure& failure : one.result.failures) all.result.failures.push_back(failure);
  }
  for (std::size_t r = 0; r < all.result.rows.size(); ++r) {
    const auto same_name = std::count_if(all.result.rows.begin(), all.result.rows.end(),
                                         [&](const RowResult& row) { return row.name == all.experiment.runs[r].name; });
    if (same_name > 1 && !all.result.rows[r].runs.empty())
      all.experiment.runs[r].name += fmt::format(" ({})", all.result.rows[r].runs.front().folder);
  }
  for (std::size_t r = 0; r < all.result.rows.size(); ++r) all.result.rows[r].name = all.experiment.runs[r].name;
  for (const std::string& title : titles) all.experiment.title += (all.experiment.title.empty() ? "" : "; ") + title;
  summarise(all.experiment, all.result);
  return all;
}

}  // namespace labelshift
