#include "labelshift/core/estimators/simplex.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "labelshift/core/base/blas.hpp"

namespace labelshift {

using Eigen::Index;

Eigen::VectorXd project_to_simplex(const Eigen::VectorXd& point) {
  // Held, Wolfe and Crowder: subtract the threshold that leaves the positive parts summing to 1.
  std::vector<double> sorted(point.data(), point.data() + point.size());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0.0;
  double threshold = 0.0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    sum += sorted[k];
    const double candidate = (sum - 1.0) / static_cast<double>(k + 1);
    if (sorted[k] > candidate) threshold = candidate;
  }
  Eigen::VectorXd projected = (point.array() - threshold).cwiseMax(0.0);
  return projected / projected.sum();
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How far rounding can carry each entry of H y - b.
Eigen::VectorXd rounding_of(const SimplexProblem& problem, const Eigen::VectorXd& product) {
  return 1e-13 * (problem.linear.array().abs() + product.array().abs() + problem.slope.array());
}

}  // namespace

void SimplexSolver::guess(const SimplexProblem& problem, const Eigen::VectorXd& y) {
  places_.resize(static_cast<std::size_t>(y.size()));
  for (Index c = 0; c < y.size(); ++c) {
    const double kink = problem.kink[c];
    // A kink is met up to rounding: callers scale what they got from here to sum to 1.
    places_[static_cast<std::size_t>(c)] = y[c] <= 0.0                                           ? Place::kZero
                                           : kink > 0.0 && std::abs(y[c] - kink) <= 1e-12 * kink ? Place::kKink
                                           : y[c] < kink                                         ? Place::kBelowKink
                                                                                                 : Place::kAboveKink;
  }
}

bool SimplexSolver::is_free(Index c) const {
  const Place place = places_[static_cast<std::size_t>(c)];
  return place == Place::kBelowKink || place == Place::kAboveKink;
}

SimplexSolver::Piece SimplexSolver::solve_piece(const SimplexProblem& problem, Eigen::VectorXd& y) const {
  // On the free coordinates: H y = b -/+ slope - multiplier, and the sum is what the fixed ones leave.
  const Eigen::MatrixXd& h = problem.quadratic;
  std::vector<Index> free;
  y.setZero();
  for (Index c = 0; c < y.size(); ++c) {
    if (places_[static_cast<std::size_t>(c)] == Place::kKink) y[c] = problem.kink[c];
    if (is_free(c)) free.push_back(c);
  }
  const Index k = static_cast<Index>(free.size());
  const Eigen::VectorXd pull = problem.linear - h * y;
  Eigen::MatrixXd reduced(k, k);
  Eigen::MatrixXd sides(k, 2);
  for (Index i = 0; i < k; ++i) {
    const Index c = free[static_cast<std::size_t>(i)];
    for (Index j = 0; j <= i; ++j) reduced(i, j) = h(c, free[static_cast<std::size_t>(j)]) + scale_;
    const double side = places_[static_cast<std::size_t>(c)] == Place::kBelowKink ? 1.0 : -1.0;
    sides(i, 0) = pull[c] + side * problem.slope[c];
    sides(i, 1) = 1.0;
  }
  // H may be singular: two classes can look the same, or there are fewer rows than classes. Adding scale to all of H
  // only moves the multiplier, as sum y is given, and makes room for one class without curvature; a ridge, relative to
  // each coordinate since one class's curvature can be 1e12 times another's, does the rest.
  reduced.diagonal() += 1e-12 * reduced.diagonal().cwiseMax(scale_);
  if (!solve_positive_definite(reduced, sides)) return {.multiplier = 0.0, .solved = false};
  const double left = 1.0 - y.sum();
  const double multiplier = (sides.col(0).sum() - left) / sides.col(1).sum();
  for (Index i = 0; i < k; ++i) y[free[static_cast<std::size_t>(i)]] = sides(i, 0) - multiplier * sides(i, 1);
  return {.multiplier = multiplier + scale_ * left, .solved = y.allFinite()};
}

SimplexSolver::Place SimplexSolver::moved(const SimplexProblem& problem, Index c, double y, double derivative,
                                          double rounding) const {
  // `derivative` is that of the smooth part plus the multiplier of sum y = 1: zero inside a piece without slope.
  const double kink = problem.kink[c];
  const double slope = problem.slope[c];
  switch (places_[static_cast<std::size_t>(c)]) {
    case Place::kZero:
      if (kink > 0.0) return derivative - slope < -rounding ? Place::kBelowKink : Place::kZero;
      return derivative + slope < -rounding ? Place::kAboveKink : Place::kZero;
    case Place::kBelowKink:
      if (y < 0.0) return Place::kZero;
      return y > kink ? Place::kKink : Place::kBelowKink;
    case Place::kKink:
      if (derivative > slope + rounding) return Place::kBelowKink;
      return derivative < -slope - rounding ? Place::kAboveKink : Place::kKink;
    case Place::kAboveKink:
      if (y < kink) return kink > 0.0 ? Place::kKink : Place::kZero;
      return Place::kAboveKink;
  }
  return Place::kZero;
}

std::optional<Eigen::VectorXd> SimplexSolver::pivot(const SimplexProblem& problem) {
  const Index m = problem.linear.size();
  Eigen::VectorXd y(m);
  std::size_t fewest_moves = std::numeric_limits<std::size_t>::max();
  for (int patience = 3; patience >= 0;) {
    const Piece piece = solve_piece(problem, y);
    if (!piece.solved) return std::nullopt;
    const Eigen::VectorXd product = problem.quadratic * y;
    const Eigen::VectorXd rounding = rounding_of(problem, product);
    std::vector<Place> next = places_;
    std::size_t moves = 0;
    bool any_free = false;
    for (Index c = 0; c < m; ++c) {
      const double derivative = product[c] - problem.linear[c] + piece.multiplier;
      Place& place = next[static_cast<std::size_t>(c)];
      place = moved(problem, c, y[c], derivative, rounding[c]);
      moves += place != places_[static_cast<std::size_t>(c)] ? 1 : 0;
      any_free = any_free || place == Place::kBelowKink || place == Place::kAboveKink;
    }
    if (moves == 0) return y;
    if (!any_free) return std::nullopt;
    patience = moves < fewest_moves ? 3 : patience - 1;
    fewest_moves = std::min(fewest_moves, moves);
    places_ = std::move(next);
  }
  return std::nullopt;
}

bool SimplexSolver::release(const SimplexProblem& problem, const Eigen::VectorXd& y) {
  // What a coordinate costs to raise and to lower, by the one-sided derivatives. At the optimum no coordinate can be
  // raised and another lowered at a profit; inside a piece the two costs are opposite, and the same for all.
  const Eigen::VectorXd product = problem.quadratic * y;
  const Eigen::VectorXd rounding = rounding_of(problem, product);
  Index cheapest_up = -1;
  Index cheapest_down = -1;
  double up = kInfinity;
  double down = kInfinity;
  double free_cost = 0.0;
  double free_count = 0.0;
  for (Index c = 0; c < y.size(); ++c) {
    const double smooth = product[c] - problem.linear[c];
    const Place place = places_[static_cast<std::size_t>(c)];
    const bool below = place == Place::kBelowKink || (place == Place::kZero && problem.kink[c] > 0.0);
    const double raise = smooth + (below ? -problem.slope[c] : problem.slope[c]);
    if (is_free(c)) {
      free_cost += raise;
      free_count += 1.0;
      continue;
    }
    if (raise + rounding[c] < up) {
      up = raise + rounding[c];
      cheapest_up = c;
    }
    const double lower = -smooth + problem.slope[c];
    if (place == Place::kKink && lower + rounding[c] < down) {
      down = lower + rounding[c];
      cheapest_down = c;
    }
  }
  const bool any_free = free_count > 0.0;
  const double level = any_free ? free_cost / free_count : 0.0;
  if (any_free ? std::min(up - level, down + level) >= 0.0 : up + down >= 0.0) return false;
  if (!any_free || up - level <= down + level)
    places_[static_cast<std::size_t>(cheapest_up)] =
        y[cheapest_up] == 0.0 && problem.kink[cheapest_up] > 0.0 ? Place::kBelowKink : Place::kAboveKink;
  if (!any_free || up - level > down + level) places_[static_cast<std::size_t>(cheapest_down)] = Place::kBelowKink;
  return true;
}

Eigen::VectorXd SimplexSolver::descend(const SimplexProblem& problem, const Eigen::VectorXd& start) {
  const Index m = start.size();
  Eigen::VectorXd y = start;
  Eigen::VectorXd goal(m);
  guess(problem, y);
  for (Index iteration = 0; iteration < 10 * m + 50; ++iteration) {
    bool any_free = false;
    for (Index c = 0; c < m; ++c) any_free = any_free || is_free(c);
    if (any_free) {
      if (!solve_piece(problem, goal).solved) return y;
      // Go towards the piece's optimum until the first coordinate leaves the piece, and fix it there.
      double length = 1.0;
      Index first = -1;
      for (Index c = 0; c < m; ++c) {
        if (!is_free(c)) continue;
        const bool below = places_[static_cast<std::size_t>(c)] == Place::kBelowKink;
        const double low = below ? 0.0 : problem.kink[c];
        const double high = below ? problem.kink[c] : kInfinity;
        const double bound = goal[c] < low ? low : high;
        if (goal[c] >= low && goal[c] <= high) continue;
        const double reach = std::max(0.0, (bound - y[c]) / (goal[c] - y[c]));
        if (reach < length || first < 0) {
          length = std::min(reach, 1.0);
          first = c;
        }
      }
      y += length * (goal - y);
      if (first >= 0) {
        const bool to_zero = goal[first] < y[first] && (problem.kink[first] == 0.0 ||
                                                        places_[static_cast<std::size_t>(first)] == Place::kBelowKink);
        places_[static_cast<std::size_t>(first)] = to_zero ? Place::kZero : Place::kKink;
        y[first] = to_zero ? 0.0 : problem.kink[first];
        continue;
      }
    }
    if (!release(problem, y)) break;
  }
  return y;
}

Eigen::VectorXd SimplexSolver::solve(const SimplexProblem& problem, const Eigen::VectorXd& start) {
  const double scale = start.dot(problem.quadratic * start);
  scale_ = scale > 0.0 ? scale : 1.0;
  guess(problem, start);
  bool any_free = false;
  for (Index c = 0; c < start.size(); ++c) any_free = any_free || is_free(c);
  if (any_free) {
    if (const std::optional<Eigen::VectorXd> y = pivot(problem)) return *y;
  }
  return descend(problem, start);
}

}  // namespace labelshift
