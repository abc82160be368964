#include "labelshift/experiments/convergence_figures.hpp"

#include <cmath>
#include <functional>

namespace labelshift {
namespace {

using Recipe = ConvergenceRecipe;

const std::vector<double> kShifts{1, 2, 4, 8, 16};
const std::vector<double> kVariances{0, 1, 3, 7, 15, 31};
const std::vector<double> kPairs{2, 4, 8, 16, 32};  // of nodes: two of them are rich in other classes

// Without noise: what the nodes compute is the gradient of what they have.
const Recipe kWhole{.accuracy = 1e-3, .rounds = 1000};
// Gradients of so few examples that their noise decides.
const Recipe kNoisy{.local_steps = 2, .batch = 4, .rounds = 10'000};
const Recipe kOneNode{.nodes = 1};
const Recipe kLeNet{
    .net = "lenet", .nodes = 1, .examples = 160, .l2 = 0.0, .rounds = 1024, .step = StepChoice::kTheorem};
const Recipe kFaFed{.algorithm = "fafed", .server = "adam", .local_steps = 4, .batch = 4, .rounds = 256};
const Recipe kProxSkip{.algorithm = "proxskip", .always_steps = true, .nodes = 4, .accuracy = 1e-4, .rounds = 1000};
const Recipe kFedCom{.algorithm = "fedcom", .local_steps = 2, .codec = "random-k"};

Recipe changed(Recipe recipe, const std::function<void(Recipe&)>& change) {
  change(recipe);
  return recipe;
}

Recipe with_steps(const Recipe& recipe, int steps) {
  return changed(recipe, [&](Recipe& one) { one.local_steps = steps; });
}

Recipe with_batch(const Recipe& recipe, Index batch) {
  return changed(recipe, [&](Recipe& one) { one.batch = batch; });
}

Recipe without_weights(const Recipe& recipe) {
  return changed(recipe, [](Recipe& one) { one.weighted = false; });
}

/// With importance weights and without.
std::vector<ConvergenceSeries> two(const Recipe& recipe, std::optional<double> with, std::optional<double> without) {
  return {{"weights", recipe, with}, {"no weights", without_weights(recipe), without}};
}

std::vector<ConvergenceSeries> whole_local_steps() {
  std::vector<ConvergenceSeries> series = two(kWhole, -1.0, -1.0);
  series.push_back({"no shift", changed(kWhole, [](Recipe& one) { one.shift = 1.0; }), -1.0});
  series.push_back({"scaffold", changed(kWhole, [](Recipe& one) { one.algorithm = "scaffold"; }), -1.0});
  return series;
}

std::vector<ConvergenceSeries> compressed() {
  return {{"random-k", kFedCom, 1.0},
          {"random-k, no weights", without_weights(kFedCom), 1.0},
          {"qsgd", changed(kFedCom, [](Recipe& one) { one.codec = "qsgd"; }), 1.0},
          {"fedcomgate", changed(kFedCom, [](Recipe& one) { one.algorithm = "fedcomgate"; }), 1.0}};
}

std::vector<ConvergenceSeries> compressed_further() {
  std::vector<ConvergenceSeries> series = compressed();
  series.pop_back();
  for (ConvergenceSeries& one : series) one.recipe.variance = 7.0;
  series.push_back({"not compressed", kFedCom, 1.0});
  return series;
}

std::vector<ConvergenceFigure> make_figures() {
  const auto rounds = [](const char* title, Knob knob, std::vector<double> values,
                         std::vector<ConvergenceSeries> series, double seconds) {
    return ConvergencePanel{.title = title,
                            .measure = Measure::kRounds,
                            .knob = knob,
                            .values = std::move(values),
                            .series = std::move(series),
                            .seconds = seconds};
  };
  const auto shifts = [&](const char* title, const Recipe& recipe, double seconds) {
    ConvergencePanel panel = rounds(title, Knob::kShift, kShifts, two(recipe, {}, {}), seconds);
    panel.ratio = 1.0;
    return panel;
  };
  const auto gradients = [](const char* title, Knob knob, std::vector<double> values, const Recipe& recipe,
                            double slope) {
    return ConvergencePanel{.title = title,
                            .measure = Measure::kGradient,
                            .knob = knob,
                            .values = std::move(values),
                            .series = two(recipe, slope, knob == Knob::kShift ? 0.0 : slope),
                            .seconds = 6.0};
  };
  const Recipe theorem = changed(kFedCom, [](Recipe& one) {
    one.step = StepChoice::kTheorem;
    one.accuracy = 0.1;
    one.rounds = 20'000;
  });
  return {
      {"prop-4-1",
       "Prop. 4.1: excess risk of the exact minimiser",
       {{.title = "one node, r_max = 8",
         .measure = Measure::kExcess,
         .knob = Knob::kExamples,
         .values = {640, 1280, 2560, 5120, 10240, 20480, 40960},
         .series = two(kOneNode, -1.0, {}),
         .seconds = 2.0}}},
      {"thm-5-2",
       "Thm. 5.2: what weights cost",
       {shifts("whole batches, tau = 1", kWhole, 4.0), shifts("whole batches, tau = 8", with_steps(kWhole, 8), 20.0),
        shifts("batches of 4, tau = 2", kNoisy, 3.0)}},
      {"thm-5-3",
       "Thm. 5.3: local steps, nodes, cohort and accuracy",
       {rounds("whole batches", Knob::kLocalSteps, {1, 2, 4, 8, 16}, whole_local_steps(), 20.0),
        rounds("batches of 4", Knob::kLocalSteps, {1, 2, 4, 8, 16}, two(kNoisy, -1.0, -1.0), 3.0),
        rounds("whole batches, tau = 1", Knob::kNodes, kPairs, two(kWhole, 0.0, 0.0), 8.0),
        rounds("batches of 4, tau = 2", Knob::kNodes, kPairs, two(kNoisy, -1.0, -1.0), 6.0),
        rounds("batches of 4, K = 32", Knob::kSampled, kPairs,
               two(changed(kNoisy, [](Recipe& one) { one.nodes = 32; }), -1.0, -1.0), 18.0),
        rounds("whole batches, tau = 1", Knob::kAccuracy, {1, 1.5, 2, 2.5, 3}, two(kWhole, 1.0, 1.0), 3.0),
        rounds("batches of 4, tau = 2", Knob::kAccuracy, {1, 1.5, 2, 2.5}, two(kNoisy, 2.0, 2.0), 5.0)}},
      {"thm-5-5",
       "Thm. 5.5: LeNet, one node, step of the theorem",
       {gradients("whole batches", Knob::kGradients, {64, 256, 1024, 4096}, kLeNet, -0.5),
        gradients("batches of 2", Knob::kGradients, {256, 1024, 4096, 16384}, with_batch(kLeNet, 2), -0.5),
        gradients("whole batches, T = 1024", Knob::kShift, kShifts, kLeNet, 0.5),
        gradients("batches of 2, T = 1024", Knob::kShift, kShifts, with_batch(kLeNet, 2), 0.5)}},
      {"thm-f-1",
       "Thm. F.1: compressed updates",
       {rounds("random-k, step of the theorem, epsilon = 0.1", Knob::kVariance, kVariances, two(theorem, 1.0, 1.0),
               18.0),
        rounds("tuned step", Knob::kVariance, kVariances, compressed(), 9.0),
        rounds("tuned step, q = 7", Knob::kDecades, {0.5, 1, 1.5, 2, 2.5}, compressed_further(), 6.0)}},
      {"thm-f-2",
       "Thm. F.2: FAFED on logistic regression, tau = 4, tuned step",
       {gradients("batches of 4", Knob::kGradients, {64, 256, 1024, 4096}, kFaFed, -2.0 / 3.0),
        gradients("batches of 4, T = 1024", Knob::kShift, kShifts, kFaFed, 2.0 / 3.0)}},
      {"thm-f-3",
       "Thm. F.3: ProxSkip, p = 1 / sqrt(kappa), tuned step",
       {rounds("whole batches, r_max / K = 8", Knob::kDecay, {0.1, 0.03, 0.01, 0.003, 0.001}, two(kProxSkip, 0.5, 0.5),
               25.0),
        rounds("whole batches", Knob::kShiftRootCondition, kShifts, two(kProxSkip, 1.0, {}), 6.0),
        rounds("whole batches", Knob::kRootShiftCondition, kShifts, two(kProxSkip, 1.0, {}), 6.0)}},
  };
}

}  // namespace

std::span<const ConvergenceFigure> convergence_figures() {
  static const std::vector<ConvergenceFigure> figures = make_figures();
  return figures;
}

ConvergenceRecipe turned(ConvergenceRecipe recipe, Knob knob, double value) {
  switch (knob) {
    case Knob::kShift:
    case Knob::kShiftRootCondition:
    case Knob::kRootShiftCondition:
      recipe.shift = value;
      break;
    case Knob::kLocalSteps:
      recipe.local_steps = static_cast<int>(value);
      break;
    case Knob::kNodes:
      recipe.examples = recipe.examples * recipe.nodes / static_cast<Index>(value);
      recipe.nodes = static_cast<int>(value);
      break;
    case Knob::kSampled:
      recipe.sampled = static_cast<Index>(value);
      break;
    case Knob::kVariance:
      recipe.variance = value;
      break;
    case Knob::kAccuracy:
    case Knob::kDecades:
      recipe.accuracy = std::pow(10.0, -value);
      break;
    case Knob::kDecay:
      recipe.l2 = value;
      break;
    case Knob::kGradients:
      recipe.rounds = LocalSettings{.steps = recipe.local_steps}.rounds(static_cast<std::int64_t>(value));
      break;
    case Knob::kExamples:
      recipe.examples = static_cast<Index>(value);
      break;
  }
  return recipe;
}

}  // namespace labelshift
