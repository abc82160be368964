#include "labelshift/experiments/node_list.hpp"

#include <gmock/gmock.h>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

class NodeList : public Scratch {};

TEST_F(NodeList, IsReadInOrder) {
  const std::string path = file("nodes.toml",
                                "[[node]]\nname = \"hospital-b\"\n[[node]]\nname = \"hospital-a\"\nexclude = true\n"
                                "[[node]]\nname = \"c\"\nexclude = false\n");
  EXPECT_THAT(read_node_list(path),
              ElementsAre(ListedNode{"hospital-b"}, ListedNode{"hospital-a", true}, ListedNode{"c"}));
}

void expect_refused(const std::string& text, const std::string& why) {
  labelshift::expect_error(ErrorKind::kUsage, why, [&] { parse_node_list(text, "n.toml"); });
}

TEST_F(NodeList, IsRefusedWithItsLine) {
  expect_refused("", "n.toml lists no node; write [[node]] and name = \"...\" below it for each");
  expect_refused("node = []\n", "n.toml lists no node; write [[node]] and name = \"...\" below it for each");
  expect_refused("node = [1]\n", "n.toml, line 1: node is no list of tables; write [[node]] above each");
  expect_refused("[[nodes]]\nname = \"a\"\n",
                 "n.toml, line 1: unknown key \"nodes\"; did you mean \"node\"? (known: node)");
  expect_refused("[[node]]\nnam = \"a\"\n",
                 "n.toml, line 2: unknown key of [[node]] \"nam\"; did you mean \"name\"? (known: name, exclude)");
  expect_refused("[[node]]\nexclude = true\n",
                 "n.toml, line 1: a [[node]] has no name; give it the common name of its certificate");
  expect_refused("[[node]]\nname = 1\n", "n.toml, line 2: name is no text; write it in quotes");
  expect_refused("[[node]]\nname = \"a\"\nexclude = 1\n",
                 "n.toml, line 3: exclude is neither true nor false; write one of them");
  expect_refused("[[node]]\nname = \"a/b\"\n",
                 "n.toml, line 2: the name of a node is \"a/b\", expected at most 64 letters (a to z), digits, dashes, "
                 "dots and underscores, beginning with a letter or a digit");
  expect_refused("[[node]]\nname = \"a\"\n[[node]]\nname = \"a\"\n",
                 "n.toml, line 3: the node a is there twice; list each once");
  expect_refused(std::string(20'001, '.'), "n.toml has 20001 dots, expected a list of nodes with at most 20000");
}

TEST_F(NodeList, MustBeThere) {
  try {
    read_node_list(path("none.toml"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("none.toml"));
  }
}

}  // namespace
}  // namespace labelshift
