#include "labelshift/experiments/convergence_trials.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/node_program.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

Dataset some_images() {
  return load_dataset(LABELSHIFT_EXAMPLES "/small-fashion-mnist").parts.train;
}

constexpr Index kPixels = 7;  // on a side of a square, so that there are 16 inputs

VectorXd doubles(const std::vector<float>& values) {
  return Eigen::Map<const Eigen::VectorXf>(values.data(), std::ssize(values)).cast<double>();
}

TEST(Shrunk, AveragesSquaresAndLeavesOutWhatIsOver) {
  Dataset images{.shape = {1, 2, 5}, .labels = {1}, .class_names = {"a", "b"}};
  images.values = std::vector<std::uint8_t>{1, 2, 10, 20, 99, 3, 6, 30, 42, 99};
  const Dataset table = shrunk(images, 2);
  EXPECT_EQ(table.shape, (ExampleShape{1, 1, 2}));
  EXPECT_EQ(std::get<std::vector<float>>(table.values), (std::vector<float>{3.0F, 25.5F}));
  EXPECT_EQ(table.labels, images.labels);
}

TEST(DealtNodes, HaveTheLargestRatioThatTheShiftSays) {
  const Dataset table = shrunk(some_images(), kPixels);
  const ConvergenceRecipe recipe{.nodes = 4, .shift = 8.0, .examples = 160};
  const DealtNodes nodes = deal_nodes(table, recipe, 1);
  for (std::size_t k = 0; k < 4; ++k) {
    const std::vector<Index>& rows = nodes.data.nodes[k].train_rows;
    EXPECT_EQ(std::ssize(rows), 160);
    EXPECT_DOUBLE_EQ(nodes.ratios[k].maxCoeff(), 4.0 * 8.0);
    const std::vector<Index> counts = class_counts(table.labels, rows, 10);
    for (Index c = 0; c < 10; ++c) {
      EXPECT_EQ(counts[c], (c + static_cast<Index>(k)) % 2 == 0 ? 2 : 30);
      // Eq. (1): p_k(c) r_k(c) = sum_j q_j(c)
      EXPECT_NEAR(static_cast<double>(counts[c]) / 160.0 * nodes.ratios[k][c], 4 * 0.1, 1e-12);
    }
  }
}

/// Runs a federation as the study does and returns the parameters before and after.
std::pair<VectorXd, VectorXd> run_rounds(const ConvergenceRecipe& recipe, const DealtNodes& nodes, double step) {
  const FederationSettings settings = federation_settings(recipe, nodes, step, 3);
  NodeStore store({.folder = testing::TempDir() + "labelshift-nodes"});
  const auto engine = make_in_process_engine(recipe.nodes, make_node_programs(settings, nodes.data, store));
  std::pair<VectorXd, VectorXd> ends;
  FederationHooks hooks;
  hooks.checkpoint = [&](const FederationMoment& moment) {
    (moment.round == 0 ? ends.first : ends.second) = doubles(moment.state().parameters);
    return true;
  };
  run_federation(settings, {.shape = nodes.data.shape, .class_names = nodes.data.class_names}, *engine, hooks);
  return ends;
}

/// Whether what run_federation() minimises is F.
class EveryObjective : public testing::TestWithParam<bool> {};

TEST_P(EveryObjective, IsWhatNodesDescendTogether) {
  const Dataset table = shrunk(some_images(), kPixels);
  const ConvergenceRecipe recipe{
      .weighted = GetParam(), .nodes = 4, .shift = 4.0, .examples = 80, .l2 = 0.1, .rounds = 1};
  const DealtNodes nodes = deal_nodes(table, recipe, 2);
  const double step = 0.01;
  const auto [before, after] = run_rounds(recipe, nodes, step);
  const VectorXd expected = before - step * problem_of(nodes, recipe).gradient(before);
  // Parameters and gradients of at most 10 are rounded to 24 bits, in sums of 80 terms.
  EXPECT_LT((after - expected).lpNorm<Eigen::Infinity>(), 1e-6);
  EXPECT_GT((after - before).lpNorm<Eigen::Infinity>(), 1e-3);
}

TEST_P(EveryObjective, IsWhatANodeDescendsInItsOwnSteps) {
  const Dataset table = shrunk(some_images(), kPixels);
  const ConvergenceRecipe recipe{
      .weighted = GetParam(), .nodes = 1, .shift = 4.0, .examples = 80, .local_steps = 3, .l2 = 0.1, .rounds = 1};
  const DealtNodes nodes = deal_nodes(table, recipe, 2);
  const double step = 0.02;
  const auto [before, after] = run_rounds(recipe, nodes, step);
  const LogisticProblem problem = problem_of(nodes, recipe);
  VectorXd expected = before;
  for (int i = 0; i < 3; ++i) expected -= step * problem.gradient(expected);
  EXPECT_LT((after - expected).lpNorm<Eigen::Infinity>(), 1e-6);  // as above
}

TEST(ConvergenceObjective, IsKTimesThatWithoutWeightsWhereNothingIsShifted) {
  const Dataset table = shrunk(some_images(), kPixels);
  const ConvergenceRecipe recipe{.nodes = 4, .shift = 1.0, .examples = 80};
  ConvergenceRecipe plain = recipe;
  plain.weighted = false;
  const DealtNodes nodes = deal_nodes(table, recipe, 2);
  const VectorXd w = VectorXd::LinSpaced(problem_of(nodes, recipe).parameters(), -1.0, 1.0);
  EXPECT_NEAR(problem_of(nodes, recipe).value(w), 4.0 * problem_of(nodes, plain).value(w), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Experiments, EveryObjective, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "WithWeights" : "WithoutWeights"; });

TEST(ConvergenceObjective, HasTheServerAndTheStepsThatEachAlgorithmNeeds) {
  const Dataset table = shrunk(some_images(), kPixels);
  const DealtNodes nodes = deal_nodes(table, {.nodes = 2, .examples = 40}, 2);
  std::set<std::string> seen;
  for (const ConvergenceFigure& figure : convergence_figures())
    for (const ConvergencePanel& panel : figure.panels)
      for (const ConvergenceSeries& series : panel.series) {
        const ConvergenceRecipe& recipe = series.recipe;
        const FederationSettings settings = federation_settings(recipe, nodes, /*step=*/0.25, /*seed=*/0);
        // Adaptive matrices are what Thm. F.2 is about, and a round of Thm. F.3 has steps of the nodes, however few.
        EXPECT_EQ(settings.server.optimiser, recipe.algorithm == "fafed" ? "adam" : "sgd") << panel.title;
        if (recipe.algorithm == "proxskip") {
          EXPECT_EQ(settings.algorithm, "proxskip");
          EXPECT_EQ(settings.local.learning_rate, 0.25);
        }
        seen.insert(settings.algorithm);
      }
  for (const char* algorithm : {"fedavg", "fafed", "proxskip"}) EXPECT_TRUE(seen.contains(algorithm)) << algorithm;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Rounds that fall as steps grow, up to `longest`; longer steps never get there.
StepTry rounds_up_to(double longest, double power, double most) {
  if (power > longest) return {.cost = kNever, .too_long = true};
  const double rounds = 100.0 * std::exp2(-power);
  return {.cost = rounds <= most ? rounds : kNever};
}

TEST(SearchStep, FindsTheBestOfAGridOfHalvesFromEitherSide) {
  for (const double start : {-6.0, 0.0, 2.5, 9.0}) {
    const double found =
        search_step([](double power, double most) { return rounds_up_to(2.7, power, most); }, start, 1e6);
    EXPECT_GE(found, 2.0) << start;
    EXPECT_LE(found, 2.7) << start;
  }
}

TEST(SearchStep, GivesUpATryThatCannotBeTheBest) {
  double allowed = 1e6;
  const auto attempt = [&](double power, double most) {
    EXPECT_LE(most, allowed);
    const StepTry tried = rounds_up_to(3.0, power, most);
    allowed = std::min(allowed, tried.cost);
    return tried;
  };
  EXPECT_EQ(search_step(attempt, 0.0, 1e6), 3.0);
}

TEST(SearchStep, EndsWhereNoStepGetsThere) {
  for (const bool too_long : {false, true})
    search_step([&](double, double) { return StepTry{.cost = kNever, .too_long = too_long}; }, 0.0, 100.0);
}

class ConvergencePoint : public testing::Test {
 protected:
  ConvergencePoint() { use_one_blas_thread(); }  // these matrices are too small for more
};

ConvergencePanel one_panel(Measure measure, Knob knob) {
  return {.title = "", .measure = measure, .knob = knob};
}

TEST_F(ConvergencePoint, TakesMoreRoundsForMoreAccuracy) {
  ConvergenceTrials trials(some_images(), 0);
  const ConvergenceRecipe recipe{.nodes = 2, .shift = 2.0, .examples = 80};
  const ConvergencePanel panel = one_panel(Measure::kRounds, Knob::kAccuracy);
  const auto coarse = trials.run(panel, recipe, 0.5, 2), fine = trials.run(panel, recipe, 1.0, 2);
  ASSERT_EQ(fine.size(), 2u);
  EXPECT_DOUBLE_EQ(fine[0].x, 10.0);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GT(coarse[i].y, 1.0);
    EXPECT_GT(fine[i].y, coarse[i].y);
    EXPECT_LT(fine[i].gap, 1e-10);
    EXPECT_GT(fine[i].kappa, 100.0);
  }
}

TEST_F(ConvergencePoint, HasStepsAsShortAsNoiseMakesThem) {
  ConvergenceTrials trials(some_images(), 0);
  ConvergenceRecipe recipe{.nodes = 2, .shift = 2.0, .examples = 80};
  const ConvergencePanel panel = one_panel(Measure::kRounds, Knob::kAccuracy);
  const auto whole = trials.run(panel, recipe, 1.5, 2);
  recipe.batch = 2;
  const auto noisy = trials.run(panel, recipe, 1.5, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GT(noisy[i].y, whole[i].y);
    EXPECT_LT(noisy[i].step, 0.2 * whole[i].step);
  }
}

TEST_F(ConvergencePoint, SaysThatEpsilonWasNotReached) {
  ConvergenceTrials trials(some_images(), 0);
  const ConvergenceRecipe recipe{.nodes = 2, .shift = 2.0, .examples = 80, .rounds = 3};
  EXPECT_EQ(trials.run(one_panel(Measure::kRounds, Knob::kAccuracy), recipe, 4.0, 1)[0].y, 0.0);
}

TEST_F(ConvergencePoint, TakesTheStepThatATheoremSays) {
  ConvergenceTrials trials(some_images(), 0);
  const ConvergenceRecipe recipe{.algorithm = "fedcom",
                                 .nodes = 2,
                                 .shift = 2.0,
                                 .examples = 80,
                                 .local_steps = 2,
                                 .codec = "random-k",
                                 .accuracy = 0.5,
                                 .step = StepChoice::kTheorem};
  const auto plain = trials.run(one_panel(Measure::kRounds, Knob::kVariance), recipe, 0.0, 1);
  const auto packed = trials.run(one_panel(Measure::kRounds, Knob::kVariance), recipe, 4.0, 1);
  EXPECT_DOUBLE_EQ(plain[0].x, 1.0);
  EXPECT_DOUBLE_EQ(packed[0].x, 3.0);  // 1 + q / K; random-k keeps a fifth of 500
  EXPECT_NEAR(packed[0].step, plain[0].step / 3.0, 1e-12);
}

TEST_F(ConvergencePoint, HasLessExcessRiskTheMoreExamplesThereAre) {
  ConvergenceTrials trials(some_images(), 0);
  const ConvergencePanel panel = one_panel(Measure::kExcess, Knob::kExamples);
  const ConvergenceRecipe recipe{.nodes = 1, .shift = 2.0};
  const auto few = trials.run(panel, recipe, 40, 2), many = trials.run(panel, recipe, 2000, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GT(many[i].y, 0.0);
    EXPECT_LT(many[i].y, 0.3 * few[i].y);
  }
}

TEST_F(ConvergencePoint, HasTheGradientsOfLeNet) {
  ConvergenceTrials trials(some_images(), 0);
  const ConvergenceRecipe recipe{
      .net = "lenet", .nodes = 1, .shift = 2.0, .examples = 40, .l2 = 0.0, .step = StepChoice::kTheorem};
  const ConvergencePanel panel = one_panel(Measure::kGradient, Knob::kGradients);
  const auto rows = trials.run(panel, recipe, 4, 1);
  EXPECT_GT(rows[0].y, 0.0);
  // Without noise the step is 1 / (r_max beta), whatever T is; with noise it falls as T grows.
  EXPECT_EQ(trials.run(panel, recipe, 8, 1)[0].step, rows[0].step);
  ConvergenceRecipe noisy = recipe;
  noisy.batch = 1;
  EXPECT_NEAR(trials.run(panel, noisy, 64, 1)[0].step, 0.5 * trials.run(panel, noisy, 16, 1)[0].step, 1e-12);
}

}  // namespace
}  // namespace labelshift
