#include "labelshift/federation/federated_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/data/datasets/dataset_reader.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/datasets/shifts.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/federation/setting_error.hpp"
#include "labelshift/federation/setting_ranges.hpp"
#include "labelshift/federation/streams.hpp"
#include "labelshift/learning/checkpoint.hpp"

namespace labelshift {
namespace {

constexpr std::string_view kTraining = "training";

[[noreturn]] void refuse(const char* key, const std::string& why) {
  throw SettingError(key, "data: " + why);
}

using NodeRows = std::vector<std::vector<Index>>;  // (K)

void shuffle(std::vector<Index>& rows, Rng& rng) {
  for (auto left = std::ssize(rows); left > 1; --left) std::swap(rows[left - 1], rows[rng.below(left)]);
}

/// How many of `n` examples each of K nodes gets, in proportion to their sizes to one, or all the same.
std::vector<Index> node_sizes(Index n, Index nodes, const std::vector<double>& sizes) {
  std::vector<Index> result;
  const double whole = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  double part = 0.0;
  for (Index k = 0, taken = 0; k < nodes; ++k) {
    Index until = n * (k + 1) / nodes;
    if (!sizes.empty()) {
      part += sizes[static_cast<std::size_t>(k)];
      // A whole number that rounding has made a little less is meant to be that number.
      until = k + 1 == nodes ? n : static_cast<Index>(std::floor(static_cast<double>(n) * (part / whole) + 1e-6));
    }
    result.push_back(until - taken);
    taken = until;
  }
  return result;
}

NodeRows deal_evenly(std::vector<Index> rows, const std::vector<Index>& sizes, std::uint64_t seed) {
  Rng rng(seed ^ kDealSalt);
  shuffle(rows, rng);
  NodeRows result(sizes.size());
  auto next = rows.begin();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const auto end = next + sizes[k];
    result[k].assign(next, end);
    std::sort(result[k].begin(), result[k].end());
    next = end;
  }
  return result;
}

/// Every node draws a prior, and then its examples one by one; a class that has none left is out of its prior from
/// there on.
NodeRows deal_by_dirichlet(const Dataset& data, const std::vector<Index>& rows, const std::vector<Index>& sizes,
                           double alpha, std::uint64_t seed) {
  NodeRows by_class = rows_by_class(data.labels, rows, data.classes());
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    Rng rng(seed ^ kDealSalt, c);
    shuffle(by_class[c], rng);
  }
  NodeRows result(sizes.size());
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    Rng rng(seed ^ kDealSalt, by_class.size() + k);
    const Eigen::VectorXd prior = dirichlet_prior(data.classes(), alpha, rng);
    for (Index left = sizes[k]; left > 0; --left) {
      double mass = 0.0, examples = 0.0;
      for (std::size_t c = 0; c < by_class.size(); ++c) {
        examples += static_cast<double>(by_class[c].size());
        if (!by_class[c].empty()) mass += prior[static_cast<Index>(c)];
      }
      double at = rng.uniform() * (mass > 0.0 ? mass : examples);
      std::size_t chosen = by_class.size();
      for (std::size_t c = 0; c < by_class.size(); ++c) {
        if (by_class[c].empty()) continue;
        chosen = c;  // the last one takes what rounding leaves
        at -= mass > 0.0 ? prior[static_cast<Index>(c)] : static_cast<double>(by_class[c].size());
        if (at < 0.0) break;
      }
      result[k].push_back(by_class[chosen].back());
      by_class[chosen].pop_back();
    }
    std::sort(result[k].begin(), result[k].end());
  }
  return result;
}

/// Shares, times the sizes of the nodes, in the largest power of ten of which all are multiples, or nearly so.
NodeDistributions distributions_of(Eigen::MatrixXd shares, const std::vector<double>& sizes) {
  for (std::size_t k = 0; k < sizes.size(); ++k) shares.row(static_cast<Index>(k)) *= sizes[k];
  constexpr double kFinest = 1e9, kLargest = 1e18, kRounding = 1e-6;
  double scale = 1.0;
  const auto whole = [&] {
    const Eigen::ArrayXXd scaled = shares.array() * scale;
    return ((scaled - scaled.round()).abs() < kRounding).all();
  };
  while (scale < kFinest && shares.maxCoeff() * scale < kLargest / 10.0 && !whole()) scale *= 10.0;
  return {.shares = (shares.array() * scale).round().cast<std::int64_t>()};
}

/// (K, m)
Eigen::MatrixXd matrix_of(const std::vector<std::vector<double>>& shares, Index classes, std::string_view which) {
  Eigen::MatrixXd result(std::ssize(shares), classes);
  for (std::size_t k = 0; k < shares.size(); ++k) {
    if (std::ssize(shares[k]) != classes)
      refuse(which == kTraining ? "data.train-shares" : "data.test-shares",
             fmt::format("the {} shares of node {} are {} numbers, expected {}, one for each class", which, k + 1,
                         shares[k].size(), classes));
    for (Index c = 0; c < classes; ++c) result(static_cast<Index>(k), c) = shares[k][c];
  }
  return result;
}

/// One part of a data set, dealt out.
NodeRows partition(const DataSettings& settings, const Dataset& data, bool train, std::uint64_t seed) {
  const std::uint64_t salted = seed ^ (train ? kTrainSalt : kTestSalt);
  std::vector<Index> rows = all_rows(data.size());
  if (settings.fraction != 1.0)
    rows = stratified_part(data.labels, rows, data.classes(), Fraction{settings.fraction}, salted);
  const std::vector<Index> sizes = node_sizes(std::ssize(rows), settings.nodes, settings.sizes);
  if (settings.partition == "iid") return deal_evenly(std::move(rows), sizes, salted);
  if (settings.partition == "dirichlet") return deal_by_dirichlet(data, rows, sizes, settings.alpha, salted);
  NodeDistributions distributions;
  if (settings.partition == "shares") {
    distributions = distributions_of(
        matrix_of(train ? settings.train_shares : settings.test_shares, data.classes(), train ? kTraining : "test"),
        settings.sizes);
  } else {
    const NodeTable& table = find_node_table(settings.partition);
    distributions = train ? table.train_distributions() : table.test_distributions();
    if (distributions.classes() != data.classes())
      refuse("data.partition",
             fmt::format("the partition {} is one of {} classes, but {} has {}; use iid, dirichlet or shares",
                         table.name, distributions.classes(), settings.set, data.classes()));
    distributions = distributions_of(distributions.shares.cast<double>(), settings.sizes);
  }
  return split_by_nodes(data.labels, rows, distributions, salted);
}

void check_numbers(const std::vector<double>& numbers, const Range& range, const char* key) {
  for (const double number : numbers)
    if (!range.contains(number))
      throw SettingError(key, fmt::format("{} has {}, expected {}", key, number, range.words()));
}

void check_shares(const std::vector<std::vector<double>>& shares, const char* key) {
  constexpr double kRounding = 1e-6;  // of fractions such as 0.333333
  for (const std::vector<double>& of_node : shares) check_numbers(of_node, kClassShares, key);
  const auto sum = [](const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
  for (std::size_t k = 0; k < shares.size(); ++k)
    if (!(sum(shares[k]) > 0.0))
      refuse(key, fmt::format("the shares of node {} are all 0; give a class of it a share above 0", k + 1));
  for (std::size_t k = 0; k < shares.size(); ++k)
    if (std::abs(sum(shares[k]) - sum(shares.front())) > kRounding * sum(shares.front()))
      refuse(key, fmt::format("the shares of node {} add up to {}, and those of node 1 to {}; make them all add up to "
                              "the same",
                              k + 1, sum(shares[k]), sum(shares.front())));
}

void check_partition(const DataSettings& settings) {
  if (!settings.folders.empty()) refuse("data.folders", "found both a data set and folders of nodes; give one");
  if (!settings.ignore_columns.empty())
    refuse("data.ignore-columns",
           "a data set has no columns to leave out, only the tables of folders have; take it away");
  std::vector<std::string> known{"iid", "dirichlet", "shares"};
  for (const NodeTable& table : node_tables()) known.emplace_back(table.name);
  if (settings.partition.empty())
    refuse("data.set",
           "no partition says which node gets what of " + settings.set + "; give partition, such as \"iid\"");
  if (std::find(known.begin(), known.end(), settings.partition) == known.end())
    throw SettingError("data.partition", unknown_name("partition", settings.partition, known).what());
  const bool counted = settings.partition == "iid" || settings.partition == "dirichlet";
  if (!counted && settings.nodes > 0)
    refuse("data.nodes",
           fmt::format("the partition {} has its own number of nodes; leave nodes out", settings.partition));
  if (settings.partition != "shares" && !(settings.train_shares.empty() && settings.test_shares.empty()))
    refuse(settings.train_shares.empty() ? "data.test-shares" : "data.train-shares",
           fmt::format("found shares with the partition {}; leave them out, or use the partition shares",
                       settings.partition));
  if (counted && settings.nodes == 0)
    refuse("data.partition",
           fmt::format("found 0 nodes, expected at least 1 for the partition {}; give nodes", settings.partition));
  if (settings.partition == "shares") {
    if (settings.train_shares.empty() || settings.train_shares.size() != settings.test_shares.size())
      refuse("data.partition",
             fmt::format("found training shares of {} nodes and test shares of {}, expected the same number, at least "
                         "1; give train-shares and test-shares",
                         settings.train_shares.size(), settings.test_shares.size()));
    check_shares(settings.train_shares, "data.train-shares");
    check_shares(settings.test_shares, "data.test-shares");
  }
}

void refuse_data_of_sites(const DataSettings& settings) {
  if (settings.at_sites())
    refuse("data.classes",
           "the data of this experiment are at sites; run it with labelshift coordinator, or give a "
           "data set or folders of nodes");
}

/// K, before all but one are left out.
Index all_nodes(const DataSettings& settings) {
  if (!settings.folders.empty()) return std::ssize(settings.folders);
  if (settings.at_sites()) return settings.nodes;
  if (settings.partition == "iid" || settings.partition == "dirichlet") return settings.nodes;
  if (settings.partition == "shares") return std::ssize(settings.train_shares);
  const NodeTable& table = find_node_table(settings.partition);
  return table.groups * table.nodes_per_group;
}

void check_folders(const DataSettings& settings) {
  if (!settings.sizes.empty()) refuse("data.sizes", "folders of nodes are as large as they are; leave sizes out");
  if (!settings.partition.empty()) refuse("data.partition", "folders of nodes need no partition; leave it out");
  if (settings.nodes > 0) refuse("data.nodes", "there are as many nodes as folders; leave nodes out");
  if (settings.fraction != 1.0)
    refuse("data.fraction", "a fraction goes with a data set, not with folders of nodes; leave it out");
}

void check_sites(const DataSettings& settings) {
  if (!settings.set.empty() || !settings.folders.empty())
    refuse("data.classes", "classes say what the data of sites are like, and here are data; leave one of them out");
  if (!settings.partition.empty())
    refuse("data.partition", "sites have the data that they have, and need no partition; leave it out");
  if (!settings.ignore_columns.empty())
    refuse("data.ignore-columns", "every site says itself which columns of its tables are left out; take it away");
  if (!settings.sizes.empty()) refuse("data.sizes", "sites are as large as they are; leave sizes out");
  if (settings.fraction != 1.0)
    refuse("data.fraction", "a fraction goes with a data set, not with the data of sites; leave it out");
  if (settings.only_node > 0) refuse("data.only-node", "a federation between sites is of all of them; leave it out");
  if (settings.classes.size() < 2)
    refuse("data.classes", fmt::format("found the class {} only, expected at least 2", settings.classes.front()));
  for (auto name = settings.classes.begin(); name != settings.classes.end(); ++name)
    if (std::find(settings.classes.begin(), name, *name) != name)
      refuse("data.classes", fmt::format("the class {} is there twice; give each once", *name));
  for (auto name = settings.columns.begin(); name != settings.columns.end(); ++name)
    if (std::find(settings.columns.begin(), name, *name) != name)
      refuse("data.columns", fmt::format("the column {} is there twice; give each once", *name));
  if (settings.shape.has_value() == !settings.columns.empty())
    refuse("data.classes",
           "nothing says what one example is, or two things do; give shape, such as [1, 28, 28], for "
           "images, or columns for tables");
  if (settings.nodes == 0) refuse_data_of_sites(settings);
}

PartFacts facts_of(const Dataset& data, const std::string& path) {
  return {.path = path,
          .channels = data.shape.channels,
          .height = data.shape.height,
          .width = data.shape.width,
          .images = data.values.index() == 0,
          .columns = data.column_names,
          .classes = data.class_names,
          .counts = class_counts(data.labels, all_rows(std::ssize(data.labels)), data.classes()),
          .examples = data.size(),
          .labelled = !data.labels.empty(),
          .fingerprint = fingerprint(data)};
}

/// Leaves nothing in a data set but the rows that these nodes have, and renumbers those.
void keep_rows(Dataset& data, std::vector<std::vector<Index>*> of_nodes) {
  std::vector<Index> kept;
  for (const std::vector<Index>* rows : of_nodes) kept.insert(kept.end(), rows->begin(), rows->end());
  std::sort(kept.begin(), kept.end());
  const auto size = static_cast<std::size_t>(data.shape.size());
  std::visit(
      [&](auto& values) {
        std::remove_reference_t<decltype(values)> fewer;
        fewer.reserve(kept.size() * size);
        for (const Index row : kept) {
          const auto from = values.begin() + row * data.shape.size();
          fewer.insert(fewer.end(), from, from + data.shape.size());
        }
        values = std::move(fewer);
      },
      data.values);
  for (std::size_t i = 0; i < kept.size(); ++i)
    data.labels[i] = data.labels[static_cast<std::size_t>(kept[i])];  // no later row is before its new place
  data.labels.resize(kept.size());
  for (std::vector<Index>* rows : of_nodes)
    for (Index& row : *rows) row = std::lower_bound(kept.begin(), kept.end(), row) - kept.begin();
}

[[noreturn]] void refuse_empty_node(Index node, Index nodes) {
  throw Error(
      ErrorKind::kInput,
      fmt::format("node {} of {} has no training examples; make fewer nodes, or larger shares", node + 1, nodes));
}

/// Which nodes' data a process has to read, of all K before all but one are left out. That one's classes are those of
/// all.
NodeBlock to_read(const DataSettings& settings, const NodeBlock& block) {
  if (settings.only_node == 0 || block.begin == block.end) return block;
  return {0, all_nodes(settings)};
}

FederatedData split_set(const DataSettings& settings, std::uint64_t seed, const NodeBlock& block,
                        const ShareFacts& share) {
  FederatedData result;
  result.nodes.resize(static_cast<std::size_t>(all_nodes(settings)));
  std::vector<DataFacts> own;
  if (block.begin < block.end) {
    LoadedDataset loaded = load_dataset(settings.set);
    if (!loaded.note.empty()) result.notes.push_back(loaded.note);
    for (Dataset* part : {&loaded.parts.train, &loaded.parts.test})
      result.sets.push_back(std::make_unique<Dataset>(std::move(*part)));
    Dataset& train = *result.sets[0];
    Dataset& test = *result.sets[1];
    if (test.size() == 0)
      throw Error(ErrorKind::kInput, fmt::format("{} has no test part; give a data set that has one, or the folders of "
                                                 "each node",
                                                 settings.set));
    if (train.labels.empty() || test.labels.empty())
      throw Error(ErrorKind::kInput,
                  fmt::format("{} has no labels; give the folders of each node for test data without "
                              "labels",
                              settings.set));
    const std::vector<Index> counts = class_counts(train.labels, all_rows(train.size()), train.classes());
    if (std::count_if(counts.begin(), counts.end(), [](Index count) { return count > 0; }) < 2)
      throw Error(ErrorKind::kInput,
                  fmt::format("{} has training examples of 1 class only, expected at least 2 classes", settings.set));
    own.push_back({facts_of(train, settings.set), facts_of(test, settings.set)});
    NodeRows train_rows = partition(settings, train, /*train=*/true, seed);
    NodeRows test_rows = partition(settings, test, /*train=*/false, seed);
    for (std::size_t k = 0; k < train_rows.size(); ++k)
      if (train_rows[k].empty()) refuse_empty_node(static_cast<Index>(k), std::ssize(train_rows));
    for (std::size_t k = 0; k < train_rows.size(); ++k)
      result.mixes.push_back({class_counts(train.labels, train_rows[k], train.classes()),
                              class_counts(test.labels, test_rows[k], train.classes())});
    std::vector<std::vector<Index>*> kept_train, kept_test;
    const NodeBlock here = to_read(settings, block);
    for (Index k = here.begin; k < here.end; ++k) {
      NodeData& node = result.nodes[static_cast<std::size_t>(k)];
      node = {&train, std::move(train_rows[k]), &test, std::move(test_rows[k])};
      kept_train.push_back(&node.train_rows);
      kept_test.push_back(&node.test_rows);
    }
    if (here.end - here.begin < std::ssize(result.nodes)) {
      keep_rows(train, kept_train);
      keep_rows(test, kept_test);
    }
  }
  const std::vector<DataFacts> all = share(std::move(own));
  const DataFacts& first = all.front();
  for (const DataFacts& one : all)
    if (one.train.fingerprint != first.train.fingerprint || one.test.fingerprint != first.test.fingerprint)
      throw Error(
          ErrorKind::kInput,
          fmt::format("the data set {} is not the same on all machines; copy it from one to the others", settings.set));
  result.shape = {first.train.channels, first.train.height, first.train.width};
  result.class_names = first.train.classes;
  result.column_names = first.train.columns;
  result.fingerprint = fingerprint(std::vector{first.train.fingerprint, first.test.fingerprint});
  return result;
}

/// The names of all nodes' classes: in order of size if all are numbers, else byte by byte, as the readers do.
std::vector<std::string> all_classes(std::span<const DataFacts> nodes) {
  std::set<std::string> names;
  for (const DataFacts& node : nodes) names.insert(node.train.classes.begin(), node.train.classes.end());
  std::vector<std::string> sorted(names.begin(), names.end());
  const auto number = [](const std::string& name) {
    double value = 0.0;
    return parse_number(name, value) ? std::optional(value) : std::nullopt;
  };
  if (std::all_of(sorted.begin(), sorted.end(), number))
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const std::string& a, const std::string& b) { return *number(a) < *number(b); });
  return sorted;
}

/// Throws for a class that is not among the common ones.
void check_classes(const PartFacts& part, const std::vector<std::string>& classes) {
  for (const std::string& name : part.classes)
    if (std::find(classes.begin(), classes.end(), name) == classes.end())
      throw Error(ErrorKind::kInput, fmt::format("{}: {}; no node has training examples of it", part.path,
                                                 unknown_name("class", name, classes).what()));
}

/// Gives labels the numbers of the common classes.
void rename_classes(Dataset& data, const std::vector<std::string>& classes) {
  std::vector<int> renamed;
  for (const std::string& name : data.class_names)
    renamed.push_back(static_cast<int>(std::find(classes.begin(), classes.end(), name) - classes.begin()));
  for (int& label : data.labels) label = renamed[static_cast<std::size_t>(label)];
  data.class_names = classes;
}

/// Reads the one part of data that a node's folder or table is.
std::unique_ptr<Dataset> read_part(const std::string& path, const std::vector<std::string>& ignore_columns) {
  TrainAndTest parts = read_dataset(path, {.ignore = ignore_columns});
  if (!std::visit([](const auto& values) { return values.empty(); }, parts.test.values))
    throw Error(ErrorKind::kInput, fmt::format("{}: found a training and a test part, expected one; name the folder of "
                                               "each",
                                               path));
  return std::make_unique<Dataset>(std::move(parts.train));
}

void check_alike(const PartFacts& data, const PartFacts& first) {
  const auto text = [](const PartFacts& of) { return fmt::format("{} x {} x {}", of.channels, of.height, of.width); };
  if (text(data) != text(first))
    throw Error(ErrorKind::kInput, fmt::format("{}: found examples of {} values, expected {} as in {}", data.path,
                                               text(data), text(first), first.path));
  if (data.images != first.images)
    throw Error(ErrorKind::kInput,
                fmt::format("{}: found {}, expected {} as in {}", data.path, data.images ? "images" : "a table",
                            data.images ? "a table" : "images", first.path));
  if (!data.columns.empty() && !first.columns.empty() && data.columns != first.columns)
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: found other columns than in {}, expected the same in the same order", data.path, first.path));
}

/// Whether one letter was added, left out, replaced or swapped with the next. Short names and numbers are too alike.
bool one_slip_apart(const std::string& a, const std::string& b) {
  if (a.size() > b.size()) return one_slip_apart(b, a);
  double number = 0.0;
  if (a.size() < 3 || b.size() - a.size() > 1 || parse_number(a, number) || parse_number(b, number)) return false;
  const auto differ = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
  const auto rest = [](const std::string& text, std::size_t from) { return text.substr(std::min(from, text.size())); };
  if (a.size() < b.size()) return rest(a, differ) == rest(b, differ + 1);
  if (rest(a, differ + 1) == rest(b, differ + 1)) return true;
  return a[differ] == b[differ + 1] && a[differ + 1] == b[differ] && rest(a, differ + 2) == rest(b, differ + 2);
}

/// Adds a note on every class that may be a slip of the pen: one node alone has it, and hardly any example of it where
/// all other classes have many, or another class has nearly the same name.
void note_misspelt(const DataSettings& settings, std::span<const DataFacts> nodes, FederatedData& data) {
  constexpr Index kFew = 3, kMany = 10;
  const auto m = static_cast<std::size_t>(data.classes());
  std::vector<Index> counts(m), holders(m), holder(m);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const PartFacts& train = nodes[k].train;
    for (std::size_t i = 0; i < train.classes.size(); ++i) {
      if (train.counts[i] == 0) continue;
      const auto found = std::find(data.class_names.begin(), data.class_names.end(), train.classes[i]);
      const auto c = static_cast<std::size_t>(found - data.class_names.begin());
      counts[c] += train.counts[i];
      ++holders[c];
      holder[c] = static_cast<Index>(k);
    }
  }
  const auto few = std::count_if(counts.begin(), counts.end(), [](Index count) { return count < kMany; });
  for (std::size_t c = 0; c < m && nodes.size() > 1; ++c) {
    if (holders[c] != 1) continue;
    const std::string& name = data.class_names[c];
    const auto close = std::find_if(data.class_names.begin(), data.class_names.end(), [&](const std::string& other) {
      return &other != &name && one_slip_apart(name, other);
    });
    const bool alike = close != data.class_names.end() &&
                       counts[c] <= counts[static_cast<std::size_t>(close - data.class_names.begin())];
    if (!alike && !(counts[c] < kFew && few == 1)) continue;
    data.notes.push_back(
        fmt::format("node {} alone has the class {}, with {} training example{}{}; if it is misspelt, mend it in {}",
                    holder[c] + 1, excerpt(name), counts[c], counts[c] == 1 ? "" : "s",
                    alike ? fmt::format(", and another class is called {}", excerpt(*close)) : "",
                    settings.folders[static_cast<std::size_t>(holder[c])].train));
  }
}

/// The counts of a part by the numbers of the common classes.
std::vector<Index> common_counts(const PartFacts& part, const std::vector<std::string>& classes) {
  std::vector<Index> counts(classes.size());
  for (std::size_t i = 0; i < part.classes.size(); ++i)
    counts[static_cast<std::size_t>(std::find(classes.begin(), classes.end(), part.classes[i]) - classes.begin())] =
        part.counts[i];
  return counts;
}

FederatedData read_folders(const DataSettings& settings, const NodeBlock& block, const ShareFacts& share) {
  FederatedData result;
  result.nodes.resize(settings.folders.size());
  std::vector<DataFacts> own;
  const NodeBlock here = to_read(settings, block);
  for (Index k = here.begin; k < here.end; ++k) {
    const NodeFolders& folders = settings.folders[static_cast<std::size_t>(k)];
    auto train = read_part(folders.train, settings.ignore_columns);
    if (train->labels.empty())
      throw Error(ErrorKind::kInput, fmt::format("{}: found no labels, expected one folder of images a class or a "
                                                 "column called label: node {} trains on them; give the column that "
                                                 "holds them this name",
                                                 folders.train, k + 1));
    auto test = read_part(folders.test, settings.ignore_columns);
    own.push_back({facts_of(*train, folders.train), facts_of(*test, folders.test)});
    result.nodes[static_cast<std::size_t>(k)] = {train.get(), all_rows(train->size()), test.get(),
                                                 all_rows(test->size())};
    result.sets.push_back(std::move(train));
    result.sets.push_back(std::move(test));
  }
  const std::vector<DataFacts> all = share(std::move(own));
  const PartFacts& first = all.front().train;
  for (const DataFacts& node : all) {
    check_alike(node.train, first);
    check_alike(node.test, first);
  }
  result.shape = {first.channels, first.height, first.width};
  result.class_names = all_classes(all);
  result.column_names = first.columns;
  if (result.classes() < 2)
    throw Error(ErrorKind::kInput, fmt::format("all nodes together have the class {} only, expected at least 2 classes",
                                               result.class_names.front()));
  std::vector<std::string> fingerprints;
  for (std::size_t k = 0; k < all.size(); ++k) {
    check_classes(all[k].test, result.class_names);
    if (all[k].train.examples == 0) refuse_empty_node(static_cast<Index>(k), std::ssize(all));
    const bool counts = settings.only_node == 0 || static_cast<Index>(k) == settings.only_node - 1;
    if (counts && !all[k].test.labelled && all[k].test.examples > 0) ++result.unlabelled;
    result.mixes.push_back(
        {common_counts(all[k].train, result.class_names),
         all[k].test.labelled ? common_counts(all[k].test, result.class_names) : std::vector<Index>()});
    fingerprints.push_back(all[k].train.fingerprint);
    fingerprints.push_back(all[k].test.fingerprint);
  }
  result.fingerprint = fingerprint(fingerprints);
  for (const auto& set : result.sets) rename_classes(*set, result.class_names);
  note_misspelt(settings, all, result);
  return result;
}

}  // namespace

void check_data_settings(const DataSettings& settings) {
  check_ranges(settings);
  if (settings.at_sites()) return check_sites(settings);
  if (settings.shape || !settings.columns.empty())
    refuse(settings.shape ? "data.shape" : "data.columns",
           "data that are here are like what they are; leave it out, or give classes too for a federation between "
           "sites");
  if (settings.set.empty() && settings.folders.empty())
    refuse("data.set", "found neither a data set nor folders of nodes; give one of them");
  settings.set.empty() ? check_folders(settings) : check_partition(settings);
  const Index nodes = all_nodes(settings);
  if (!settings.sizes.empty() && std::ssize(settings.sizes) != nodes)
    refuse("data.sizes", fmt::format("found {} sizes, expected {}, one for each node", settings.sizes.size(), nodes));
  check_numbers(settings.sizes, kNodeSizes, "data.sizes");
  if (settings.only_node > nodes)
    refuse("data.only-node",
           fmt::format("the only node is to be {}, expected 1 to {}, or 0 for all", settings.only_node, nodes));
}

Index node_count(const DataSettings& settings) {
  return settings.only_node > 0 ? 1 : all_nodes(settings);
}

FederatedData described_data(const DataSettings& settings) {
  check_data_settings(settings);
  FederatedData result{.shape = settings.shape.value_or(ExampleShape{.width = std::ssize(settings.columns)}),
                       .class_names = settings.classes,
                       .column_names = settings.columns};
  result.nodes.resize(static_cast<std::size_t>(settings.nodes));
  return result;
}

FederatedData make_federated_data(const DataSettings& settings, std::uint64_t seed) {
  check_data_settings(settings);
  return make_federated_data(settings, seed, {0, node_count(settings)}, [](std::vector<DataFacts> own) { return own; });
}

FederatedData make_federated_data(const DataSettings& settings, std::uint64_t seed, const NodeBlock& block,
                                  const ShareFacts& share) {
  check_data_settings(settings);
  refuse_data_of_sites(settings);
  FederatedData result =
      settings.set.empty() ? read_folders(settings, block, share) : split_set(settings, seed, block, share);
  if (settings.only_node > 0) {
    NodeData node = std::move(result.nodes[static_cast<std::size_t>(settings.only_node - 1)]);
    result.nodes.clear();
    result.nodes.push_back(std::move(node));
    if (!result.mixes.empty())
      result.mixes = {std::move(result.mixes[static_cast<std::size_t>(settings.only_node - 1)])};
  }
  return result;
}

}  // namespace labelshift
