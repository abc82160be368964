#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {

/// A shift whose answer is known: the target has exactly the proportions that `true_ratio` says, so there is no
/// sampling noise to tolerate.
struct ExactProblem {
  SourceSummary source;
  Eigen::MatrixXd probs;        // (n, m) one row for each x the target can show
  std::vector<double> weights;  // (n)    p_te(x), as whole numbers where the problem was made of counts
  Eigen::VectorXd true_ratio;   // (m)

  TargetSample target() const { return {.probs = probs, .weights = weights}; }
};

/// x takes finitely many values with p(x | y) = likelihoods(x, y). f is the exact posterior under `source_prior`, the
/// confusion matrices are exact, and the weight of x is p_te(x) times `scale`.
inline ExactProblem exact_problem(const Eigen::MatrixXd& likelihoods, const Eigen::VectorXd& source_prior,
                                  const Eigen::VectorXd& target_prior, double scale = 1.0) {
  const Index m = source_prior.size();
  ExactProblem problem;
  const Eigen::MatrixXd joint = likelihoods * source_prior.asDiagonal();  // (x, y) p_tr(x, y)
  const Eigen::VectorXd shown = joint.rowwise().sum();                    // (x)    p_tr(x)
  problem.probs = joint.array().colwise() / shown.array();
  const Eigen::VectorXd mass = scale * (likelihoods * target_prior);
  problem.weights.assign(mass.data(), mass.data() + mass.size());
  problem.true_ratio = target_prior.array() / source_prior.array();
  Eigen::MatrixXd hard = Eigen::MatrixXd::Zero(m, m);
  for (Index x = 0; x < joint.rows(); ++x) hard.row(arg_max(problem.probs, x)) += joint.row(x);
  problem.source = {.label_prior = source_prior,
                    .confusion = hard,
                    .soft_confusion = problem.probs.transpose() * joint,
                    .examples = 1e12};  // as good as known, so that rlls has almost nothing to regularise
  return problem;
}

/// Two classes, two values of x: p(x | 0) = (0.8, 0.2), p(x | 1) = (0.3, 0.7); the source has (1/2, 1/2), the target
/// (1/5, 4/5), so r = (0.4, 1.6), and of ten target rows four show the first x and six the second.
inline ExactProblem two_class_population() {
  return exact_problem((Eigen::MatrixXd(2, 2) << 0.8, 0.3, 0.2, 0.7).finished(), Eigen::Vector2d(0.5, 0.5),
                       Eigen::Vector2d(0.2, 0.8), 10.0);
}

/// Three classes that overlap, seen through four values of x, from a source that is not uniform.
inline ExactProblem three_class_population() {
  return exact_problem(
      (Eigen::MatrixXd(4, 3) << 0.7, 0.2, 0.05, 0.2, 0.5, 0.15, 0.05, 0.2, 0.7, 0.05, 0.1, 0.1).finished(),
      Eigen::Vector3d(0.5, 0.3, 0.2), Eigen::Vector3d(0.1, 0.35, 0.55), 2000.0);
}

/// A point of the simplex from a symmetric Dirichlet distribution.
inline Eigen::VectorXd dirichlet(Index size, double concentration, Rng& rng) {
  Eigen::VectorXd draw(size);
  for (double& entry : draw) entry = rng.gamma(concentration);
  // Where every draw underflows (tiny concentrations) the limit is a vertex.
  if (!(draw.sum() > 0.0)) draw[rng.below(size)] = 1.0;
  return draw / draw.sum();
}

/// Ways for a target to be hard on a solver.
enum class Target {
  kOverlapping,   // classes hard to tell apart
  kPlain,         // Dirichlet(1) rows
  kConfident,     // most rows nearly one-hot
  kCertain,       // entries down to 1e-300
  kOneHot,        // hard predictions
  kTwins,         // two classes with the same column: the optimum is not unique
  kAbsent,        // every other class gets no probability at all
  kRarePrior,     // p_min = 1e-6
  kConstantRows,  // every row says the same
};

inline constexpr Target kTargets[] = {Target::kOverlapping, Target::kPlain,     Target::kConfident,
                                      Target::kCertain,     Target::kOneHot,    Target::kTwins,
                                      Target::kAbsent,      Target::kRarePrior, Target::kConstantRows};

/// A prior and rows of the given kind; the rows favour some classes, so that there is a shift to find.
struct HardProblem {
  Eigen::VectorXd label_prior;  // (m)
  Eigen::MatrixXd probs;        // (n, m)

  SourceSummary source() const { return {.label_prior = label_prior}; }
  TargetSample target() const { return {.probs = probs, .weights = {}}; }
};

inline HardProblem hard_problem(Target kind, Index rows, Index classes, Rng& rng) {
  HardProblem problem{.label_prior = dirichlet(classes, 5.0, rng), .probs = {}};
  if (kind == Target::kRarePrior) {
    problem.label_prior[0] = 1e-6;
    problem.label_prior /= problem.label_prior.sum();
  }
  const Eigen::VectorXd favour = dirichlet(classes, 0.3, rng).array() + 1e-6;
  problem.probs.resize(rows, classes);
  for (Index j = 0; j < rows; ++j) {
    Eigen::VectorXd row;
    switch (kind) {
      case Target::kOverlapping:
        row = (problem.label_prior + 0.05 * dirichlet(classes, 1.0, rng)).cwiseProduct(dirichlet(classes, 200.0, rng));
        break;
      case Target::kConfident:
        row = dirichlet(classes, 0.1, rng).cwiseProduct(favour);
        break;
      case Target::kCertain:
        row = dirichlet(classes, 0.005, rng).cwiseProduct(favour);
        break;
      case Target::kOneHot: {
        row = Eigen::VectorXd::Zero(classes);
        double left = rng.uniform() * favour.sum();
        Index c = 0;
        while (c + 1 < classes && (left -= favour[c]) >= 0.0) ++c;
        row[c] = 1.0;
        break;
      }
      case Target::kConstantRows:
        row = j == 0 ? Eigen::VectorXd(favour) : Eigen::VectorXd(problem.probs.row(0));
        break;
      default:
        row = dirichlet(classes, 1.0, rng).cwiseProduct(favour);
    }
    if (kind == Target::kTwins) row[1] = row[0];
    if (kind == Target::kAbsent)
      for (Index c = 1; c < classes; c += 2) row[c] = 0.0;
    if (!(row.sum() > 1e-290)) row = Eigen::VectorXd::Unit(classes, 0);
    problem.probs.row(j) = row / row.sum();
  }
  return problem;
}

}  // namespace labelshift
