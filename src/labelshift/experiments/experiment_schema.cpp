#include "labelshift/experiments/experiment_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/codec.hpp"
#include "labelshift/federation/regulariser.hpp"
#include "labelshift/federation/setting_ranges.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

/// Null for a text that is not given.
TomlValue text_if_any(const std::string& text) {
  return text.empty() ? nullptr : text_value(text);
}

/// The part of a run's settings that is a `Part`.
template <typename Part>
auto& part_of(auto& run) {
  if constexpr (std::is_same_v<Part, RunSettings>)
    return run;
  else if constexpr (std::is_same_v<Part, DataSettings>)
    return run.data;
  else if constexpr (std::is_same_v<Part, FederationSettings>)
    return run.federation;
  else if constexpr (std::is_same_v<Part, ServerSettings>)
    return run.federation.server;
  else if constexpr (std::is_same_v<Part, CompressionSettings>)
    return run.federation.compression;
  else if constexpr (std::is_same_v<Part, RegulariserSettings>)
    return run.federation.regulariser;
  else if constexpr (std::is_same_v<Part, StepSettings>)
    return run.federation.step;
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

/// A number, which has its range from its setting.
template <typename Settings>
SchemaRow number(const RangedSetting<Settings>& setting, const char* summary) {
  const std::string name = setting.name;
  return {name.substr(0, name.find('.')),
          name.substr(name.find('.') + 1),
          setting.range.words(),
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto found = value.value<double>();
            if (!(setting.range.whole ? value.is_integer() : value.is_number()) || !found ||
                !setting.range.contains(*found))
              return false;
            setting.set(part_of<Settings>(run), *found);
            return true;
          },
          [=](const RunSettings& run) -> TomlValue {
            const std::optional<double> value = setting.get(part_of<Settings>(run));
            if (!value) return nullptr;
            return setting.range.whole ? toml_value(toml::value(static_cast<std::int64_t>(*value)))
                                       : toml_value(toml::value(*value));
          }};
}

SchemaRow number(const char* name, const char* summary) {
  return number(find_entry(ranged_settings<FederationSettings>(), "setting", name), summary);
}

SchemaRow data_number(const char* name, const char* summary) {
  return number(find_entry(ranged_settings<DataSettings>(), "setting", name), summary);
}

template <typename Field>
SchemaRow flag(const char* section, const char* key, const char* summary, Field field) {
  return {section,
          key,
          "true or false",
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* found = value.as_boolean();
            if (found) field(run) = found->get();
            return found != nullptr;
          },
          [=](const RunSettings& run) { return toml_value(toml::value(field(run))); }};
}

/// Names, and the number of each is an enumerator's.
template <typename Field>
SchemaRow choice(const char* section, const char* key, std::vector<std::string> names, const char* summary,
                 Field field) {
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
          [=](const RunSettings& run) { return text_value(names[static_cast<std::size_t>(field(run))]); }};
}

/// One of the rows of some table; `check` throws if there is none of this name.
template <typename Field>
SchemaRow name(const char* section, const char* key, const char* expected, const char* summary,
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
          [=](const RunSettings& run) { return text_if_any(field(run)); }};
}

/// Throws Error{kUsage} for a path that no experiment file can name: files are UTF-8, names of folders are any bytes.
std::string absolute(const fs::path& folder, const std::string& path) {
  const std::string result = fs::absolute(folder / path).lexically_normal().string();
  if (toml::parse("path = " + toml_text(*text_value(result)))["path"] != result)
    throw Error(ErrorKind::kUsage, fmt::format("the path {} is not UTF-8, which an experiment file has to be; rename "
                                               "the folder",
                                               excerpt(result)));
  return result;
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
SchemaRow net(const char* section, const char* summary, Field field) {
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
          [=](const RunSettings& run) { return text_value(field(run).name); }};
}

SchemaRow start_of_model() {
  return {"model",
          "start",
          "the path of a .safetensors file",
          "a model that training goes on from, as train or a run wrote it; without it weights are drawn",
          [](const toml::node& value, RunSettings& run, const fs::path& folder) {
            const auto* found = value.as_string();
            if (!found || found->get().empty()) return false;
            run.federation.start = absolute(folder, found->get());
            return true;
          },
          [](const RunSettings& run) { return text_if_any(run.federation.start); }};
}

template <typename Field>
SchemaRow net_settings(const char* section, Field field) {
  return {section,
          "net-settings",
          "a table of numbers or names, such as {width = 8}",
          "settings of the net, such as its width",
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* table = value.as_table();
            if (!table) return false;
            std::map<std::string, std::string> settings;
            for (const auto& [key, entry] : *table) {
              const bool writable = key.str().find_first_of("'\t\n") == key.str().npos;  // toml++ forgets its quotes
              if (!writable || !(entry.is_string() || entry.is_number())) return false;
              settings[std::string(key.str())] = plain_text(entry);
            }
            field(run).settings = std::move(settings);
            return true;
          },
          [=](const RunSettings& run) {
            toml::table table;
            table.is_inline(true);
            for (const auto& [key, entry] : field(run).settings) table.insert(key, entry);
            return table.empty() ? nullptr : toml_value(std::move(table));
          }};
}

/// Appends the numbers of a list; false if there is anything else in it.
bool read_numbers(const toml::array& list, const Range& range, std::vector<double>& numbers) {
  for (const toml::node& entry : list) {
    const auto number = entry.value<double>();
    if (!entry.is_number() || !number || !range.contains(*number)) return false;
    numbers.push_back(*number);
  }
  return true;
}

toml::array array_of(const std::vector<double>& numbers) {
  toml::array result;
  for (const double number : numbers) result.push_back(number);
  return result;
}

SchemaRow sizes() {
  return {
      "data",
      "sizes",
      fmt::format("a list with {} for each node", kNodeSizes.words()),
      "how large the nodes are, relative to one another: with [2, 1] the first gets twice as many examples; "
      "without it all are equal",
      [](const toml::node& value, RunSettings& run, const fs::path&) {
        const auto* list = value.as_array();
        std::vector<double> result;
        if (!list || !read_numbers(*list, kNodeSizes, result)) return false;
        run.data.sizes = std::move(result);
        return true;
      },
      [](const RunSettings& run) { return run.data.sizes.empty() ? nullptr : toml_value(array_of(run.data.sizes)); }};
}

template <typename Field>
SchemaRow shares(const char* key, const char* summary, Field field) {
  return {"data",
          key,
          fmt::format("a list for each node, with {} for each class", kClassShares.words()),
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* nodes = value.as_array();
            if (!nodes) return false;
            std::vector<std::vector<double>> result;
            for (const toml::node& node : *nodes) {
              const auto* numbers = node.as_array();
              if (!numbers) return false;
              result.emplace_back();
              if (!read_numbers(*numbers, kClassShares, result.back())) return false;
            }
            field(run) = std::move(result);
            return true;
          },
          [=](const RunSettings& run) {
            toml::array nodes;
            for (const std::vector<double>& node : field(run)) nodes.push_back(array_of(node));
            return nodes.empty() ? nullptr : toml_value(std::move(nodes));
          }};
}

SchemaRow folders() {
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
          [](const RunSettings& run) {
            toml::array nodes;
            for (const NodeFolders& node : run.data.folders)
              nodes.push_back(toml::table{{"train", node.train}, {"test", node.test}});
            return nodes.empty() ? nullptr : toml_value(std::move(nodes));
          }};
}

/// Whether it is one line of printable text, as the name of a class or column is.
bool is_plain_name(const std::string& name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

template <typename Field>
SchemaRow names(const char* key, const char* expected, const char* summary, Field field) {
  return {"data",
          key,
          expected,
          summary,
          [=](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* list = value.as_array();
            if (!list || list->empty()) return false;
            std::vector<std::string> result;
            for (const toml::node& entry : *list) {
              const auto* text = entry.as_string();
              if (!text || !is_plain_name(text->get())) return false;
              result.push_back(text->get());
            }
            field(run) = std::move(result);
            return true;
          },
          [=](const RunSettings& run) {
            toml::array list;
            for (const std::string& one : field(run)) list.push_back(one);
            return list.empty() ? nullptr : toml_value(std::move(list));
          }};
}

SchemaRow shape() {
  constexpr std::int64_t kLongestSide = 1'000'000, kMostValues = 1 << 28;
  return {"data",
          "shape",
          "a list of three whole numbers from 1, such as [1, 28, 28], of at most 2^28 values in all",
          "with classes: the channels, height and width of every image; a table without a header is [1, 1, columns]",
          [](const toml::node& value, RunSettings& run, const fs::path&) {
            const auto* list = value.as_array();
            if (!list || list->size() != 3) return false;
            std::int64_t sides[3], values = 1;
            for (std::size_t i = 0; i < 3; ++i) {
              const auto* side = list->get(i)->as_integer();
              if (!side || side->get() < 1 || side->get() > kLongestSide) return false;
              sides[i] = side->get();
              values *= sides[i];
            }
            if (values > kMostValues) return false;
            run.data.shape = ExampleShape{sides[0], sides[1], sides[2]};
            return true;
          },
          [](const RunSettings& run) -> TomlValue {
            if (!run.data.shape) return nullptr;
            const ExampleShape& of = *run.data.shape;
            return toml_value(toml::array(std::int64_t{of.channels}, std::int64_t{of.height}, std::int64_t{of.width}));
          }};
}

SchemaRow data_set() {
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
          [](const RunSettings& run) { return text_if_any(run.data.set); }};
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

}  // namespace

const std::vector<SchemaRow>& schema_rows() {
  static const std::vector<SchemaRow> table = {
      data_set(),
      name("data", "partition", "the name of a partition",
           "which node gets what: paper-5, paper-100, paper-200, mixed-100, iid, "
           "dirichlet or shares",
           check_partition, field(&DataSettings::partition)),
      data_number("data.nodes", "how many nodes the partitions iid and dirichlet make"),
      data_number("data.alpha", "alpha of the partition dirichlet: the smaller it is, the more the nodes differ"),
      shares("train-shares", "for the partition shares: the label mix of each node's training examples",
             field(&DataSettings::train_shares)),
      shares("test-shares", "for the partition shares: the label mix of each node's test examples",
             field(&DataSettings::test_shares)),
      sizes(),
      folders(),
      names("ignore-columns", "a list of names or numbers of columns, as text",
            "with folders: columns of all tables that are no part of an example, such as an id: names, or numbers from "
            "0 as text",
            field(&DataSettings::ignore_columns)),
      data_number("data.fraction", "the part of the data set's examples that is used"),
      data_number("data.only-node", "use this node alone, counted from 1; 0: use all nodes"),
      names("classes", "a list of names of classes",
            "for a federation between sites, whose data are not here: the names of the classes, in the order that all "
            "use; takes the place of set",
            field(&DataSettings::classes)),
      shape(),
      names("columns", "a list of names of columns",
            "with classes, instead of shape: the columns of every site's table, without that of the labels",
            field(&DataSettings::columns)),

      net("model", "the model that is trained", field(&FederationSettings::model)),
      net_settings("model", field(&FederationSettings::model)),
      start_of_model(),

      name(
          "training", "algorithm", "the name of an algorithm",
          "fedavg, fedprox, fedbn, scaffold, iw-erm, fedcom, fedcomgate, fafed, proxskip, balanced-softmax, "
          "fedlc or fedpals",
          [](const std::string& one) { find_algorithm(one); }, field(&FederationSettings::algorithm)),
      number("training.rounds", "rounds of training"),
      number("training.sampled",
             "how many nodes take part in a round, drawn anew each time, also for a federated predictor; 0: all"),
      choice("training", "weighting", {"nodes", "pooled"}, "whether every node counts the same, or every example",
             field(&FederationSettings::weighting)),
      number("training.local-steps",
             "gradient steps that a node takes in a round; with 1 it sends its gradient instead"),
      number("training.local-epochs",
             "passes over a node's examples in a round; if it is not 0, it takes the place of local-steps"),
      number("training.batch", "how many examples one gradient is computed on"),
      number(
          "training.local-learning-rate",
          "learning rate of the steps that nodes take themselves: several in a round, or those of fedbn's batch norms"),
      number("training.local-weight-decay", "weight decay of the steps that nodes take themselves"),
      number("training.proximal", "mu of fedprox, the strength of its pull towards the global model"),
      name(
          "training", "server", "the name of an optimiser",
          "the server's optimiser: sgd, adam or yogi; of fafed whether its matrices are adaptive (adam) or 1 (sgd)",
          [](const std::string& one) { find_entry(server_optimisers(), "server optimiser", one); },
          field(&ServerSettings::optimiser)),
      number("training.learning-rate", "learning rate of the server's optimiser"),
      number("training.weight-decay", "weight decay of the server's optimiser"),
      number("training.momentum", "momentum of the server's optimiser, if it is sgd"),
      number("training.beta1",
             "beta1 of the server's optimiser, if it is adam or yogi; of fafed the part of the momentum that is kept, "
             "1 - alpha"),
      number("training.beta2",
             "beta2 of the server's optimiser, if it is adam or yogi; of fafed the part of the squares that is kept"),
      number("training.epsilon",
             "epsilon of the server's optimiser, if it is adam or yogi; of fafed rho, what its matrices are at least"),
      name(
          "training", "compression", "the name of a codec, or none",
          "how the parameters of a node's update travel: none, qsgd (rounded at random) or random-k (some of them)",
          [](const std::string& one) { make_codec({.codec = one}); }, field(&CompressionSettings::codec)),
      number("training.compression-levels", "qsgd's number of levels on each side of 0; 7 levels need 4 bits a value"),
      number("training.compression-kept", "the part of the values that random-k sends"),
      name(
          "training", "regulariser", "the name of a regulariser, or none",
          "what is added to the objective, of the weights of layers without biases and batch norms: none, l1, group-l1 "
          "(of the units of a layer) or box; the server takes its proximal step, so it must be sgd without momentum; "
          "not "
          "with fafed",
          [](const std::string& one) {
            if (one != RegulariserSettings().name) find_regulariser(one);
          },
          field(&RegulariserSettings::name)),
      number("training.regulariser-strength", "strength of the regulariser l1 or group-l1"),
      number("training.regulariser-bound", "the regulariser box keeps weights from minus this to this"),
      number("training.round-probability",
             "p of proxskip: after each step of the nodes there is a round of messages with this probability"),
      number(
          "training.fedlc-tau",
          "tau of fedlc, the margin of a class of which a node has one example; the paper names no value, and public "
          "implementations take 0.5"),
      number(
          "training.fedpals-lambda",
          "lambda of fedpals: the larger it is, the more the weights of nodes go by their numbers of examples, and the "
          "less by the mix of their data"),
      choice(
          "training", "step", {"given", "theorem"},
          "given: learning rates are as this file says; theorem: the step is computed from r_max as Thm. F.1 (fedcom, "
          "fedcomgate) or Thm. 5.5 (fedavg, iw-erm with one local step) says, once, before the first round",
          field(&StepSettings::rule)),
      number(
          "training.smoothness",
          "beta for step = \"theorem\", of the loss of one example; without it the largest over all nodes' examples is "
          "computed, for the model logistic"),
      number("training.noise",
             "sigma, for step = \"theorem\" with fedavg or iw-erm (Thm. 5.5): the root of the mean squared distance "
             "between the gradient of a batch and that of all examples of its node; 0 where a batch is all of them"),
      number("training.max-update-norm", "a node's update that is longer than this (Euclidean norm) is refused"),

      name("ratio", "method", "the name of a method",
           "how the ratios are estimated; labelshift estimators lists the methods, to which come none (no weights) "
           "and true (from the test labels)",
           check_method, field(&RatioSettings::method)),
      choice("ratio", "predictor", {"local", "federated"},
             "local: each node trains a predictor of its own; federated: all nodes train one together",
             field(&RatioSettings::predictor)),
      choice("ratio", "exchange", {"local", "pairwise"},
             "local: a node's predictor sees its own test data; pairwise: it sees every node's",
             field(&RatioSettings::exchange)),
      net("ratio", "the net of the predictor", field(&RatioSettings::net)),
      net_settings("ratio", field(&RatioSettings::net)),
      number("ratio.fraction", "the part of a node's training examples that its predictor sees"),
      number("ratio.held-out", "the part of these that is held out for calibration"),
      number("ratio.epochs", "epochs of training of a local predictor"),
      number("ratio.stop-below",
             "a local predictor's training ends when its cross-entropy is below this; 0: never early"),
      number("ratio.rounds", "rounds of training of a federated predictor"),
      number("ratio.learning-rate", "learning rate of the predictor's optimiser"),
      number("ratio.weight-decay", "weight decay of the predictor's optimiser"),
      number("ratio.max-ratio", "importance weights above this are cut to it"),
      number("ratio.goal-node", "train for the risk of this node alone, counted from 1; 0: for that of all nodes"),
      flag("ratio", "goal-shift", "with false, the test mix of the goal node is taken to be its training mix",
           field(&RatioSettings::goal_shift)),
      flag("ratio", "shared-prior",
           "with true, label mixes that a federated predictor or the model estimates are taken to be draws from one "
           "Dirichlet law, which all nodes find together, by sums: less noise where nodes have few test examples",
           field(&RatioSettings::shared_prior)),
      flag("ratio", "calibrate-on-test",
           "with true, a federated predictor is calibrated on the labelled test examples too: no method can, and it "
           "shows how much of an error is the calibration's",
           field(&RatioSettings::calibrate_on_test)),
      number(
          "ratio.refresh",
          "after every so many rounds of training ratios are estimated anew, with the model in place of the predictor, "
          "and weights are made of them; the model is calibrated on the examples that held-out sets aside, so it does "
          "not train on these; 0: never"),
      number(
          "ratio.floor",
          "with refresh, the share of the pooled training mix in what weights aim at, so that a class whose estimate "
          "is 0 is still trained on and can come back"),

      number("run.target-holdout",
             "the part of a node's test examples that ratios are estimated on, while the rest is evaluated on; 0: all "
             "for both"),
      number("run.source-holdout",
             "the part of a node's training examples that is held out to judge the model by where test data have no "
             "labels; 0: a fifth where nodes' own test data have none, and nothing between sites"),
      number("run.evaluate-every", "rounds between evaluations"),
      number(ranged<RunSettings, &RunSettings::checkpoint_every>("run.checkpoint-every", kCount),
             "rounds between checkpoints"),
      choice("run", "device", {"cpu", "cuda"}, "where to train", field(&FederationSettings::device)),
  };
  return table;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const SchemaRow& row : schema_rows())
    if (names.empty() || names.back() != row.section) names.emplace_back(row.section);
  return names;
}

const SchemaRow& find_schema_row(const std::string& section, const std::string& key) {
  std::vector<std::string> known;
  for (const SchemaRow& row : schema_rows()) {
    if (row.section != section) continue;
    if (row.key == key) return row;
    known.push_back(row.key);
  }
  throw unknown_name(fmt::format("key of [{}]", section), key, known);
}

}  // namespace labelshift
