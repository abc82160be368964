#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "labelshift/core/base/rng.hpp"
#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

/// Nodes that remember things (scaffold), ratios, and a checkpoint every round.
constexpr const char* kRun = R"(
name = "small"
[data]
set = "examples/small-fashion-mnist"
partition = "dirichlet"
nodes = 5
alpha = 0.5
[model]
net = "logistic"
[training]
algorithm = "scaffold"
rounds = 40
local-steps = 2
batch = 8
[ratio]
method = "mlls"
net = "logistic"
epochs = 1
[run]
evaluate-every = 10
checkpoint-every = 1
)";

class RunCommand : public CommandTest {
 protected:
  RunCommand() { file("small.toml", kRun); }
  std::string result(const std::string& output, const std::string& name) const {
    return bytes_of(path(output + "/small/scaffold-seed-0/" + name));
  }
};

TEST_F(RunCommand, ComparesTheRunsOfTheExample) {
  const CommandResult done = labelshift("run examples/federation.toml --rounds 20 --output r --workers 2");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, testing::StartsWith("Logistic regression on a small Fashion-MNIST, 2 nodes\n\nrun "));
  EXPECT_THAT(done.out, testing::ContainsRegex("\nIW-ERM( +0\\.[0-9]{4} \\+- 0\\.[0-9]{4}){3} +20\n"));
  EXPECT_THAT(done.out, testing::ContainsRegex("\nIW-ERM +3, [0-9]+ B / [0-9]+ B +2, 195 B / 210 B +20, "));
  EXPECT_THAT(done.out, HasSubstr("\nRatios take one round in which a node sends its m numbers, and one"));
  EXPECT_THAT(done.out, HasSubstr("Summary: r/federation/summary.json\n"));
  const auto summary = nlohmann::json::parse(bytes_of(path("r/federation/summary.json")));
  EXPECT_EQ(summary["rows"].size(), 3u);
  double node_error = 0.0, sum_error = 0.0;  // means over two seeds, and two nodes
  for (const char* seed : {"0", "1"}) {
    const auto run =
        nlohmann::json::parse(bytes_of(path(fmt::format("r/federation/iw-erm-seed-{}/summary.json", seed))));
    for (const auto& node : run["federation"]["ratios"]) node_error += node["prior_error"].get<double>() / 4.0;
    sum_error += run["federation"]["target_error"].get<double>() / 2.0;
  }
  EXPECT_THAT(done.out, HasSubstr("error of a node's q  error of sum q\n"));
  EXPECT_THAT(done.out, testing::ContainsRegex(
                            fmt::format("\nIW-ERM +[0-9.]+ +[0-9.]+ % +{:.3f} +{:.3f}\n", node_error, sum_error)));

  const CommandResult nodes =
      labelshift("run examples/federation.toml --rounds 20 --output r --set run.checkpoint-every=500 --show nodes");
  EXPECT_EQ(nodes.status, 0) << nodes.err;
  const std::string value = " +0\\.[0-9]{4} \\+- 0\\.[0-9]{4}";
  EXPECT_THAT(nodes.out, testing::ContainsRegex("\nrun +average +node 1 +node 2 +spread\n"));
  EXPECT_THAT(nodes.out, testing::ContainsRegex("\nFedAvg" + value + value + value + value + "\n"));
  EXPECT_THAT(nodes.out, HasSubstr("was in r/federation already and nothing was run"));
  const CommandResult spread = labelshift("run examples/federation.toml --rounds 20 --output r --show spread");
  EXPECT_THAT(spread.out, testing::ContainsRegex("\nrun +worst node +average +best node +spread\n"));
  EXPECT_THAT(spread.out, HasSubstr("Figure:  r/federation/spread.svg\n"));
}

TEST_F(RunCommand, RunsTheExampleOfNodesThatDifferInSize) {
  const CommandResult done = labelshift("run examples/federation-sizes.toml --rounds 5 --output r");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("\nIW-ERM, examples alike "));
  const auto summary = nlohmann::json::parse(bytes_of(path("r/federation-sizes/fedavg-seed-0/summary.json")));
  // 20 test examples of each class, of which class 0 is asked for most: 3 x 0.15 + 1 x 0.175 = 0.625.
  EXPECT_EQ(summary["nodes"][0]["examples"], 5 * 14 + 5 * 4);  // floors of 20 x 0.45 / 0.625 and 20 x 0.15 / 0.625
  EXPECT_EQ(summary["nodes"][1]["examples"], 5 * 5 + 5 * 0);
}

TEST_F(RunCommand, IsNotStoppedByASignalItWasStartedToIgnore) {
  const CommandResult done = shell(R"(trap '' HUP INT; labelshift run small.toml --output r & run=$!
    await eval '! { kill -HUP $run && kill -INT $run; }'; wait $run)");
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.err, testing::Not(HasSubstr("stopped")));
  EXPECT_THAT(done.out, HasSubstr("Summary: r/small/summary.json\n"));
}

TEST_F(RunCommand, GivesTheSameBitsForAnyNumberOfWorkersAndFromItsOwnSettings) {
  for (const char* workers : {"1", "2", "4"}) {
    const CommandResult done = labelshift(std::string("run small.toml --workers ") + workers + " --output " + workers);
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(result(workers, "model.safetensors"), result("1", "model.safetensors"));
    EXPECT_EQ(result(workers, "rounds.csv"), result("1", "rounds.csv"));
  }
  const CommandResult again = labelshift("run 1/small/scaffold-seed-0/experiment.toml --output again");
  EXPECT_EQ(again.status, 0) << again.err;
  for (const char* name : {"model.safetensors", "rounds.csv", "experiment.toml"})
    EXPECT_EQ(result("again", name), result("1", name)) << name;
}

TEST_F(RunCommand, EndsInTheSameBitsAfterBeingKilledAtAnyTime) {
  EXPECT_EQ(labelshift("run small.toml --output whole").status, 0);
  Rng rng(4);
  int killed = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    // After the first checkpoint, at a time that is now in a round and now in a checkpoint, as each takes milliseconds.
    const std::string delay = std::to_string(rng.below(60));
    const CommandResult stopped = shell(
        "labelshift run small.toml --output killed --resume > /dev/null & child=$!\n"
        "await eval 'ls killed/small/*/checkpoint-* || ! kill -0 $child'\n"
        "sleep 0." +
        std::string(3 - delay.size(), '0') + delay + "; kill -9 $child; wait $child");
    if (stopped.status == 128 + SIGKILL) ++killed;
  }
  EXPECT_GT(killed, 0);
  const CommandResult done = labelshift("run small.toml --output killed --resume");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(result("killed", "model.safetensors"), result("whole", "model.safetensors"));
  EXPECT_EQ(result("killed", "rounds.csv"), result("whole", "rounds.csv"));
}

TEST_F(RunCommand, EndsWithAFailureOfOneRowAfterAllOthers) {
  file("two.toml", std::string(kRun) + R"([[compare]]
name = "Diverges"
model.net = "mlp"
training.server = "sgd"
training.learning-rate = 1
training.local-learning-rate = 1e6
[[compare]]
name = "Fine"
)");
  const CommandResult done = labelshift("run two.toml --rounds 5 --output r");
  EXPECT_EQ(done.status, kInput);
  EXPECT_THAT(done.err, HasSubstr("error: 1 of 2 runs failed, the first: Diverges, seed 0: "));
  EXPECT_THAT(done.out, testing::ContainsRegex("\nDiverges +- +"));
  EXPECT_THAT(done.out, testing::ContainsRegex("\nFine +0\\.[0-9]{4} +"));
  EXPECT_THAT(done.out, HasSubstr("\nFailed: Diverges, seed 0: "));
  const auto summary = nlohmann::json::parse(bytes_of(path("r/small/summary.json")));
  EXPECT_EQ(summary["failures"][0]["row"], "Diverges");
}

TEST_F(RunCommand, SaysHowToGoOnAfterAnInterrupt) {
  const std::string long_run = "run small.toml --rounds 100000 --output r";
  const CommandResult stopped = shell("labelshift " + long_run +
                                      " & await eval 'ls r/small/*/checkpoint-*'; "
                                      "kill $!; wait $!");
  EXPECT_EQ(stopped.status, 128 + SIGTERM) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped; the same command with --resume goes on from here"));
  const CommandResult again = labelshift(long_run);
  EXPECT_EQ(again.status, kUsage);
  EXPECT_THAT(again.err, HasSubstr("has a run that was stopped after checkpoint-"));
}

TEST_F(RunCommand, RefusesAFolderThatAnotherProcessUses) {
  const CommandResult second = shell(
      "labelshift run small.toml --rounds 100000 --output r & child=$!\n"
      "await eval 'ls r/small/*/checkpoint-*'\n"
      "labelshift run small.toml --rounds 100000 --output r --resume; status=$?; kill -9 $child; exit $status");
  EXPECT_EQ(second.status, kUsage);
  EXPECT_THAT(second.err,
              HasSubstr("error: r/small/scaffold-seed-0 is in use by another process; wait until it ends, or "
                        "choose another folder with --output\n"));
}

TEST_F(RunCommand, ChangesSettingsFromTheCommandLine) {
  const CommandResult done = labelshift(
      "run small.toml --rounds 3 --seed 5 --weighting pooled --max-ratio 2 --target-holdout 0.5 --set "
      "training.algorithm=iw-erm --set training.local-steps=1 --output r");
  EXPECT_EQ(done.status, 0) << done.err;
  const std::string settings = bytes_of(path("r/small/iw-erm-seed-5/experiment.toml"));
  for (const char* line : {"rounds = 3", "seed = 5", "weighting = \"pooled\"", "max-ratio = 2.0",
                           "target-holdout = 0.5", "algorithm = \"iw-erm\""})
    EXPECT_THAT(settings, HasSubstr(std::string("\n") + line + "\n"));
}

TEST_F(RunCommand, IsNotStartedManyTimesByMpirunWithoutItsEngine) {
  const std::string why =
      "error: mpirun started 3 processes, and all would do the same work in the same folder; add --engine mpi, or "
      "start "
      "one process without mpirun\n";
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const CommandResult refused = shell(fmt::format("{}=3 labelshift run examples/federation.toml", size));
    EXPECT_EQ(refused.status, kUsage) << size;
    EXPECT_EQ(refused.err, why);
  }
  EXPECT_EQ(shell("OMPI_COMM_WORLD_SIZE=1 labelshift run none.toml").status, kInput);
}

TEST_F(RunCommand, SaysWhatIsWrong) {
  file("bad.toml", "[training]\nroundz = 5\n");
  const CommandResult unknown = labelshift("run bad.toml");
  EXPECT_EQ(unknown.status, kUsage);
  EXPECT_THAT(unknown.err,
              HasSubstr("bad.toml, line 2: unknown key of [training] \"roundz\"; did you mean \"rounds\"?"));
  expect_failure("run small.toml --rounds 0", kUsage,
                 "--rounds: training.rounds is \"0\", expected a whole number from 1 to 1000000000");
  expect_failure("run small.toml --predictor mine", kUsage,
                 "--predictor: unknown predictor \"mine\" (known: local, federated)");
  expect_failure("run small.toml --set rounds", kUsage,
                 "--set rounds: expected SECTION.KEY=VALUE, such as training.rounds=100");
  expect_failure("run small.toml --set seed=3", kUsage,
                 "--set seed=3: the seed has an option of its own; give --seed N");
  expect_failure("run small.toml --set training.local-steps=1", kUsage,
                 "small.toml, line 11: scaffold with one local step is fedavg; give local-steps above 1, or algorithm "
                 "= \"fedavg\"");
  expect_failure("run none.toml", kInput, "cannot read none.toml: no such file or directory; name an experiment file");
  expect_failure("run -", kUsage, "file: found \"-\", expected the path of a file: this one cannot go through a pipe");
  EXPECT_FALSE(std::filesystem::exists(path("results")));
}

TEST_F(RunCommand, WarnsOfAFileThatAnotherVersionWrote) {
  file("old.toml", std::string("version = \"0.0.1\"\n") + kRun);
  const CommandResult done = labelshift("run old.toml --rounds 2 --output r");
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.err, HasSubstr("warning: old.toml was written by version 0.0.1 and this is "));
}

}  // namespace
}  // namespace labelshift
