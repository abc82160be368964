#include "labelshift/experiments/logistic_problem.hpp"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <cmath>

#include "labelshift/core/base/rng.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd normals(Index size, std::uint64_t seed) {
  Rng rng(seed);
  VectorXd values(size);
  for (double& value : values) value = rng.normal();
  return values;
}

/// Three inputs, four classes, 300 examples (more than a block of them) of unequal weight.
LogisticProblem some_problem(double lambda = 0.01) {
  constexpr Index kExamples = 300;
  LogisticExamples examples{.inputs = normals(3 * kExamples, 1).reshaped(3, kExamples), .classes = 4};
  examples.weights = normals(kExamples, 2).cwiseAbs() / kExamples;
  for (Index i = 0; i < kExamples; ++i) examples.labels.push_back(static_cast<int>((i * i + i / 7) % 4));
  return {std::move(examples), lambda};
}

TEST(LogisticProblem, IsTheSumOfItsDefinition) {
  // Two examples, one input, two classes: the outputs of x are (w_0 x + b_0, w_1 x + b_1).
  const LogisticProblem problem(
      {.inputs = MatrixXd{{2.0, -1.0}}, .labels = {0, 1}, .weights = VectorXd{{0.3, 0.6}}, .classes = 2}, 0.5);
  const VectorXd w{{1.0, -1.0, 0.25, 0.75}};
  const double first = std::log1p(std::exp((-2.0 + 0.75) - (2.0 + 0.25)));
  const double second = std::log1p(std::exp((-1.0 + 0.25) - (1.0 + 0.75)));
  EXPECT_NEAR(problem.value(w), 0.3 * first + 0.6 * second + 0.25 * w.squaredNorm(), 1e-15);
}

TEST(LogisticProblem, HasTheSlopeAndTheCurvatureOfItsValue) {
  const LogisticProblem problem = some_problem();
  const VectorXd w = normals(problem.parameters(), 3);
  const VectorXd slope = problem.gradient(w);
  const MatrixXd curvature = problem.hessian(w).selfadjointView<Eigen::Lower>();
  constexpr double kStep = 1e-5;
  for (Index i = 0; i < w.size(); ++i) {
    VectorXd above = w, below = w;
    above[i] += kStep;
    below[i] -= kStep;
    // Central differences are off by a third derivative times 1e-10, and by rounding of 1e-16 / 1e-5.
    EXPECT_NEAR(slope[i], (problem.value(above) - problem.value(below)) / (2.0 * kStep), 1e-9);
    const VectorXd change = (problem.gradient(above) - problem.gradient(below)) / (2.0 * kStep);
    EXPECT_LT((curvature.col(i) - change).lpNorm<Eigen::Infinity>(), 1e-9);
  }
}

TEST(LogisticProblem, IsNowhereMoreCurvedThanItsSmoothness) {
  const LogisticProblem problem = some_problem();
  double most = 0.0;
  for (const double scale : {0.0, 0.1, 1.0, 10.0}) {
    const MatrixXd curvature = problem.hessian(scale * normals(problem.parameters(), 4));
    most = std::max(most, Eigen::SelfAdjointEigenSolver<MatrixXd>(curvature).eigenvalues().maxCoeff());
  }
  EXPECT_LE(most, problem.smoothness() + problem.lambda());
  EXPECT_GT(most, 0.3 * problem.smoothness());  // and not because that is far too large
  EXPECT_DOUBLE_EQ(problem.condition(), (problem.smoothness() + 0.01) / 0.01);
}

TEST(LogisticProblem, ReachesItsSmoothnessWhereTwoClassesAreEquallyLikely) {
  // softmax of two equal outputs has the curvature (1/4) (1, -1)(1, -1)^T, whose eigenvalue is 1/2.
  const LogisticProblem problem({.inputs = MatrixXd{{3.0}}, .labels = {0}, .weights = VectorXd{{2.0}}, .classes = 2},
                                1.0);
  EXPECT_DOUBLE_EQ(problem.smoothness(), 2.0 * 0.5 * (9.0 + 1.0));
  const MatrixXd curvature = problem.hessian(VectorXd::Zero(4));
  EXPECT_NEAR(Eigen::SelfAdjointEigenSolver<MatrixXd>(curvature).eigenvalues().maxCoeff(), 10.0 + 1.0, 1e-12);
}

TEST(LogisticProblem, IsMinimisedWhereTheSharesAreThoseOfTheClasses) {
  // With no input that tells classes apart, the best biases give each class its share of the weight.
  const LogisticProblem problem(
      {.inputs = MatrixXd::Zero(1, 3), .labels = {0, 1, 0}, .weights = VectorXd{{0.5, 0.2, 0.1}}, .classes = 2}, 1e-9);
  const LogisticOptimum optimum = problem.minimise();
  // A lambda of 1e-9 moves the difference of the biases by about as much.
  EXPECT_NEAR(optimum.parameters[2] - optimum.parameters[3], std::log(0.6 / 0.2), 1e-7);
}

TEST(LogisticProblem, CertifiesItsMinimum) {
  const LogisticProblem problem = some_problem();
  const LogisticOptimum optimum = problem.minimise();
  EXPECT_LE(optimum.gap, 1e-12 * optimum.value);
  EXPECT_DOUBLE_EQ(optimum.gap, problem.gradient(optimum.parameters).squaredNorm() / (2.0 * problem.lambda()));
  EXPECT_DOUBLE_EQ(optimum.value, problem.value(optimum.parameters));
  for (int i = 0; i < 10; ++i)
    EXPECT_GT(problem.value(optimum.parameters + 1e-3 * normals(problem.parameters(), 10 + i)), optimum.value);
  // From anywhere, even where a whole Newton step would go astray.
  const LogisticOptimum from_afar = problem.minimise(30.0 * normals(problem.parameters(), 5));
  EXPECT_NEAR(from_afar.value, optimum.value, 2e-12 * optimum.value);
}

}  // namespace
}  // namespace labelshift
