#include "labelshift/experiments/comparison.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "labelshift/learning/predictor.hpp"
#include "labelshift/learning/training_threads.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kText = R"(
name = "small"
title = "Small"
note = "Said."
seeds = [0, 1]
[data]
set = ")" LABELSHIFT_EXAMPLES R"(/small-fashion-mnist"
partition = "dirichlet"
nodes = 5
alpha = 0.5
[model]
net = "logistic"
[training]
rounds = 6
batch = 8
[run]
evaluate-every = 3
[[compare]]
name = "Upper bound"
paper = 0.8
training.algorithm = "iw-erm"
ratio.method = "true"
[[compare]]
name = "FedAvg"
training.local-steps = 2
)";

class ComparisonTest : public Scratch {
 protected:
  static void SetUpTestSuite() { use_one_torch_thread(); }
};

TEST_F(ComparisonTest, RunsEveryRowWithEverySeedAndSummarisesThem) {
  const Experiment experiment = parse_experiment(kText, "small.toml", "/");
  const ComparisonResult result = run_comparison(experiment, {.output = path("out"), .workers = 2});
  ASSERT_EQ(result.rows.size(), 2u);
  for (const char* run : {"upper-bound-seed-0", "upper-bound-seed-1", "fedavg-seed-0", "fedavg-seed-1"})
    EXPECT_TRUE(fs::exists(path(std::string("out/small/") + run + "/model.safetensors"))) << run;
  const RowResult& row = result.rows[1];
  const double first = average_accuracy(row.runs[0].state.history),
               second = average_accuracy(row.runs[1].state.history);
  EXPECT_NE(first, second);
  EXPECT_DOUBLE_EQ(row.accuracy.mean, (first + second) / 2.0);
  EXPECT_EQ(row.nodes.size(), 5u);
  EXPECT_LE(row.worst.mean, row.accuracy.mean);
  EXPECT_GE(row.best.mean, row.accuracy.mean);
  EXPECT_THAT(result.notes, testing::ElementsAre("Said."));
  const auto summary = nlohmann::json::parse(bytes_of(path("out/small/summary.json")));
  EXPECT_EQ(summary["rows"][0]["paper"], 0.8);
  EXPECT_EQ(summary["rows"][1]["accuracy"]["mean"], row.accuracy.mean);
  EXPECT_EQ(summary["rows"][1]["runs"], (nlohmann::json{"fedavg-seed-0", "fedavg-seed-1"}));
  EXPECT_THAT(bytes_of(path("out/small/nodes.csv")), HasSubstr("\nFedAvg,1,5,"));
  EXPECT_THAT(bytes_of(path("out/small/accuracy.svg")), HasSubstr("Upper bound"));
  EXPECT_THAT(bytes_of(path("out/small/spread.svg")), HasSubstr("FedAvg: average"));
  EXPECT_FALSE(fs::exists(path("out/small/node-mixes.svg")));  // nobody estimated anything
}

TEST_F(ComparisonTest, ShowsEachNodesMixWithItsIntervalAndTheTruth) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  FederationSettings& settings = experiment.runs[0].settings.federation;
  settings.ratio.method = "mlls-bct";
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.ratio.rounds = 4;
  settings.ratio.net = {"logistic", {}};
  const ComparisonResult result = run_comparison(experiment, {.output = path("out")});
  const RunResult& run = result.rows[0].runs[0];
  EXPECT_EQ(run.class_names.at(1), "Trouser");
  const NodeRatio& node = run.state.ratios.at(2);
  EXPECT_NEAR((node.estimate - node.truth).lpNorm<1>(), node.prior_error, 1e-9);
  const std::string table = bytes_of(path("out/small/nodes.csv"));
  EXPECT_THAT(table, HasSubstr(",p_value,estimate_T-shirt/top,low_T-shirt/top,high_T-shirt/top,truth_T-shirt/top,"));
  EXPECT_THAT(table,
              HasSubstr(fmt::format("{},{},{},{}\n", node.estimate[9], node.low[9], node.high[9], node.truth[9])));
  const NodeEvaluation last = run.last()[2];  // read back from rounds.csv
  EXPECT_LE(last.adapted_low, last.adapted);
  EXPECT_GE(last.majority_high, last.majority);
  EXPECT_GT(last.majority, 0.0);
  const std::string numbers = fmt::format(",{},{},{},{},{},{}", last.adapted, last.adapted_low, last.adapted_high,
                                          last.majority, last.majority_low, last.majority_high);
  EXPECT_THAT(bytes_of(run.folder + "/rounds.csv"), HasSubstr(numbers + "\n"));
  EXPECT_THAT(table, HasSubstr(numbers + ","));
  const RowResult& row = result.rows[0];
  double adapted = 0.0, majority = 0.0;
  for (const RunResult& one : row.runs) {
    adapted += average_of(one.state.history, &NodeEvaluation::adapted) / 2.0;
    majority += average_of(one.state.history, &NodeEvaluation::majority) / 2.0;
  }
  EXPECT_DOUBLE_EQ(row.adapted.mean, adapted);
  EXPECT_DOUBLE_EQ(row.majority.mean, majority);
  const auto summary = nlohmann::json::parse(bytes_of(path("out/small/summary.json")));
  EXPECT_EQ(summary["rows"][0]["adapted"]["mean"], row.adapted.mean);
  EXPECT_EQ(summary["rows"][0]["majority"]["mean"], row.majority.mean);
  EXPECT_FALSE(summary["rows"][1].contains("adapted"));  // FedAvg estimates nothing
  const auto of_run = nlohmann::json::parse(bytes_of(run.folder + "/summary.json"));
  EXPECT_EQ(of_run["nodes"][2]["adapted"], last.adapted);
  EXPECT_EQ(of_run["nodes"][2]["majority_interval"][1], last.majority_high);
  EXPECT_EQ(of_run["average_adapted"], average_of(run.state.history, &NodeEvaluation::adapted));
  EXPECT_EQ(load_predictor(run.folder + "/model.safetensors").prior, run.state.trained_mix);
  EXPECT_EQ(result.mix_figure, path("out/small/node-mixes.svg"));
  const std::string figure = bytes_of(result.mix_figure);
  EXPECT_THAT(figure, HasSubstr("Ankle boot"));
  EXPECT_THAT(figure, HasSubstr("whisker"));
}

TEST_F(ComparisonTest, SaysWhereAnImpossibleSettingStandsBeforeAnythingIsRun) {
  const auto expect_refusal = [&](const std::string& text, const std::string& message) {
    expect_error(ErrorKind::kUsage, message,
                 [&] { run_comparison(parse_experiment(text, "e.toml", "/"), {.output = path("out")}); });
    EXPECT_FALSE(fs::exists(path("out")));
  };
  const std::string data = "[data]\nset = \"" LABELSHIFT_EXAMPLES "/small-fashion-mnist\"\npartition = \"iid\"\n";
  expect_refusal(data, "e.toml, line 3: data: found 0 nodes, expected at least 1 for the partition iid; give nodes");
  expect_refusal(data + "nodes = 2\n[training]\nsampled = 3\n",
                 "e.toml, line 6: sampled is 3, expected at most the 2 nodes there are, or 0 for all");
  expect_refusal(data + "nodes = 2\n[model]\nnet-settings = {widht = 8}\n",
                 "e.toml, line 6: lenet has no settings, so \"widht\" cannot be set");
  expect_refusal(data + "nodes = 2\n[[compare]]\nname = \"a\"\n[[compare]]\nname = \"b\"\ntraining.momentum = 0.5\n",
                 "e.toml, line 9 (\"b\"): momentum is of sgd; adam has beta1 instead");
  expect_refusal("report-node = 3\n" + data + "nodes = 2\n",
                 "e.toml, line 1: report-node is 3, expected a node from 1 to 2, or 0 for the average");
  // A row that lacks something has no line for it.
  expect_refusal(
      data + "nodes = 2\n[[compare]]\nname = \"a\"\ntraining.algorithm = \"fedprox\"\ntraining.local-steps = 2\n",
      "e.toml, line 5 (\"a\"): fedprox needs a proximal above 0");
}

TEST_F(ComparisonTest, GivesTheSameFilesForAnyNumberOfWorkersAndAgain) {
  const Experiment experiment = parse_experiment(kText, "small.toml", "/");
  run_comparison(experiment, {.output = path("one"), .workers = 1});
  run_comparison(experiment, {.output = path("two"), .workers = 2});
  run_comparison(experiment, {.output = path("two"), .workers = 1});  // nothing is left to do
  for (const char* name : {"nodes.csv", "accuracy.svg", "spread.svg", "fedavg-seed-1/model.safetensors"})
    EXPECT_EQ(bytes_of(path(std::string("one/small/") + name)), bytes_of(path(std::string("two/small/") + name)))
        << name;
}

TEST_F(ComparisonTest, ReportsOneNodeAlsoOfARunThatHasNoOther) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  experiment.report_node = 2;
  experiment.seeds = {0};
  experiment.runs[1].settings.data.alpha = 100.0;  // a node alone has to have every class it will meet
  experiment.runs[0].settings = experiment.runs[1].settings;
  experiment.runs[0].settings.data.only_node = 2;
  const ComparisonResult result = run_comparison(experiment, {.output = path("out")});
  EXPECT_EQ(result.rows[0].nodes.size(), 1u);
  EXPECT_EQ(result.rows[0].accuracy.mean, result.rows[0].nodes[0].mean);
  EXPECT_EQ(result.rows[1].accuracy.mean, result.rows[1].nodes[1].mean);
  // The same examples of node 2 in both.
  EXPECT_EQ(result.rows[0].runs[0].last()[0].examples, result.rows[1].runs[0].last()[1].examples);
}

TEST_F(ComparisonTest, KeepsTheCandidateThatIsBestOnTheTuningSeed) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  experiment.seeds = {0};
  experiment.runs.erase(experiment.runs.begin());
  experiment.runs[0].tune = {{"training.learning-rate", {"1e-9", "1e-2"}}};
  const ComparisonResult result = run_comparison(experiment, {.output = path("out")});
  const RowResult& row = result.rows[0];
  ASSERT_EQ(row.trials.size(), 2u);
  EXPECT_GT(row.trials[1].accuracy, row.trials[0].accuracy);  // at 1e-9 nothing is learnt
  EXPECT_EQ(row.chosen, 1u);
  EXPECT_THAT(bytes_of(path("out/small/fedavg-seed-0/experiment.toml")), HasSubstr("\nlearning-rate = 0.01\n"));
  EXPECT_THAT(bytes_of(path("out/small/fedavg-tune-1/experiment.toml")), HasSubstr("\nseed = 1000\n"));
}

TEST_F(ComparisonTest, TakesACandidateThatDivergesForTheWorst) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  experiment.seeds = {0};
  experiment.runs.erase(experiment.runs.begin());
  FederationSettings& federation = experiment.runs[0].settings.federation;
  federation.model = {"mlp", {{"hidden", "8"}}};  // whose layers multiply large weights until they overflow
  federation.server = {.optimiser = "sgd", .learning_rate = 1.0};
  experiment.runs[0].tune = {{"training.local-learning-rate", {"1e6", "1e-2"}}};
  const ComparisonResult result = run_comparison(experiment, {.output = path("out")});
  EXPECT_TRUE(std::isnan(result.rows[0].trials[0].accuracy));
  EXPECT_EQ(result.rows[0].chosen, 1u);
  experiment.name = "other";
  experiment.runs[0].settings.data.set = "/nowhere";  // no candidate can be run
  EXPECT_THROW(run_comparison(experiment, {.output = path("out")}), Error);
}

TEST_F(ComparisonTest, GoesOnWhereARowFails) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  ComparedRun diverging = experiment.runs[1];
  diverging.name = "Diverges";
  diverging.settings.federation.model = {"mlp", {{"hidden", "8"}}};
  diverging.settings.federation.server = {.optimiser = "sgd", .learning_rate = 1.0};
  diverging.settings.federation.local.learning_rate = 1e6;
  experiment.runs.insert(experiment.runs.begin(), diverging);
  const ComparisonResult result = run_comparison(experiment, {.output = path("out"), .workers = 2});
  ASSERT_EQ(result.failures.size(), 2u);
  EXPECT_EQ(result.failures[1].row, "Diverges");
  EXPECT_EQ(result.failures[1].seed, 1u);
  EXPECT_TRUE(result.rows[0].runs.empty());
  EXPECT_TRUE(std::isnan(result.rows[0].accuracy.mean));
  EXPECT_EQ(result.rows[1].runs.size(), 2u);
  EXPECT_EQ(result.rows[2].runs.size(), 2u);
  const auto summary = nlohmann::json::parse(bytes_of(path("out/small/summary.json")));
  ASSERT_EQ(summary["failures"].size(), 2u);
  EXPECT_EQ(summary["failures"][0]["row"], "Diverges");
  EXPECT_EQ(summary["failures"][0]["seed"], 0);
  EXPECT_THAT(summary["failures"][0]["error"].get<std::string>(), HasSubstr("the training has run away"));
  EXPECT_TRUE(summary["rows"][0]["accuracy"]["mean"].is_null());
  EXPECT_GT(summary["rows"][2]["accuracy"]["mean"], 0.0);
  EXPECT_THAT(bytes_of(path("out/small/accuracy.svg")), testing::Not(HasSubstr("Diverges")));

  // The same of one seed, for a reason that is in its folder.
  experiment.runs.erase(experiment.runs.begin());
  fs::create_directories(path("other/small/fedavg-seed-1/model.safetensors"));
  const ComparisonResult other = run_comparison(experiment, {.output = path("other")});
  ASSERT_EQ(other.failures.size(), 1u);
  EXPECT_EQ(other.failures[0].row, "FedAvg");
  ASSERT_EQ(other.rows[1].runs.size(), 1u);
  EXPECT_EQ(other.rows[1].runs[0].seed, 0u);
  EXPECT_THAT(bytes_of(path("other/small/nodes.csv")), testing::Not(HasSubstr("\nFedAvg,1,")));
  EXPECT_THAT(bytes_of(path("other/small/nodes.csv")), HasSubstr("\"Upper bound\",1,"));
}

TEST_F(ComparisonTest, SaysThatAllRowsFailed) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  for (ComparedRun& run : experiment.runs) run.settings.data.set = "/nowhere/at/all";
  try {
    run_comparison(experiment, {.output = path("out")});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), testing::StartsWith("all 4 runs failed; Upper bound, seed 0: "));
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(ComparisonTest, AsksAboutEveryFolderBeforeAnythingIsRun) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  run_comparison(experiment, {.output = path("out")});
  fs::remove_all(path("out/small/upper-bound-seed-0"));
  experiment.runs[1].settings.federation.rounds = 7;
  EXPECT_THROW(run_comparison(experiment, {.output = path("out")}), Error);  // other settings
  EXPECT_FALSE(fs::exists(path("out/small/upper-bound-seed-0")));
}

TEST_F(ComparisonTest, RefusesSettingsOfAnyRowBeforeItRuns) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  experiment.runs[1].settings.federation.sampled = 6;
  expect_error(ErrorKind::kUsage,
               "small.toml, line 23 (\"FedAvg\"): sampled is 6, expected at most the 5 nodes there are, or 0 for all",
               [&] { run_comparison(experiment, {.output = path("out")}); });
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(ComparisonTest, SaysWhichRowAWarningIsAbout) {
  Experiment experiment = parse_experiment(kText, "small.toml", "/");
  experiment.seeds = {0};
  // Node 2 has no example of class 0.
  for (ComparedRun& run : experiment.runs) {
    run.settings.data.partition = "shares";
    run.settings.data.nodes = 0;
    run.settings.data.train_shares = {{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, {0, 10, 5, 5, 5, 5, 5, 5, 5, 5}};
    run.settings.data.test_shares = run.settings.data.train_shares;
  }
  const ComparisonResult result = run_comparison(experiment, {.output = path("out")});
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_THAT(result.warnings[0], testing::StartsWith("Upper bound: node 2 has no training example of class "));
}

}  // namespace
}  // namespace labelshift
