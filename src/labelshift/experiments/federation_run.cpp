#include "labelshift/experiments/federation_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"
#include "labelshift/experiments/comparison_page.hpp"
#include "labelshift/experiments/evaluation_table.hpp"
#include "labelshift/experiments/federation_checkpoint.hpp"
#include "labelshift/experiments/finished_runs.hpp"
#include "labelshift/experiments/predictor_shelf.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/model_schema.hpp"
#include "labelshift/federation/setting_error.hpp"
#include "labelshift/federation/setting_ranges.hpp"
#include "labelshift/learning/checkpoint.hpp"
#include "labelshift/learning/predictor.hpp"
#include "labelshift/learning/weights.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(3);       // with a round, when asked to stop
constexpr auto kSaveInterval = std::chrono::seconds(60);  // between those of phase 1

constexpr double kMostRounds = 2e9;  // and nodes and examples, that a number is to be taken for

constexpr const char* kSettingsName = "experiment.toml";
constexpr const char* kRoundsName = "rounds.csv";
constexpr const char* kSummaryName = "summary.json";
constexpr const char* kModelName = "model.safetensors";
constexpr const char* kBatchNormsName = "batch-norms";

constexpr int kFormat = 1;  // of summary.json and all beside it

struct Paths {
  explicit Paths(const std::string& folder)
      : settings(folder + "/" + kSettingsName),
        rounds(folder + "/" + kRoundsName),
        summary(folder + "/" + kSummaryName),
        model(folder + "/" + kModelName),
        batch_norms(folder + "/" + kBatchNormsName),
        sums(folder + "/" + kSumsFile),
        report(folder + "/report.html"),
        nodes(folder + "/nodes"),
        lock(folder + "/lock") {}
  std::string settings, rounds, summary, model, batch_norms, sums, report, nodes, lock;
};

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Why the whole run in a folder is not what was written; nothing if it is.
std::optional<std::string> damage_of_run(const std::string& folder) {
  return damage_of(folder, {kSettingsName, kRoundsName, kSummaryName, kModelName});
}

/// Keeps other processes out of a folder, as long as it lives. The file stays: a lock on a file that somebody removes
/// is no lock.
class FolderLock {
 public:
  FolderLock(const std::string& folder, const std::string& path) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0)
      throw Error(ErrorKind::kSystem,
                  fmt::format("cannot write in {}: {}; choose another folder", folder, errno_text(errno)),
                  Remedy::kOutputFolder);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    ::close(descriptor_);
    throw Error(ErrorKind::kUsage,
                fmt::format("{} is in use by another process; wait until it ends, or choose another folder", folder),
                Remedy::kOutputFolder);
  }
  FolderLock(const FolderLock&) = delete;
  ~FolderLock() { ::close(descriptor_); }

 private:
  int descriptor_ = -1;
};

std::string line_at(const std::string& text, std::size_t at) {
  const std::size_t start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(start, text.find('\n', at) - start);
}

constexpr std::string_view kVersionKey = "\nversion = ";

/// A settings file without the line that says which version wrote it.
std::string without_version(std::string text) {
  const std::size_t at = text.find(kVersionKey);
  if (at != std::string::npos) text.erase(at, text.find('\n', at + 1) - at);
  return text;
}

/// Throws unless both files are of one run. What another version of the program wrote may be the same run.
void check_same_settings(const std::string& folder, const std::string& found_file, const std::string& wanted_file) {
  const std::string found = without_version(found_file), wanted = without_version(wanted_file);
  if (found == wanted) return;
  std::size_t at = 0;
  while (at < found.size() && at < wanted.size() && found[at] == wanted[at]) ++at;
  throw Error(ErrorKind::kUsage,
              fmt::format("{} has a run with other settings: there it is {}, here {}; remove the folder, or choose "
                          "another",
                          folder, excerpt(line_at(found, at)), excerpt(line_at(wanted, at))),
              Remedy::kOutputFolder);
}

std::optional<std::string> other_version(const std::string& folder, const std::string& settings_file) {
  const std::size_t at = settings_file.find(kVersionKey);
  if (at == std::string::npos) return std::nullopt;
  const std::string line = line_at(settings_file, at + 1);
  if (line == fmt::format("version = \"{}\"", version())) return std::nullopt;
  return fmt::format(
      "{} was begun by another version of labelshift ({}; this is {}), so the same settings may give "
      "other bits",
      folder, line, version());
}

/// A number that is not finite is empty, as in a checkpoint.
std::string rounds_text(const std::vector<NodeEvaluation>& history) {
  return table_csv(rounds_table(history));
}

std::vector<NodeEvaluation> read_rounds(const std::string& path) {
  UnpackedFile text{InputFile(path, FileKind::kRegular)};
  Lines lines(text, path);
  const auto need = [&](bool good) {
    if (!good)
      throw Error(ErrorKind::kInput, fmt::format("{} is damaged; remove the folder and run it again", lines.place()));
  };
  std::vector<NodeEvaluation> history;
  std::string_view line;
  lines.next(line);  // the header, whose last columns some runs do not have
  const auto columns = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  while (lines.next(line)) {
    Cells cells(lines, line, ',');
    double values[15];
    for (std::size_t i = 0; i < std::size(values); ++i) {
      std::string_view one;
      values[i] = kUnknown;
      if (i < 9 || i < columns) need(cells.next(one) && (one.empty() || parse_number(one, values[i])));
    }
    for (int i = 0; i < 3; ++i)  // round, node and number of examples
      need(values[i] >= 0.0 && values[i] <= kMostRounds && values[i] == std::floor(values[i]));
    history.push_back({static_cast<int>(values[0]), static_cast<Index>(values[1]) - 1, static_cast<Index>(values[2]),
                       values[3], values[4], values[5], values[6], values[7], values[8], values[9], values[10],
                       values[11], values[12], values[13], values[14]});
  }
  need(!history.empty() && is_history(history));
  return history;
}

std::string summary_text(const RunSettings& settings, const RunResult& result) {
  Json json{{"format", kFormat}, {"version", version()}, {"seed", settings.federation.seed}};
  json["average_accuracy"] = json_number(average_accuracy(result.state.history));
  if (const double adapted = average_of(result.state.history, &NodeEvaluation::adapted); !std::isnan(adapted)) {
    json["average_adapted"] = adapted;
    json["average_majority"] = json_number(average_of(result.state.history, &NodeEvaluation::majority));
  }
  json["nodes"] = Json::array();
  for (const NodeEvaluation& one : result.last()) {
    json["nodes"].push_back(
        {{"node", one.node + 1},
         {"examples", one.examples},
         {"accuracy", json_number(one.accuracy)},
         {"loss", json_number(one.loss)},
         {"reweighted_source_accuracy", json_number(one.reweighted_accuracy)},
         {"reweighted_interval", {json_number(one.reweighted_low), json_number(one.reweighted_high)}},
         {"reweighted_effective_examples", json_number(one.reweighted_examples)}});
    if (is_adapted(one)) {
      Json& node = json["nodes"].back();
      node["adapted"] = json_number(one.adapted);
      node["adapted_interval"] = {json_number(one.adapted_low), json_number(one.adapted_high)};
      node["majority"] = json_number(one.majority);
      node["majority_interval"] = {json_number(one.majority_low), json_number(one.majority_high)};
    }
    if (!result.node_names.empty()) json["nodes"].back()["name"] = result.name_of(one.node);
  }
  json["largest_weight"] = json_number(result.state.largest_weight);
  Json& federation = json["federation"] = Json::parse(describe_state(result.state));
  for (const char* list : {"ratios", "absences", "left_out"})
    for (Json& one : federation[list])
      if (!result.node_names.empty()) one["name"] = result.name_of(one.at("node").get<Index>() - 1);
  json["notes"] = result.notes;
  json["classes"] = result.class_names;
  for (const NodeMix& mix : result.mixes) json["label_counts"].push_back({{"train", mix.train}, {"test", mix.test}});
  json["made_by"] = {{"command", result.provenance.command}, {"machine", result.provenance.machine}};
  json["settings"] = Json::parse(settings_json(settings));
  return json_text(json);
}

/// What a whole run left behind.
RunResult read_result(const RunTask& task) {
  const Paths paths(task.folder);
  const std::string settings_file = read_file(paths.settings);
  check_same_settings(task.folder, settings_file, task.settings_file);
  const std::string summary = read_file(paths.summary);
  RunResult result{.folder = task.folder, .seed = task.settings.federation.seed};
  const auto unless_damaged = [&](auto&& read) {
    try {
      return read();
    } catch (const std::exception&) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{} is damaged; remove the folder {} and run it again", paths.summary, task.folder));
    }
  };
  const Json json = unless_damaged([&] { return Json::parse(summary); });
  const int format = unless_damaged([&] { return json.at("format").get<int>(); });
  check_format(paths.summary, format, kFormat, unless_damaged([&] { return json.at("version").get<std::string>(); }));
  unless_damaged([&] {
    result.state = described_state(json_line(json.at("federation")));
    result.notes = json.at("notes").get<std::vector<std::string>>();
    result.class_names = json.value("classes", std::vector<std::string>());
    for (const Json& mix : json.value("label_counts", Json::array()))  // none in older ones
      result.mixes.push_back({mix.at("train").get<std::vector<Index>>(), mix.at("test").get<std::vector<Index>>()});
    if (json.contains("made_by"))
      result.provenance = {.command = json.at("made_by").at("command").get<std::string>(),
                           .version = {},
                           .machine = json.at("made_by").at("machine").get<std::string>()};
    for (const Json& node : json.at("nodes"))
      if (node.contains("name")) result.node_names.push_back(node.at("name").get<std::string>());
    result.provenance.version = json.at("version").get<std::string>();
  });
  result.state.history = read_rounds(paths.rounds);
  if (auto warning = other_version(task.folder, settings_file)) result.state.warnings.push_back(*warning);
  return result;
}

void write_report(const RunTask& task, const RunResult& result) {
  const FinishedComparison run = alone(task, result);
  write_file(Paths(task.folder).report, page_html(comparison_page(run.experiment, run.result)));
}

/// What another fingerprint means, and what to do about it.
std::string other_data(const RunSettings& settings) {
  const char* or_model = settings.federation.start.empty() ? "" : " or from another model.start";
  return settings.data.at_sites()
             ? fmt::format("with other nodes, or with its nodes in another order{}; bring the list of nodes back",
                           or_model)
             : fmt::format("on other data{}: they have changed since; bring them back", or_model);
}

/// A saved state, if it is of a run with these settings and data.
FederationState known_again(FederationState state, const std::string& checkpoint, const RunSettings& run,
                            const std::string& data, const std::string& settings_print) {
  const FederationSettings& settings = run.federation;
  if (!state.settings.empty() && state.settings != settings_print)
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} is of a run with other settings; remove the folder of the run and start again", checkpoint));
  if (state.round > settings.rounds)
    throw Error(ErrorKind::kInput,
                fmt::format("{}: found {} rounds of {}; remove the folder of the run and start again", checkpoint,
                            state.round, settings.rounds));
  if (!state.data.empty() && state.data != data)  // an older version did not say
    throw Error(ErrorKind::kUsage,
                fmt::format("{} is of a run {}, or choose another folder", checkpoint, other_data(run)),
                Remedy::kOutputFolder);
  return state;
}

/// Throws if a run was begun with nodes that keep what they remember elsewhere than these do.
void check_memory(const FederationState& state, const std::string& checkpoint, const RunNodes& nodes) {
  if (!state.ready || state.memory_at_nodes != nodes.memory_is_here()) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{} has {}; go on with the engine that began the run, or choose another folder", checkpoint,
                          state.memory_at_nodes ? "no memory of the nodes, which kept it themselves"
                                                : "the memory of the nodes, which cannot be sent to them"),
              Remedy::kOutputFolder);
}

std::string_view stage_text(std::string_view stage) {
  if (stage == phase::kJoin) return "meeting the nodes";
  if (stage == phase::kPredictor) return "training the predictor";
  if (stage == phase::kRatio) return "estimating ratios";
  return stage;
}

std::unique_ptr<RunNodes> open_nodes(const RunTask& task, const RunOptions& options) {
  if (options.open_nodes) return options.open_nodes(task);
  return open_local_nodes(task, {.workers = options.workers, .prepare_thread = options.prepare_thread});
}

/// A fingerprint of all that a run is made from besides its settings: the nodes' data, and the model it starts from.
std::string fingerprint_of(const RunTask& task, const FederatedData& data) {
  const std::string& start = task.settings.federation.start;
  return start.empty() ? data.fingerprint : fmt::format("{} from {}", data.fingerprint, sha256_of(read_file(start)));
}

/// The model that a run starts from; nullptr if it draws its weights.
std::shared_ptr<const Predictor> load_start(const FederationSettings& settings, const FederatedData& data) {
  if (settings.start.empty()) return nullptr;
  const auto known = nets();
  const bool script = std::none_of(known.begin(), known.end(),
                                   [&](const NetEntry& entry) { return entry.name == settings.model.name; });
  auto start = std::make_shared<Predictor>(
      load_predictor(settings.start, {.device = settings.device, .net = script ? settings.model.name : ""}));
  if (start->class_names != data.class_names)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is a model of other classes than the data: {}, expected {}; start from another",
                            settings.start, fmt::join(start->class_names, ", "), fmt::join(data.class_names, ", ")));
  if (!start->column_names.empty() && !data.column_names.empty() && start->column_names != data.column_names)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is a model of other columns than the data, or in another order: {}, expected {}; start "
                            "from another, or bring the columns into its order",
                            settings.start, fmt::join(start->column_names, ", "), fmt::join(data.column_names, ", ")));
  const ExampleShape& shape = start->net->spec().shape;
  if (shape != data.shape)
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} is a model of examples of {} x {} x {}, and the data have {} x {} x {}; start from another",
                    settings.start, shape.channels, shape.height, shape.width, data.shape.channels, data.shape.height,
                    data.shape.width));
  const auto net = make_net({.name = settings.model.name,
                             .settings = settings.model.settings,
                             .shape = data.shape,
                             .classes = data.classes()},
                            /*seed=*/0, settings.device);
  if (!have_same_tensors(*start->net, *net))
    throw Error(ErrorKind::kInput,
                fmt::format("{} is a model of the net {}, whose weights are not those of {} as [model] describes it; "
                            "give [model] its net and net-settings, or start from another",
                            settings.start, start->net->spec().name, settings.model.name));
  return start;
}

/// Refuses a finished run on files of the user's that have changed since. Data sets that are known by name do not
/// change.
void check_same_data(const RunTask& task, const RunOptions& options, RunResult& result) {
  const DataSettings& data = task.settings.data;
  const std::vector<std::string> known = known_dataset_names();
  if (data.folders.empty() && task.settings.federation.start.empty() &&
      std::find(known.begin(), known.end(), data.set) != known.end())
    return;
  std::string found;
  try {
    found = fingerprint_of(task, open_nodes(task, options)->data());
  } catch (const Error& error) {
    result.state.warnings.push_back(
        fmt::format("the data of {} cannot be read any more, so whether they are still the same is unknown: {}",
                    task.folder, error.what()));
    return;
  }
  if (result.state.data != found)
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{} has a run {}, remove the folder, or choose another", task.folder, other_data(task.settings)),
        Remedy::kOutputFolder);
}

/// Watches over a run: passes progress on, and saves.
class RunWatch {
 public:
  RunWatch(const RunTask& task, RunNodes& nodes, NodeStore& store, const Observer& observer,
           const FederationState& start)
      : task_(task),
        nodes_(nodes),
        store_(store),
        observer_(observer),
        data_(start.data),
        settings_(start.settings),
        ready_(start.ready) {}

  /// Whether to go on. After phase 2 a round is waited for, since it can be saved; before there are the estimates of
  /// single nodes.
  bool progress(std::string_view stage, double done) {
    const RatioSettings& ratio = task_.settings.federation.ratio;
    some_estimates_ =
        some_estimates_ || (stage == phase::kRatio && done > 0.0 && ratio.estimated() &&
                            ratio.predictor == PredictorScope::kLocal && ratio.exchange == RatioExchange::kLocal);
    if (Clock::now() - saved_ > kSaveInterval) save_estimates();  // of the nodes that are here
    if ((stage == phase::kEvaluation || stage == phase::kRefresh) && ready_)
      stage = phase::kTraining;  // a moment's interruption of it
    else
      trained_ = done;
    if (!observer_ || observer_(stage_text(stage), trained_)) return true;
    if (!asked_) asked_ = Clock::now();
    return ready_ && Clock::now() - *asked_ < kPatience;
  }

  /// What nodes remember is saved with the state, so they need nothing older than it. Those that keep it themselves
  /// need what the last checkpoint counts on.
  bool checkpoint(const FederationMoment& moment, Engine& engine) {
    ready_ = true;
    const bool last = moment.round == task_.settings.federation.rounds;
    const bool saves = !last && (asked_ || moment.round % task_.settings.checkpoint_every == 0);
    if (saves) {
      nodes_.collect(engine, store_);
      const FederationState& state = moment.state();
      save_federation(task_.folder, state, store_);
      write_file(Paths(task_.folder).rounds, rounds_text(state.history));
    }
    if (!last && asked_) throw Stopped{};
    return saves || nodes_.memory_is_here();
  }

  /// What nodes have estimated before phase 2, if anything.
  void save_estimates() {
    if (ready_ || !some_estimates_) return;
    save_federation(task_.folder, {.data = data_, .settings = settings_}, store_);
    saved_ = Clock::now();
  }

 private:
  const RunTask& task_;
  RunNodes& nodes_;
  NodeStore& store_;
  const Observer& observer_;
  const std::string data_, settings_;
  bool ready_;
  bool some_estimates_ = false;
  Clock::time_point saved_ = Clock::now();
  double trained_ = 0.0;
  std::optional<Clock::time_point> asked_;  // to stop
};

/// Where test data have no labels, there is something to judge by all the same.
std::string judge_without_labels(FederationSettings& settings, const FederatedData& data) {
  constexpr double kHeldOut = 0.2;
  const std::string which = data.unlabelled == std::ssize(data.nodes)
                                ? "test data"
                                : fmt::format("test data of {} of {} nodes", data.unlabelled, data.nodes.size());
  if (!settings.ratio.weighted())
    return fmt::format("{} have no labels, and without ratios (ratio.method) nothing can be said of the accuracy there",
                       which);
  if (settings.source_holdout == 0.0) settings.source_holdout = kHeldOut;
  return fmt::format("{} have no labels, so {:g} % of each node's training examples are held out to judge by", which,
                     100.0 * settings.source_holdout);
}

void write_model(const std::string& path, const FederationSettings& settings, const FederationTask& task,
                 const FederationState& state, const std::vector<std::string>& columns) {
  save_predictor(path, {.net = global_model(settings, task, state),
                        .class_names = task.class_names,
                        .column_names = columns,
                        .prior = state.trained_mix,
                        .origin = {.seed = settings.seed}});
}

/// A file for each node that has trained and keeps batch norms of its own, with what the model is to be given there.
void write_batch_norms(const std::string& folder, const FederationSettings& settings, const FederationTask& task,
                       const FederationState& state, NodeStore& store) {
  auto net = global_model(settings, task, state);
  const auto algorithm = make_algorithm({settings, *net, std::ssize(state.counted)});
  if (algorithm->shares_batch_norms() || !algorithm->has_memory()) return;
  SharedNet model(std::move(net), /*batch_norms=*/false);
  for (Index node = 0; node < std::ssize(state.counted); ++node) {
    if (state.counted[node] == 0) continue;
    algorithm->personalise(model, recall_round(*store.of(node), state.counted[node]));
    std::vector<NamedTensor> tensors = weights_of(model.net());
    for (std::size_t i = tensors.size(); i-- > 0;)
      if (!model.net().tensors()[i].batch_norm) tensors.erase(tensors.begin() + static_cast<Index>(i));
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    write_safetensors(fmt::format("{}/node-{}.safetensors", folder, node + 1), tensors, {{"format", "pt"}});
  }
}

/// Throws if a net cannot be made for these data.
void check_nets(const FederationSettings& settings, const FederatedData& data) {
  const auto check = [&](const NetChoice& net) {
    make_net({.name = net.name, .settings = net.settings, .shape = data.shape, .classes = data.classes()}, /*seed=*/0,
             settings.device);
  };
  check(settings.model);
  if (settings.ratio.estimated()) check(settings.ratio.net);
}

/// SHA256SUMS of all files of a whole run, of which the summary is still to be written.
std::string sums_text(const std::string& folder, const std::string& summary) {
  std::vector<std::string> names{kSettingsName, kRoundsName, kModelName};
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(folder) / kBatchNormsName, none))
    names.push_back(fmt::format("{}/{}", kBatchNormsName, entry.path().filename().string()));
  std::sort(names.begin(), names.end());
  std::string text = sum_line(summary, kSummaryName);
  for (const std::string& name : names) text += sum_line(read_file(folder + "/" + name), name);
  return text;
}

/// Makes the folder, which was checked, this run's own. One where nothing was saved may have been of any run.
void claim_folder(const RunTask& task) {
  const Paths paths(task.folder);
  std::error_code ignored;
  for (const std::string& path : {paths.settings, paths.rounds, paths.summary, paths.model, paths.sums, paths.report})
    if (fs::is_directory(path, ignored))
      throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: it is a directory; remove it", path));
  for (const std::string& path : {paths.summary, paths.sums, paths.report})
    fs::remove(path, ignored);  // of a run that is damaged
  fs::remove_all(paths.batch_norms, ignored);
  if (newest_checkpoint(task.folder).empty()) write_file(paths.settings, task.settings_file);
  remove_leftovers(task.folder);
  fs::remove_all(paths.nodes, ignored);
}

}  // namespace

std::string RunResult::name_of(Index node) const {
  return node_names.empty() ? fmt::format("node {}", node + 1) : node_names.at(static_cast<std::size_t>(node));
}

std::string RunResult::class_name(Index c) const {
  return c < std::ssize(class_names) ? class_names[static_cast<std::size_t>(c)] : fmt::format("{}", c);
}

std::vector<NodeEvaluation> RunResult::last() const {
  std::vector<NodeEvaluation> result;
  for (const NodeEvaluation& one : state.history)
    if (one.round == state.history.back().round) result.push_back(one);
  return result;
}

bool is_finished(const RunTask& task) {
  return exists(Paths(task.folder).summary) && !damage_of_run(task.folder);
}

void check_folder(const RunTask& task, bool resume) {
  const Paths paths(task.folder);
  const bool whole = exists(paths.summary);
  const std::string checkpoint = newest_checkpoint(task.folder);
  if (!whole && checkpoint.empty()) return;
  if (!exists(paths.settings))
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} is gone, so nothing tells which run left what is in {}; put it back, remove the folder to "
                    "run it again, or choose another",
                    paths.settings, task.folder),
        Remedy::kOutputFolder);
  const std::string settings_file = read_file(paths.settings);
  if (whole && exists(paths.sums) && read_file(paths.sums).empty())
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} is empty, so damage to the files of the run would go unseen; remove the folder to run it "
                    "again, or choose another",
                    paths.sums),
        Remedy::kOutputFolder);
  if (whole && exists(paths.sums) &&
      read_file(paths.sums).find(sum_line(settings_file, kSettingsName)) == std::string::npos)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is damaged: it is not what {} says was written, so nothing tells which run this is; "
                            "remove the folder to run it again, or choose another",
                            paths.settings, kSumsFile),
                Remedy::kOutputFolder);
  check_same_settings(task.folder, settings_file, task.settings_file);
  if (whole && !exists(paths.sums))
    throw Error(ErrorKind::kInput,
                fmt::format("{} has no {}, so damage to its files would go unseen: labelshift 0.3.0 or older made it, "
                            "or the file was lost; remove the folder to run it again, or choose another",
                            task.folder, kSumsFile));
  if (!whole && !resume) {
    const FolderLock nobody_runs_it(task.folder, paths.lock);  // throws if somebody does
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has a run that was stopped after {}; go on with it, or choose another folder",
                            task.folder, fs::path(checkpoint).filename().string()),
                Remedy::kResume);
  }
}

RunResult read_run(const RunTask& task) {
  const Paths paths(task.folder);
  if (!exists(paths.summary))
    throw Error(ErrorKind::kInput,
                fmt::format("{} has no whole run; let it end, or name the folder of one that has ended", task.folder));
  if (const auto damage = damage_of_run(task.folder))
    throw Error(ErrorKind::kInput, fmt::format("{}; run it again, or leave it out", *damage));
  return read_result(task);
}

RunResult run_in_folder(const RunTask& task, const RunOptions& options, const Observer& observer) {
  if (!kCount.contains(task.settings.checkpoint_every))
    throw SettingError("run.checkpoint-every", fmt::format("run.checkpoint-every is {}, expected {}",
                                                           task.settings.checkpoint_every, kCount.words()));
  const Paths paths(task.folder);
  for (const std::string& path :
       {paths.settings, paths.rounds, paths.summary, paths.model, paths.batch_norms, paths.sums, paths.lock}) {
    std::error_code ignored;
    const fs::file_status found = fs::status(path, ignored);
    if (fs::exists(found) && !fs::is_regular_file(found) && !fs::is_directory(found))
      throw Error(ErrorKind::kInput, fmt::format("{} is a pipe or a device, expected a regular file; remove it", path));
  }
  check_folder(task, options.resume);
  const bool was_whole = exists(paths.summary);
  const std::optional<std::string> damage = was_whole ? damage_of_run(task.folder) : std::nullopt;
  if (was_whole && !damage) {
    RunResult result = read_result(task);
    result.was_there = true;
    check_same_data(task, options, result);
    if (!exists(paths.report)) write_report(task, result);
    return result;
  }
  FederationSettings settings = task.settings.federation;
  tell(observer, "reading data");
  // First the data: a run that cannot start leaves nothing behind.
  const std::unique_ptr<RunNodes> nodes = open_nodes(task, options);
  const FederatedData& data = nodes->data();
  std::vector<std::string> notes = data.notes;
  if (data.unlabelled > 0) notes.push_back(judge_without_labels(settings, data));
  check_settings(settings, std::ssize(data.nodes));
  check_nets(settings, data);
  const std::shared_ptr<const Predictor> start_model = load_start(settings, data);
  const std::string fingerprint = fingerprint_of(task, data);
  std::error_code error;
  fs::create_directories(task.folder, error);
  if (error)
    throw Error(
        ErrorKind::kSystem,
        fmt::format("cannot make the folder {}: {}; choose another folder", task.folder, errno_text(error.value())),
        Remedy::kOutputFolder);
  const FolderLock lock(task.folder, paths.lock);
  if (is_finished(task)) return read_result(task);  // by another process, meanwhile
  check_folder(task, options.resume);               // again: nobody changes it now
  claim_folder(task);
  const std::string settings_print = sha256_of(without_version(task.settings_file));

  const FederationTask federation{.shape = data.shape,
                                  .class_names = data.class_names,
                                  .run = settings_print,
                                  .node_names = data.node_names,
                                  .start = start_model};
  NodeStore store({.folder = paths.nodes});
  FederationState start;
  std::optional<std::string> damaged_checkpoint;
  if (!newest_checkpoint(task.folder).empty()) {
    SavedFederation saved = load_last_federation(task.folder, store);
    damaged_checkpoint = std::move(saved.damage);
    start = known_again(std::move(saved.state), saved.checkpoint, task.settings, fingerprint, settings_print);
    check_memory(start, saved.checkpoint, *nodes);
  }
  if (!start.ready) start = {.data = fingerprint, .settings = settings_print, .estimates_kept = true};
  start.memory_at_nodes = !nodes->memory_is_here();
  RunWatch watch(task, *nodes, store, observer, start);
  if (options.prepare_thread) options.prepare_thread();
  const std::unique_ptr<Engine> engine = nodes->start(settings, store);
  FederationHooks hooks{.progress = [&](std::string_view stage, double done) { return watch.progress(stage, done); },
                        .checkpoint = [&](const FederationMoment& moment) { return watch.checkpoint(moment, *engine); },
                        .may_go_back_twice = !nodes->memory_is_here(),
                        .left_out = [&] { return nodes->left_out(); }};
  RunSettings used = task.settings;
  used.federation = settings;
  if (!task.predictors.empty() && PredictorShelf::is_for(used)) {
    const PredictorShelf shelf(task.predictors, used, fingerprint);
    hooks.known_predictor = [shelf](double zeta) { return shelf.find(zeta); };
    hooks.keep_predictor = [shelf](double zeta, const TrainedTogether& trained) { shelf.keep(zeta, trained); };
  }
  RunResult result{.folder = task.folder,
                   .notes = notes,
                   .node_names = data.node_names,
                   .class_names = data.class_names,
                   .mixes = data.mixes,
                   .provenance = provenance_here()};
  try {
    result.state = run_federation(settings, federation, *engine, hooks, std::move(start));
  } catch (const Stopped&) {
    nodes->collect(*engine, store);
    watch.save_estimates();
    throw;
  }
  write_file(paths.rounds, rounds_text(result.state.history));
  write_model(paths.model, settings, federation, result.state, data.column_names);
  nodes->collect(*engine, store);
  if (nodes->memory_is_here()) write_batch_norms(paths.batch_norms, settings, federation, result.state, store);
  const std::string summary = summary_text(used, result);
  write_file(paths.sums, sums_text(task.folder, summary));
  write_file(paths.summary, summary);
  remove_checkpoints(task.folder);
  fs::remove_all(paths.nodes, error);
  // Read back, so that a run that is read and one that was just made are the same to all that follows.
  result = read_result(task);
  write_report(task, result);
  if (damaged_checkpoint) result.state.warnings.push_back(*damaged_checkpoint);
  if (damage) result.state.warnings.push_back(*damage + ", so the run was made again");
  return result;
}

}  // namespace labelshift
