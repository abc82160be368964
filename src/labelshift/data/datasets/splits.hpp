#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

// Every split is a pure function of (labels, settings, seed). It returns row numbers in ascending order, never copies.

/// 0, ..., n - 1.
std::vector<Index> all_rows(Index n);

/// (m) The rows of every class, in the order in which `rows` has them. Throws Error{kInput} if a label is not in
/// {0, ..., classes - 1}.
std::vector<std::vector<Index>> rows_by_class(std::span<const int> labels, std::span<const Index> rows, Index classes);

/// (m) How many of `rows` each class has. Throws like rows_by_class().
std::vector<Index> class_counts(std::span<const int> labels, std::span<const Index> rows, Index classes);

/// (m) counts / sum of counts. Throws Error{kInput} if there are no examples at all.
Eigen::VectorXd empirical_prior(std::span<const Index> counts);

/// A part of a data set: a fraction of its rows, or so many of them.
struct Fraction {
  double value;
};
struct Count {
  Index value;
};
using PartSize = std::variant<Fraction, Count>;

/// A sample of `rows` with their mix of classes (largest remainders) and at least one example of every class there is.
/// A fraction that is too small for that is exceeded; a count that is too small is an Error{kUsage}.
std::vector<Index> stratified_part(std::span<const int> labels, std::span<const Index> rows, Index classes,
                                   PartSize size, std::uint64_t seed);

struct HoldOut {
  std::vector<Index> kept;
  std::vector<Index> held_out;
};

/// Holds out a stratified part that has at least one example of every class there is, and keeps at least one of every
/// class that has two. Throws Error{kUsage} if `size` leaves no room for that.
HoldOut hold_out(std::span<const int> labels, std::span<const Index> rows, Index classes, PartSize size,
                 std::uint64_t seed);

/// hold_out() that leaves the only example of a class where it is: worth more in training than to judge by. Nothing is
/// held out where no class has two.
HoldOut hold_out_repeated(std::span<const int> labels, std::span<const Index> rows, Index classes, PartSize size,
                          std::uint64_t seed);

/// The label distributions P of K nodes as integers: P_kc = shares(k, c) / sum of row k. The sums are the sizes w of
/// the nodes, the same for all in the paper. With floating point the floor in split_by_nodes() is off by one where it
/// matters: 474 instead of 475.
struct NodeDistributions {
  Eigen::Matrix<std::int64_t, Eigen::Dynamic, Eigen::Dynamic> shares;  // (K, m) non-negative

  Index nodes() const { return shares.rows(); }
  Index classes() const { return shares.cols(); }
};

/// The paper's split, with sizes: of class c, cut to the size of the smallest class, n, node k gets
/// floor(n w_k P_kc / max_c' sum_k w_k P_kc') examples. No row goes to two nodes. Returns the rows of each of the K
/// nodes. Throws Error{kInput} if `distributions` are none or a class has no examples.
std::vector<std::vector<Index>> split_by_nodes(std::span<const int> labels, std::span<const Index> rows,
                                               const NodeDistributions& distributions, std::uint64_t seed);

/// Group g of nodes has its majority in class first + g * step.
struct MajorClasses {
  int first;
  int step;
};

/// One of the paper's federations over ten classes: groups of nodes with 0.95 of their examples in one class. And one
/// that is the paper's in training alone: there each node's test mix was drawn once and for all.
struct NodeTable {
  const char* name;
  const char* summary;
  int groups;
  int nodes_per_group;
  MajorClasses train;
  MajorClasses test;
  int drawn = 0;  // not 0: test mixes are from Dirichlet(1) over so many of the first classes, in place of `test`

  NodeDistributions train_distributions() const;
  NodeDistributions test_distributions() const;
};

/// Every node table there is.
std::span<const NodeTable> node_tables();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const NodeTable& find_node_table(const std::string& name);

}  // namespace labelshift
