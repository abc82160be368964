#include "labelshift/data/datasets/splits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::Each;
using testing::ElementsAre;

/// `each` examples of every one of `classes` classes, interleaved.
std::vector<int> balanced_labels(int classes, int each) {
  std::vector<int> labels;
  for (int i = 0; i < each; ++i)
    for (int c = 0; c < classes; ++c) labels.push_back(c);
  return labels;
}

/// counts[c] examples of class c, one class after the other.
std::vector<int> labels_with(const std::vector<int>& counts) {
  std::vector<int> labels;
  for (std::size_t c = 0; c < counts.size(); ++c) labels.insert(labels.end(), counts[c], static_cast<int>(c));
  return labels;
}

Index size_of(const std::vector<int>& labels) {
  return static_cast<Index>(labels.size());
}

/// Where the majority class of node k is and how many examples of it, and of every other class, the node has.
struct Expected {
  Index major, minor;
  int (*major_class)(int node);
};

void expect_split(const std::vector<int>& labels, const NodeDistributions& distributions, const Expected& expected) {
  const auto nodes = split_by_nodes(labels, all_rows(size_of(labels)), distributions, 1);
  ASSERT_EQ(static_cast<Index>(nodes.size()), distributions.nodes());
  std::set<Index> seen;
  std::size_t total = 0;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const auto counts = class_counts(labels, nodes[k], 10);
    for (int c = 0; c < 10; ++c) {
      const bool major = c == expected.major_class(static_cast<int>(k));
      EXPECT_EQ(counts[c], major ? expected.major : expected.minor) << "node " << k << ", class " << c;
    }
    seen.insert(nodes[k].begin(), nodes[k].end());
    total += nodes[k].size();
    EXPECT_TRUE(std::is_sorted(nodes[k].begin(), nodes[k].end()));
  }
  EXPECT_EQ(seen.size(), total) << "a row went to two nodes";
}

TEST(NodeTables, GiveThePapersCountsForFashionMnistWithFiveNodes) {
  const NodeTable& table = find_node_table("paper-5");
  expect_split(balanced_labels(10, 6000), table.train_distributions(), {5862, 34, [](int k) { return 5 + k; }});
  expect_split(balanced_labels(10, 1000), table.test_distributions(), {977, 5, [](int k) { return k; }});
}

TEST(NodeTables, GiveTheCountsForCifarWithFiveNodes) {
  const NodeTable& table = find_node_table("paper-5");
  expect_split(balanced_labels(10, 5000), table.train_distributions(), {4885, 28, [](int k) { return 5 + k; }});
  expect_split(balanced_labels(10, 1000), table.test_distributions(), {977, 5, [](int k) { return k; }});
}

TEST(NodeTables, GiveThePapersCountsForCifarWithAHundredNodes) {
  const NodeTable& table = find_node_table("paper-100");
  expect_split(balanced_labels(10, 5000), table.train_distributions(), {475, 2, [](int k) { return k / 10; }});
  expect_split(balanced_labels(10, 1000), table.test_distributions(), {95, 0, [](int k) { return 9 - k / 10; }});
}

TEST(NodeTables, GiveThePapersCountsForCifarWithTwoHundredNodes) {
  const NodeTable& table = find_node_table("paper-200");
  expect_split(balanced_labels(10, 5000), table.train_distributions(), {237, 1, [](int k) { return k / 20; }});
  expect_split(balanced_labels(10, 1000), table.test_distributions(), {47, 0, [](int k) { return 9 - k / 20; }});
}

TEST(NodeTables, HaveRowsThatSumToTheCommonDenominator) {
  for (const NodeTable& table : node_tables())
    for (const NodeDistributions& side : {table.train_distributions(), table.test_distributions()})
      for (Index k = 0; k < side.nodes(); ++k)
        EXPECT_EQ(side.shares.row(k).sum(), side.shares(0, 9) > 0 ? 180 : 1'000'000) << table.name;
}

TEST(NodeTables, HaveOneWhoseTestMixesDoNotSumToItsTrainingMixes) {
  const NodeTable& table = find_node_table("mixed-100");
  expect_split(balanced_labels(10, 5000), table.train_distributions(), {475, 2, [](int k) { return k / 10; }});
  const auto labels = balanced_labels(10, 1000);
  const auto nodes = split_by_nodes(labels, all_rows(10'000), table.test_distributions(), 7);
  ASSERT_EQ(nodes.size(), 100U);
  Eigen::ArrayXd mean = Eigen::ArrayXd::Zero(5), squares = mean;
  for (const auto& rows : nodes) {
    const std::vector<Index> counts = class_counts(labels, rows, 10);
    EXPECT_GE(rows.size(), 30U);
    for (int c = 5; c < 10; ++c) EXPECT_EQ(counts[static_cast<std::size_t>(c)], 0);
    for (int c = 0; c < 5; ++c) {
      const double share = static_cast<double>(counts[static_cast<std::size_t>(c)]) / static_cast<double>(rows.size());
      mean[c] += share / 100.0;
      squares[c] += share * share / 100.0;
    }
  }
  // A share of Dirichlet(1) over five classes has mean 1/5 and variance (1/5)(4/5)/6 = 0.0267, so the mean of 100 has a
  // standard error of 0.016; floors take up to 1 % more. Its variance's is at most 0.005. Four of each.
  for (int c = 0; c < 5; ++c) {
    EXPECT_NEAR(mean[c], 0.2, 0.075) << c;
    EXPECT_NEAR(squares[c] - mean[c] * mean[c], 0.0267, 0.02) << c;
  }
}

TEST(NodeTables, AreFoundByNameOrSuggested) {
  EXPECT_STREQ(find_node_table("paper-200").name, "paper-200");
  expect_error(
      ErrorKind::kUsage,
      "unknown node table \"paper-10\"; did you mean \"paper-100\"? (known: paper-5, paper-100, paper-200, mixed-100)",
      [] { find_node_table("paper-10"); });
}

TEST(SplitByNodes, CutsEveryClassToTheSmallest) {
  NodeDistributions halves;
  halves.shares.setConstant(2, 3, 1);
  const auto labels = labels_with({10, 7, 30});
  for (const auto& rows : split_by_nodes(labels, all_rows(47), halves, 5))
    EXPECT_THAT(class_counts(labels, rows, 3), ElementsAre(3, 3, 3));  // floor(7 / 2)
}

TEST(SplitByNodes, UsesOnlyTheRowsItIsGiven) {
  NodeDistributions one;
  one.shares.setConstant(1, 2, 1);
  const auto labels = balanced_labels(2, 10);
  const std::vector<Index> rows = {3, 4, 8, 9};
  EXPECT_EQ(split_by_nodes(labels, rows, one, 5)[0], rows);
}

TEST(SplitByNodes, DoesNotOverflowWithSharesOfAnySize) {
  NodeDistributions huge;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  huge.shares.resize(2, 2);
  huge.shares << most, most, most, most;
  const auto labels = balanced_labels(2, 1000);
  for (const auto& rows : split_by_nodes(labels, all_rows(2000), huge, 5))
    EXPECT_THAT(class_counts(labels, rows, 2), ElementsAre(500, 500));
}

TEST(SplitByNodes, DependsOnTheSeedAndNothingElse) {
  const auto labels = balanced_labels(10, 100);
  const auto split = [&](std::uint64_t seed) {
    return split_by_nodes(labels, all_rows(1000), find_node_table("paper-5").train_distributions(), seed);
  };
  EXPECT_EQ(split(1), split(1));
  EXPECT_NE(split(1), split(2));
}

TEST(SplitByNodes, RefusesAClassWithoutExamples) {
  NodeDistributions one;
  one.shares.setConstant(1, 3, 1);
  expect_error(ErrorKind::kInput, "class 1 has no examples; every class needs some to be shared between nodes", [&] {
    split_by_nodes(labels_with({2, 0, 2}), all_rows(4), one, 1);
  });
}

TEST(SplitByNodes, RefusesTablesThatAreNoDistributions) {
  const auto labels = balanced_labels(2, 5);
  const auto split = [&](const NodeDistributions& table) { split_by_nodes(labels, all_rows(10), table, 1); };
  NodeDistributions table;
  expect_error(ErrorKind::kInput,
               "node distributions: the table is 0 x 0, expected one row a node and one column a class",
               [&] { split(table); });
  table.shares.resize(2, 2);
  table.shares << 1, 2, 4, -1;
  expect_error(ErrorKind::kInput, "node distributions: node 2, class 1 has the share -1, expected 0 or more",
               [&] { split(table); });
  table.shares << 1, 2, 0, 0;
  expect_error(ErrorKind::kInput, "node distributions: the shares of node 2 sum to 0, expected more than 0",
               [&] { split(table); });
  table.shares.setZero();
  expect_error(ErrorKind::kInput, "node distributions: the shares of node 1 sum to 0, expected more than 0",
               [&] { split(table); });
}

TEST(RowsByClass, KeepsTheOrderOfTheRows) {
  const std::vector<int> labels = {1, 0, 1, 2};
  EXPECT_THAT(rows_by_class(labels, std::vector<Index>{2, 0, 1}, 4),
              ElementsAre(ElementsAre(1), ElementsAre(2, 0), ElementsAre(), ElementsAre()));
}

TEST(RowsByClass, RefusesLabelsThatAreNoClass) {
  expect_error(ErrorKind::kInput, "labels, row 1: found class 3, expected 0 to 2", [] {
    rows_by_class(std::vector<int>{0, 3}, all_rows(2), 3);
  });
  expect_error(ErrorKind::kInput, "labels, row 0: found class -1, expected 0 to 2", [] {
    class_counts(std::vector<int>{-1, 3}, all_rows(2), 3);
  });
}

TEST(EmpiricalPrior, IsTheShareOfEveryClass) {
  EXPECT_EQ(empirical_prior(std::vector<Index>{1, 0, 3}), Eigen::Vector3d(0.25, 0.0, 0.75));
}

TEST(EmpiricalPrior, RefusesToDivideByNoExamples) {
  expect_error(ErrorKind::kInput, "label prior: none of the 2 classes has an example", [] {
    empirical_prior(std::vector<Index>{0, 0});
  });
}

std::vector<Index> part_counts(const std::vector<int>& labels, Index classes, PartSize size, std::uint64_t seed = 1) {
  return class_counts(labels, stratified_part(labels, all_rows(size_of(labels)), classes, size, seed), classes);
}

TEST(StratifiedPart, TakesTheSameFractionOfEveryClass) {
  EXPECT_THAT(part_counts(labels_with({100, 50, 10}), 3, Fraction{0.1}), ElementsAre(10, 5, 1));
}

TEST(StratifiedPart, TakesAtLeastOneOfEveryClassThereIs) {
  EXPECT_THAT(part_counts(labels_with({1000, 3, 0, 1}), 4, Fraction{0.1}), ElementsAre(98, 1, 0, 1));
  EXPECT_THAT(part_counts(labels_with({1000, 3, 0, 1}), 4, Fraction{1e-9}), ElementsAre(1, 1, 0, 1));
}

TEST(StratifiedPart, GivesWhatIsLeftToTheLargestRemainders) {
  // 10 of 23: 13 * 10 / 23 = 5.65, 7 * 10 / 23 = 3.04, 3 * 10 / 23 = 1.30.
  EXPECT_THAT(part_counts(labels_with({13, 7, 3}), 3, Count{10}), ElementsAre(6, 3, 1));
}

TEST(StratifiedPart, CanTakeEverythingInOrder) {
  const auto labels = labels_with({3, 1, 2});
  EXPECT_EQ(stratified_part(labels, all_rows(6), 3, Fraction{1.0}, 1), all_rows(6));
}

TEST(StratifiedPart, ChoosesEveryRowEquallyOften) {
  // 2 of 8 rows in 4000 draws: 1000 each, with a standard deviation of sqrt(4000 * 0.25 * 0.75) = 27; 5 of them.
  const auto labels = labels_with({8});
  std::vector<int> chosen(8);
  for (std::uint64_t seed = 0; seed < 4000; ++seed)
    for (const Index row : stratified_part(labels, all_rows(8), 1, Count{2}, seed)) ++chosen[row];
  EXPECT_THAT(chosen, Each(testing::AllOf(testing::Gt(1000 - 137), testing::Lt(1000 + 137))));
}

TEST(StratifiedPart, RefusesSizesThatCannotBe) {
  const auto labels = labels_with({5, 5});
  expect_error(ErrorKind::kUsage, "part of a data set: the fraction is 1.5, expected more than 0 and at most 1",
               [&] { part_counts(labels, 2, Fraction{1.5}); });
  expect_error(ErrorKind::kUsage, "part of a data set: the fraction is 0, expected more than 0 and at most 1",
               [&] { part_counts(labels, 2, Fraction{0.0}); });
  expect_error(ErrorKind::kUsage, "part of a data set: the fraction is nan, expected more than 0 and at most 1",
               [&] { part_counts(labels, 2, Fraction{std::numeric_limits<double>::quiet_NaN()}); });
  expect_error(ErrorKind::kUsage, "part of a data set: 1 rows asked for, expected 2 to 10 so that every class has one",
               [&] { part_counts(labels, 2, Count{1}); });
  expect_error(ErrorKind::kUsage, "part of a data set: 11 rows asked for, expected 2 to 10 so that every class has one",
               [&] { part_counts(labels, 2, Count{11}); });
  expect_error(ErrorKind::kInput, "part of a data set: there are no rows to choose from",
               [&] { part_counts({}, 2, Count{1}); });
}

TEST(HoldOutSplit, DividesTheRowsItIsGiven) {
  const auto labels = balanced_labels(10, 100);
  std::vector<Index> odd;
  for (Index row = 1; row < 1000; row += 2) odd.push_back(row);  // classes 1, 3, 5, 7, 9
  const HoldOut split = hold_out(labels, odd, 10, Fraction{0.2}, 3);
  EXPECT_THAT(class_counts(labels, split.held_out, 10), ElementsAre(0, 20, 0, 20, 0, 20, 0, 20, 0, 20));
  std::vector<Index> together;
  std::merge(split.kept.begin(), split.kept.end(), split.held_out.begin(), split.held_out.end(),
             std::back_inserter(together));
  EXPECT_EQ(together, odd);
}

TEST(HoldOutSplit, TakesACountExactly) {
  const auto labels = labels_with({5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});  // MNIST
  const HoldOut split = hold_out(labels, all_rows(60000), 10, Count{5000}, 3);
  EXPECT_EQ(split.held_out.size(), 5000u);
  EXPECT_EQ(split.kept.size(), 55000u);
  const auto counts = class_counts(labels, split.held_out, 10);
  for (int c = 0; c < 10; ++c)
    EXPECT_LT(std::abs(static_cast<double>(counts[c]) -
                       static_cast<double>(std::count(labels.begin(), labels.end(), c)) / 12.0),
              1.0);
}

TEST(HoldOutSplit, KeepsOneOfEveryClassThatHasTwo) {
  const auto labels = labels_with({10, 2, 1});
  const HoldOut most = hold_out(labels, all_rows(13), 3, Fraction{1.0}, 3);
  EXPECT_THAT(class_counts(labels, most.held_out, 3), ElementsAre(9, 1, 1));
  EXPECT_THAT(class_counts(labels, most.kept, 3), ElementsAre(1, 1, 0));
  expect_error(ErrorKind::kUsage, "part of a data set: 12 rows asked for, expected 3 to 11 so that every class has one",
               [&] { hold_out(labels, all_rows(13), 3, Count{12}, 3); });
}

TEST(HoldOutSplit, LeavesTheOnlyExampleOfAClassWhereItIsOnRequest) {
  const std::vector<int> labels{0, 0, 0, 0, 1, 2, 2};
  const HoldOut split = hold_out_repeated(labels, all_rows(7), 3, Fraction{0.4}, 3);
  EXPECT_EQ(class_counts(labels, split.held_out, 3)[1], 0);
  EXPECT_EQ(class_counts(labels, split.kept, 3)[1], 1);
  EXPECT_EQ(class_counts(labels, split.held_out, 3)[2], 1);
  EXPECT_TRUE(std::is_sorted(split.kept.begin(), split.kept.end()));
  EXPECT_EQ(split.kept.size() + split.held_out.size(), 7u);
  const std::vector<Index> alone{0, 4, 5};
  EXPECT_EQ(hold_out_repeated(labels, alone, 3, Fraction{0.4}, 3).kept, alone);
}

TEST(HoldOutSplit, DependsOnTheSeedAndNothingElse) {
  const auto labels = balanced_labels(3, 40);
  const auto held_out = [&](std::uint64_t seed) {
    return hold_out(labels, all_rows(120), 3, Fraction{0.25}, seed).held_out;
  };
  EXPECT_EQ(held_out(1), held_out(1));
  EXPECT_NE(held_out(1), held_out(2));
}

}  // namespace
}  // namespace labelshift
