#include "labelshift/experiments/comparison_tables.hpp"

#include <gmock/gmock.h>

#include "labelshift/experiments/comparison_figures.hpp"
#include "labelshift/federation/algorithms/proxskip.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

/// The run of a seed whose two nodes have these accuracies after one round and after two.
RunResult run_of(std::uint64_t seed, double first, double second) {
  RunResult run{.seed = seed};
  for (const int round : {1, 2})
    for (const Index node : {0, 1})
      run.state.history.push_back(
          {.round = round, .node = node, .examples = 10, .accuracy = (node == 0 ? first : second) / (3 - round)});
  run.state.phases = {{.name = phase::kJoin, .rounds = 1, .traffic = {.down = 80, .up = 40}, .seconds = 0.25},
                      {.name = phase::kRatio, .rounds = 2, .traffic = {.down = 200, .up = 100}, .seconds = 1.5}};
  return run;
}

class ComparisonTables : public testing::Test {
 protected:
  ComparisonTables() {
    experiment_.title = "Title";
    experiment_.seeds = {3, 4};
    experiment_.runs.resize(2);
    experiment_.runs[0].settings.federation.rounds = 2;
    experiment_.runs[0].settings.federation.local.steps = 5;
    experiment_.runs[1].settings.federation.rounds = 2;
    RowResult weighted{.name = "IW-ERM", .paper = {.accuracy = 0.75, .deviation = 0.5, .nodes = {0.7, 0.8}}};
    weighted.runs = {run_of(3, 0.5, 1.0), run_of(4, 0.25, 0.75)};
    weighted.runs[0].state.ratios = {{.largest = 200.0, .examples = 100.0, .effective_examples = 10.0},
                                     {.largest = 3.0, .examples = 100.0, .effective_examples = 30.0}};
    weighted.runs[0].state.largest_weight = 200.0;
    weighted.runs[0].state.effective_share = 0.2;
    weighted.runs[0].state.target_error = 0.125;
    weighted.runs[0].state.ratios[0].prior_error = 0.25;
    weighted.runs[0].state.ratios[1].prior_error = 0.5;
    weighted.accuracy = mean_deviation({0.75, 0.5});
    weighted.nodes = {mean_deviation({0.5, 0.25}), mean_deviation({1.0, 0.75})};
    weighted.worst = weighted.nodes[0];
    weighted.best = weighted.nodes[1];
    weighted.spread = mean_deviation({0.35, 0.35});
    result_.rows = {weighted, {.name = "FedAvg"}};  // all runs of the second failed
  }

  std::vector<Table> tables(ComparisonView view) const { return comparison_tables(experiment_, result_, view); }

  Experiment experiment_;
  ComparisonResult result_;
};

TEST_F(ComparisonTables, ShowDifferencesFromTheUpperBoundSeedBySeed) {
  // Seeds 3 and 4 have averages of 0.75 and 0.5 for IW-ERM, 0.8 and 0.65 for the upper bound, whose seeds come the
  // other way round: differences of -0.05 and -0.15, a standard error of 0.05, and Student's t is 12.706 with one
  // degree.
  experiment_.runs[1].settings.federation.ratio.method = "true";
  result_.rows[1].runs = {run_of(4, 0.4, 0.9), run_of(3, 0.8, 0.8)};
  const Table shown = tables(ComparisonView::kAverage)[1];
  EXPECT_EQ(shown.columns[1].name, "more than FedAvg");
  ASSERT_THAT(shown.rows, SizeIs(1));
  EXPECT_EQ(std::get<std::string>(shown.rows[0][0]), "IW-ERM");
  EXPECT_NEAR(std::get<double>(shown.rows[0][1]), -0.1, 1e-12);
  EXPECT_NEAR(std::get<double>(shown.rows[0][2]), -0.1 - 12.7062047 * 0.05, 1e-6);
  EXPECT_NEAR(std::get<double>(shown.rows[0][3]), -0.1 + 12.7062047 * 0.05, 1e-6);
  EXPECT_EQ(std::get<std::int64_t>(shown.rows[0][4]), 2);
}

TEST_F(ComparisonTables, MeasureByTheFirstRowWhereNoneHasTrueRatios) {
  result_.rows[1].runs = {run_of(3, 0.5, 0.5), run_of(4, 0.5, 0.5)};
  const std::vector<PairedDifference> found = paired_differences(experiment_, result_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].row + found[0].of, "FedAvgIW-ERM");
  result_.rows[1].runs.pop_back();  // one seed has no spread
  EXPECT_TRUE(paired_differences(experiment_, result_).empty());
}

TEST_F(ComparisonTables, ShowAveragesWithWeightsTrafficAndTime) {
  const std::vector<Table> shown = tables(ComparisonView::kAverage);
  ASSERT_THAT(shown, SizeIs(4));
  EXPECT_EQ(table_csv(shown[0]),
            "run,accuracy,accuracy_sd,paper,paper_sd,iterations\n"
            "IW-ERM,0.625,0.1767766952966369,0.75,0.5,10\n"
            "FedAvg,,,,,2\n");
  EXPECT_THAT(shown[0].notes,
              ElementsAre("The average of the accuracies of 2 nodes on their test data, mean +- standard "
                          "deviation over 2 seeds."));
  EXPECT_EQ(table_csv(shown[1]),
            "run,largest_weight,effective_examples,node_error,target_error\nIW-ERM,200,20,0.375,0.125\n");
  EXPECT_EQ(table_csv(shown[2]),  // of the first seed, a node
            "run,join_rounds,join_up,join_down,ratio_rounds,ratio_up,ratio_down\n"
            "IW-ERM,1,20,40,2,50,100\n"
            "FedAvg,,,,,,\n");
  EXPECT_THAT(shown[2].notes, ElementsAre(HasSubstr("one that brings the sum of all nodes back")));
  EXPECT_EQ(table_text(shown[3]),
            "time     join  ratio\n"
            "IW-ERM  0.2 s  1.5 s\n"
            "FedAvg\n");
}

TEST_F(ComparisonTables, CountRoundsWhereNodesTakeWholePasses) {
  experiment_.runs[1].settings.federation.local.epochs = 1;
  EXPECT_EQ(table_csv(tables(ComparisonView::kAverage)[0]),
            "run,accuracy,accuracy_sd,paper,paper_sd,iterations,rounds\n"
            "IW-ERM,0.625,0.1767766952966369,0.75,0.5,10,2\n"
            "FedAvg,,,,,,2\n");
}

TEST_F(ComparisonTables, CountTheStepsThatProxSkipDraws) {
  FederationSettings& settings = experiment_.runs[0].settings.federation;
  settings = {.algorithm = "proxskip", .rounds = 2, .round_probability = 0.01};
  double steps[2] = {};  // after one round and after two, on average over the seeds
  for (const std::uint64_t seed : experiment_.seeds)
    for (const std::uint64_t round : {1, 2}) {
      settings.seed = seed;
      for (std::uint64_t r = round; r <= 2; ++r) steps[r - 1] += draw_proxskip_steps(settings, round) / 2.0;
    }
  EXPECT_GT(steps[1], 20.0);  // about 1 / p a round
  EXPECT_EQ(std::get<std::int64_t>(tables(ComparisonView::kAverage)[0].rows[0][3]), std::llround(steps[1]));
  EXPECT_THAT(accuracy_plot(experiment_, result_).panels[0].series[0].x, ElementsAre(steps[0], steps[1]));
}

TEST_F(ComparisonTables, ShowEveryNodeNextToThePapers) {
  result_.rows[0].spread = {0.35, 0.0};
  const std::vector<Table> shown = tables(ComparisonView::kNodes);
  ASSERT_THAT(shown, SizeIs(1));
  EXPECT_EQ(table_csv(shown[0]),
            "run,by,average,average_sd,node_1,node_1_sd,node_2,node_2_sd,spread,spread_sd\n"
            "IW-ERM,labelshift,0.625,0.1767766952966369,0.375,0.1767766952966369,0.875,0.1767766952966369,0.35,0\n"
            "IW-ERM,paper,0.75,0.5,0.7,,0.8,,,\n"
            "FedAvg,labelshift,,,,,,,,\n");
  result_.rows[0].paper = {};
  EXPECT_THAT(table_csv(tables(ComparisonView::kNodes)[0]), testing::StartsWith("run,average,average_sd,node_1,"));
}

TEST_F(ComparisonTables, ShowTheWorstAndTheBestOfManyNodes) {
  result_.rows[0].nodes.resize(11);
  const std::vector<Table> shown = tables(ComparisonView::kNodes);
  EXPECT_THAT(table_text(shown[0]), testing::ContainsRegex("^run +by +average +worst +best +spread\n"));
}

TEST_F(ComparisonTables, HaveARowForEveryRunAndNode) {
  EXPECT_EQ(table_csv(evaluation_table(result_)),
            "run,seed,node,examples,accuracy,loss,reweighted_source_accuracy,reweighted_low,reweighted_high,"
            "reweighted_effective_examples\n"
            "IW-ERM,3,1,10,0.5,,,,,\n"
            "IW-ERM,3,2,10,1,,,,,\n"
            "IW-ERM,4,1,10,0.25,,,,,\n"
            "IW-ERM,4,2,10,0.75,,,,,\n");
}

TEST_F(ComparisonTables, ShowAdaptingInColumnsOfItsOwn) {
  result_.rows[0].adapted = {0.875, 0.125};
  result_.rows[0].majority = {0.25, 0.5};
  for (RunResult& run : result_.rows[0].runs)
    for (NodeEvaluation& one : run.state.history)
      if (one.node == 1) one.adapted = 0.75;
  const Table table = tables(ComparisonView::kAverage)[0];
  EXPECT_EQ(table_csv(table),
            "run,accuracy,accuracy_sd,paper,paper_sd,adapted,adapted_sd,majority,majority_sd,iterations\n"
            "IW-ERM,0.625,0.1767766952966369,0.75,0.5,0.875,0.125,0.25,0.5,10\n"
            "FedAvg,,,,,,,,,2\n");
  EXPECT_THAT(table.notes, testing::Contains(testing::StartsWith("Adapted is another number than accuracy: ")));
  EXPECT_THAT(table_csv(evaluation_table(result_)),
              testing::AllOf(HasSubstr("reweighted_effective_examples,adapted,adapted_low,adapted_high,majority,"),
                             HasSubstr("\nIW-ERM,3,1,10,0.5,,,,,,,,,,,\nIW-ERM,3,2,10,1,,,,,,0.75,,,,,\n")));
}

TEST_F(ComparisonTables, HaveTheMixesOfNodesWhereTheseSayThem) {
  RunResult& run = result_.rows[0].runs[1];
  run.class_names = {"cat", "dog, big"};
  run.state.ratios = {{.node = 0},
                      {.node = 1,
                       .estimate = Eigen::Vector2d(0.25, 0.75),
                       .low = Eigen::Vector2d(0.125, 0.5),
                       .high = Eigen::Vector2d(0.375, 1.0),
                       .truth = Eigen::Vector2d(0.3, 0.7),
                       .p_value = 0.0625}};
  EXPECT_EQ(table_csv(evaluation_table(result_)),
            "run,seed,node,examples,accuracy,loss,reweighted_source_accuracy,reweighted_low,reweighted_high,"
            "reweighted_effective_examples,p_value,estimate_cat,low_cat,high_cat,truth_cat,\"estimate_dog, big\","
            "\"low_dog, big\",\"high_dog, big\",\"truth_dog, big\"\n"
            "IW-ERM,3,1,10,0.5,,,,,,,,,,,,,,\n"
            "IW-ERM,3,2,10,1,,,,,,,,,,,,,,\n"
            "IW-ERM,4,1,10,0.25,,,,,,,,,,,,,,\n"
            "IW-ERM,4,2,10,0.75,,,,,,0.0625,0.25,0.125,0.375,0.3,0.75,0.5,1,0.7\n");
  run.class_names.clear();  // of an older version
  run.state.ratios[1].low = run.state.ratios[1].high = run.state.ratios[1].truth = {};
  const std::string table = table_csv(evaluation_table(result_));
  EXPECT_THAT(table, HasSubstr(",estimate_0,low_0,high_0,truth_0,estimate_1,low_1,high_1,truth_1\n"));
  EXPECT_THAT(table, HasSubstr("IW-ERM,4,2,10,0.75,,,,,,0.0625,0.25,,,,0.75,,,\n"));
}

TEST_F(ComparisonTables, CallWhatIsKnownWithoutTestLabelsByItsOwnName) {
  for (RunResult& run : result_.rows[0].runs)
    for (NodeEvaluation& one : run.state.history) {
      one.accuracy = kUnknown;
      one.reweighted_accuracy = 0.5;
      one.reweighted_low = 0.25;
      one.reweighted_high = 0.75;
      one.reweighted_examples = 12.5;
    }
  result_.rows[0].accuracy = {};
  const std::vector<Table> shown = tables(ComparisonView::kSpread);
  ASSERT_THAT(shown, SizeIs(1));
  EXPECT_EQ(table_csv(shown[0]),
            "run,node,reweighted_source_accuracy,reweighted_low,reweighted_high,reweighted_effective_examples\n"
            "IW-ERM,1,0.5,0.25,0.75,12.5\n"
            "IW-ERM,2,0.5,0.25,0.75,12.5\n");
  EXPECT_THAT(shown[0].notes, ElementsAre(testing::StartsWith("No test accuracy: ")));
}

TEST_F(ComparisonTables, SayWhatWasTuned) {
  result_.rows[0].trials = {{.settings = "a = 1"}, {.settings = "a = 2"}, {.settings = "a = 3"}};
  result_.rows[0].chosen = 1;
  EXPECT_EQ(table_csv(tables(ComparisonView::kAverage).back()), "run,chosen,candidates\nIW-ERM,\"a = 2\",3\n");
}

TEST_F(ComparisonTables, AreTextWithNotesFailuresAndFiles) {
  result_.folder = "out";
  result_.summary = "out/summary.json";
  result_.table = "out/nodes.csv";
  result_.figure = "out/accuracy.svg";
  result_.spread_figure = "out/spread.svg";
  result_.mix_figure = "out/node-mixes.svg";
  result_.notes = {"A note."};
  std::string shown;
  for (const Table& table : tables(ComparisonView::kSpread)) shown += table_text(table) + "\n";
  EXPECT_EQ(comparison_text(experiment_, result_, ComparisonView::kSpread, "; look"),
            "Title\n\n" + shown +
                "Note: A note.\nFigure:  out/spread.svg\nMixes:   out/node-mixes.svg\nSummary: out/summary.json\n"
                "Nodes:   out/nodes.csv\n");
  result_.mix_figure.clear();
  result_.failures = {{"FedAvg", 3, Error(ErrorKind::kInput, "it broke")}};
  EXPECT_THAT(comparison_text(experiment_, result_, ComparisonView::kAverage),
              testing::EndsWith("Note: A note.\nFailed: FedAvg, seed 3: it broke\nFigure:  out/accuracy.svg\n"
                                "Summary: out/summary.json\nNodes:   out/nodes.csv\n"));
}

TEST_F(ComparisonTables, SayWhereNothingWasRun) {
  result_.folder = "out";
  for (RunResult& run : result_.rows[0].runs) run.was_there = true;
  EXPECT_THAT(comparison_notes(result_, "; do this"),
              ElementsAre("all of this was in out already and nothing was run; do this."));
  result_.failures = {{"FedAvg", 3, Error(ErrorKind::kInput, "it broke")}};
  EXPECT_TRUE(comparison_notes(result_).empty());
  result_.failures.clear();
  result_.rows[0].runs[1].was_there = false;
  EXPECT_TRUE(comparison_notes(result_).empty());
}

TEST_F(ComparisonTables, EndWithTheFirstFailure) {
  EXPECT_FALSE(failure_of(result_));
  result_.failures = {{"FedAvg", 3, Error(ErrorKind::kInput, "it broke")},
                      {"FedAvg", 4, Error(ErrorKind::kSystem, "no disk")}};
  ASSERT_TRUE(failure_of(result_));
  EXPECT_EQ(failure_of(result_)->kind(), ErrorKind::kInput);
  EXPECT_STREQ(failure_of(result_)->what(), "2 of 4 runs failed, the first: FedAvg, seed 3: it broke");
}

TEST_F(ComparisonTables, ShowEstimatedMixesAgainstTheTruth) {
  EXPECT_FALSE(mix_plot(experiment_, result_));
  RunResult& run = result_.rows[0].runs[0];
  run.class_names = {"cat", "dog"};
  for (NodeRatio& node : run.state.ratios) {
    node.estimate = Eigen::Vector2d(0.25, 0.75);
    node.low = Eigen::Vector2d(0.125, 0.5);
    node.high = Eigen::Vector2d(0.375, 1.0);
  }
  EXPECT_FALSE(mix_plot(experiment_, result_));  // nothing to compare them with
  run.state.ratios[1].truth = Eigen::Vector2d(0.4, 0.6);
  const auto plot = mix_plot(experiment_, result_);
  ASSERT_TRUE(plot);
  EXPECT_EQ(plot->subtitle,
            "A point is the share of a class at a node, and its whisker the 95 % interval, where there is one. "
            "First seed. 1 of 2 nodes are shown.");
  ASSERT_THAT(plot->panels, SizeIs(1));
  EXPECT_EQ(plot->panels[0].title, "IW-ERM");
  const auto& series = plot->panels[0].series;
  ASSERT_THAT(series, SizeIs(3));
  EXPECT_EQ(series[1].name, "dog");
  EXPECT_FALSE(series[1].joined);
  EXPECT_THAT(series[1].x, ElementsAre(0.6));
  EXPECT_THAT(series[1].y, ElementsAre(0.75));
  EXPECT_THAT(series[1].low, ElementsAre(0.5));
  EXPECT_THAT(series[1].high, ElementsAre(1.0));
  EXPECT_THAT(series[2].x, ElementsAre(0.0, 0.75));  // the diagonal
  EXPECT_EQ(series[2].x, series[2].y);
  line_plot(*plot);
}

TEST_F(ComparisonTables, ShowSomeHundredsOfSharesAtMost) {
  RunResult& run = result_.rows[0].runs[0];
  run.state.ratios.clear();
  const Eigen::VectorXd shares = Eigen::VectorXd::Constant(20, 0.05);
  for (Index node = 0; node < 100; ++node)
    run.state.ratios.push_back(
        {.node = node, .estimate = shares, .truth = Eigen::VectorXd::Constant(20, static_cast<double>(node) / 100.0)});
  const auto plot = mix_plot(experiment_, result_);
  ASSERT_TRUE(plot);
  const auto& series = plot->panels[0].series;
  ASSERT_THAT(series, SizeIs(2));  // 20 classes cannot be told apart
  EXPECT_THAT(series[0].x, SizeIs(300));
  EXPECT_EQ(series[0].x[0], 0.0);
  EXPECT_EQ(series[0].x[14], 0.93);  // 15 nodes of all parts of the list
  EXPECT_THAT(plot->subtitle, HasSubstr("15 of 100 nodes are shown."));
  line_plot(*plot);
}

TEST_F(ComparisonTables, BecomeLinesAndRangesOfTheRowsThatRan) {
  const LinePlot lines = accuracy_plot(experiment_, result_);
  ASSERT_THAT(lines.panels[0].series, SizeIs(1));
  const LineSeries& line = lines.panels[0].series[0];
  EXPECT_THAT(line.x, ElementsAre(5.0, 10.0));  // iterations: five steps a round
  EXPECT_THAT(line.y, ElementsAre(0.3125, 0.625));
  EXPECT_THAT(line.high, ElementsAre(testing::DoubleNear(0.3125 + 0.1767766952966369 / 2.0, 1e-15),
                                     testing::DoubleNear(0.625 + 0.1767766952966369, 1e-15)));
  const DotPlot ranges = spread_plot(experiment_, result_);
  EXPECT_THAT(ranges.rows, ElementsAre("IW-ERM"));
  ASSERT_THAT(ranges.series, SizeIs(3));
  EXPECT_THAT(ranges.series[0].values, ElementsAre(0.625));  // average
  EXPECT_THAT(ranges.series[1].values, ElementsAre(0.375));  // worst
  EXPECT_THAT(ranges.series[2].values, ElementsAre(0.875));  // best
  const double deviation = 0.1767766952966369;               // of 0.5 and 0.25, and of 1.0 and 0.75
  EXPECT_THAT(ranges.series[1].low, ElementsAre(testing::DoubleNear(0.375 - deviation, 1e-15)));
}

}  // namespace
}  // namespace labelshift
