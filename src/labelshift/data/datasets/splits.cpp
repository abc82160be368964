#include "labelshift/data/datasets/splits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/data/datasets/shifts.hpp"
#include "labelshift/data/streams.hpp"

namespace labelshift {
namespace {

using Wide = __int128;  // products of two 64-bit counts

void shuffle(std::vector<Index>& rows, Rng rng) {
  for (auto left = static_cast<Index>(rows.size()); left > 1; --left)
    std::swap(rows[static_cast<std::size_t>(left - 1)], rows[static_cast<std::size_t>(rng.below(left))]);
}

/// How much of every class a part takes: between one and `most`, where the class has any.
struct Room {
  std::vector<Index> available;  // (m)
  std::vector<Index> most;       // (m)

  Index least(std::size_t c) const { return std::min<Index>(1, most[c]); }
};

struct Limits {
  Index all, least, most;
};

Limits limits_of(const Room& room) {
  Limits limits{};
  for (std::size_t c = 0; c < room.most.size(); ++c) {
    limits.all += room.available[c];
    limits.least += room.least(c);
    limits.most += room.most[c];
  }
  return limits;
}

/// The number of rows that `size` asks for.
Index rows_in(PartSize size, const Limits& limits) {
  if (limits.all == 0) throw Error(ErrorKind::kInput, "part of a data set: there are no rows to choose from");
  if (const auto* fraction = std::get_if<Fraction>(&size)) {
    if (!(fraction->value > 0.0 && fraction->value <= 1.0))
      throw Error(ErrorKind::kUsage, fmt::format("part of a data set: the fraction is {}, expected more than 0 and at "
                                                 "most 1",
                                                 fraction->value));
    const auto wanted = static_cast<Index>(std::llround(fraction->value * static_cast<double>(limits.all)));
    return std::clamp(wanted, limits.least, limits.most);
  }
  const Index count = std::get<Count>(size).value;
  if (count < limits.least || count > limits.most)
    throw Error(ErrorKind::kUsage,
                fmt::format("part of a data set: {} rows asked for, expected {} to {} so that every class has one",
                            count, limits.least, limits.most));
  return count;
}

/// Largest remainders: (m) counts that sum to `total`, each within its room and as near to total * n_c / n as can be.
std::vector<Index> apportioned(const Room& room, Index total, Index all) {
  const std::size_t m = room.available.size();
  std::vector<Index> taken(m);
  Index sum = 0;
  for (std::size_t c = 0; c < m; ++c) {
    const auto quota = static_cast<Index>(static_cast<Wide>(total) * room.available[c] / all);
    taken[c] = std::clamp(quota, room.least(c), room.most[c]);
    sum += taken[c];
  }
  // n times what class c is short of. A class is moved by one at most on either side, so the loops are short.
  const auto shortfall = [&](std::size_t c) {
    return static_cast<Wide>(total) * room.available[c] - static_cast<Wide>(taken[c]) * all;
  };
  for (const Index step : {Index{1}, Index{-1}})
    for (; (total - sum) * step > 0; sum += step) {
      std::size_t best = m;
      for (std::size_t c = 0; c < m; ++c) {
        const bool can_move = step > 0 ? taken[c] < room.most[c] : taken[c] > room.least(c);
        if (can_move && (best == m || shortfall(c) * step > shortfall(best) * step)) best = c;
      }
      assert(best < m);
      taken[best] += step;
    }
  return taken;
}

/// `rows` in two: of every class a random part that `most` bounds, and the others.
HoldOut divided(std::vector<std::vector<Index>> by_class, Room room, PartSize size, std::uint64_t seed) {
  const Limits limits = limits_of(room);
  const std::vector<Index> taken = apportioned(room, rows_in(size, limits), limits.all);
  HoldOut result;
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    shuffle(by_class[c], Rng(seed ^ kPartSalt, c));
    const auto cut = by_class[c].begin() + taken[c];
    result.held_out.insert(result.held_out.end(), by_class[c].begin(), cut);
    result.kept.insert(result.kept.end(), cut, by_class[c].end());
  }
  std::sort(result.held_out.begin(), result.held_out.end());
  std::sort(result.kept.begin(), result.kept.end());
  return result;
}

std::vector<Index> sizes(const std::vector<std::vector<Index>>& by_class) {
  std::vector<Index> result;
  for (const auto& rows : by_class) result.push_back(static_cast<Index>(rows.size()));
  return result;
}

/// Throws unless every node has shares and none is negative.
void check(const NodeDistributions& distributions) {
  const auto& shares = distributions.shares;
  if (shares.size() == 0)
    throw Error(ErrorKind::kInput, fmt::format("node distributions: the table is {} x {}, expected one row a node and "
                                               "one column a class",
                                               shares.rows(), shares.cols()));
  for (Index k = 0; k < shares.rows(); ++k) {
    Wide sum = 0;
    for (Index c = 0; c < shares.cols(); ++c) {
      if (shares(k, c) < 0)
        throw Error(ErrorKind::kInput, fmt::format("node distributions: node {}, class {} has the share {}, expected 0 "
                                                   "or more",
                                                   k + 1, c, shares(k, c)));
      sum += shares(k, c);
    }
    if (sum == 0)
      throw Error(ErrorKind::kInput,
                  fmt::format("node distributions: the shares of node {} sum to 0, expected more than 0", k + 1));
  }
}

// 0.95 for the majority class and the rest shared evenly by the nine others, in units of 1 / 180.
constexpr int kTableClasses = 10;
constexpr std::int64_t kMajorShare = 171;
constexpr std::int64_t kMinorShare = 1;

NodeDistributions majority_distributions(const NodeTable& table, const MajorClasses& major) {
  NodeDistributions result;
  result.shares.setConstant(table.groups * table.nodes_per_group, kTableClasses, kMinorShare);
  for (int k = 0; k < table.groups * table.nodes_per_group; ++k)
    result.shares(k, major.first + k / table.nodes_per_group * major.step) = kMajorShare;
  return result;
}

constexpr NodeTable kNodeTables[] = {
    {"paper-5", "5 nodes, node k mostly class 5 + k in training and class k at test", 5, 1, {5, 1}, {0, 1}},
    {"paper-100",
     "10 groups of 10 nodes, group g mostly class g in training and class 9 - g at test",
     10,
     10,
     {0, 1},
     {9, -1}},
    {"paper-200",
     "10 groups of 20 nodes, group g mostly class g in training and class 9 - g at test",
     10,
     20,
     {0, 1},
     {9, -1}},
    {"mixed-100",
     "training as in paper-100, test mixes drawn evenly from all mixes of classes 0 to 4",
     10,
     10,
     {0, 1},
     {0, 0},
     5},
};

/// Mixes in whole numbers that all add up to the same.
NodeDistributions drawn_distributions(const NodeTable& table) {
  constexpr double kWhole = 1e6;
  NodeDistributions result;
  result.shares.setZero(table.groups * table.nodes_per_group, kTableClasses);
  for (Index k = 0; k < result.nodes(); ++k) {
    Rng rng(kMixSalt, static_cast<std::uint64_t>(k));
    const Eigen::VectorXd mix = dirichlet_prior(table.drawn, 1.0, rng);
    auto row = result.shares.row(k);
    row.head(table.drawn) = (mix.transpose().array() * kWhole).floor().cast<std::int64_t>();
    Index largest = 0;
    mix.maxCoeff(&largest);
    row[largest] += static_cast<std::int64_t>(kWhole) - row.sum();
  }
  return result;
}

}  // namespace

std::vector<Index> all_rows(Index n) {
  std::vector<Index> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

std::vector<std::vector<Index>> rows_by_class(std::span<const int> labels, std::span<const Index> rows, Index classes) {
  std::vector<std::vector<Index>> result(static_cast<std::size_t>(classes));
  for (const Index row : rows) {
    assert(row >= 0 && row < static_cast<Index>(labels.size()));
    const int label = labels[static_cast<std::size_t>(row)];
    if (label < 0 || label >= classes)
      throw Error(ErrorKind::kInput,
                  fmt::format("labels, row {}: found class {}, expected 0 to {}", row, label, classes - 1));
    result[static_cast<std::size_t>(label)].push_back(row);
  }
  return result;
}

std::vector<Index> class_counts(std::span<const int> labels, std::span<const Index> rows, Index classes) {
  return sizes(rows_by_class(labels, rows, classes));
}

Eigen::VectorXd empirical_prior(std::span<const Index> counts) {
  Eigen::VectorXd prior(static_cast<Index>(counts.size()));
  for (std::size_t c = 0; c < counts.size(); ++c) prior[static_cast<Index>(c)] = static_cast<double>(counts[c]);
  const double total = prior.sum();
  if (total == 0.0)
    throw Error(ErrorKind::kInput, fmt::format("label prior: none of the {} classes has an example", counts.size()));
  return prior / total;
}

std::vector<Index> stratified_part(std::span<const int> labels, std::span<const Index> rows, Index classes,
                                   PartSize size, std::uint64_t seed) {
  auto by_class = rows_by_class(labels, rows, classes);
  const std::vector<Index> counts = sizes(by_class);
  return divided(std::move(by_class), {.available = counts, .most = counts}, size, seed).held_out;
}

HoldOut hold_out(std::span<const int> labels, std::span<const Index> rows, Index classes, PartSize size,
                 std::uint64_t seed) {
  auto by_class = rows_by_class(labels, rows, classes);
  Room room{.available = sizes(by_class), .most = sizes(by_class)};
  for (Index& most : room.most)
    if (most > 1) --most;  // one stays
  return divided(std::move(by_class), std::move(room), size, seed);
}

HoldOut hold_out_repeated(std::span<const int> labels, std::span<const Index> rows, Index classes, PartSize size,
                          std::uint64_t seed) {
  const std::vector<Index> counts = class_counts(labels, rows, classes);
  std::vector<Index> several, alone;
  for (const Index row : rows) (counts[labels[row]] > 1 ? several : alone).push_back(row);
  if (several.empty()) return {.kept = std::move(alone)};
  HoldOut split = hold_out(labels, several, classes, size, seed);
  split.kept.insert(split.kept.end(), alone.begin(), alone.end());
  std::sort(split.kept.begin(), split.kept.end());
  return split;
}

std::vector<std::vector<Index>> split_by_nodes(std::span<const int> labels, std::span<const Index> rows,
                                               const NodeDistributions& distributions, std::uint64_t seed) {
  check(distributions);
  const auto& shares = distributions.shares;
  auto by_class = rows_by_class(labels, rows, distributions.classes());
  const std::vector<Index> counts = sizes(by_class);
  const auto smallest = std::min_element(counts.begin(), counts.end());
  if (*smallest == 0)
    throw Error(ErrorKind::kInput, fmt::format("class {} has no examples; every class needs some to be shared between "
                                               "nodes",
                                               smallest - counts.begin()));
  Wide heaviest = 0;  // max_c' sum_k P_kc', in the units of the shares
  for (Index c = 0; c < shares.cols(); ++c) {
    Wide sum = 0;
    for (Index k = 0; k < shares.rows(); ++k) sum += shares(k, c);
    heaviest = std::max(heaviest, sum);
  }
  std::vector<std::vector<Index>> nodes(static_cast<std::size_t>(shares.rows()));
  for (Index c = 0; c < shares.cols(); ++c) {
    auto& available = by_class[static_cast<std::size_t>(c)];
    shuffle(available, Rng(seed ^ kNodeSalt, static_cast<std::uint64_t>(c)));
    auto next = available.begin();  // the floors of a column sum to `smallest` at most, so this stays in range
    for (Index k = 0; k < shares.rows(); ++k) {
      const auto count = static_cast<Index>(static_cast<Wide>(*smallest) * shares(k, c) / heaviest);
      auto& mine = nodes[static_cast<std::size_t>(k)];
      mine.insert(mine.end(), next, next + count);
      next += count;
    }
  }
  for (auto& mine : nodes) std::sort(mine.begin(), mine.end());
  return nodes;
}

NodeDistributions NodeTable::train_distributions() const {
  return majority_distributions(*this, train);
}

NodeDistributions NodeTable::test_distributions() const {
  return drawn > 0 ? drawn_distributions(*this) : majority_distributions(*this, test);
}

std::span<const NodeTable> node_tables() {
  return kNodeTables;
}

const NodeTable& find_node_table(const std::string& name) {
  return find_entry(kNodeTables, "node table", name);
}

}  // namespace labelshift
