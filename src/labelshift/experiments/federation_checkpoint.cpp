#include "labelshift/experiments/federation_checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/safetensors.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntry = "labelshift-federation";
constexpr int kFormat = 3;  // 1 had neither this number nor sums, 2 the parts of single algorithms
constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kUnfinished = "checkpoint.tmp-";  // being written, or being taken away

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(ErrorKind::kSystem,
              fmt::format("cannot save the checkpoint {}: {}; the one before it is intact", path, errno_text(error)));
}

/// What json_number() wrote.
double number(const Json& json) {
  return json.is_null() ? kUnknown : json.get<double>();
}

/// What json_numbers() wrote; empty where an older file has none.
Eigen::VectorXd vector_of(const Json& json, const char* name) {
  const auto values = json.value(name, std::vector<double>());
  return Eigen::Map<const Eigen::VectorXd>(values.data(), std::ssize(values));
}

Json history_json(const std::vector<NodeEvaluation>& history) {
  Json list = Json::array();
  for (const NodeEvaluation& one : history)
    list.push_back({one.round, one.node, one.examples, json_number(one.accuracy), json_number(one.loss),
                    json_number(one.reweighted_accuracy), json_number(one.reweighted_low),
                    json_number(one.reweighted_high), json_number(one.reweighted_examples), json_number(one.adapted),
                    json_number(one.adapted_low), json_number(one.adapted_high), json_number(one.majority),
                    json_number(one.majority_low), json_number(one.majority_high)});
  return list;
}

std::vector<NodeEvaluation> history_of(const Json& list) {
  std::vector<NodeEvaluation> history;
  for (const Json& one : list) {
    const auto later = [&](std::size_t i) { return one.size() > i ? number(one[i]) : kUnknown; };  // none in older ones
    history.push_back({.round = one.at(0).get<int>(),
                       .node = one.at(1).get<Index>(),
                       .examples = one.at(2).get<Index>(),
                       .accuracy = number(one.at(3)),
                       .loss = number(one.at(4)),
                       .reweighted_accuracy = number(one.at(5)),
                       .reweighted_low = number(one.at(6)),
                       .reweighted_high = number(one.at(7)),
                       .reweighted_examples = number(one.at(8)),
                       .adapted = later(9),
                       .adapted_low = later(10),
                       .adapted_high = later(11),
                       .majority = later(12),
                       .majority_low = later(13),
                       .majority_high = later(14)});
  }
  return history;
}

double per_round(std::uint64_t bytes, const PhaseCost& phase) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<Index>(phase.rounds, 1));
}

Json state_json(const FederationState& state) {
  Json json{{"data", state.data},
            {"settings", state.settings},
            {"round", state.round},
            {"ready", state.ready},
            {"algorithm", state.algorithm.counts},
            {"counted", state.counted},
            {"company", state.company},
            {"target_sum", json_numbers(state.target_sum)},
            {"trained_mix", json_numbers(state.trained_mix)},
            {"target_error", json_number(state.target_error)},
            {"largest_weight", json_number(state.largest_weight)},
            {"effective_share", json_number(state.effective_share)},
            {"compression_variance", json_number(state.compression_variance)},
            {"step", state.step ? json_number(state.step->rate) : Json()},
            {"step_r_max", state.step ? json_number(state.step->largest_weight) : Json()},
            {"step_beta", state.step ? json_number(state.step->smoothness) : Json()},
            {"step_sigma", state.step && state.step->noise ? json_number(*state.step->noise) : Json()},
            {"drawn_steps", state.drawn_steps},
            {"zero_parameters", json_number(state.zeros)},
            {"left_out", Json::array()},
            {"ratios", Json::array()},
            {"weighings", Json::array()},
            {"phases", Json::array()},
            {"absences", Json::array()},
            {"memory_at_nodes", state.memory_at_nodes},
            {"warnings", state.warnings}};
  for (const NodeRatio& one : state.ratios)
    json["ratios"].push_back({{"node", one.node + 1},
                              {"largest_weight", json_number(one.largest)},
                              {"examples", json_number(one.examples)},
                              {"effective_examples", json_number(one.effective_examples)},
                              {"prior_error", json_number(one.prior_error)},
                              {"estimate", json_numbers(one.estimate)},
                              {"low", json_numbers(one.low)},
                              {"high", json_numbers(one.high)},
                              {"truth", json_numbers(one.truth)},
                              {"p_value", json_number(one.p_value)},
                              {"seconds", one.seconds}});
  for (const Weighing& one : state.weighings)
    json["weighings"].push_back({{"round", one.round},
                                 {"target_error", json_number(one.target_error)},
                                 {"doubtful_nodes", one.doubtful},
                                 {"skipped", one.skipped}});
  for (const PhaseCost& phase : state.phases)
    json["phases"].push_back({{"name", phase.name},
                              {"rounds", phase.rounds},
                              {"bytes_up", phase.traffic.up},
                              {"bytes_down", phase.traffic.down},
                              {"bytes_up_a_round", per_round(phase.traffic.up, phase)},
                              {"bytes_down_a_round", per_round(phase.traffic.down, phase)},
                              {"seconds", phase.seconds}});
  for (const NodeAbsence& one : state.absences)
    json["absences"].push_back({{"node", one.node + 1}, {"rounds", one.rounds}, {"why", one.why}});
  for (const Index node : state.left_out) json["left_out"].push_back({{"node", node + 1}});
  return json;
}

FederationState state_of(const Json& json) {
  FederationState state;
  state.data = json.value("data", "");
  state.settings = json.value("settings", "");
  state.round = json.at("round").get<int>();
  state.ready = json.at("ready").get<bool>();
  state.algorithm.counts = json.at("algorithm").get<std::map<std::string, std::int64_t>>();
  state.counted = json.at("counted").get<std::vector<std::uint64_t>>();
  state.company = json.value("company", Index{0});
  state.target_sum = vector_of(json, "target_sum");
  state.trained_mix = vector_of(json, "trained_mix");
  state.target_error = number(json.at("target_error"));
  state.largest_weight = number(json.value("largest_weight", Json()));  // older summaries have neither
  state.effective_share = number(json.value("effective_share", Json()));
  state.compression_variance = number(json.value("compression_variance", Json()));
  if (const Json step = json.value("step", Json()); !step.is_null())
    state.step = {.rate = step.get<double>(),
                  .largest_weight = json.at("step_r_max").get<double>(),
                  .smoothness = json.at("step_beta").get<double>()};
  if (const Json sigma = json.value("step_sigma", Json()); state.step && !sigma.is_null())  // none in older ones
    state.step->noise = sigma.get<double>();
  state.drawn_steps = json.value("drawn_steps", std::int64_t{0});
  state.zeros = number(json.value("zero_parameters", Json()));
  for (const Json& one : json.value("left_out", Json::array()))
    state.left_out.push_back(one.at("node").get<Index>() - 1);
  for (const Json& one : json.at("ratios"))
    state.ratios.push_back({.node = one.at("node").get<Index>() - 1,
                            .largest = number(one.at("largest_weight")),
                            .examples = number(one.at("examples")),
                            .effective_examples = number(one.at("effective_examples")),
                            .prior_error = number(one.at("prior_error")),
                            .seconds = number(one.at("seconds")),
                            .estimate = vector_of(one, "estimate"),
                            .low = vector_of(one, "low"),
                            .high = vector_of(one, "high"),
                            .truth = vector_of(one, "truth"),
                            .p_value = number(one.value("p_value", Json()))});
  for (const Json& one : json.value("weighings", Json::array()))
    state.weighings.push_back({.round = one.at("round").get<int>(),
                               .target_error = number(one.at("target_error")),
                               .doubtful = one.at("doubtful_nodes").get<Index>(),
                               .skipped = one.at("skipped").get<std::string>()});
  for (const Json& phase : json.at("phases"))
    state.phases.push_back({.name = phase.at("name").get<std::string>(),
                            .rounds = phase.at("rounds").get<Index>(),
                            .traffic = {.down = phase.at("bytes_down").get<std::uint64_t>(),
                                        .up = phase.at("bytes_up").get<std::uint64_t>()},
                            .seconds = phase.at("seconds").get<double>()});
  for (const Json& one : json.value("absences", Json::array()))
    state.absences.push_back({.node = one.at("node").get<Index>() - 1,
                              .rounds = one.at("rounds").get<Index>(),
                              .why = one.at("why").get<std::string>()});
  state.memory_at_nodes = json.value("memory_at_nodes", false);
  state.warnings = json.at("warnings").get<std::vector<std::string>>();
  return state;
}

/// Runs `read`, and says what to do about a file that it refuses.
template <typename Read>
void read_checkpoint(const std::string& path, Read&& read) {
  constexpr const char* kAdvice = "remove the folder of the run and start again";
  try {
    read();
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kInput, fmt::format("{}: its description is damaged; {}", path, kAdvice));
  } catch (const Error& error) {
    throw error.reworded(fmt::format("{}; {}", error.what(), kAdvice));
  }
}

constexpr const char* kAlgorithmPart = "algorithm/";

/// Every vector of weights of a state by its name in the file, but those of its algorithm.
template <typename State, typename Use>
void for_each_vector(State& state, Use&& use) {
  use("normalisation/mean", state.normalisation.mean);
  use("normalisation/scale", state.normalisation.scale);
  use("parameters", state.parameters);
  use("buffers", state.buffers);
}

/// Makes sure that the names in a directory are on the disk.
void sync_directory(const std::string& path) {
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail(path, errno);
  const int status = ::fsync(directory);
  const int error = errno;
  ::close(directory);
  if (status != 0 && error != EINVAL) fail(path, error);  // some file systems cannot
}

std::optional<int> round_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int round = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + std::string_view(kPrefix).size(), end, round);
  return parsed.ec == std::errc{} && parsed.ptr == end ? std::optional(round) : std::nullopt;
}

std::vector<fs::path> entries(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) paths.push_back(entry->path());
  return paths;
}

/// The newest checkpoint, or the newest before that of a round; empty if there is none.
fs::path newest_of(const std::string& folder, std::optional<int> before = {}) {
  fs::path newest;
  for (const fs::path& entry : entries(folder))
    if (const auto round = round_of(entry);
        round && (!before || *round < *before) && (newest.empty() || *round > *round_of(newest)))
      newest = entry;
  return newest;
}

/// A folder must not be seen half-removed under its own name.
void remove_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::path aside = path.parent_path() / fmt::format("{}old-{}", kUnfinished, *round_of(path));
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  fs::remove_all(aside, error);  // what stays costs room and nothing else
}

}  // namespace

std::string describe_state(const FederationState& state) {
  return json_line(state_json(state), JsonLetters::kAscii);
}

FederationState described_state(const std::string& json) {
  try {
    return state_of(Json::parse(json));
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kInput, "the description of a federation is damaged");
  }
}

void save_federation(const std::string& folder, const FederationState& state, const NodeStore& store) {
  const std::string temporary = fmt::format("{}/{}{}", folder, kUnfinished, state.round);
  const std::string path = fmt::format("{}/{}{}", folder, kPrefix, state.round);
  std::error_code error;
  fs::remove_all(temporary, error);
  fs::create_directories(temporary + "/nodes", error);
  if (error) fail(path, error.value());
  store.save(temporary + "/nodes");
  std::vector<NamedTensor> tensors;
  for_each_vector(state, [&](const char* name, const std::vector<float>& values) {
    if (!values.empty()) tensors.push_back({name, {std::ssize(values)}, values});
  });
  for (const auto& [name, values] : state.algorithm.parts)
    if (!values.empty()) tensors.push_back({kAlgorithmPart + name, {std::ssize(values)}, values});
  Json json = state_json(state);
  json["format"] = kFormat;
  json["labelshift"] = version();
  json["history"] = history_json(state.history);
  write_safetensors(temporary + "/server.safetensors", tensors, {{kEntry, json_line(json, JsonLetters::kAscii)}});
  sync_directory(temporary + "/nodes");
  sync_directory(temporary);
  if (fs::exists(path, error)) remove_checkpoint(path);
  fs::rename(temporary, path, error);
  if (error) fail(path, error.value());
  sync_directory(folder);
  const fs::path before = newest_of(folder, state.round);
  for (const fs::path& entry : entries(folder))
    if (const auto round = round_of(entry); round && *round != state.round && entry != before) remove_checkpoint(entry);
}

std::string newest_checkpoint(const std::string& folder) {
  return newest_of(folder).string();
}

bool is_history(std::span<const NodeEvaluation> history) {
  Index nodes = 0;  // of a round
  while (nodes < std::ssize(history) && history[nodes].round == history.front().round) ++nodes;
  if (nodes == 0) return true;
  if (std::ssize(history) % nodes != 0 || history.front().round < 0) return false;
  for (Index i = 0; i < std::ssize(history); ++i) {
    const bool same_round = i % nodes > 0;
    if (history[i].node != i % nodes || history[i].examples < 0) return false;
    if (i > 0 && (same_round ? history[i].round != history[i - 1].round : history[i].round <= history[i - 1].round))
      return false;
  }
  return true;
}

FederationState load_federation(const std::string& checkpoint, NodeStore& store) {
  FederationState state;
  read_checkpoint(checkpoint, [&] {
    const SafetensorsFile file(checkpoint + "/server.safetensors");
    const Json json = Json::parse(file.metadata(kEntry));
    check_format(checkpoint, json.value("format", 1), kFormat, json.value("labelshift", "0.3.0 or older"));
    file.require_sum();
    state = state_of(json);
    state.history = history_of(json.at("history"));
    if (state.round < 0 || !is_history(state.history))
      throw Error(ErrorKind::kInput, fmt::format("{}: its rounds are damaged", checkpoint));
    for_each_vector(state, [&](std::string_view name, std::vector<float>& values) {
      for (const NamedTensor& tensor : file.tensors())
        if (tensor.name == name) values.assign(tensor.values.begin(), tensor.values.end());
    });
    for (const NamedTensor& tensor : file.tensors())
      if (tensor.name.starts_with(kAlgorithmPart))
        state.algorithm.parts[tensor.name.substr(std::string_view(kAlgorithmPart).size())].assign(tensor.values.begin(),
                                                                                                  tensor.values.end());
    store.load(checkpoint + "/nodes");
  });
  return state;
}

SavedFederation load_last_federation(const std::string& folder, NodeStore& store) {
  const fs::path newest = newest_of(folder);
  try {
    return {.state = load_federation(newest, store), .checkpoint = newest};
  } catch (const Error& error) {
    const fs::path before = newest_of(folder, round_of(newest));
    if (error.kind() != ErrorKind::kInput || before.empty()) throw;
    try {
      return {.state = load_federation(before, store),
              .checkpoint = before,
              .damage = fmt::format("{} is damaged, so the run went on from {}", newest.string(),
                                    before.filename().string())};
    } catch (const Error&) {
      throw error;
    }
  }
}

void remove_checkpoints(const std::string& folder) {
  for (const fs::path& entry : entries(folder))
    if (round_of(entry)) remove_checkpoint(entry);
}

void remove_leftovers(const std::string& folder) {
  std::error_code ignored;
  for (const fs::path& entry : entries(folder))
    if (entry.filename().string().starts_with(kUnfinished)) fs::remove_all(entry, ignored);
}

}  // namespace labelshift
