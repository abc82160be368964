#include "labelshift/experiments/finished_runs.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "labelshift/experiments/comparison_page.hpp"
#include "labelshift/learning/training_threads.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

const std::string kText = R"(
name = "small"
title = "Small <script>"
note = "Said."
claim = "A claim & more."
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
[ratio]
net = "logistic"
epochs = 1
[run]
evaluate-every = 3
[[compare]]
name = "IW-ERM"
paper = 0.8
paper-nodes = [0.7, 0.8, 0.9, 0.8, 0.8]
training.algorithm = "iw-erm"
ratio.method = "mlls"
[[compare]]
name = "FedAvg"
tune = {"training.learning-rate" = [1e-3, 1e-2]}
)";

class FinishedRuns : public Scratch {
 protected:
  static void SetUpTestSuite() { use_one_torch_thread(); }

  ComparisonResult run(const std::string& folder, const std::string& text = kText) const {
    return run_comparison(parse_experiment(text, "small.toml", "/"), {.output = path(folder), .workers = 2});
  }
};

/// What stays of a page if one does not look at where it was made.
std::string html_of(const FinishedComparison& one) {
  return page_html(comparison_page(one.experiment, one.result));
}

TEST_F(FinishedRuns, AreReadBackToTheSameReport) {
  const ComparisonResult made = run("out");
  EXPECT_EQ(made.report, path("out/small/report.html"));
  const std::string report = bytes_of(made.report);
  // Said with a comparison alone, not kept in it: whether anything was run.
  EXPECT_EQ(html_of(read_finished(path("out/small"))), report);
  EXPECT_THAT(report, HasSubstr("A claim &amp; more."));
  EXPECT_THAT(report, HasSubstr("Small &lt;script&gt;"));
  EXPECT_THAT(report, HasSubstr("<li>Said.</li>"));
  EXPECT_THAT(report, HasSubstr("The paper&#39;s"));
  EXPECT_THAT(report, HasSubstr("Settings that were tuned"));
  for (const char* section : {"Did it work?", "Why?", "How did it go?", "How to get it again"})
    EXPECT_THAT(report, HasSubstr(std::string(">") + section + "</h2>"));
}

TEST_F(FinishedRuns, EachHaveAReportOfTheirOwnThatIsMadeAgainWhereItIsMissing) {
  const ComparisonResult made = run("out");
  for (const char* name : {"iw-erm-seed-0", "fedavg-seed-1", "fedavg-tune-1"}) {
    const std::string folder = path(std::string("out/small/") + name);
    EXPECT_EQ(html_of(read_finished(folder)), bytes_of(folder + "/report.html")) << name;
  }
  const std::string one = path("out/small/iw-erm-seed-0/report.html");
  const std::string before = bytes_of(one);
  EXPECT_THAT(before, HasSubstr("a line for each node"));
  fs::remove(one);
  run("out");  // nothing is trained
  EXPECT_EQ(bytes_of(one), before);
}

TEST_F(FinishedRuns, SayWhatTheNodesHaveAndByWhatTheyWereMade) {
  const ComparisonResult made = run("out");
  const RunResult& first = made.rows[0].runs[0];
  ASSERT_THAT(first.mixes, SizeIs(5));
  EXPECT_THAT(first.mixes[2].train, SizeIs(10));
  EXPECT_THAT(first.provenance.command, HasSubstr("experiments_tests"));
  EXPECT_NE(first.provenance.machine, "");
  const auto json = nlohmann::json::parse(bytes_of(first.folder + "/summary.json"));
  EXPECT_EQ(json["made_by"]["machine"], first.provenance.machine);
  EXPECT_EQ(json["label_counts"][2]["train"].get<std::vector<Index>>(), first.mixes[2].train);
  EXPECT_EQ(json["label_counts"][2]["test"].get<std::vector<Index>>(), first.mixes[2].test);
}

TEST_F(FinishedRuns, OfOneNameAndTheSameSettingsBecomeARowWithAllSeeds) {
  const std::string both = "seeds = [0, 1]";
  std::string first = kText, second = kText;
  first.replace(first.find(both), both.size(), "seeds = [0]");
  second.replace(second.find(both), both.size(), "seeds = [1]");
  run("a", first);
  run("b", second);
  const FinishedComparison one = joined(std::vector{read_finished(path("a/small")), read_finished(path("b/small"))});
  EXPECT_THAT(one.experiment.seeds, ElementsAre(0u, 1u));
  ASSERT_GE(one.result.rows.size(), 2u);  // of FedAvg other step sizes may have been chosen
  EXPECT_EQ(one.result.rows[0].name, "IW-ERM");
  EXPECT_THAT(one.result.rows[0].runs, SizeIs(2));
  const ComparisonResult together = run("c");
  EXPECT_EQ(one.result.rows[0].accuracy.mean, together.rows[0].accuracy.mean);
}

TEST_F(FinishedRuns, OfOneNameAndOtherSettingsAreToldApartByTheirFolders) {
  std::string slower = kText;
  slower.replace(slower.find("batch = 8"), 9, "batch = 4");
  run("a");
  run("b", slower);
  const FinishedComparison both = joined(std::vector{read_finished(path("a/small")), read_finished(path("b/small"))});
  ASSERT_THAT(both.result.rows, SizeIs(4));
  EXPECT_THAT(both.result.rows[0].name, HasSubstr("a/small/iw-erm-seed-0)"));
  EXPECT_THAT(both.result.rows[2].name, HasSubstr("b/small/iw-erm-seed-0)"));
  const std::string html = html_of(both);
  EXPECT_THAT(html, HasSubstr("<td>training.batch</td><td>8</td><td>8</td><td>4</td><td>4</td>"));
}

TEST_F(FinishedRuns, AreRefusedWhereTheyAreDamagedOrNone) {
  expect_error(ErrorKind::kInput,
               "DIR/nothing has neither experiment.toml nor summary.json: expected the folder of a run, or of a "
               "comparison",
               [&] { read_finished(path("nothing")); });
  run("out");
  const std::string folder = path("out/small/iw-erm-seed-0");
  file("out/small/iw-erm-seed-0/rounds.csv", "x");
  expect_error(ErrorKind::kInput,
               "DIR/out/small/iw-erm-seed-0/rounds.csv is damaged: its SHA-256 is not the one in SHA256SUMS; run it "
               "again, or leave it out",
               [&] { read_finished(folder); });
  file("out/small/summary.json", "{}");
  try {
    read_finished(path("out/small"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("out/small/summary.json is not what a comparison writes, or it is damaged"));
  }
  fs::remove(path("out/small/fedavg-seed-0/summary.json"));
  expect_error(ErrorKind::kInput,
               "DIR/out/small/fedavg-seed-0 has no whole run; let it end, or name the folder of one that has ended",
               [&] { read_finished(path("out/small/fedavg-seed-0")); });
}

TEST(AccuracyInterval, OfOneSeedIsThatOfOtherTestExamples) {
  Experiment experiment;
  experiment.runs.resize(1);
  RunResult run;
  for (const Index node : {0, 1})
    run.state.history.push_back({.round = 1, .node = node, .examples = 96, .accuracy = 0.5});
  RowResult row{.name = "row"};
  row.runs = {run};
  row.accuracy.mean = 0.5;
  const MeanInterval interval = accuracy_interval(experiment, row);
  // Agresti and Coull add four examples: each node has a variance of 0.25 / 100, the mean of two half of that.
  EXPECT_NEAR(interval.high - interval.mean, 1.959964 * std::sqrt(0.25 / 100.0 / 2.0), 1e-12);
  EXPECT_NEAR(interval.mean - interval.low, interval.high - interval.mean, 1e-12);
}

}  // namespace
}  // namespace labelshift
