#include "labelshift/federation/federated_data.hpp"

#include <gmock/gmock.h>

#include <set>

#include "labelshift/federation/setting_error.hpp"
#include "tests/data/image_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSmall = LABELSHIFT_EXAMPLES "/small-fashion-mnist";

class FederatedDataTest : public Scratch {
 protected:
  /// A table with one column of numbers and, if there are any, labels.
  std::string table(const std::string& name, const std::vector<std::string>& labels, int rows = 0) const {
    std::string text = labels.empty() ? "x\n" : "x,label\n";
    for (const std::string& label : labels) text += std::to_string(rows++) + "," + label + "\n";
    if (labels.empty())
      for (int i = 0; i < rows; ++i) text += std::to_string(i) + "\n";
    return file(name, text);
  }
};

std::vector<Index> counts_of(const NodeData& node) {
  return class_counts(node.train->labels, node.train_rows, node.train->classes());
}

/// Every example of both parts that some node has, once for each.
struct Holdings {
  std::size_t train = 0, test = 0;
  bool disjoint = true;
};

Holdings holdings_of(const FederatedData& data) {
  Holdings result;
  std::set<std::pair<const Dataset*, Index>> seen;
  for (const NodeData& node : data.nodes) {
    result.train += node.train_rows.size();
    result.test += node.test_rows.size();
    for (const Index row : node.train_rows) result.disjoint &= seen.emplace(node.train, row).second;
    for (const Index row : node.test_rows) result.disjoint &= seen.emplace(node.test, row).second;
  }
  return result;
}

TEST(FederatedData, SplitsByANodeTable) {
  const FederatedData data = make_federated_data({.set = kSmall, .partition = "paper-5"}, 0);
  ASSERT_EQ(data.nodes.size(), 5u);
  EXPECT_EQ(data.classes(), 10);
  EXPECT_EQ(data.shape, (ExampleShape{1, 28, 28}));
  EXPECT_EQ(data.unlabelled, 0);
  for (std::size_t k = 0; k < 5; ++k) {
    const std::vector<Index> train = counts_of(data.nodes[k]);
    EXPECT_EQ(std::max_element(train.begin(), train.end()) - train.begin(), static_cast<long>(5 + k));
    EXPECT_EQ(data.mixes.at(k).train, train);
    const std::vector<Index>& test = data.mixes[k].test;
    EXPECT_EQ(std::max_element(test.begin(), test.end()) - test.begin(), static_cast<long>(k));
  }
  EXPECT_TRUE(holdings_of(data).disjoint);
}

TEST(FederatedData, DealsAllExamplesOutEvenly) {
  const FederatedData data = make_federated_data({.set = kSmall, .partition = "iid", .nodes = 7}, 3);
  const Holdings all = holdings_of(data);
  EXPECT_TRUE(all.disjoint);
  EXPECT_EQ(all.train, static_cast<std::size_t>(data.sets[0]->size()));
  EXPECT_EQ(all.test, static_cast<std::size_t>(data.sets[1]->size()));
  for (const NodeData& node : data.nodes)
    EXPECT_NEAR(static_cast<double>(node.train_rows.size()), static_cast<double>(all.train) / 7.0, 1.0);
}

TEST(FederatedData, DealsAllExamplesOutByDirichletPriors) {
  const DataSettings settings{.set = kSmall, .partition = "dirichlet", .nodes = 10, .alpha = 0.05};
  const FederatedData data = make_federated_data(settings, 1);
  const Holdings all = holdings_of(data);
  EXPECT_TRUE(all.disjoint);
  EXPECT_EQ(all.train, static_cast<std::size_t>(data.sets[0]->size()));
  // With alpha = 0.05 a prior of ten classes has most of its mass in one or two; the first node finds all classes full.
  const std::vector<Index> first = counts_of(data.nodes[0]);
  EXPECT_GT(*std::max_element(first.begin(), first.end()), static_cast<Index>(data.nodes[0].train_rows.size() / 4));
  const FederatedData other = make_federated_data(settings, 2);
  EXPECT_NE(data.nodes[0].train_rows, other.nodes[0].train_rows);
  EXPECT_EQ(data.nodes[0].train_rows, make_federated_data(settings, 1).nodes[0].train_rows);
}

TEST(FederatedData, DealsEvenlyAndByOtherSeedsOtherExamplesWhateverThePartition) {
  for (const char* partition : {"iid", "dirichlet"}) {
    const DataSettings settings{.set = kSmall, .partition = partition, .nodes = 7, .alpha = 1.0};
    const FederatedData data = make_federated_data(settings, 3);
    const Index n = data.sets[0]->size(), tests = data.sets[1]->size();
    for (const NodeData& node : data.nodes) {
      EXPECT_NEAR(static_cast<double>(node.train_rows.size()), static_cast<double>(n) / 7.0, 1.0) << partition;
      EXPECT_NEAR(static_cast<double>(node.test_rows.size()), static_cast<double>(tests) / 7.0, 1.0) << partition;
      EXPECT_TRUE(std::is_sorted(node.train_rows.begin(), node.train_rows.end())) << partition;
      EXPECT_TRUE(std::is_sorted(node.test_rows.begin(), node.test_rows.end())) << partition;
    }
    const FederatedData other = make_federated_data(settings, 4);
    EXPECT_NE(data.nodes[0].train_rows, other.nodes[0].train_rows) << partition;
    EXPECT_NE(data.nodes[0].test_rows, other.nodes[0].test_rows) << partition;
  }
}

TEST(FederatedData, DrawsFromPriorsThatAreEvenForAGreatAlpha) {
  const FederatedData data =
      make_federated_data({.set = kSmall, .partition = "dirichlet", .nodes = 4, .alpha = 1e6}, 1);
  // A class is a tenth of the first node's examples, give or take five standard deviations of a binomial.
  const auto n = static_cast<double>(data.nodes[0].train_rows.size());
  for (const Index count : counts_of(data.nodes[0]))
    EXPECT_NEAR(static_cast<double>(count), 0.1 * n, 5.0 * std::sqrt(0.09 * n));
}

TEST(FederatedData, DrawsByWhatIsLeftWhereAPriorHasNoClassLeft) {
  // Priors of so small an alpha are one class, and rounding makes the others 0. A node's share is larger than a class,
  // so that the first node has all of its class and 60 % or more of its examples from all others.
  const FederatedData data =
      make_federated_data({.set = kSmall, .partition = "dirichlet", .nodes = 4, .alpha = 1e-6}, 1);
  const Holdings all = holdings_of(data);
  EXPECT_TRUE(all.disjoint);
  EXPECT_EQ(all.train, static_cast<std::size_t>(data.sets[0]->size()));
  const std::vector<Index> first = counts_of(data.nodes[0]);
  const std::vector<Index> available =
      class_counts(data.sets[0]->labels, all_rows(data.sets[0]->size()), data.classes());
  const auto major = std::max_element(first.begin(), first.end()) - first.begin();
  EXPECT_EQ(first[major], available[major]);
  const double others = static_cast<double>(std::ssize(data.nodes[0].train_rows) - first[major]) / 9.0;
  for (std::size_t c = 0; c < first.size(); ++c) {
    const bool other = static_cast<long>(c) != major;  // five standard deviations of a count
    EXPECT_NEAR(static_cast<double>(first[c]), other ? others : static_cast<double>(first[major]),
                5.0 * std::sqrt(others));
  }
}

TEST(FederatedData, HoldsTheExamplesOnceHoweverManyNodesThereAre) {
  const DataSettings settings{.set = kSmall, .partition = "iid", .nodes = 300};
  const FederatedData data = make_federated_data(settings, 0);
  EXPECT_EQ(data.nodes.size(), 300u);
  EXPECT_EQ(data.sets.size(), 2u);
}

TEST_F(FederatedDataTest, SplitsByShares) {
  DataSettings settings{.set = kSmall, .partition = "shares"};
  settings.train_shares = {{9, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 9, 0, 0, 0, 0, 0, 0, 0, 0}};
  settings.test_shares = {{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0}};
  const FederatedData data = make_federated_data(settings, 0);
  const std::vector<Index> first = counts_of(data.nodes[0]), second = counts_of(data.nodes[1]);
  EXPECT_EQ(first[0], second[1]);
  EXPECT_EQ(first[1], second[0]);
  EXPECT_EQ(first[0] / first[1], 9);  // floors of 0.9 n and 0.1 n
  const auto tests = [](const NodeData& node) { return class_counts(node.test->labels, node.test_rows, 10); };
  EXPECT_EQ(tests(data.nodes[0])[0], tests(data.nodes[1])[1]);
  EXPECT_EQ(tests(data.nodes[0])[1], 0);
  EXPECT_EQ(first[2], 0);
  settings.only_node = 2;
  const FederatedData alone = make_federated_data(settings, 0);
  ASSERT_EQ(alone.nodes.size(), 1u);
  EXPECT_EQ(alone.nodes[0].train_rows, data.nodes[1].train_rows);
  EXPECT_EQ(alone.nodes[0].test_rows, data.nodes[1].test_rows);
}

TEST_F(FederatedDataTest, TakesFractionsAsShares) {
  DataSettings whole{.set = kSmall, .partition = "shares"};
  whole.train_shares = {{95, 5, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 99, 0, 0, 0, 0, 0, 0, 0, 0}};
  whole.test_shares = whole.train_shares;
  DataSettings fractions = whole;
  for (auto* shares : {&fractions.train_shares, &fractions.test_shares})
    for (auto& node : *shares)
      for (double& share : node) share /= 100.0;  // 0.95, 0.05, ..., none of which a double has exactly
  const FederatedData one = make_federated_data(whole, 0), other = make_federated_data(fractions, 0);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(one.nodes[k].train_rows, other.nodes[k].train_rows);
    EXPECT_EQ(one.nodes[k].test_rows, other.nodes[k].test_rows);
  }
  fractions.train_shares = fractions.test_shares = {std::vector<double>(10, 0.1), {1, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(make_federated_data(fractions, 0).nodes.size(), 2u);  // ten tenths are one, though not to the bit
}

TEST_F(FederatedDataTest, MakesNodesOfDifferentSizes) {
  DataSettings settings{.set = kSmall, .partition = "shares", .sizes = {2, 0.5}};
  settings.train_shares = settings.test_shares = {{4, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 4}};
  const FederatedData shares = make_federated_data(settings, 0);
  // Class 0 is the heaviest, 2 * 4 + 0.5 * 1 = 8.5, so all of its n are dealt out: n 8 / 8.5 and n 0.5 / 8.5.
  const std::vector<Index> first = counts_of(shares.nodes[0]), second = counts_of(shares.nodes[1]);
  std::vector<Index> all = class_counts(shares.sets[0]->labels, all_rows(shares.sets[0]->size()), 10);
  const Index n = *std::min_element(all.begin(), all.end());
  EXPECT_EQ(first[0], n * 16 / 17);
  EXPECT_EQ(first[9], n * 4 / 17);
  EXPECT_EQ(second[0], n * 1 / 17);
  EXPECT_EQ(second[9], n * 4 / 17);
  for (const char* partition : {"iid", "dirichlet"}) {
    const FederatedData data =
        make_federated_data({.set = kSmall, .partition = partition, .nodes = 3, .sizes = {1, 2, 1}}, 0);
    const auto total = static_cast<double>(data.sets[0]->size());
    const double parts[] = {0.25, 0.5, 0.25};
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(static_cast<double>(data.nodes[k].train_rows.size()), total * parts[k], 1.0) << partition;
    EXPECT_EQ(holdings_of(data).train, static_cast<std::size_t>(data.sets[0]->size()));
    EXPECT_EQ(holdings_of(data).test, static_cast<std::size_t>(data.sets[1]->size()));
  }
  const auto refused = [&](const DataSettings& wrong, const std::string& message) {
    expect_error(ErrorKind::kUsage, message, [&] { make_federated_data(wrong, 0); });
  };
  refused({.set = kSmall, .partition = "iid", .nodes = 3, .sizes = {1, 2}},
          "data: found 2 sizes, expected 3, one for each node");
  refused({.set = kSmall, .partition = "iid", .nodes = 2, .sizes = {1, 0}},
          "data.sizes has 0, expected a number above 0 and at most 1000000000");
  refused({.sizes = {1}, .folders = {{kSmall, kSmall}}},
          "data: folders of nodes are as large as they are; leave sizes out");
}

TEST_F(FederatedDataTest, TakesAFractionOfBothParts) {
  const DataSettings settings{.set = kSmall, .partition = "iid", .nodes = 2, .fraction = 0.1};
  const FederatedData data = make_federated_data(settings, 0);
  const Holdings all = holdings_of(data);
  EXPECT_EQ(all.train, static_cast<std::size_t>(std::llround(0.1 * static_cast<double>(data.sets[0]->size()))));
  EXPECT_EQ(all.test, static_cast<std::size_t>(std::llround(0.1 * static_cast<double>(data.sets[1]->size()))));
}

TEST_F(FederatedDataTest, MatchesTheClassesOfOwnTablesByName) {
  DataSettings settings;
  settings.folders = {{table("a.csv", {"dog", "cat", "dog"}), table("a-test.csv", {}, 2)},
                      {table("b.csv", {"eel", "dog"}), table("b-test.csv", {}, 3)}};
  const FederatedData data = make_federated_data(settings, 0);
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog", "eel"));
  EXPECT_THAT(data.nodes[0].train->labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(data.nodes[1].train->labels, ElementsAre(2, 1));
  EXPECT_EQ(data.nodes[1].train->class_names, data.class_names);
  EXPECT_THAT(data.nodes[1].test_rows, ElementsAre(0, 1, 2));
  EXPECT_GT(data.unlabelled, 0);
  ASSERT_EQ(data.mixes.size(), 2u);
  EXPECT_THAT(data.mixes[0].train, ElementsAre(1, 2, 0));
  EXPECT_THAT(data.mixes[1].train, ElementsAre(0, 1, 1));
  EXPECT_TRUE(data.mixes[1].test.empty());  // no labels
}

TEST_F(FederatedDataTest, LeavesColumnsOfOwnTablesOut) {
  const std::string train = file("a.csv", "id,x,label\n901,1,dog\n902,2,cat\n");
  const std::string test = file("t.csv", "id,x\n903,3\n");
  DataSettings settings{.folders = {{train, test}, {train, test}}, .ignore_columns = {"id"}};
  const FederatedData data = make_federated_data(settings, 0);
  EXPECT_THAT(std::get<std::vector<float>>(data.nodes[0].train->values), ElementsAre(1, 2));
  EXPECT_THAT(std::get<std::vector<float>>(data.nodes[1].test->values), ElementsAre(3));
  settings.ignore_columns = {"ident"};
  EXPECT_THROW(make_federated_data(settings, 0), Error);
  settings = {.set = kSmall, .partition = "iid", .nodes = 2, .ignore_columns = {"id"}};
  expect_error(ErrorKind::kUsage,
               "data: a data set has no columns to leave out, only the tables of folders have; take it away",
               [&] { make_federated_data(settings, 0); });
}

TEST_F(FederatedDataTest, NotesClassesThatMayBeMisspelt) {
  const auto notes = [&](const std::vector<std::string>& of_second) {
    std::vector<std::string> many;
    for (int i = 0; i < 10; ++i) many.insert(many.end(), {"dog", "cat", "horse", "100"});
    DataSettings settings;
    settings.folders = {{table("a.csv", many), table("t.csv", {}, 2)}, {table("b.csv", of_second), path("t.csv")}};
    std::vector<std::string> found = make_federated_data(settings, 0).notes;
    for (std::string& note : found) note.replace(note.find(path("")), path("").size(), "DIR/");
    return found;
  };
  EXPECT_THAT(notes({"dog", "cat"}), testing::IsEmpty());
  EXPECT_THAT(notes({"dog", "eel", "eel", "eel"}), testing::IsEmpty());  // three examples are no slip
  EXPECT_THAT(notes({"dog", "eel"}),
              ElementsAre("node 2 alone has the class \"eel\", with 1 training example; if it is "
                          "misspelt, mend it in DIR/b.csv"));
  EXPECT_THAT(notes({"dog", "100a", "100a", "100a"}), testing::IsEmpty());  // numbers are alike too often
  for (const char* slip : {"hrose", "hors", "horsse", "house"})
    EXPECT_THAT(notes({slip, slip, slip, "dog"}),
                ElementsAre(std::string("node 2 alone has the class \"") + slip +
                            "\", with 3 training examples, and another class is called \"horse\"; if it is misspelt, "
                            "mend it in DIR/b.csv"));
}

TEST_F(FederatedDataTest, OrdersNumberedClassesBySize) {
  DataSettings settings;
  settings.folders = {{table("a.csv", {"10", "9"}), table("a-test.csv", {"9"})},
                      {table("b.csv", {"2", "10"}), table("b-test.csv", {"10", "2"})}};
  const FederatedData data = make_federated_data(settings, 0);
  EXPECT_THAT(data.class_names, ElementsAre("2", "9", "10"));
  EXPECT_THAT(data.nodes[0].test->labels, ElementsAre(1));
  EXPECT_THAT(data.nodes[1].test->labels, ElementsAre(2, 0));
  EXPECT_EQ(data.unlabelled, 0);
}

TEST_F(FederatedDataTest, OrdersClassesOfWhichOneIsNoNumberAsText) {
  DataSettings settings;
  settings.folders = {{table("a.csv", {"10", "9"}), table("t.csv", {"9"})}, {table("b.csv", {"x"}), path("t.csv")}};
  EXPECT_THAT(make_federated_data(settings, 0).class_names, ElementsAre("10", "9", "x"));
}

/// What processes with a block each come to know, without processes: facts are gathered block by block, and then every
/// block is made again with those of all.
std::vector<FederatedData> made_in_blocks(const DataSettings& settings, const std::vector<NodeBlock>& blocks) {
  std::vector<DataFacts> all;
  struct FactsKnown {};
  for (const NodeBlock& block : blocks) {
    const auto tell = [&](std::vector<DataFacts> own) -> std::vector<DataFacts> {
      all.insert(all.end(), own.begin(), own.end());
      throw FactsKnown();
    };
    EXPECT_THROW(make_federated_data(settings, 5, block, tell), FactsKnown);
  }
  std::vector<FederatedData> made;
  for (const NodeBlock& block : blocks)
    made.push_back(make_federated_data(settings, 5, block, [&](const std::vector<DataFacts>&) { return all; }));
  return made;
}

/// The values and labels of some rows.
std::vector<int> contents(const Dataset& data, const std::vector<Index>& rows) {
  std::vector<int> found;
  for (const Index row : rows) {
    std::visit(
        [&](const auto& values) {
          for (Index i = 0; i < data.shape.size(); ++i)
            found.push_back(static_cast<int>(values[static_cast<std::size_t>(row * data.shape.size() + i)]));
        },
        data.values);
    if (!data.labels.empty()) found.push_back(data.labels[static_cast<std::size_t>(row)]);
  }
  return found;
}

TEST_F(FederatedDataTest, KeepsTheRowsOfABlockOfNodesAlone) {
  for (DataSettings settings : {DataSettings{.set = kSmall, .partition = "dirichlet", .nodes = 5, .alpha = 0.5},
                                DataSettings{.set = kSmall, .partition = "paper-5", .only_node = 2}}) {
    const FederatedData whole = make_federated_data(settings, 5);
    const std::vector<NodeBlock> blocks = settings.only_node > 0 ? std::vector<NodeBlock>{{0, 1}, {1, 1}}
                                                                 : std::vector<NodeBlock>{{0, 2}, {2, 2}, {2, 5}};
    std::size_t b = 0;
    for (const FederatedData& part : made_in_blocks(settings, blocks)) {
      const NodeBlock block = blocks[b++];
      EXPECT_EQ(part.class_names, whole.class_names);
      EXPECT_EQ(part.shape, whole.shape);
      EXPECT_EQ(part.fingerprint, whole.fingerprint);
      ASSERT_EQ(part.nodes.size(), whole.nodes.size());
      Index rows = 0;
      for (Index k = 0; k < std::ssize(whole.nodes); ++k) {
        const NodeData& node = part.nodes[static_cast<std::size_t>(k)];
        if (!block.contains(k)) {
          EXPECT_EQ(node.train, nullptr);
          continue;
        }
        const NodeData& expected = whole.nodes[static_cast<std::size_t>(k)];
        EXPECT_EQ(contents(*node.train, node.train_rows), contents(*expected.train, expected.train_rows));
        EXPECT_EQ(contents(*node.test, node.test_rows), contents(*expected.test, expected.test_rows));
        rows += std::ssize(node.train_rows);
      }
      if (settings.only_node == 0 && block.begin < block.end) {
        EXPECT_EQ(part.sets[0]->size(), rows);
        EXPECT_EQ(std::ssize(part.sets[0]->labels), rows);
      }
    }
  }
}

TEST_F(FederatedDataTest, OpensTheFoldersOfABlockOfNodesAlone) {
  DataSettings settings;
  settings.folders = {{table("a.csv", {"dog", "cat", "dog"}), table("a-test.csv", {}, 2)},
                      {table("b.csv", {"eel", "dog"}), table("b-test.csv", {"dog"})}};
  const FederatedData whole = make_federated_data(settings, 0);
  EXPECT_EQ(whole.unlabelled, 1);
  const std::vector<FederatedData> parts = made_in_blocks(settings, {{0, 1}, {1, 2}});
  for (const FederatedData& part : parts) {
    EXPECT_EQ(part.class_names, whole.class_names);
    EXPECT_EQ(part.fingerprint, whole.fingerprint);
    EXPECT_EQ(part.unlabelled, 1);
    EXPECT_EQ(part.sets.size(), 2u);
  }
  EXPECT_THAT(parts[1].nodes[1].train->labels, ElementsAre(2, 1));
  std::vector<DataFacts> facts;
  const auto tell = [&](std::vector<DataFacts> own) { return facts = std::move(own); };
  std::filesystem::remove(path("a.csv"));  // of a node in another block
  make_federated_data(settings, 0, {1, 2}, tell);
  EXPECT_EQ(facts.size(), 1u);
  facts = {};
  make_federated_data(settings, 0, {1, 2}, [&](std::vector<DataFacts> own) {
    own.insert(own.begin(), own[0]);
    return own;
  });
}

TEST_F(FederatedDataTest, RefusesADataSetThatIsNotTheSameForAll) {
  const DataSettings settings{.set = kSmall, .partition = "iid", .nodes = 2};
  expect_error(ErrorKind::kInput,
               "the data set " + kSmall + " is not the same on all machines; copy it from one to the others", [&] {
                 make_federated_data(settings, 0, {0, 1}, [](std::vector<DataFacts> own) {
                   own.push_back(own[0]);
                   own[1].test.fingerprint += "0";
                   return own;
                 });
               });
}

TEST_F(FederatedDataTest, RefusesFoldersOfAnotherKind) {
  const auto refused = [&](std::vector<NodeFolders> folders, const std::string& message) {
    DataSettings settings;
    settings.folders = std::move(folders);
    expect_error(ErrorKind::kInput, message, [&] { make_federated_data(settings, 0); });
  };
  refused({{kSmall, kSmall}}, kSmall + ": found a training and a test part, expected one; name the folder of each");
  std::filesystem::create_directories(path("images/cat"));
  file("images/cat/1.png", grey_png(2, 1, 7));
  const std::string wide = file("wide.csv", "x,y,label\n1,2,cat\n"), test = file("test.csv", "x,y\n1,2\n");
  refused({{wide, test}, {path("images"), test}}, "DIR/images: found images, expected a table as in DIR/wide.csv");
  refused({{path("images"), path("images")}, {wide, test}},
          "DIR/wide.csv: found a table, expected images as in DIR/images");
}

TEST_F(FederatedDataTest, RefusesASetWithoutATestPartOrOtherClassesThanItsPartition) {
  const std::string alone = table("alone.csv", {"cat", "dog"});
  expect_error(ErrorKind::kInput,
               "DIR/alone.csv has no test part; give a data set that has one, or the folders of each node",
               [&] { make_federated_data({.set = alone, .partition = "iid", .nodes = 1}, 0); });
  for (const char* name : {"set/train/cat/1.png", "set/train/dog/1.png", "set/test/cat/1.png", "set/test/dog/1.png"}) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    file(name, grey_png(2, 2, 7));
  }
  expect_error(ErrorKind::kUsage,
               "data: the partition paper-5 is one of 10 classes, but DIR/set has 2; use iid, dirichlet or shares",
               [&] { make_federated_data({.set = path("set"), .partition = "paper-5"}, 0); });
}

TEST_F(FederatedDataTest, DrawsByWhatIsLeftWithEqualChances) {
  for (const char* part : {"train", "test"})
    for (const char* name : {"a", "b", "c", "d"}) {
      std::filesystem::create_directories(path(std::string("set/") + part + "/" + name));
      file(std::string("set/") + part + "/" + name + "/1.png", grey_png(1, 1, 7));
    }
  // Of four classes with one example each the first of two nodes gets that of its own class, then one of the other
  // three: any two of four, so that a class is among them in 300 of 600 cases with a standard deviation of 12.
  std::vector<int> classes(4);
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const FederatedData data =
        make_federated_data({.set = path("set"), .partition = "dirichlet", .nodes = 2, .alpha = 1e-6}, seed);
    const std::vector<Index>& rows = data.nodes[0].train_rows;
    ASSERT_EQ(rows.size(), 2u);
    for (const Index row : rows) ++classes[row];
  }
  for (const int count : classes) EXPECT_NEAR(count, 300, 60);
}

TEST_F(FederatedDataTest, ReadsFoldersOfImagesWithUnlabelledTests) {
  for (const char* name : {"a/cat/1.png", "a/dog/1.png", "b/dog/1.png", "a-test/x.png", "b-test/y.png"}) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    file(name, grey_png(2, 2, 7));
  }
  DataSettings settings;
  settings.folders = {{path("a"), path("a-test")}, {path("b"), path("b-test")}};
  const FederatedData data = make_federated_data(settings, 0);
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(data.nodes[1].train->labels, ElementsAre(1));
  EXPECT_GT(data.unlabelled, 0);
  EXPECT_EQ(data.shape, (ExampleShape{1, 2, 2}));
}

TEST_F(FederatedDataTest, RefusesOwnDataThatDoNotFitTogether) {
  const std::string a = table("a.csv", {"cat", "dog"}), unlabelled = table("u.csv", {}, 2);
  const auto refused = [&](std::vector<NodeFolders> folders, const std::string& message) {
    DataSettings settings;
    settings.folders = std::move(folders);
    expect_error(ErrorKind::kInput, message, [&] { make_federated_data(settings, 0); });
  };
  refused({{unlabelled, unlabelled}},
          "DIR/u.csv: found no labels, expected one folder of images a class or a column called label: node 1 trains "
          "on them; give the column that holds them this name");
  refused({{a, table("t.csv", {"cow"})}},
          "DIR/t.csv: unknown class \"cow\" (known: cat, dog); no node has training examples of it");
  refused({{a, unlabelled}, {file("wide.csv", "x,y,label\n1,2,cat\n"), unlabelled}},
          "DIR/wide.csv: found examples of 1 x 1 x 2 values, expected 1 x 1 x 1 as in DIR/a.csv");
  refused({{a, file("other.csv", "y\n1\n")}},
          "DIR/other.csv: found other columns than in DIR/a.csv, expected the same in the same order");
  refused({{table("one.csv", {"cat"}), unlabelled}},
          "all nodes together have the class cat only, expected at least 2 classes");
}

TEST(FederatedData, CountsItsNodesFromTheSettings) {
  EXPECT_EQ(node_count({.set = kSmall, .partition = "iid", .nodes = 3}), 3);
  EXPECT_EQ(node_count({.set = kSmall, .partition = "dirichlet", .nodes = 3}), 3);
  EXPECT_EQ(node_count({.set = kSmall, .partition = "paper-100"}), 100);
  EXPECT_EQ(node_count({.set = kSmall, .partition = "shares", .train_shares = {{1}, {1}}}), 2);
  EXPECT_EQ(node_count({.folders = {{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}}}), 4);
  EXPECT_EQ(node_count({.set = kSmall, .partition = "iid", .nodes = 3, .only_node = 2}), 1);
}

TEST(FederatedData, RefusesSettingsThatMakeNoFederation) {
  const auto refused = [](const DataSettings& settings, ErrorKind kind, const std::string& message) {
    expect_error(kind, message, [&] { make_federated_data(settings, 0); });
  };
  refused({}, ErrorKind::kUsage, "data: found neither a data set nor folders of nodes; give one of them");
  refused({.set = kSmall}, ErrorKind::kUsage,
          "data: no partition says which node gets what of " + kSmall + "; give partition, such as \"iid\"");
  refused({.set = kSmall, .partition = "idd", .nodes = 2}, ErrorKind::kUsage,
          "unknown partition \"idd\"; did you mean \"iid\"? (known: iid, dirichlet, shares, paper-5, paper-100, "
          "paper-200, mixed-100)");
  refused({.set = kSmall, .partition = "paper-5", .nodes = 7}, ErrorKind::kUsage,
          "data: the partition paper-5 has its own number of nodes; leave nodes out");
  refused({.set = kSmall, .partition = "paper-5", .train_shares = {{1}}}, ErrorKind::kUsage,
          "data: found shares with the partition paper-5; leave them out, or use the partition shares");
  refused({.nodes = 2, .folders = {{kSmall, kSmall}}}, ErrorKind::kUsage,
          "data: there are as many nodes as folders; leave nodes out");
  refused({.set = kSmall, .partition = "iid"}, ErrorKind::kUsage,
          "data: found 0 nodes, expected at least 1 for the partition iid; give nodes");
  refused({.set = kSmall, .partition = "dirichlet", .nodes = 1'000'001}, ErrorKind::kUsage,
          "data.nodes is 1000001, expected a whole number from 0 to 1000000");
  refused({.set = kSmall, .partition = "iid", .nodes = 2, .fraction = 1.01}, ErrorKind::kUsage,
          "data.fraction is 1.01, expected a number above 0 and at most 1");
  refused({.set = kSmall, .partition = "iid", .folders = {{kSmall, kSmall}}}, ErrorKind::kUsage,
          "data: found both a data set and folders of nodes; give one");
  refused({.partition = "iid", .folders = {{kSmall, kSmall}}}, ErrorKind::kUsage,
          "data: folders of nodes need no partition; leave it out");
  refused({.folders = {{kSmall, kSmall}}, .fraction = 0.5}, ErrorKind::kUsage,
          "data: a fraction goes with a data set, not with folders of nodes; leave it out");
  refused({.set = kSmall, .partition = "iid", .nodes = 2, .only_node = -1}, ErrorKind::kUsage,
          "data.only-node is -1, expected a whole number from 0 to 1000000");
  refused({.set = kSmall, .partition = "iid", .nodes = 2, .fraction = 0.0}, ErrorKind::kUsage,
          "data.fraction is 0, expected a number above 0 and at most 1");
  refused({.set = kSmall, .partition = "iid", .nodes = 2, .only_node = 3}, ErrorKind::kUsage,
          "data: the only node is to be 3, expected 1 to 2, or 0 for all");
  DataSettings shares{.set = kSmall, .partition = "shares", .train_shares = {{1, 2}}, .test_shares = {{1, 2}}};
  refused(shares, ErrorKind::kUsage,
          "data: the training shares of node 1 are 2 numbers, expected 10, one for each class");
  const std::vector<std::vector<double>> nothing{std::vector<double>(10)}, something{std::vector<double>(10, 1)};
  for (const bool train : {true, false}) {
    DataSettings none{.set = kSmall, .partition = "shares"};
    none.train_shares = train ? nothing : something;
    none.test_shares = train ? something : nothing;
    try {
      check_data_settings(none);
      ADD_FAILURE() << "nodes without shares";
    } catch (const SettingError& error) {
      EXPECT_EQ(error.key(), train ? "data.train-shares" : "data.test-shares");
    }
  }
  shares.train_shares = {{4, -1}};
  refused(shares, ErrorKind::kUsage, "data.train-shares has -1, expected a number from 0 to 1000000000");
  shares.train_shares = {{4, 5}, {5, 5}};
  shares.test_shares = {{1, 2}, {1, 2}};
  refused(shares, ErrorKind::kUsage,
          "data: the shares of node 2 add up to 10, and those of node 1 to 9; make them all add up to the same");
  shares.train_shares = {{0, 0}, {5, 5}};
  refused(shares, ErrorKind::kUsage, "data: the shares of node 1 are all 0; give a class of it a share above 0");
  refused({.set = kSmall, .partition = "iid", .nodes = 10'000}, ErrorKind::kInput,
          "node 1 of 10000 has no training examples; make fewer nodes, or larger shares");
  // Ten nodes take so much of the first class that a hundredth of the smallest class is no example.
  DataSettings crowded{.set = kSmall, .partition = "shares"};
  crowded.train_shares.assign(10, {1000, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  crowded.train_shares.push_back(std::vector<double>(10, 100.0));
  crowded.test_shares = crowded.train_shares;
  refused(crowded, ErrorKind::kInput, "node 11 of 11 has no training examples; make fewer nodes, or larger shares");
}

}  // namespace
}  // namespace labelshift
