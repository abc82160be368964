#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/every_algorithm.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kPeer = 4;

constexpr const char* kData = R"(
[data]
set = "examples/small-fashion-mnist"
partition = "dirichlet"
nodes = 7
alpha = 0.5
)";

constexpr const char* kLogistic = R"(
[model]
net = "logistic"
[training]
local-steps = 2
batch = 8
rounds = 6
[ratio]
net = "logistic"
epochs = 1
rounds = 3
[run]
evaluate-every = 3
)";

/// A row for each way to come by ratios.
constexpr const char* kRatioRows = R"(
[[compare]]
name = "iw-erm-true"
ratio = { method = "true" }
[[compare]]
name = "iw-erm-pairwise"
ratio = { method = "mlls", exchange = "pairwise" }
[[compare]]
name = "iw-erm-federated"
ratio = { method = "mlls-bct", predictor = "federated" }
[[compare]]
name = "iw-erm-pooled"
training = { weighting = "pooled" }
ratio = { method = "mlls" }
[[compare]]
name = "iw-erm-refreshed"
ratio = { method = "vrls", refresh = 2 }
)";

constexpr const char* kNormedNet = "net = \"resnet18\", net-settings = { width = \"1\" }";

class MpiRun : public EveryAlgorithmTest {
 protected:
  /// A command on so many ranks, of which rank 0 may be killed or stopped at a moment (die_while_saving.cpp). OpenMPI
  /// leaves memory behind, which a sanitizer would take for ours.
  static std::string on_ranks(int ranks, const std::string& arguments, const std::string& moment = "") {
    const std::string preloaded =
        moment.empty()
            ? ""
            : fmt::format("env LD_PRELOAD={} DIE_AT='{}' ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 ",
                          LABELSHIFT_DIE_WHILE_SAVING, moment);
    return fmt::format(
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0\n"
        "mpirun --oversubscribe -n {} {}labelshift {} --engine mpi",
        ranks, preloaded, arguments);
  }
  /// Of a run that was stopped: its costs are those of both parts.
  void expect_same_model(const std::string& folder, const std::string& expected) const {
    for (const char* name : {"model.safetensors", "rounds.csv", "experiment.toml"})
      EXPECT_EQ(bytes_of(path(folder + "/long/scaffold-seed-0/" + name)),
                bytes_of(path(expected + "/long/scaffold-seed-0/" + name)))
          << name;
  }
};

TEST_F(MpiRun, EveryAlgorithmHasTheBitsOfOneProcessOnOneToFiveRanks) {
  file("all.toml",
       std::string("name = \"all\"\n") + kData + kLogistic + rows_of_every_algorithm(kNormedNet) + kRatioRows);
  const CommandResult here = labelshift("run all.toml --output here");
  ASSERT_EQ(here.status, 0) << here.err;
  const std::string expected = results("here");
  EXPECT_THAT(expected, HasSubstr("./all/fedbn-seed-0/batch-norms/node-7.safetensors"));
  for (const int ranks : {1, 2, 3, 4, 5}) {
    const std::string folder = fmt::format("ranks-{}", ranks);
    const CommandResult done = shell(on_ranks(ranks, "run all.toml --output " + folder));
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(results(folder), expected) << ranks;
  }
}

TEST_F(MpiRun, MoreRanksThanNodesAndMoreThreadsARankChangeNoBit) {
  file("small.toml", std::string("name = \"all\"\nseeds = [1, 2]\n") + kLogistic +
                         "[data]\nset = \"examples/small-fashion-mnist\"\npartition = \"iid\"\nnodes = 2\n");
  ASSERT_EQ(labelshift("run small.toml --output here").status, 0);
  const CommandResult done = shell(on_ranks(3, "run small.toml --output there --workers 2"));
  EXPECT_EQ(done.status, 0) << done.err;
  // Rank 0 has no node, so it reads no data and cannot say how many examples of each class there are.
  EXPECT_EQ(results("there", "", "", "label_counts"), results("here", "", "", "label_counts"));
}

TEST_F(MpiRun, ReadsTheFoldersOfItsOwnNodesAndFindsWhatDoesNotFitTogether) {
  const auto table = [&](const std::string& name, const std::string& classes) {
    std::string text = "x,y,label\n";
    for (int i = 0; i < 40; ++i) text += fmt::format("{},{},{}\n", i % 7, i % 3, classes[i % classes.size()]);
    file(name, text);
  };
  std::string experiment = std::string("name = \"own\"\n") + kLogistic + "[data]\n";
  for (int node = 1; node <= 3; ++node) {
    table(fmt::format("train-{}.csv", node), node == 2 ? "ab" : "bc");
    table(fmt::format("test-{}.csv", node), node == 3 ? "a" : "cb");
    experiment += fmt::format("[[data.folders]]\ntrain = \"train-{0}.csv\"\ntest = \"test-{0}.csv\"\n", node);
  }
  file("own.toml", experiment);
  ASSERT_EQ(labelshift("run own.toml --output here").status, 0);
  const CommandResult done = shell(on_ranks(3, "run own.toml --output there"));
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(results("there"), results("here"));

  table("test-3.csv", "q");
  const CommandResult unknown = shell(on_ranks(3, "run own.toml --output other"));
  EXPECT_EQ(unknown.status, kInput) << unknown.err;
  EXPECT_THAT(unknown.err, HasSubstr("test-3.csv: unknown class \"q\""));

  file("train-3.csv", "x,y,label\n1,2\n");
  const CommandResult damaged = shell(on_ranks(3, "run own.toml --output other"));
  EXPECT_EQ(damaged.status, kPeer) << damaged.err;
  EXPECT_THAT(damaged.err, HasSubstr("error: rank 2: "));
  EXPECT_THAT(damaged.err, HasSubstr("train-3.csv"));
}

TEST_F(MpiRun, GoesOnWhereARowFails) {
  for (const char* name : {"one.csv", "two.csv"}) {
    std::string text = "x,y,label\n";
    for (int i = 0; i < 40; ++i) text += fmt::format("{},{},{}\n", i % 7, i % 3, i % 2 == 0 ? "b" : "c");
    file(name, text);
  }
  file("broken.csv", "x,y,label\n1,2\n");
  // One row whose data rank 0 cannot read, so that nothing of it is asked of the other rank; one that fails in its
  // rounds; one with an estimate, which comes after both.
  file("rows.toml", std::string("name = \"rows\"\n") + kLogistic + R"(
[[data.folders]]
train = "one.csv"
test = "two.csv"
[[data.folders]]
train = "two.csv"
test = "one.csv"
[[compare]]
name = "Unreadable"
[[compare.data.folders]]
train = "broken.csv"
test = "two.csv"
[[compare.data.folders]]
train = "two.csv"
test = "one.csv"
[[compare]]
name = "Diverges"
model = { net = "mlp" }
training = { server = "sgd", learning-rate = 1.0, local-learning-rate = 1e6 }
[[compare]]
name = "Fine"
ratio = { method = "mlls" }
)");
  const CommandResult here = labelshift("run rows.toml --output here");
  EXPECT_EQ(here.status, kInput) << here.err;
  const CommandResult there = shell(on_ranks(2, "run rows.toml --output there"));
  EXPECT_EQ(there.status, kInput) << there.err;
  for (const CommandResult* done : {&here, &there}) {
    EXPECT_THAT(done->err, HasSubstr("error: 2 of 3 runs failed, the first: Unreadable, seed 0: "));
    EXPECT_THAT(done->out, HasSubstr("\nFailed: Unreadable, seed 0: "));
    EXPECT_THAT(done->out, HasSubstr("\nFailed: Diverges, seed 0: "));
  }
  const auto failures = [&](const std::string& folder) {
    return nlohmann::json::parse(bytes_of(path(folder + "/rows/summary.json")))["failures"];
  };
  EXPECT_EQ(failures("there").size(), 2u);
  EXPECT_EQ(failures("there"), failures("here"));
  const std::string expected = results("here/rows/fine-seed-0");
  EXPECT_THAT(expected, HasSubstr("./model.safetensors"));
  EXPECT_EQ(results("there/rows/fine-seed-0"), expected);
}

TEST_F(MpiRun, SaysOnceWhatIsWrongWithTheCommandOrTheFile) {
  file("bad.toml", "name = \"bad\"\n[training]\nrounds = \"many\"\n");
  for (const std::string line : {"run bad.toml", "run bad.toml --rounds", "run bad.toml --output ''"}) {
    const CommandResult done = shell(on_ranks(3, line));
    EXPECT_EQ(done.status, kUsage) << line << done.err;
    const std::size_t first = done.err.find("error: ");
    EXPECT_NE(first, std::string::npos) << line;
    EXPECT_EQ(done.err.find("error: ", first + 1), std::string::npos) << done.err;
  }
}

/// A run that lasts, with memories and checkpoints.
constexpr const char* kLong = R"(
[model]
net = "logistic"
[training]
algorithm = "scaffold"
rounds = 300
local-steps = 2
batch = 8
[ratio]
method = "mlls"
net = "logistic"
epochs = 1
[run]
evaluate-every = 100
checkpoint-every = 20
)";

TEST_F(MpiRun, GoesOnToTheSameBitsWithAnotherNumberOfRanks) {
  file("long.toml", std::string("name = \"long\"\n") + kData + kLong);
  ASSERT_EQ(labelshift("run long.toml --output here").status, 0);
  // Rank 0 is killed after a checkpoint; then another rank, while rank 0 has stopped after one.
  const CommandResult first = shell(on_ranks(2, "run long.toml --output there", "after 2"));
  EXPECT_NE(first.status, 0) << "it had ended before it was killed";
  const CommandResult second =
      shell(on_ranks(3, "run long.toml --output there --resume", "stop 3") +
            " > /dev/null 2> said & job=$!\n"
            "of_rank() { for p in $(pgrep -P $job -f 'labelshift run long.toml'); do "
            "tr '\\0' '\\n' < /proc/$p/environ | grep -qx OMPI_COMM_WORLD_RANK=$1 && echo $p; done; }\n"
            "await eval 'grep -q \"^State:.T\" /proc/$(of_rank 0)/status'; kill -9 $(of_rank 1); wait $job");
  EXPECT_NE(second.status, 0) << "it had ended before it was killed";
  const CommandResult done = shell(on_ranks(4, "run long.toml --output there --resume"));
  EXPECT_EQ(done.status, 0) << done.err;
  expect_same_model("there", "here");
}

TEST_F(MpiRun, GoesOnInOneProcessWithWhatWasBegunOverMpi) {
  file("long.toml", std::string("name = \"long\"\n") + kData + kLong);
  ASSERT_EQ(labelshift("run long.toml --output here").status, 0);
  const CommandResult killed = shell(on_ranks(2, "run long.toml --output there", "after 2"));
  EXPECT_NE(killed.status, 0) << "it had ended before it was killed";
  const CommandResult done = labelshift("run long.toml --output there --resume");
  EXPECT_EQ(done.status, 0) << done.err;
  expect_same_model("there", "here");
}

TEST_F(MpiRun, ARankThatGivesNoSignOfLifeEndsTheJobWithOneMessage) {
  file("long.toml", std::string("name = \"long\"\n") + kData + kLong);
  const CommandResult done =
      shell(on_ranks(3, "run long.toml --rounds 1000000 --output r --round-deadline 5") +
            " > /dev/null 2> said & job=$!\nawait eval 'ls -d r/long/*/checkpoint-*'\n"
            "for p in $(pgrep -P $job -f 'labelshift run long.toml'); do tr '\\0' '\\n' < /proc/$p/environ | "
            "grep -qx OMPI_COMM_WORLD_RANK=2 && kill -STOP $p; done\n"
            "wait $job; status=$?; cat said >&2; exit $status");
  EXPECT_EQ(done.status, kPeer) << done.err;
  EXPECT_THAT(done.err,
              testing::ContainsRegex("error: (rank 2 sent|a rank took) nothing for 5s in round [0-9]+; look "));
  EXPECT_THAT(done.err, Not(testing::ContainsRegex("error: .*\n.*error: ")));
}

TEST_F(MpiRun, IsOneRankWithoutMpirunAndRefusesADeadlineWithoutRanks) {
  file("long.toml", std::string("name = \"long\"\n") + kData + kLong);
  EXPECT_EQ(
      shell("ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 labelshift run long.toml --engine mpi --rounds 2 --output r")
          .status,
      0);
  expect_failure("run long.toml --round-deadline 3", kUsage,
                 "--round-deadline goes with --engine mpi; leave it out, or use that engine");
}

}  // namespace
}  // namespace labelshift
