// Prints, as Markdown tables, how well the check of an estimate by predicted labels tells bad estimates from good, over
// many classifiers: some are calibrated as they need, some only in part, and some meet data that have changed by more
// than their mix. docs/estimators.md holds its output.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tests/core/pooled_trial.hpp"

namespace {

using namespace labelshift;
constexpr int kRuns = 1000;
constexpr Index kClasses = 5;

/// A classifier, what its target is like, and how it is calibrated.
struct Scene {
  const char* name;
  std::function<void(double strength, GaussianProblem& source, GaussianProblem& target)> change;
  std::vector<PooledCandidate> path;
};

struct Outcome {
  double strength, error, p_value;
};

std::vector<Outcome> run(const Scene& scene, Index rows) {
  std::vector<Outcome> outcomes;
  for (int run = 0; run < kRuns; ++run) {
    Rng rng(31, static_cast<std::uint64_t>(run));
    GaussianProblem source{.source_prior = Eigen::VectorXd::Constant(kClasses, 1.0 / kClasses),
                           .separation = 2.0,
                           .sharpness = 2.0,
                           .bias = Eigen::VectorXd::Zero(kClasses)};
    GaussianProblem target = source;
    const double strength = rng.uniform();
    scene.change(strength, source, target);
    Eigen::VectorXd truth(kClasses);
    for (double& share : truth) share = -std::log1p(-rng.uniform());
    truth /= truth.sum();
    const PooledTrial trial = pooled_trial(source, target, Eigen::VectorXd::Constant(kClasses, 200.0), truth, rows,
                                           scene.path, static_cast<std::uint64_t>(run));
    outcomes.push_back({strength, trial.error, trial.agreement.p_value});
  }
  return outcomes;
}

/// Of a bad and a good estimate, the chance that the bad one has the smaller p-value.
double area(const std::vector<Outcome>& outcomes, double bad) {
  double wins = 0.0, pairs = 0.0;
  for (const Outcome& a : outcomes)
    for (const Outcome& b : outcomes)
      if (a.error > bad && b.error <= bad) {
        ++pairs;
        wins += a.p_value < b.p_value ? 1.0 : a.p_value == b.p_value ? 0.5 : 0.0;
      }
  return pairs > 0.0 ? wins / pairs : NAN;
}

double mean_error(const std::vector<Outcome>& outcomes, const std::function<bool(const Outcome&)>& which) {
  double sum = 0.0, count = 0.0;
  for (const Outcome& one : outcomes)
    if (which(one)) {
      sum += one.error;
      ++count;
    }
  return count > 0.0 ? sum / count : NAN;
}

}  // namespace

int main() {
  constexpr double kLevels[] = {0.01, 0.01 / 5.0, 0.01 / 100.0};  // of one node, and of each of 5 and of 100
  const Scene scenes[] = {
      {"nothing is wrong", [](double, GaussianProblem&, GaussianProblem&) {}, pooled_path()},
      {"a bias up to 1.5, and one temperature",
       [](double strength, GaussianProblem& source, GaussianProblem&) {
         for (Index c = 0; c < kClasses; ++c) source.bias[c] = 1.5 * strength * (c % 2 == 0 ? 1.0 : -1.0);
       },
       {{CalibrationKind::kTemperature}}},
      {"the same bias, calibrated as it needs",
       [](double strength, GaussianProblem& source, GaussianProblem&) {
         for (Index c = 0; c < kClasses; ++c) source.bias[c] = 1.5 * strength * (c % 2 == 0 ? 1.0 : -1.0);
       },
       pooled_path()},
      {"classes of the target up to 0.5 nearer to each other",
       [](double strength, GaussianProblem&, GaussianProblem& target) { target.separation = 2.0 - 0.5 * strength; },
       pooled_path()},
      {"classes of the target up to 1 further apart",
       [](double strength, GaussianProblem&, GaussianProblem& target) { target.separation = 2.0 + strength; },
       pooled_path()},
  };
  for (const Index rows : {50, 500}) {
    fmt::print("\n{} target rows:\n\n", rows);
    fmt::print("| what is wrong | warned, 1 node | of 5 | of 100 | error if warned | if not | area, error > 0.2 |\n");
    fmt::print("|---|---|---|---|---|---|---|\n");
    for (const Scene& scene : scenes) {
      const std::vector<Outcome> outcomes = run(scene, rows);
      std::string row = fmt::format("| {} |", scene.name);
      for (const double level : kLevels)
        row += fmt::format(" {:.3f} |",
                           static_cast<double>(std::count_if(outcomes.begin(), outcomes.end(),
                                                             [&](const Outcome& one) { return one.p_value < level; })) /
                               kRuns);
      fmt::print("{} {:.3f} | {:.3f} | {:.2f} |\n", row,
                 mean_error(outcomes, [&](const Outcome& one) { return one.p_value < kLevels[0]; }),
                 mean_error(outcomes, [&](const Outcome& one) { return one.p_value >= kLevels[0]; }),
                 area(outcomes, 0.2));
    }
  }
  return EXIT_SUCCESS;
}
