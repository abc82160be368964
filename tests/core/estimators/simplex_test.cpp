#include "labelshift/core/estimators/simplex.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "labelshift/core/base/blas.hpp"
#include "tests/core/exact_problems.hpp"

namespace labelshift {
namespace {

TEST(ProjectToSimplex, IsKnownByHand) {
  EXPECT_EQ(project_to_simplex(Eigen::Vector2d(0.3, 0.7)), Eigen::Vector2d(0.3, 0.7));
  EXPECT_LE((project_to_simplex(Eigen::Vector2d(1.0, 1.0)) - Eigen::Vector2d(0.5, 0.5)).norm(), 1e-16);
  EXPECT_EQ(project_to_simplex(Eigen::Vector3d(5.0, 0.0, -1.0)), Eigen::Vector3d(1.0, 0.0, 0.0));
  EXPECT_LE((project_to_simplex(Eigen::Vector3d(0.6, 0.6, -0.2)) - Eigen::Vector3d(0.5, 0.5, 0.0)).norm(), 1e-16);
  EXPECT_EQ(project_to_simplex(Eigen::VectorXd::Constant(1, -3.0))[0], 1.0);
}

TEST(ProjectToSimplex, MeetsTheOptimalityConditions) {
  Rng rng(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const Index m = 1 + rng.below(30);
    Eigen::VectorXd x(m);
    for (double& entry : x) entry = rng.normal();
    const Eigen::VectorXd y = project_to_simplex(x);
    ASSERT_NEAR(y.sum(), 1.0, 1e-14);
    // x - y equals one number where y > 0, and is at most that number where y = 0.
    Index top = 0;
    y.maxCoeff(&top);
    const double threshold = x[top] - y[top];
    for (Index c = 0; c < m; ++c) {
      ASSERT_GE(y[c], 0.0);
      ASSERT_LE(x[c] - y[c], threshold + 1e-13);
      if (y[c] > 0.0) {
        ASSERT_NEAR(x[c] - y[c], threshold, 1e-13);
      }
    }
  }
}

double objective(const SimplexProblem& problem, const Eigen::VectorXd& y) {
  return 0.5 * y.dot(problem.quadratic * y) - problem.linear.dot(y) + problem.slope.dot((y - problem.kink).cwiseAbs());
}

/// How much can be gained at `y`, per unit moved, by raising one coordinate and lowering another: zero at the optimum.
double best_exchange(const SimplexProblem& problem, const Eigen::VectorXd& y) {
  const Eigen::VectorXd smooth = problem.quadratic * y - problem.linear;
  double raise = std::numeric_limits<double>::infinity();
  double lower = raise;
  for (Index c = 0; c < y.size(); ++c) {
    const double s = problem.slope[c];
    const double from_kink = y[c] - problem.kink[c];
    const bool at_kink = std::abs(from_kink) <= 1e-10;
    raise = std::min(raise, smooth[c] + (at_kink || from_kink > 0.0 ? s : -s));
    if (y[c] > 1e-10) lower = std::min(lower, -smooth[c] + (at_kink || from_kink < 0.0 ? s : -s));
  }
  return std::max(0.0, -(raise + lower));
}

struct RandomProblem {
  Eigen::MatrixXd quadratic;
  Eigen::VectorXd linear, kink, slope, start;
  SimplexProblem view() const { return {quadratic, linear, kink, slope}; }
};

RandomProblem random_problem(int trial, Rng& rng) {
  const Index m = 1 + rng.below(trial % 10 == 0 ? 60 : 12);
  const Index rank = trial % 3 == 0 ? 1 + rng.below(m) : m + 3;  // a third of them nearly singular
  Eigen::MatrixXd root(rank, m);
  for (Index i = 0; i < root.size(); ++i) root.data()[i] = rng.normal();
  RandomProblem problem;
  problem.quadratic = root.transpose() * root;
  problem.quadratic.diagonal().array() += trial % 3 == 0 ? 1e-6 : 1e-3;
  problem.linear.resize(m);
  for (double& entry : problem.linear) entry = 3.0 * rng.normal();
  problem.kink = problem.slope = Eigen::VectorXd::Zero(m);
  if (trial % 2 == 1) {
    problem.kink = dirichlet(m, 1.0, rng);
    for (double& entry : problem.slope) entry = rng.uniform() < 0.3 ? 0.0 : 3.0 * rng.uniform();
  }
  if (trial % 5 == 2) problem.linear.setZero();  // ties everywhere
  problem.start = trial % 4 == 1 ? problem.kink : dirichlet(m, trial % 4 == 2 ? 0.01 : 1.0, rng);
  if (!(problem.start.sum() > 0.5)) problem.start = dirichlet(m, 1.0, rng);
  return problem;
}

TEST(SimplexSolver, MeetsTheOptimalityConditionsOnThousandsOfProblems) {
  use_one_blas_thread();
  Rng rng(2);
  for (int trial = 0; trial < 4000; ++trial) {
    const RandomProblem problem = random_problem(trial, rng);
    const Eigen::VectorXd y = SimplexSolver().solve(problem.view(), problem.start);
    ASSERT_NEAR(y.sum(), 1.0, 1e-9) << trial;
    ASSERT_GE(y.minCoeff(), -1e-12) << trial;
    // Derivatives are of size |H| <= 200; the ridge the solver adds is 1e-12 of it, and 1e4 times weaker directions
    // amplify rounding.
    ASSERT_LE(best_exchange(problem.view(), y), 1e-6) << trial;
  }
}

TEST(SimplexSolver, AgreesWithASlowProjectedGradient) {
  use_one_blas_thread();
  Rng rng(3);
  for (int trial = 0; trial < 60; trial += 2) {  // even trials have no kinks
    RandomProblem problem = random_problem(trial, rng);
    const Eigen::VectorXd y = SimplexSolver().solve(problem.view(), problem.start);
    Eigen::VectorXd slow = problem.start;
    const double step = 1.0 / problem.quadratic.trace();
    for (int i = 0; i < 5000; ++i) slow = project_to_simplex(slow - step * (problem.quadratic * slow - problem.linear));
    // The slow one approaches from above, so only its lead could be an error of the solver.
    EXPECT_LE(objective(problem.view(), y), objective(problem.view(), slow) + 1e-9) << trial;
  }
}

TEST(SimplexSolver, FindsAKinkByHand) {
  // ½ |y|^2 + 10 |y - k|_1 stays at k; with slope 0.05 it goes towards (1/2, 1/2) by 0.05 on each side.
  const Eigen::MatrixXd h = Eigen::Matrix2d::Identity();
  const Eigen::Vector2d k(0.8, 0.2);
  const auto solve = [&](double slope, const Eigen::Vector2d& start) {
    return Eigen::VectorXd(
        SimplexSolver().solve({h, Eigen::Vector2d::Zero(), k, Eigen::Vector2d::Constant(slope)}, start));
  };
  for (const Eigen::Vector2d& start : {k, Eigen::Vector2d(1.0, 0.0), Eigen::Vector2d(0.3, 0.7)}) {
    EXPECT_LE((solve(10.0, start) - k).norm(), 1e-12);
    EXPECT_LE((solve(0.05, start) - Eigen::Vector2d(0.55, 0.45)).norm(), 1e-11);
  }
}

TEST(SimplexSolver, StaysAtAKinkThatAGoalIsBeyondByARoundingAlone) {
  // The optimum is the kink: no exchange pays. Found among 400,000 random problems, in which a coordinate's goal was
  // its kink or one double beyond.
  struct Problem {
    Eigen::MatrixXd h;
    Eigen::VectorXd b, k, s, start;
  };
  const double third = 1.0 / 3.0;
  const Problem problems[] = {
      {Eigen::Matrix3d::Identity(), Eigen::Vector3d(0.5, -0.60000000000000009, 0.0),
       Eigen::Vector3d(2.0 * third, 0.0, third), Eigen::Vector3d(0.5, 0.0, 0.30000000000000004),
       Eigen::Vector3d(1.0, 4.1376998133165031e-21, 8.5431260549180074e-50)},
      {Eigen::MatrixXd{{1.003775867761735, 1.2488900065802258}, {1.2488900065802258, 2.330000014002652}},
       Eigen::Vector2d(0.2, 0.2), Eigen::Vector2d(2.0 * third, third), Eigen::Vector2d(0.4, 0.4),
       Eigen::Vector2d(0.99871507310712959, 0.0012849268928703094)},
      {Eigen::MatrixXd{{0.98765534914035547, 1.0105953122130873}, {1.0105953122130873, 1.7957131335878622}},
       Eigen::Vector2d(-0.2, -0.70000000000000007), Eigen::Vector2d(2.0 * third, third), Eigen::Vector2d(0.5, 0.5),
       Eigen::Vector2d(0.99452357941625835, 0.0054764205837416714)},
      {Eigen::MatrixXd{{2.3798271431971858, 0.63983019277691688}, {0.63983019277691688, 1.3695109117365927}},
       Eigen::Vector2d(0.30000000000000004, -0.8), Eigen::Vector2d(2.0 * third, third), Eigen::Vector2d(0.5, 0.2),
       Eigen::Vector2d(0.99960732592264523, 0.00039267407735479811)},
  };
  for (const auto& [h, b, k, s, start] : problems) {
    EXPECT_EQ(best_exchange({h, b, k, s}, k), 0.0);
    EXPECT_LE((SimplexSolver().solve({h, b, k, s}, start) - k).norm(), 1e-12) << k.transpose();
  }
}

TEST(SimplexSolver, TakesClassesWhoseCurvaturesDifferByTwelveOrders) {
  // Separable: h_c y_c = b_c - nu. With h = (1e12, 1, 1), b = (1e6, 0, 0): y = (1e-6, ½, ½) up to 1e-6.
  const Eigen::MatrixXd h = Eigen::Vector3d(1e12, 1.0, 1.0).asDiagonal();
  const Eigen::VectorXd y =
      SimplexSolver().solve({h, Eigen::Vector3d(1e6, 0.0, 0.0), Eigen::Vector3d::Zero(), Eigen::Vector3d::Zero()},
                            Eigen::Vector3d(2e-6, 0.3, 0.7 - 2e-6));
  EXPECT_NEAR(y[0], 1e-6, 1e-11);
  EXPECT_NEAR(y[1], y[2], 1e-12);
}

}  // namespace
}  // namespace labelshift
