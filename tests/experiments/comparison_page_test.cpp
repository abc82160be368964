#include "labelshift/experiments/comparison_page.hpp"

#include <gmock/gmock.h>

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

template <typename Part>
void collect(const std::vector<Block>& blocks, std::vector<Part>& found) {
  for (const Block& block : blocks) {
    if (const auto* part = std::get_if<Part>(&block.value)) found.push_back(*part);
    if (const auto* folded = std::get_if<Folded>(&block.value)) collect(folded->blocks, found);
  }
}

template <typename Part>
std::vector<Part> parts(const Page& page) {
  std::vector<Part> found;
  collect(page.blocks, found);
  return found;
}

/// Two rows over two nodes of 100 test examples each, as a simulation leaves them.
class ComparisonPage : public testing::Test {
 protected:
  ComparisonPage() {
    experiment_.title = "Title";
    experiment_.seeds = {0};
    experiment_.runs.resize(3);
    experiment_.runs[0].settings.federation.ratio.method = "mlls";
    experiment_.runs[1].settings.federation.ratio.method = "true";
    experiment_.runs[2].settings.federation.ratio.method = "none";
    add("weighted", 0.8, 0.9);
    add("bound", 0.9, 1.0);
    add("plain", 0.2, 0.6);
    RunResult& run = result_.rows[0].runs[0];
    run.state.largest_weight = 7.0;
    run.state.effective_share = 0.25;
    for (const Index node : {0, 1})
      run.state.ratios.push_back({.node = node,
                                  .largest = 7.0,
                                  .examples = 30.0,
                                  .effective_examples = 10.0,
                                  .estimate = Eigen::Vector2d(0.75, 0.25),
                                  .low = Eigen::Vector2d(0.5, 0.125),
                                  .high = Eigen::Vector2d(0.875, 0.5),
                                  .truth = Eigen::Vector2d(0.6, 0.4)});
    summarise(experiment_, result_);
  }

  void add(const std::string& name, double first, double second) {
    RowResult& row = result_.rows.emplace_back();
    row.name = experiment_.runs[result_.rows.size() - 1].name = name;
    RunResult run{.folder = "out/" + name, .seed = 0};
    run.class_names = {"cat", "dog"};
    run.node_names = {"Bern", "Uri"};
    run.mixes = {{.train = {10, 20}, .test = {60, 40}}, {.train = {15, 15}, .test = {60, 40}}};
    run.provenance = {.command = "labelshift run " + name, .version = "1.2.3", .machine = "a machine"};
    run.state.round = 20;
    run.state.phases = {
        {.name = phase::kTraining, .rounds = 20, .traffic = {.down = 4000, .up = 2000}, .seconds = 1.5}};
    for (const int round : {10, 20})
      for (const Index node : {0, 1})
        run.state.history.push_back({.round = round,
                                     .node = node,
                                     .examples = 100,
                                     .accuracy = (node == 0 ? first : second) * round / 20.0,
                                     .loss = 1.0});
    row.runs.push_back(std::move(run));
  }

  Page page() const { return comparison_page(experiment_, result_); }

  Experiment experiment_;
  ComparisonResult result_;
};

TEST_F(ComparisonPage, AnswersFourQuestionsInThisOrder) {
  std::vector<std::string> headings;
  for (const Heading& heading : parts<Heading>(page())) headings.push_back(heading.text);
  EXPECT_THAT(headings, ElementsAre("Did it work?", "Why?", "How did it go?", "How to get it again"));
}

TEST_F(ComparisonPage, SaysInWordsWhetherWeightsHelped) {
  const Banner banner = parts<Banner>(page())[0];
  EXPECT_EQ(banner.tone, Tone::kGood);
  // Accuracies of 0.85 and 0.4. The variances of their means are those of single nodes by Agresti and Coull, (p (1 - p)
  // / 104 summed over nodes) / 4: of the first with p = 82 / 104 and 92 / 104, of the second with 22 / 104 and 62 /
  // 104.
  EXPECT_EQ(
      banner.text,
      "It worked: with weights (weighted) the model is right on 85.0 % of the nodes' test examples, averaged over "
      "nodes, from 80.0 % at the worst node to 90.0 % at the best. Without (plain) it is right on 40.0 %. The "
      "difference is 45.0 points (95 % interval 37.1 to 52.9). With the true label mixes (bound) it is 95.0 %.");
}

TEST_F(ComparisonPage, SaysWhereTheyDidNot) {
  std::swap(result_.rows[0].runs[0].state.history, result_.rows[2].runs[0].state.history);
  summarise(experiment_, result_);
  const Banner worse = parts<Banner>(page())[0];
  EXPECT_EQ(worse.tone, Tone::kBad);
  EXPECT_THAT(worse.text, HasSubstr("It did not work: with weights (weighted) the model is right on 40.0 %"));
  EXPECT_THAT(worse.text, HasSubstr("The difference is -45.0 points (95 % interval -52.9 to -37.1)."));
  result_.rows[0].runs[0].state.history = result_.rows[2].runs[0].state.history;
  summarise(experiment_, result_);
  const Banner same = parts<Banner>(page())[0];
  EXPECT_EQ(same.tone, Tone::kDoubtful);
  EXPECT_THAT(same.text, HasSubstr("No clear difference: "));
}

TEST_F(ComparisonPage, ShowsEachNodesMixesInTrainingAndAtTestEstimatedAndTrue) {
  std::vector<Chart> charts;
  for (const Charts& some : parts<Charts>(page())) charts.insert(charts.end(), some.charts.begin(), some.charts.end());
  ASSERT_THAT(charts, SizeIs(5));  // nodes' range, two nodes, accuracy and loss
  EXPECT_EQ(charts[1].title, "Bern");
  EXPECT_EQ(table_csv(charts[1].data),
            "class,mark,value,value_low,value_high\n"
            "cat,\"test, estimated\",0.75,0.5,0.875\n"
            "cat,\"test, true\",0.6,,\n"
            "cat,training,0.3333333333333333,,\n"
            "dog,\"test, estimated\",0.25,0.125,0.5\n"
            "dog,\"test, true\",0.4,,\n"
            "dog,training,0.6666666666666666,,\n");
  EXPECT_EQ(charts[3].title, "Accuracy by round, averaged over nodes");
  EXPECT_THAT(charts[3].data.rows, SizeIs(6));
}

TEST_F(ComparisonPage, HasWeightsPhasesSettingsCommandAndMachine) {
  const std::string html = page_html(page());
  EXPECT_THAT(html, HasSubstr("<td>Bern</td><td class=\"n\">7</td><td class=\"n\">30</td><td class=\"n\">10.0</td>"));
  EXPECT_THAT(html, HasSubstr("<td>weighted</td><td>training</td><td class=\"n\">1.5 s</td><td class=\"n\">20</td>"
                              "<td class=\"n\">1.0 kB</td><td class=\"n\">2.0 kB</td>"));
  EXPECT_THAT(
      html,
      HasSubstr("<td>ratio.method</td><td>&quot;mlls&quot;</td><td>&quot;true&quot;</td><td>&quot;none&quot;</td>"));
  EXPECT_THAT(html, HasSubstr("<dd>labelshift run weighted</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>Version</dt><dd>labelshift 1.2.3</dd>"));
  EXPECT_THAT(html, HasSubstr("Nothing gave a warning."));
  EXPECT_THAT(html, HasSubstr("all 2 nodes took part, and every one of them answered."));
}

TEST_F(ComparisonPage, SaysWhoTookNoPartAndWhatFailed) {
  result_.rows[0].runs[0].state.absences = {{.node = 1, .rounds = 3, .why = "it was <away>"}};
  result_.failures = {{"plain", 7, Error(ErrorKind::kInput, "it broke")}};
  result_.warnings.assign(7, "careful");
  const Page page = this->page();
  const std::string html = page_html(page);
  EXPECT_THAT(html, HasSubstr("<td>Uri</td><td class=\"n\">3</td><td>it was &lt;away&gt;</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">7</td><td>it broke</td>"));
  EXPECT_EQ(parts<Banner>(page)[0].tone, Tone::kDoubtful);
  EXPECT_THAT(parts<Banner>(page)[0].text, testing::EndsWith(" 1 run failed; see below."));
  EXPECT_THAT(html, HasSubstr("2 more warnings"));
}

TEST_F(ComparisonPage, PutsTheStandInUnderItsOwnNameWhereTestDataHaveNoLabels) {
  for (RowResult& row : result_.rows)
    for (NodeEvaluation& one : row.runs[0].state.history) {
      one.accuracy = one.loss = kUnknown;
      if (row.name == "weighted") one.reweighted_accuracy = 0.75;
    }
  summarise(experiment_, result_);
  const Page page = this->page();
  EXPECT_EQ(parts<Banner>(page)[0].text,
            "The target has no labels, so no test accuracy is known. In its place stands the reweighted source "
            "accuracy, which is as "
            "right as the estimated label mix is: weighted has 75.0 % on average over nodes.");
  const std::string html = page_html(page);
  EXPECT_THAT(html, HasSubstr("<caption>Reweighted source accuracy, where test data have no labels</caption>"));
  EXPECT_THAT(html, HasSubstr("Reweighted source accuracy by round"));
  EXPECT_THAT(html, Not(HasSubstr("Accuracy of each method")));
}

TEST_F(ComparisonPage, HasALineForEachNodeOfARunAlone) {
  experiment_.runs.resize(1);
  result_.rows.resize(1);
  const Page page = this->page();
  EXPECT_THAT(page_html(page), HasSubstr("Accuracy by round, a line for each node"));
  EXPECT_EQ(parts<Banner>(page)[0].text,
            "weighted is right on 85.0 % of the nodes' test examples, averaged over nodes, from 80.0 % at the worst "
            "node to 90.0 % at "
            "the best.");
}

TEST_F(ComparisonPage, DrawsTheEstimatesOfManyNodesAgainstTheTruth) {
  RunResult& run = result_.rows[0].runs[0];
  run.node_names.clear();
  const NodeRatio one = run.state.ratios[0];
  const std::vector<NodeEvaluation> history = std::exchange(run.state.history, {});
  run.state.ratios.clear();
  run.mixes.assign(40, run.mixes[0]);
  for (Index node = 0; node < 40; ++node) {
    run.state.ratios.push_back(one);
    run.state.ratios.back().node = node;
    run.state.history.push_back(history[2]);
    run.state.history.back().node = node;
  }
  result_.rows.resize(1);
  experiment_.runs.resize(1);
  summarise(experiment_, result_);
  const std::string html = page_html(page());
  EXPECT_THAT(html, HasSubstr("Estimated against true shares: weighted"));
  EXPECT_THAT(html, HasSubstr("<details><summary>What each node has: 40 rows</summary>"));
  EXPECT_THAT(html, Not(HasSubstr("<strong>node 7</strong>")));
}

TEST_F(ComparisonPage, DrawsThePapersNodesBesideOurs) {
  result_.rows[0].paper = {.accuracy = 0.75, .deviation = 0.01, .nodes = {0.7, 0.8}};
  const auto charts = parts<Charts>(page())[0].charts;
  ASSERT_THAT(charts, SizeIs(2));
  EXPECT_EQ(charts[1].title, "The paper's");
  EXPECT_EQ(table_csv(charts[1].data),
            "run,mark,value,value_low,value_high\nweighted,average,0.75,,\nweighted,\"worst node\",0.7,,\n"
            "weighted,\"best node\",0.8,,\n");
}

}  // namespace
}  // namespace labelshift
