#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::Not;

class Node : public CommandTest {
 protected:
  Node() {
    std::string table = "x,y,label\n";
    for (int i = 0; i < 40; ++i) table += fmt::format("{},{},{}\n", i % 7, i % 3, i % 2 == 0 ? "b" : "c");
    for (const char* name : {"train.csv", "test.csv"}) file(name, table);
  }

  /// Nobody listens, so that all that it would send is who it is.
  CommandResult node(const std::string& options) const {
    return shell(
        "umask 022; labelshift certs trial --nodes site > /dev/null\n"
        "labelshift node --connect 127.0.0.1:1 --data . --tls trial/site --give-up-after 1 " +
        options);
  }
  void expect_hello(const std::string& log) const {
    const std::string text = bytes_of(path(log));
    const auto line = nlohmann::json::parse(text.substr(0, text.find('\n')));
    EXPECT_EQ(line["node"], "site");
    EXPECT_EQ(line["kind"], "hello");
    using std::filesystem::perms;
    EXPECT_EQ(std::filesystem::status(path(log)).permissions(), perms::owner_read | perms::owner_write);
  }
};

constexpr int kPeer = 4;

TEST_F(Node, LogsWhatLeavesBesideWhatItRemembersAndSaysWhere) {
  const CommandResult done = node("--memory m");
  EXPECT_EQ(done.status, kPeer) << done.err;
  EXPECT_THAT(done.err, HasSubstr(" all that leaves this node is logged in m/sent.jsonl; choose another place with "
                                  "--log\n"));
  expect_hello("m/sent.jsonl");
  const CommandResult at_home = node("");
  EXPECT_THAT(at_home.err, HasSubstr("/.local/state/labelshift/site/sent.jsonl; "));
}

TEST_F(Node, LogsWhatLeavesWhereItsOwnerSays) {
  const CommandResult done = node("--memory m --log elsewhere.jsonl");
  EXPECT_EQ(done.status, kPeer) << done.err;
  EXPECT_THAT(done.err, Not(HasSubstr("sent.jsonl")));
  expect_hello("elsewhere.jsonl");
  EXPECT_FALSE(std::filesystem::exists(path("m/sent.jsonl")));
}

TEST_F(Node, OfASimulationLogsNothingSinceNothingLeaves) {
  file("simulation.toml", R"(name = "simulation"
[data]
folders = [{ train = "train.csv", test = "test.csv" }, { train = "train.csv", test = "test.csv" },
           { train = "train.csv", test = "test.csv" }]
[model]
net = "logistic"
[training]
rounds = 1000000
[ratio]
method = "none"
[run]
checkpoint-every = 2
)");
  const CommandResult killed = shell(R"(TMPDIR=$PWD labelshift run simulation.toml --engine grpc --output r & run=$!
    await eval 'ls -d r/simulation/*/checkpoint-*'; kill -9 $run; wait $run
    ls r/simulation/site-memory; find . -name '*.jsonl')");
  EXPECT_EQ(killed.out, "node-1\nnode-2\nnode-3\n") << killed.err;
}

}  // namespace
}  // namespace labelshift
