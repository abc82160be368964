#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "labelshift/core/calibration/calibration_objective.hpp"

/// Calibration of one predictor on examples that lie at many places and stay there. What is minimised is
///
///     sum_i w_i NLL_i + penalty,    w_i = 1 / (m N_y),
///
/// with N_y the number of examples of the label y everywhere, so that every class counts the same: f becomes the
/// posterior under an even prior. The sum and its derivatives are sums over examples. Each place adds up its own
/// (pooled_sums), and whoever has the totals runs the optimiser (PooledCalibration).

namespace labelshift {

/// How many parts the examples are cut into for cross-validation.
inline constexpr Index kPooledFolds = 5;

/// Which numbers travel: those of matrix scaling, or of BCTS where there are too many classes for it.
CalibrationKind pooled_kind(Index classes);

/// How many numbers NllSum's Hessian is made of.
Index pooled_curvature_size(Index classes);

/// The fold of each example, in 0, ..., kPooledFolds - 1: those of a class are spread evenly, from a fold that `seed`
/// gives, so that places with one example each do not all put it into the same.
std::vector<Index> pooled_folds(std::span<const int> labels, Index classes, std::uint64_t seed);

/// What is asked of every place in one step.
struct PooledQuestion {
  double examples = 0.0;        // effective number, of all places: 1 / sum of w^2
  Eigen::MatrixXd weights;      // (m, kPooledFolds + 1) of an example of a class: in all, and where a fold is left out
  std::vector<Index> left_out;  // (P) for each fit: 0 sees all examples, k leaves out fold k - 1
  Eigen::MatrixXd parameters;   // (p, P) of pooled_kind()
  bool curvature = false;       // the Hessian of the first fit is wanted
  bool noise = false;           // and what is needed to know how much it moves with the examples
};

/// The answer of one place, or of all.
struct PooledSums {
  Eigen::VectorXd values;     // (P) sum of w NLL over examples that the fit sees
  Eigen::VectorXd held_out;   // (P) the same over those of the fold it does not see, weighted as among all
  Eigen::MatrixXd gradients;  // (p, P)
  Eigen::VectorXd curvature;  // NllSum's, or empty
  /// Of w times gradients: a mean of products (p (p + 1) / 2), each N_y / (N_y - 1) times, in a unit of its own; and
  /// sums in a class (p, m).
  Eigen::VectorXd noise;

  static PooledSums zero(Index classes, const PooledQuestion& question);
  PooledSums& operator+=(const PooledSums& other);
};

/// What the examples of one place add. `folds` is pooled_folds() of their labels.
PooledSums pooled_sums(const PooledQuestion& question, const Scores& scores, std::span<const int> labels,
                       std::span<const Index> folds);

/// A strength of matrix scaling, or a simpler kind, and how well it predicts examples that it was not fitted to.
struct PooledCandidate {
  CalibrationKind kind = CalibrationKind::kBiasCorrected;
  double strength = 0.0;  // of kMatrix
  double nll = 0.0;       // cross-validated, every class counting the same; 0 where there was no choice. Of one that
                          // is much worse than another, as far as its fits went
};

/// What came of it.
struct PooledFit {
  Calibration calibration;
  std::vector<PooledCandidate> candidates;
  std::size_t chosen = 0;
  double nll_before = 0.0;  // of f as it is, every class counting the same
  double nll_after = 0.0;
  int steps = 0;  // questions that were asked

  /// How good it is, for comparison with that of another predictor: cross-validated, if there was a choice.
  double judgement() const { return candidates.size() > 1 ? candidates[chosen].nll : nll_after; }
  bool converged = true;
  /// (p, p) of the parameters of pooled_kind(), for those who want to know how exact what follows from them is.
  Eigen::MatrixXd covariance;
};

/// The optimiser. All fits go on side by side, so that every strength and every fold costs no more questions than one.
///
///     PooledCalibration fit(counts, path);
///     while (auto question = fit.next()) fit.take(sum over places of pooled_sums(*question, ...));
class PooledCalibration {
 public:
  /// The most questions there can be.
  static constexpr int kMostSteps = 40;

  /// `counts` (m, kPooledFolds) has the examples of all places. `path` is what to choose from by cross-validation, or
  /// the one kind to fit; candidates that classes without examples or too many classes rule out are left out.
  PooledCalibration(const Eigen::MatrixXd& counts, std::vector<PooledCandidate> path);

  /// Nothing once it is done.
  std::optional<PooledQuestion> next();
  void take(const PooledSums& sums);
  const PooledFit& result() const { return result_; }

 private:
  enum class Stage { kScale, kCurvature, kFits, kNoise, kDone };
  /// One fit on its way down: steps of L-BFGS, with a line search, from a Hessian that is near.
  struct Descent {
    std::size_t candidate;
    Index left_out;
    double examples;          // effective number
    std::vector<Index> free;  // of the parameters
    Eigen::VectorXd penalty;  // (p)
    std::shared_ptr<const HessianFactor> preconditioner;
    Eigen::VectorXd at, gradient, step, trial;  // at, gradient, step: of the free ones
    double value = 0.0, held_out = 0.0, slope = 0.0, length = 1.0;
    bool begun = false, done = false, converged = false;
    std::vector<Eigen::VectorXd> moves, changes;
  };

  double examples_without(Index fold) const;
  void begin_fits(const PooledSums& sums);
  void advance(Descent& fit, double value, const Eigen::VectorXd& gradient, double held_out) const;
  void drop_worse();
  void choose();

  Index m_;
  CalibrationParameters parameters_;
  Eigen::MatrixXd counts_, weights_;
  Stage stage_ = Stage::kScale;
  std::vector<Descent> fits_;
  std::vector<std::size_t> asked_;  // of fits_
  int first_fit_ = 0;               // questions before the first about fits_
  Eigen::VectorXd start_;
  PooledFit result_;
};

/// What is chosen from where nobody says otherwise: BCTS, and matrix scaling from hardly any to nearly free.
std::vector<PooledCandidate> pooled_path();

}  // namespace labelshift
