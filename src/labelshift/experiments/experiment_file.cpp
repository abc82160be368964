#include "labelshift/experiments/experiment_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLongestFile = 10'000'000;
constexpr std::ptrdiff_t kMostDots = 20'000;
constexpr double kLargestShare = 1e9;

/// What stands in a message for a value.
std::string shown(const toml::node& value) {
  if (const auto* text = value.as_string()) return excerpt(text->get());
  if (const auto* whole = value.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* number = value.as_floating_point()) {
    const std::string text = fmt::format("{}", number->get());
    return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;  // no whole number
  }
  if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
  if (value.is_array()) return "a list";
  if (value.is_table()) return "a table";
  return "a date";
}

/// A string as TOML writes it.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f)
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(letter)));
    else
      result += letter;
  }
  return result + '"';
}

std::string number_text(double value) {
  return fmt::format("{}", value);  // the shortest that reads back as the same bits
}

/// A key of the file and what it is to the settings.
struct Row {
  const char* section;
  const char* key;
  std::string expected;  // goes on from "expected"
  const char* summary;
  /// Returns false if the value is not what is expected; may throw Error{kUsage} that says more. Paths start at
  /// `folder`.
  std::function<bool(const toml::node& value, RunSettings& run, const fs::path& folder)> read;
  std::function<std::string(const RunSettings& run)> write;  // empty text: left out
};

/// The part of a run's settings that is a `Part`.
template <typename Part>
auto& part_of(auto& run) {
  if constexpr (std::is_same_v<Part, RunSettings>)
    return run;
  else if constexpr (std::is_same_v<Part, DataSettings>)
    return run.data;
  else if constexpr (std::is_same_v<Part, FederationSettings>)
    return run.federation;
  else if constexpr (std::is_same_v<Part, LocalSettings>)
    return run.federation.local;
  else if constexpr (std::is_same_v<Part, ServerSettings>)
    return run.federation.server;
  else
    return run.federation.ratio;
}

/// From settings, const or not, to what a key sets: the `field` of the functions below.
template <typename Part, typename Value>
auto field(Value Part::*member) {
  return [member](auto& run) -> auto& {
    return part_of<Part>(run).*member;
  };
}

template <typename Field>
Row number(const char* section, const char* key, double low, double high, const char* summary, Field field) {
  return {section,
          key,
          fmt::format("a number from {} to {}", low, high),
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto found = value.value<double>();
            if (!value.is_number() || !found || !(*found >= low && *found <= high)) return false;
            field(run) = *found;
            return true;
          },
          [=](const RunSettings& run) { return number_text(field(run)); }};
}

template <typename Field>
Row whole(const char* section, const char* key, std::int64_t low, std::int64_t high, const char* summary, Field field) {
  return {section,
          key,
          fmt::format("a whole number from {} to {}", low, high),
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* found = value.as_integer();
            if (!found || found->get() < low || found->get() > high) return false;
            field(run) = static_cast<std::decay_t<decltype(field(run))>>(found->get());
            return true;
          },
          [=](const RunSettings& run) { return fmt::format("{}", field(run)); }};
}

template <typename Field>
Row flag(const char* section, const char* key, const char* summary, Field field) {
  return {section,
          key,
          "true or false",
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* found = value.as_boolean();
            if (found) field(run) = found->get();
            return found != nullptr;
          },
          [=](const RunSettings& run) { return std::string(field(run) ? "true" : "false"); }};
}

/// Names, and the number of each is an enumerator's.
template <typename Field>
Row choice(const char* section, const char* key, std::vector<std::string> names, const char* summary, Field field) {
  return {section,
          key,
          fmt::format("one of {}", fmt::join(names, ", ")),
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* found = value.as_string();
            if (!found) return false;
            const auto at = std::find(names.begin(), names.end(), found->get());
            if (at == names.end()) throw unknown_name(key, found->get(), names);
            field(run) = static_cast<std::decay_t<decltype(field(run))>>(at - names.begin());
            return true;
          },
          [=](const RunSettings& run) { return quoted(names[static_cast<std::size_t>(field(run))]); }};
}

/// One of the rows of some table; `check` throws if there is none of this name.
template <typename Field>
Row name(const char* section, const char* key, const char* expected, const char* summary,
         std::function<void(const std::string& name)> check, Field field) {
  return {section,
          key,
          expected,
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* found = value.as_string();
            if (!found) return false;
            check(found->get());
            field(run) = found->get();
            return true;
          },
          [=](const RunSettings& run) { return field(run).empty() ? "" : quoted(field(run)); }};
}

std::string absolute(const fs::path& folder, const std::string& path) {
  return fs::absolute(folder / path).lexically_normal().string();
}

/// A name that is known, or else a path. What looks like no path and leads nowhere stays as it is: whoever uses it says
/// which names there are.
std::string name_or_path(const std::string& text, const std::vector<std::string>& known, const fs::path& folder) {
  if (std::find(known.begin(), known.end(), text) != known.end()) return text;
  std::error_code ignored;
  const bool path = text.find_first_of("./") != std::string::npos || fs::exists(folder / text, ignored);
  return path ? absolute(folder, text) : text;
}

std::vector<std::string> net_names() {
  std::vector<std::string> names;
  for (const NetEntry& entry : nets()) names.emplace_back(entry.name);
  return names;
}

template <typename Field>
Row net(const char* section, const char* summary, Field field) {
  return {section,
          "net",
          "the name of a net, or the path of a TorchScript file",
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path& folder) {
            const auto* found = value.as_string();
            if (!found) return false;
            std::vector<std::string> known = net_names();
            field(run).name = name_or_path(found->get(), known, folder);
            std::error_code ignored;
            if (std::find(known.begin(), known.end(), field(run).name) == known.end() &&
                !fs::exists(field(run).name, ignored)) {
              if (fs::path(field(run).name).is_absolute())
                InputFile{field(run).name};  // throws that there is no such file
              known.emplace_back("the path of a TorchScript file");
              throw unknown_name("net", found->get(), known);
            }
            return true;
          },
          [=](const RunSettings& run) { return quoted(field(run).name); }};
}

template <typename Field>
Row net_settings(const char* section, Field field) {
  return {section,
          "net-settings",
          "a table of numbers or names, such as {width = 8}",
          "settings of the net, such as its width",
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* table = value.as_table();
            if (!table) return false;
            std::map<std::string, std::string> settings;
            for (const auto& [key, entry] : *table) {
              if (const auto* text = entry.as_string())
                settings[std::string(key.str())] = text->get();
              else if (entry.is_number())
                settings[std::string(key.str())] = shown(entry);
              else
                return false;
            }
            field(run).settings = std::move(settings);
            return true;
          },
          [=](const RunSettings& run) -> std::string {
            std::vector<std::string> entries;
            for (const auto& [key, entry] : field(run).settings)
              entries.push_back(fmt::format("{} = {}", quoted(key), quoted(entry)));
            return entries.empty() ? "" : fmt::format("{{{}}}", fmt::join(entries, ", "));
          }};
}

/// Appends the numbers of a list; false if there is anything else in it, or a number below 0.
bool read_numbers(const toml::array& list, std::vector<double>& numbers) {
  for (const toml::node& entry : list) {
    const auto number = entry.value<double>();
    if (!entry.is_number() || !number || !(*number >= 0.0 && *number <= kLargestShare)) return false;
    numbers.push_back(*number);
  }
  return true;
}

Row sizes() {
  return {"data",
          "sizes",
          "a list of numbers, one a node",
          "how large the nodes are, relative to one another: with [2, 1] the first gets twice as many examples; "
          "without it all are equal",
          [](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* list = value.as_array();
            std::vector<double> result;
            if (!list || !read_numbers(*list, result)) return false;
            run.data.sizes = std::move(result);
            return true;
          },
          [](const RunSettings& run) {
            return run.data.sizes.empty() ? "" : fmt::format("[{}]", fmt::join(run.data.sizes, ", "));
          }};
}

template <typename Field>
Row shares(const char* key, const char* summary, Field field) {
  return {"data",
          key,
          "a list of numbers for each node, one a class",
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* nodes = value.as_array();
            if (!nodes) return false;
            std::vector<std::vector<double>> result;
            for (const toml::node& node : *nodes) {
              const auto* numbers = node.as_array();
              if (!numbers) return false;
              result.emplace_back();
              if (!read_numbers(*numbers, result.back())) return false;
            }
            field(run) = std::move(result);
            return true;
          },
          [=](const RunSettings& run) -> std::string {
            std::vector<std::string> nodes;
            for (const auto& node : field(run)) nodes.push_back(fmt::format("[{}]", fmt::join(node, ", ")));
            return nodes.empty() ? "" : fmt::format("[{}]", fmt::join(nodes, ", "));
          }};
}

Row folders() {
  return {"data",
          "folders",
          "a list of {train = PATH, test = PATH}, one for each node",
          "each node's own labelled training data, and its test data, which need no labels; takes the place of set",
          [](const toml::node& value, RunSettings& run, const fs::path& folder) {
            const auto* nodes = value.as_array();
            if (!nodes) return false;
            std::vector<NodeFolders> result;
            for (const toml::node& node : *nodes) {
              const auto* table = node.as_table();
              if (!table || table->size() != 2) return false;
              const auto train = (*table)["train"].value<std::string>();
              const auto test = (*table)["test"].value<std::string>();
              if (!train || !test || train->empty() || test->empty()) return false;
              result.push_back({absolute(folder, *train), absolute(folder, *test)});
            }
            run.data.folders = std::move(result);
            return true;
          },
          [](const RunSettings& run) -> std::string {
            std::vector<std::string> nodes;
            for (const NodeFolders& node : run.data.folders)
              nodes.push_back(fmt::format("{{train = {}, test = {}}}", quoted(node.train), quoted(node.test)));
            return nodes.empty() ? "" : fmt::format("[\n  {},\n]", fmt::join(nodes, ",\n  "));
          }};
}

Row data_set() {
  return {"data",
          "set",
          "the name of a data set, or a path",
          "the data set that the nodes share, by name or path; labelshift data lists the names",
          [](const toml::node& value, RunSettings& run, const fs::path& folder) {
            const auto* found = value.as_string();
            if (!found) return false;
            const std::vector<std::string> known = known_dataset_names();
            run.data.set = found->get().empty() ? "" : name_or_path(found->get(), known, folder);
            const bool name =
                run.data.set == found->get() && !run.data.set.empty() && !fs::path(run.data.set).is_absolute();
            if (name && std::find(known.begin(), known.end(), run.data.set) == known.end())
              throw unknown_name("data set", run.data.set, known);
            return true;
          },
          [](const RunSettings& run) { return run.data.set.empty() ? "" : quoted(run.data.set); }};
}

/// A limit that is there only if it is given.
template <typename Field>
Row limit(const char* section, const char* key, const char* help, Field limit_of) {
  return {section,
          key,
          "a number above 0",
          help,
          [limit_of](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto found = value.value<double>();
            if (!value.is_number() || !found || !(*found > 0.0) || !std::isfinite(*found)) return false;
            limit_of(run.federation) = *found;
            return true;
          },
          [limit_of](const RunSettings& run) {
            FederationSettings settings = run.federation;
            const std::optional<double> most = limit_of(settings);
            return most ? number_text(*most) : "";
          }};
}

void check_partition(const std::string& name) {
  std::vector<std::string> known{"iid", "dirichlet", "shares"};
  for (const NodeTable& table : node_tables()) known.emplace_back(table.name);
  if (std::find(known.begin(), known.end(), name) == known.end()) throw unknown_name("partition", name, known);
}

void check_method(const std::string& name) {
  std::vector<std::string> known{"none", "true"};
  for (const Method& method : methods()) known.emplace_back(method.name);
  if (std::find(known.begin(), known.end(), name) == known.end()) throw unknown_name("method", name, known);
}

/// The schema. Reading, writing, suggestions and the documentation walk these rows.
const std::vector<Row>& rows() {
  constexpr std::int64_t kMany = 1'000'000'000;
  static const std::vector<Row> table = {
      data_set(),
      name("data", "partition", "the name of a partition",
           "which node gets what: paper-5, paper-100, paper-200, iid, "
           "dirichlet or shares",
           check_partition, field(&DataSettings::partition)),
      whole("data", "nodes", 0, 1'000'000, "how many nodes the partitions iid and dirichlet make",
            field(&DataSettings::nodes)),
      number("data", "alpha", 1e-6, 1e6,
             "alpha of the partition dirichlet: the smaller it is, the more the nodes differ",
             field(&DataSettings::alpha)),
      shares("train-shares", "for the partition shares: the label mix of each node's training examples",
             field(&DataSettings::train_shares)),
      shares("test-shares", "for the partition shares: the label mix of each node's test examples",
             field(&DataSettings::test_shares)),
      sizes(),
      folders(),
      number("data", "fraction", 1e-6, 1.0, "the part of the data set's examples that is used",
             field(&DataSettings::fraction)),
      whole("data", "only-node", 0, 1'000'000, "use this node alone, counted from 1; 0: use all nodes",
            field(&DataSettings::only_node)),

      net("model", "the model that is trained", field(&FederationSettings::model)),
      net_settings("model", field(&FederationSettings::model)),

      name(
          "training", "algorithm", "the name of an algorithm", "fedavg, fedprox, fedbn, scaffold or iw-erm",
          [](const std::string& one) { find_algorithm(one); }, field(&FederationSettings::algorithm)),
      whole("training", "rounds", 1, kMany, "rounds of training", field(&FederationSettings::rounds)),
      whole("training", "sampled", 0, 1'000'000,
            "how many nodes take part in a round, drawn anew each time, also for a federated predictor; 0: all",
            field(&FederationSettings::sampled)),
      choice("training", "weighting", {"nodes", "pooled"}, "whether every node counts the same, or every example",
             field(&FederationSettings::weighting)),
      whole("training", "local-steps", 1, kMany,
            "gradient steps that a node takes in a round; with 1 it sends its gradient instead",
            field(&LocalSettings::steps)),
      whole("training", "local-epochs", 0, kMany,
            "passes over a node's examples in a round; if it is not 0, it takes the place of local-steps",
            field(&LocalSettings::epochs)),
      whole("training", "batch", 1, kMany, "how many examples one gradient is computed on",
            field(&LocalSettings::batch)),
      number(
          "training", "local-learning-rate", 1e-12, 1e6,
          "learning rate of the steps that nodes take themselves: several in a round, or those of fedbn's batch norms",
          field(&LocalSettings::learning_rate)),
      number("training", "local-weight-decay", 0.0, 1e6, "weight decay of the steps that nodes take themselves",
             field(&LocalSettings::weight_decay)),
      number("training", "proximal", 0.0, 1e6, "mu of fedprox, the strength of its pull towards the global model",
             field(&LocalSettings::proximal)),
      name(
          "training", "server", "the name of an optimiser", "the server's optimiser: sgd, adam or yogi",
          [](const std::string& one) { find_entry(server_optimisers(), "server optimiser", one); },
          field(&ServerSettings::optimiser)),
      number("training", "learning-rate", 1e-12, 1e6, "learning rate of the server's optimiser",
             field(&ServerSettings::learning_rate)),
      number("training", "weight-decay", 0.0, 1e6, "weight decay of the server's optimiser",
             field(&ServerSettings::weight_decay)),
      number("training", "momentum", 0.0, 1.0, "momentum of the server's optimiser, if it is sgd",
             field(&ServerSettings::momentum)),
      number("training", "beta1", 0.0, 1.0, "beta1 of the server's optimiser, if it is adam or yogi",
             field(&ServerSettings::beta1)),
      number("training", "beta2", 0.0, 1.0, "beta2 of the server's optimiser, if it is adam or yogi",
             field(&ServerSettings::beta2)),
      number("training", "epsilon", 0.0, 1.0, "epsilon of the server's optimiser, if it is adam or yogi",
             field(&ServerSettings::epsilon)),
      limit("training", "max-update-norm", "a node's update that is longer than this (Euclidean norm) is refused",
            [](FederationSettings& settings) -> std::optional<double>& { return settings.max_update_norm; }),

      name("ratio", "method", "the name of a method",
           "how the ratios are estimated; labelshift estimators lists the methods, to which come none (no weights), "
           "true (from the test labels) and auto",
           check_method, field(&RatioSettings::method)),
      choice("ratio", "predictor", {"local", "federated"},
             "local: each node trains a predictor of its own; federated: all nodes train one together",
             field(&RatioSettings::predictor)),
      choice("ratio", "exchange", {"local", "pairwise"},
             "local: a node's predictor sees its own test data; pairwise: it sees every node's",
             field(&RatioSettings::exchange)),
      net("ratio", "the net of the predictor", field(&RatioSettings::net)),
      net_settings("ratio", field(&RatioSettings::net)),
      number("ratio", "fraction", 1e-6, 1.0, "the part of a node's training examples that its predictor sees",
             field(&RatioSettings::fraction)),
      number("ratio", "held-out", 0.0, 1.0, "the part of these that is held out for calibration",
             field(&RatioSettings::held_out)),
      whole("ratio", "epochs", 1, kMany, "epochs of training of a local predictor", field(&RatioSettings::epochs)),
      number("ratio", "stop-below", 0.0, 1e6,
             "a local predictor's training ends when its cross-entropy is below this; 0: never early",
             field(&RatioSettings::stop_below)),
      whole("ratio", "rounds", 1, kMany, "rounds of training of a federated predictor", field(&RatioSettings::rounds)),
      number("ratio", "learning-rate", 1e-12, 1e6, "learning rate of the predictor's optimiser",
             field(&RatioSettings::learning_rate)),
      number("ratio", "weight-decay", 0.0, 1e6, "weight decay of the predictor's optimiser",
             field(&RatioSettings::weight_decay)),
      limit("ratio", "max-ratio", "importance weights above this are cut to it",
            [](FederationSettings& settings) -> std::optional<double>& { return settings.ratio.max_ratio; }),
      whole("ratio", "goal-node", 0, 1'000'000,
            "train for the risk of this node alone, counted from 1; 0: for that of all nodes",
            field(&RatioSettings::goal_node)),
      flag("ratio", "goal-shift", "with false, the test mix of the goal node is taken to be its training mix",
           field(&RatioSettings::goal_shift)),

      number("run", "target-holdout", 0.0, 1.0,
             "the part of a node's test examples that ratios are estimated on, while the rest is evaluated on; 0: all "
             "for both",
             field(&FederationSettings::target_holdout)),
      number("run", "source-holdout", 0.0, 1.0,
             "the part of a node's training examples that is held out to judge the model by where test data have no "
             "labels",
             field(&FederationSettings::source_holdout)),
      whole("run", "evaluate-every", 1, kMany, "rounds between evaluations",
            field(&FederationSettings::evaluate_every)),
      whole("run", "checkpoint-every", 1, kMany, "rounds between checkpoints", field(&RunSettings::checkpoint_every)),
      choice("run", "device", {"cpu", "cuda"}, "where to train", field(&FederationSettings::device)),
  };
  return table;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Row& row : rows())
    if (names.empty() || names.back() != row.section) names.emplace_back(row.section);
  return names;
}

std::vector<std::string> keys_of(const std::string& section) {
  std::vector<std::string> keys;
  for (const Row& row : rows())
    if (row.section == section) keys.emplace_back(row.key);
  return keys;
}

const Row& find_row(const std::string& section, const std::string& key) {
  for (const Row& row : rows())
    if (row.section == section && row.key == key) return row;
  throw unknown_name(fmt::format("key of [{}]", section), key, keys_of(section));
}

/// Runs `act`, and puts the place before what it complains of.
template <typename Act>
void at_place(const std::string& place, Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    throw error.reworded(fmt::format("{}: {}", place, error.what()));
  }
}

/// A file as it is read.
class Reader {
 public:
  Reader(std::string name, fs::path folder) : name_(std::move(name)), folder_(std::move(folder)) {}

  Experiment read(const toml::table& file) const {
    Experiment result;
    result.name = fs::path(name_).stem().string();
    ComparedRun base{.place = name_};
    std::vector<std::string> known{"name", "title", "note", "version", "seed", "seeds", "report-node", "compare"};
    const std::vector<std::string> sections = section_names();
    known.insert(known.end(), sections.begin(), sections.end());
    for (const auto& [key_text, value] : file) {
      const std::string key(key_text.str());
      if (key == "name")
        result.name = text(key, value);
      else if (key == "title")
        result.title = text(key, value);
      else if (key == "note")
        result.note = text(key, value);
      else if (key == "version")
        result.version = text(key, value);
      else if (key == "seed")
        result.seeds = {seed(value)};
      else if (key == "seeds")
        result.seeds = seeds(value);
      else if (key == "report-node") {
        result.report_node = static_cast<int>(whole_from_0(key, value, 1'000'000));
        base.places[key] = place(value);
      } else if (std::find(sections.begin(), sections.end(), key) != sections.end())
        section(key, value, base);
      else if (key != "compare")
        unknown("key", key, value, known);
    }
    if (file.contains("seed") && file.contains("seeds"))
      fail(*file.get("seeds"), "found both seed and seeds; give one");
    const bool plain = !result.name.empty() && result.name.front() != '.' &&
                       std::all_of(result.name.begin(), result.name.end(),
                                   [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
    if (!plain) {
      const toml::node* name = file.get("name");
      throw Error(ErrorKind::kUsage, fmt::format("{}: the name is {}, expected letters, digits, - and _: a folder is "
                                                 "called so",
                                                 name ? place(*name) : name_, excerpt(result.name)));
    }
    if (result.title.empty()) result.title = result.name;
    if (const toml::node* list = file.get("compare")) {
      const auto* entries = list->as_array();
      if (!entries || entries->empty()) fail(*list, "compare is no list of tables; write [[compare]] above each");
      for (const toml::node& entry : *entries) result.runs.push_back(compared(entry, base, result.runs));
    } else {
      base.name = base.settings.federation.algorithm;
      result.runs.push_back(std::move(base));
    }
    return result;
  }

 private:
  std::string place(const toml::node& value) const {
    return fmt::format("{}, line {}", name_, value.source().begin.line);
  }
  [[noreturn]] void fail(const toml::node& value, const std::string& why) const {
    throw Error(ErrorKind::kUsage, fmt::format("{}: {}", place(value), why));
  }
  [[noreturn]] void unknown(const char* kind, const std::string& key, const toml::node& value,
                            const std::vector<std::string>& known) const {
    fail(value, unknown_name(kind, key, known).what());
  }
  [[noreturn]] void unexpected(const std::string& key, const toml::node& value, const std::string& expected) const {
    fail(value, fmt::format("{} is {}, expected {}", key, shown(value), expected));
  }

  std::string text(const std::string& key, const toml::node& value) const {
    const auto* found = value.as_string();
    if (!found) unexpected(key, value, "a text in quotes");
    for (const unsigned char letter : found->get())
      if ((letter < 0x20 && letter != '\n' && letter != '\t') || letter == 0x7f)
        unexpected(key, value, "a text without control characters: terminals obey them");
    return found->get();
  }
  std::int64_t whole_from_0(const std::string& key, const toml::node& value, std::int64_t most) const {
    const auto* found = value.as_integer();
    if (!found || found->get() < 0 || found->get() > most)
      unexpected(key, value, fmt::format("a whole number from 0 to {}", most));
    return found->get();
  }
  std::uint64_t seed(const toml::node& value) const {
    return static_cast<std::uint64_t>(whole_from_0("seed", value, std::numeric_limits<std::int64_t>::max()));
  }
  std::vector<std::uint64_t> seeds(const toml::node& value) const {
    const auto* list = value.as_array();
    if (!list || list->empty()) unexpected("seeds", value, "a list of whole numbers");
    std::vector<std::uint64_t> result;
    for (const toml::node& entry : *list) {
      result.push_back(seed(entry));
      if (std::count(result.begin(), result.end(), result.back()) > 1)
        fail(entry, fmt::format("the seed {} is there twice; give each once", result.back()));
    }
    return result;
  }
  double accuracy(const std::string& key, const toml::node& value) const {
    const auto found = value.value<double>();
    if (!value.is_number() || !found || !(*found >= 0.0 && *found <= 1.0))
      unexpected(key, value, "a number from 0 to 1");
    return *found;
  }

  void section(const std::string& name, const toml::node& value, ComparedRun& run) const {
    const auto* table = value.as_table();
    if (!table) unexpected(name, value, "a table");
    for (const auto& [key, entry] : *table)
      at_place(place(entry), [&] {
        const Row& row = find_row(name, std::string(key.str()));
        run.places[fmt::format("{}.{}", row.section, row.key)] = place(entry);
        if (!row.read(entry, run.settings, folder_))
          throw Error(ErrorKind::kUsage,
                      fmt::format("{}.{} is {}, expected {}", row.section, row.key, shown(entry), row.expected));
      });
  }

  std::vector<TunedSetting> tune(const toml::node& value, const RunSettings& run) const {
    const auto* table = value.as_table();
    if (!table || table->empty())
      unexpected("tune", value, "a table such as {\"training.learning-rate\" = [0.1, 1.0]}");
    std::vector<TunedSetting> result;
    std::size_t candidates = 1;
    for (const auto& [key, list] : *table) {
      TunedSetting& setting = result.emplace_back(TunedSetting{std::string(key.str()), {}});
      const auto* values = list.as_array();
      if (!values || values->empty()) unexpected(setting.key, list, "a list of candidates");
      for (const toml::node& candidate : *values) {
        setting.values.push_back(candidate.is_string() ? candidate.as_string()->get() : shown(candidate));
        RunSettings tried = run;
        change_setting(tried, setting.key, setting.values.back(), place(candidate));
      }
      candidates *= setting.values.size();
      if (candidates > 1000)
        fail(list, fmt::format("there are {} combinations to tune, expected at most 1000", candidates));
    }
    return result;
  }

  ComparedRun compared(const toml::node& value, const ComparedRun& base, const std::vector<ComparedRun>& before) const {
    const auto* table = value.as_table();
    if (!table) unexpected("compare", value, "a table");
    ComparedRun result = base;
    result.place = place(value);
    std::vector<std::string> known{"name", "paper", "paper-sd", "paper-nodes", "tune"};
    const std::vector<std::string> sections = section_names();
    known.insert(known.end(), sections.begin(), sections.end());
    for (const auto& [key_text, entry] : *table) {
      const std::string key(key_text.str());
      if (key == "name")
        result.name = text(key, entry);
      else if (key == "paper")
        result.paper.accuracy = accuracy(key, entry);
      else if (key == "paper-sd")
        result.paper.deviation = accuracy(key, entry);
      else if (key == "paper-nodes") {
        const auto* list = entry.as_array();
        if (!list) unexpected(key, entry, "a list of numbers from 0 to 1");
        for (const toml::node& one : *list) result.paper.nodes.push_back(accuracy(key, one));
      } else if (std::find(sections.begin(), sections.end(), key) != sections.end()) {
        section(key, entry, result);
      } else if (key != "tune") {
        unknown("key of [[compare]]", key, entry, known);
      }
    }
    if (const toml::node* list = table->get("tune")) result.tune = tune(*list, result.settings);
    const std::string row = fmt::format(" (\"{}\")", result.name);
    result.place += row;
    for (auto& [key, where] : result.places) where += row;
    if (result.folder_name().empty())
      fail(value,
           "a [[compare]] has no name with a letter from a to z or a digit; every row of the comparison needs one");
    for (const ComparedRun& other : before)
      if (other.folder_name() == result.folder_name())
        fail(value, fmt::format("the names {} and {} would have the same folder; change one", excerpt(other.name),
                                excerpt(result.name)));
    return result;
  }

  std::string name_;
  fs::path folder_;
};

/// The tables of a file.
std::string settings_text(const RunSettings& settings) {
  std::string text, section;
  for (const Row& row : rows()) {
    const std::string value = row.write(settings);
    if (value.empty()) continue;
    if (section != row.section) text += fmt::format("\n[{}]\n", section = row.section);
    text += fmt::format("{} = {}\n", row.key, value);
  }
  return text;
}

std::string read_text(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw Error(ErrorKind::kUsage, fmt::format("{} is a folder, expected an experiment file such as {}", path,
                                               (fs::path(path) / "experiment.toml").string()));
  const auto size = fs::file_size(path, error);
  if (error)
    throw Error(ErrorKind::kInput,
                fmt::format("cannot read {}: {}; name an experiment file", path, errno_text(error.value())));
  if (size > kLongestFile)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} bytes, expected an experiment file of at most {}", path, size, kLongestFile));
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw Error(ErrorKind::kInput, fmt::format("cannot read {}; check its permissions", path));
  return text;
}

}  // namespace

const std::string& ComparedRun::place_of(const std::string& key) const {
  const auto found = places.find(key);
  return found == places.end() ? place : found->second;
}

std::string ComparedRun::folder_name() const {
  std::string result;
  for (const unsigned char letter : name) {
    if (std::isalnum(letter) && letter < 0x80)
      result += static_cast<char>(std::tolower(letter));
    else if (!result.empty() && result.back() != '-')
      result += '-';
  }
  while (result.ends_with('-')) result.pop_back();
  return result;
}

Experiment parse_experiment(const std::string& text, const std::string& name, const std::string& folder) {
  // toml++ limits how deep values nest, but not keys, and takes the stack for each of their parts.
  if (const auto dots = std::count(text.begin(), text.end(), '.'); dots > kMostDots)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} dots, expected an experiment file with at most {}", name, dots, kMostDots));
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}, line {}: {}", name, error.source().begin.line, error.description()));
  }
  return Reader(name, folder).read(file);
}

Experiment read_experiment(const std::string& path) {
  return parse_experiment(read_text(path), path, fs::absolute(path).parent_path());
}

void change_setting(RunSettings& settings, const std::string& key, const std::string& value, const std::string& place) {
  at_place(place, [&] {
    const std::size_t dot = key.find('.');
    const std::string section = key.substr(0, dot);
    const std::vector<std::string> sections = section_names();
    if (dot == std::string::npos || std::find(sections.begin(), sections.end(), section) == sections.end()) {
      std::vector<std::string> known;
      for (const Row& row : rows()) known.push_back(fmt::format("{}.{}", row.section, row.key));
      throw unknown_name("key", key, known);
    }
    const Row& row = find_row(section, key.substr(dot + 1));
    // A value as it would stand in a file, or a name whose quotes a shell has taken away.
    const auto read = [&](const std::string& text) {
      try {
        const toml::table file = toml::parse("value = " + text);
        return file.size() == 1 && row.read(*file.get("value"), settings, fs::current_path());
      } catch (const toml::parse_error&) {
        return false;
      }
    };
    if (!read(value) && !read(quoted(value)))
      throw Error(ErrorKind::kUsage, fmt::format("{} is {}, expected {}", key, excerpt(value), row.expected));
  });
}

std::string write_experiment(const Experiment& experiment, const ComparedRun& run, std::uint64_t seed) {
  std::string text = fmt::format("name = {}\ntitle = {}\nversion = {}\nseed = {}\n", quoted(experiment.name),
                                 quoted(experiment.title), quoted(version()), seed);
  return text + settings_text(run.settings) + fmt::format("\n[[compare]]\nname = {}\n", quoted(run.name));
}

std::string settings_json(const RunSettings& settings) {
  const toml::table file = toml::parse(settings_text(settings));
  std::ostringstream out;
  out << toml::json_formatter(file);
  return out.str();
}

std::vector<ExperimentKey> experiment_keys() {
  std::vector<ExperimentKey> keys;
  for (const Row& row : rows()) keys.push_back({row.section, row.key, row.expected, row.summary, row.write({})});
  return keys;
}

}  // namespace labelshift
