#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/data/datasets/dataset.hpp"
#include "labelshift/experiments/convergence_figures.hpp"
#include "labelshift/experiments/logistic_problem.hpp"
#include "labelshift/federation/federated_data.hpp"

namespace labelshift {

/// One run at a point of a panel.
struct ConvergenceRow {
  int seed = 0;       // its number
  double x = 0.0;     // what the knob came to
  double step = 0.0;  // the step size: of the nodes where they take several steps, else of the server
  double y = 0.0;     // what was measured; 0 if epsilon was not reached
  // Of what is minimised, weights and all; 0 where that is not logistic regression.
  double beta = 0.0;
  double kappa = 0.0;
  double gap = 0.0;  // of the optimum, at most, by F(0) - F*
};

/// Nodes that draw their examples, with replacement, from a data set as from a population.
struct DealtNodes {
  FederatedData data;
  std::vector<Eigen::VectorXd> ratios;  // (K) of (m), Eq. (1); ones without weights
  Normalisation normalisation;          // that they will agree on
};

/// A pure function of its arguments; `population` must outlive what comes of it. Throws Error{kInput} if some class has
/// no example.
DealtNodes deal_nodes(const Dataset& population, const ConvergenceRecipe& recipe, std::uint64_t seed);

/// What a run of `recipe` on these nodes minimises, where the net is "logistic".
LogisticProblem problem_of(const DealtNodes& nodes, const ConvergenceRecipe& recipe);

/// The settings of a run. `step` is of the nodes where they take several steps, else of the server.
FederationSettings federation_settings(const ConvergenceRecipe& recipe, const DealtNodes& nodes, double step,
                                       std::uint64_t seed);

/// Images averaged over squares of so many pixels, as a table.
Dataset shrunk(const Dataset& images, Index side);

/// What came of a step size.
struct StepTry {
  double cost = 0.0;      // such as rounds; infinite: epsilon was not reached
  bool too_long = false;  // and it never will be with longer steps: F went up, or has stopped falling
};

/// The power of 2 by which to multiply a step for the least cost, on a grid of halves, from `start` on.
/// attempt(power, most) may give up a cost above `most`.
double search_step(const std::function<StepTry(double power, double most)>& attempt, double start, double most);

/// Makes the runs of a point. Several threads may use it at once.
class ConvergenceTrials {
 public:
  /// Nodes draw from `images`. LeNet sees them whole, logistic regression averaged over 4 x 4 pixels.
  ConvergenceTrials(Dataset images, std::uint64_t seed);

  /// A run for each of so many seeds, with a step that was tuned on others. A pure function of its arguments and the
  /// seed. Throws Stopped if the observer says so.
  std::vector<ConvergenceRow> run(const ConvergencePanel& panel, const ConvergenceRecipe& series, double value,
                                  int seeds, const Observer& observer = {});

 private:
  struct Solved;
  std::uint64_t seed_of(int number) const;
  Solved solve(const ConvergenceRecipe& recipe, int number);
  LogisticOptimum optimum(const std::string& key, const LogisticProblem& problem);
  std::vector<ConvergenceRow> rounds(const ConvergenceRecipe& recipe, int seeds, const Observer& observer);
  std::vector<ConvergenceRow> gradients(const ConvergenceRecipe& recipe, int seeds, const Observer& observer);
  std::vector<ConvergenceRow> excesses(const ConvergenceRecipe& recipe, int seeds, const Observer& observer);

  const Dataset images_, table_;
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::map<std::string, LogisticOptimum> optima_;  // of problems that several points share
};

}  // namespace labelshift
