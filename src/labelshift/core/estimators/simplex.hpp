#pragma once

#include <Eigen/Core>
#include <optional>
#include <vector>

namespace labelshift {

/// The point of the simplex nearest to `point` in Euclidean distance.
Eigen::VectorXd project_to_simplex(const Eigen::VectorXd& point);

/// ½ y^T H y - b^T y + sum_c slope_c |y_c - kink_c| to be minimised over the simplex; H positive definite, slope >= 0.
/// A kink at 0 with slope 0 is a plain coordinate.
struct SimplexProblem {
  const Eigen::MatrixXd& quadratic;  // (m, m) H
  Eigen::VectorXd linear;            // (m)    b
  Eigen::VectorXd kink;              // (m)    >= 0
  Eigen::VectorXd slope;             // (m)    >= 0
};

/// Solves a SimplexProblem by block principal pivoting: guess which coordinates are at zero, at their kink or on either
/// side of it, solve the linear system of that guess, move every coordinate that breaks its guess, repeat. From the
/// solution of a similar problem this takes one to three Cholesky factorisations. Block pivoting can cycle, most of all
/// between kinks; then a primal active-set method, which moves one coordinate at a time and never loses, goes on from
/// `start`.
class SimplexSolver {
 public:
  /// Starts from the guess that `start` (on the simplex) gives. The answer is on the simplex and no worse than `start`
  /// up to rounding, also where H is only semi-definite.
  Eigen::VectorXd solve(const SimplexProblem& problem, const Eigen::VectorXd& start);

 private:
  enum class Place { kZero, kBelowKink, kKink, kAboveKink };
  struct Piece {
    double multiplier;  // of sum y = 1
    bool solved;
  };
  void guess(const SimplexProblem& problem, const Eigen::VectorXd& y);
  bool is_free(Eigen::Index c) const;
  Piece solve_piece(const SimplexProblem& problem, Eigen::VectorXd& y) const;
  Place moved(const SimplexProblem& problem, Eigen::Index c, double y, double derivative, double rounding) const;
  std::optional<Eigen::VectorXd> pivot(const SimplexProblem& problem);
  Eigen::VectorXd descend(const SimplexProblem& problem, const Eigen::VectorXd& start);
  bool release(const SimplexProblem& problem, const Eigen::VectorXd& y);
  std::vector<Place> places_;  // (m)
  double scale_ = 1.0;         // y^T H y at the start
};

}  // namespace labelshift
