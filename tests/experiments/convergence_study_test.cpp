#include "labelshift/experiments/convergence_study.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/experiments/convergence_report.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

std::vector<ConvergenceFigure> small_figures() {
  const ConvergenceRecipe recipe{.nodes = 2, .shift = 2.0, .examples = 40, .accuracy = 0.1};
  ConvergenceRecipe plain = recipe;
  plain.weighted = false;
  return {{"first",
           "First",
           {{.title = "one",
             .knob = Knob::kShift,
             .values = {1, 2, 4},
             .series = {{"weights", recipe, 1.0}, {"no weights", plain, {}}},
             .ratio = 1.0}}},
          {"second",
           "Second",
           {{.title = "two, and \"more\"",
             .measure = Measure::kExcess,
             .knob = Knob::kExamples,
             .values = {40, 80},
             .series = {{"weights", {.nodes = 1, .shift = 2.0}, -1.0}}}}}};
}

class ConvergenceStudy : public Scratch {
 protected:
  ConvergenceStudy() { use_one_blas_thread(); }  // these matrices are too small for more
  ConvergenceSettings settings(const std::string& folder, unsigned workers) const {
    return {.output = path(folder), .data = LABELSHIFT_EXAMPLES "/small-fashion-mnist", .seeds = 2, .workers = workers};
  }
};

TEST_F(ConvergenceStudy, GivesTheSameBitsForAnyNumberOfWorkersAndAfterAnyStop) {
  const auto figures = small_figures();
  const ConvergenceResult whole = run_convergence_study(figures, settings("whole", 1), {});
  const ConvergenceResult parallel = run_convergence_study(figures, settings("parallel", 2), {});
  int stops = 0;
  std::optional<ConvergenceResult> stopped;
  for (int allowed = 100; !stopped && stops < 100; ++stops) {  // calls of the observer; what is done stays
    int calls = 0;
    try {
      stopped = run_convergence_study(figures, settings("stopped", 1),
                                      [&](std::string_view, double) { return ++calls < allowed; });
    } catch (const Stopped&) {
      allowed *= 2;
    }
  }
  ASSERT_TRUE(stopped);
  EXPECT_GT(stops, 3);
  for (const ConvergenceResult* other : std::initializer_list<const ConvergenceResult*>{&parallel, &*stopped}) {
    EXPECT_EQ(bytes_of(other->runs), bytes_of(whole.runs));
    EXPECT_EQ(bytes_of(other->summary), bytes_of(whole.summary));
    for (std::size_t i = 0; i < whole.plots.size(); ++i) EXPECT_EQ(bytes_of(other->plots[i]), bytes_of(whole.plots[i]));
  }
  const std::string runs = bytes_of(whole.runs);
  EXPECT_THAT(runs,
              testing::StartsWith(
                  "figure,panel,series,algorithm,net,weights,nodes,shift,examples,local_steps,batch,sampled,codec,"
                  "variance,l2,epsilon,rounds,step_rule,seed,x,step,y,beta,kappa,gap,version\n"
                  "first,one,weights,fedavg,logistic,true,2,1,40,1,0,0,none,0,0.01,0.1,4000,tuned,0,1,"));
  EXPECT_THAT(runs, HasSubstr("\nfirst,one,\"no weights\",fedavg,logistic,false,2,"));
  EXPECT_THAT(runs, HasSubstr("\nsecond,\"two, and \"\"more\"\"\",weights,fedavg,"));
  // A header, 2 series at 3 points and 1 at 2, each with 2 seeds.
  EXPECT_EQ(std::count(runs.begin(), runs.end(), '\n'), 1 + (2 * 3 + 2) * 2);
  const auto summary = nlohmann::json::parse(bytes_of(whole.summary));
  EXPECT_EQ(summary["figures"][0]["panels"][0]["series"][1]["slope"].size(), 3u);
  EXPECT_EQ(summary["figures"][0]["panels"][0]["ratio"]["predicted_slope"], 1.0);
  EXPECT_THAT(bytes_of(whole.plots[0]), HasSubstr(", predicted 1.00."));
  EXPECT_EQ(convergence_seconds(figures, path("whole")), 0.0);
  EXPECT_GT(convergence_seconds(figures, path("elsewhere")), 0.0);
}

TEST_F(ConvergenceStudy, RefusesAFolderWithOtherSettings) {
  const auto figures = small_figures();
  run_convergence_study(std::span(figures).last(1), settings("folder", 1), {});
  try {
    run_convergence_study(figures, settings("folder", 1), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("was started with other settings"));
  }
}

/// y = x^slope at x = 1, 10 and 100, with a bit of disagreement between two seeds.
std::vector<std::vector<ConvergenceRow>> power_law(double slope, double apart = 0.001) {
  std::vector<std::vector<ConvergenceRow>> rows;
  for (const double x : {1.0, 10.0, 100.0})
    rows.push_back({{.seed = 0, .x = x, .y = 3.0 * std::pow(x, slope - apart)},
                    {.seed = 1, .x = x, .y = 4.0 * std::pow(x, slope + apart)}});
  return rows;
}

TEST(ConvergenceLine, HasTheSlopeWithAnIntervalOverSeeds) {
  const ConvergenceLine line = summarise_line("", power_law(0.5, 0.01), {});
  EXPECT_NEAR(line.slope.mean, 0.5, 1e-12);
  // Student's t for one degree of freedom is 12.706, the standard error of 0.49 and 0.51 is 0.01.
  EXPECT_NEAR(line.slope.high - line.slope.mean, 0.12706, 1e-4);
  EXPECT_NEAR(line.y[0].mean, std::sqrt(12.0), 1e-12);
  EXPECT_EQ(line.verdict, SlopeVerdict::kBaseline);
}

TEST(ConvergenceLine, IsJudgedByItsInterval) {
  EXPECT_EQ(summarise_line("", power_law(0.5), 0.55).verdict, SlopeVerdict::kAsPredicted);
  EXPECT_EQ(summarise_line("", power_law(0.5), 1.0).verdict, SlopeVerdict::kLess);
  EXPECT_EQ(summarise_line("", power_law(-0.5), -1.0).verdict, SlopeVerdict::kMore);
  EXPECT_EQ(summarise_line("", power_law(0.5, 0.05), 0.5).verdict, SlopeVerdict::kOpen);  // 0.5 +- 0.64
}

TEST(ConvergenceLine, LeavesOutPointsThatASeedDidNotReach) {
  auto rows = power_law(0.5);
  rows[2][1].y = 0.0;
  const ConvergenceLine line = summarise_line("", rows, 0.5);
  EXPECT_NEAR(line.slope.mean, 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(line.y[2].mean));
  rows[1][0].y = 0.0;
  EXPECT_EQ(summarise_line("", rows, 0.5).verdict, SlopeVerdict::kNotMeasured);
}

TEST(ConvergenceLine, SaysHowFarItIsLevel) {
  auto rows = power_law(0.0);
  EXPECT_EQ(summarise_line("", rows, 1.0).level_until, 100.0);
  for (ConvergenceRow& row : rows[1]) row.y *= 1.2;  // and the last point is level again
  EXPECT_EQ(summarise_line("", rows, 1.0).level_until, 1.0);
}

TEST(ConvergenceFigures, CanBeRun) {
  std::set<std::string> names;
  Dataset images{.shape = {1, 28, 28}, .class_names = std::vector<std::string>(10)};
  for (int c = 0; c < 10; ++c) images.labels.push_back(c);
  images.values = std::vector<std::uint8_t>(10 * 28 * 28);
  const Dataset table = shrunk(images, 4);
  for (const ConvergenceFigure& figure : convergence_figures()) {
    EXPECT_TRUE(names.insert(figure.name).second) << figure.name;
    for (const ConvergencePanel& panel : figure.panels)
      for (const ConvergenceSeries& series : panel.series)
        for (const double value : panel.values) {
          const ConvergenceRecipe recipe = turned(series.recipe, panel.knob, value);
          const DealtNodes nodes = deal_nodes(recipe.net == "logistic" ? table : images, recipe, 0);
          check_settings(federation_settings(recipe, nodes, 0.1, 0), recipe.nodes);  // does not throw
          double largest = 0.0;
          for (const auto& ratio : nodes.ratios) largest = std::max(largest, ratio.maxCoeff());
          EXPECT_DOUBLE_EQ(largest, recipe.weighted ? recipe.shift * recipe.nodes : 1.0) << figure.name << panel.title;
        }
  }
}

TEST(ConvergenceFigures, HoldTheLargestRatioByTheNodesAndAllExamplesAsTheyAre) {
  const ConvergenceRecipe recipe = turned({.nodes = 8, .examples = 320}, Knob::kNodes, 32);
  EXPECT_EQ(recipe.nodes, 32);
  EXPECT_EQ(recipe.examples, 80);
  EXPECT_EQ(recipe.shift, ConvergenceRecipe().shift);
}

}  // namespace
}  // namespace labelshift
