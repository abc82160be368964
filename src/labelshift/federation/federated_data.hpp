#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/engine/node_block.hpp"

namespace labelshift {

/// What one node holds: rows of data sets, which nodes may share.
struct NodeData {
  const Dataset* train = nullptr;
  std::vector<Index> train_rows;
  const Dataset* test = nullptr;  // labels may be missing
  std::vector<Index> test_rows;
};

/// How many examples of each class a node has.
struct NodeMix {
  std::vector<Index> train;  // (m)
  std::vector<Index> test;   // (m) empty where test examples have no labels
};

/// The data of a federation, as far as they are here.
struct FederatedData {
  std::vector<std::unique_ptr<Dataset>> sets;  // what `nodes` point into
  std::vector<NodeData> nodes;                 // (K) nothing where a node's data are elsewhere
  std::vector<std::string> node_names;         // (K) empty: nodes are called by their numbers
  std::vector<NodeMix> mixes;                  // (K) of a simulation; empty where data are at sites, which tell nobody
  ExampleShape shape;
  std::vector<std::string> class_names;   // (m)
  std::vector<std::string> column_names;  // of a table with a header
  Index unlabelled = 0;                   // nodes whose test examples have no labels
  std::string fingerprint;                // of all nodes' data, also of those that are elsewhere
  std::vector<std::string> notes;         // what has to be said next to every figure made from it

  Index classes() const { return static_cast<Index>(class_names.size()); }
};

/// A folder or file of labelled examples and one of unlabelled ones, for a node of the user's own.
struct NodeFolders {
  std::string train;
  std::string test;
};

/// How the data of a federation come about.
struct DataSettings {
  std::string set;        // a known data set or a path; empty: `folders`
  std::string partition;  // a row of node_tables(), "iid", "dirichlet" or "shares"; not with `folders`
  Index nodes = 0;        // K of "iid" and "dirichlet"
  double alpha = 1.0;     // of "dirichlet"
  std::vector<std::vector<double>> train_shares;  // (K, m) of "shares", every row with the same sum
  std::vector<std::vector<double>> test_shares;   // (K, m)
  std::vector<double> sizes;                      // (K) of the nodes, to one another; empty: all the same
  std::vector<NodeFolders> folders;               // (K)
  std::vector<std::string> ignore_columns;        // of the tables of `folders`: names, or numbers from 0
  double fraction = 1.0;                          // of both parts of `set`, stratified, taken first; for quick runs
  Index only_node = 0;  // 1, ..., K: the others are left out, as if it trained by itself; 0: all
  // Instead of all that but `nodes`, where the data are at sites that show them to nobody: what they all are like.
  std::vector<std::string> classes;   // (m) in the order that all sites use
  std::optional<ExampleShape> shape;  // of an image
  std::vector<std::string> columns;   // of a table, without that of the labels; instead of `shape`

  bool at_sites() const { return !classes.empty(); }
};

/// Throws SettingError for what cannot be, whatever the data are.
void check_data_settings(const DataSettings& settings);

/// K, of settings that were checked.
Index node_count(const DataSettings& settings);

/// What others are told of examples that they do not read, to find out whether all fit together.
struct PartFacts {
  std::string path;
  Index channels = 0, height = 0, width = 0;
  bool images = false;               // and no table
  std::vector<std::string> columns;  // of a table with a header
  std::vector<std::string> classes;
  std::vector<Index> counts;  // of each class, where there are labels
  Index examples = 0;
  bool labelled = false;
  std::string fingerprint;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.path, self.channels, self.height, self.width, self.images, self.columns, self.classes, self.counts,
          self.examples, self.labelled, self.fingerprint);
  }
};

/// Of one node's folders, or of the data set that nodes share.
struct DataFacts {
  PartFacts train, test;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.train, self.test);
  }
};

/// Tells all processes that share a federation the facts of the data that this one has read, and returns those of all,
/// in node order.
using ShareFacts = std::function<std::vector<DataFacts>(std::vector<DataFacts> own)>;

/// What is known of data that are at sites: everything but the data. Throws SettingError if it is not enough.
FederatedData described_data(const DataSettings& settings);

/// Reads and splits: a pure function of (data, settings, seed). Nodes share no example.
///
/// Own data are what read_dataset() reads: folders of images, or tables whose labels are in a column called "label".
/// Classes of the nodes are matched by name, and a node need not have all of them. Test data without labels are a
/// folder with the images themselves, or a table without that column.
///
/// "iid" deals all examples out evenly. With "dirichlet" every node draws a training and a test prior from Dirichlet(
/// alpha) and then its even share of the examples by them, as far as classes last. With `sizes` a node that is twice as
/// large gets twice as many examples, for training and for tests, in all partitions.
///
/// Throws Error{kUsage} or Error{kInput}: what is wrong with the settings; a node without training examples; own data
/// of different shapes or classes, test classes that no node trains on, and what the readers throw.
FederatedData make_federated_data(const DataSettings& settings, std::uint64_t seed);

/// The same where other processes have the other nodes. Folders of nodes that are not in `block` are not opened; of a
/// data set that nodes share only their rows are kept. Calls `share` once, after it has read. What is wrong with
/// somebody's data is thrown by all alike.
FederatedData make_federated_data(const DataSettings& settings, std::uint64_t seed, const NodeBlock& block,
                                  const ShareFacts& share);

}  // namespace labelshift
