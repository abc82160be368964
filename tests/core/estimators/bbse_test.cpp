#include "labelshift/core/estimators/bbse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/rlls.hpp"
#include "tests/core/exact_problems.hpp"

namespace labelshift {
namespace {

std::string message(const RatioEstimator& estimator, const SourceSummary& source, const TargetSample& target) {
  try {
    estimator.estimate(source, target);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(PredictedPrior, CountsPredictionsOrAddsProbabilities) {
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(2, 2) << 0.75, 0.25, 0.25, 0.75).finished();
  const std::vector<double> weights = {3.0, 1.0};
  EXPECT_EQ(predicted_prior({probs, weights}, /*soft=*/false), Eigen::Vector2d(0.75, 0.25));
  EXPECT_EQ(predicted_prior({probs, weights}, /*soft=*/true), Eigen::Vector2d(0.625, 0.375));
}

TEST(Bbse, MovesNegativeSharesToTheSimplex) {
  // p(predicted | y) is (0.9, 0.1) and (0.2, 0.8); a target always predicted 0 asks for q = (8, -1) / 7.
  ExactProblem problem = exact_problem((Eigen::MatrixXd(2, 2) << 0.9, 0.2, 0.1, 0.8).finished(),
                                       Eigen::Vector2d(0.5, 0.5), Eigen::Vector2d(0.5, 0.5));
  const Bbse bbse(/*soft=*/false);
  const Eigen::Vector2d predicted(1.0, 0.0);
  EXPECT_LE((bbse.unprojected_prior(problem.source, predicted).prior - Eigen::Vector2d(8.0, -1.0) / 7.0).norm(), 1e-14);
  EXPECT_LE((bbse.solve(problem.source, predicted).ratio - Eigen::Vector2d(2.0, 0.0)).norm(), 1e-14);
}

TEST(Bbse, SaysWhatIsMissingOrSingular) {
  ExactProblem problem = two_class_population();
  SourceSummary prior_only;
  prior_only.label_prior = problem.source.label_prior;
  EXPECT_THAT(message(Bbse(false), prior_only, problem.target()), testing::HasSubstr("needs the source's confusion"));
  problem.source.confusion = (Eigen::MatrixXd(2, 2) << 0.5, 0.5, 0.0, 0.0).finished();
  EXPECT_EQ(message(Bbse(false), problem.source, problem.target()),
            "no source example is predicted as class 1, so the confusion matrix is singular; use bbse-soft or an mlls "
            "estimator");
  problem.source.soft_confusion = Eigen::MatrixXd::Constant(2, 2, 0.25);
  EXPECT_THAT(message(Bbse(true), problem.source, problem.target()), testing::HasSubstr("two classes look the same"));
}

TEST(Rlls, IteratesUnlessNoShiftIsOptimal) {
  ExactProblem problem = two_class_population();
  problem.source.examples = 1000.0;
  const Eigen::VectorXd same = problem.source.confusion->rowwise().sum();  // the predicted prior without a shift
  const RatioEstimate still = Rlls().solve(problem.source, same);
  EXPECT_EQ(still.iterations, 0);
  EXPECT_EQ(still.stopped_by, StopReason::kClosedForm);
  EXPECT_LE((still.ratio - Eigen::Vector2d::Ones()).norm(), 1e-15);
  const RatioEstimate moved = Rlls().solve(problem.source, Eigen::Vector2d(same[0] - 0.2, same[1] + 0.2));
  EXPECT_EQ(moved.iterations, 46);  // halvings of 70 down to 1e-12
  EXPECT_EQ(moved.stopped_by, StopReason::kTolerance);
}

TEST(Rlls, MinimisesItsObjective) {
  Rng rng(1);
  for (int trial = 0; trial < 20; ++trial) {
    const Index m = 2 + rng.below(5);
    Eigen::MatrixXd likelihoods(2 * m, m);
    for (Index c = 0; c < m; ++c) likelihoods.col(c) = dirichlet(2 * m, 0.3, rng);
    likelihoods.array() += 1e-9;
    ExactProblem problem = exact_problem(likelihoods, dirichlet(m, 5.0, rng), dirichlet(m, 1.0, rng));
    problem.source.examples = 1000.0;
    const Eigen::MatrixXd& a = *problem.source.confusion;
    const Eigen::VectorXd predicted = dirichlet(m, 1.0, rng);
    const RllsOptions options{.alpha = std::pow(10.0, -4.0 * rng.uniform())};
    const double log_term = std::log(2.0 * static_cast<double>(m) / 0.05);
    const double strength = options.alpha * 3.0 * (2.0 * log_term / 3000.0 + std::sqrt(2.0 * log_term / 1000.0));
    const auto objective = [&](const Eigen::VectorXd& r) {
      return (a * r - predicted).norm() + strength * (r.array() - 1.0).matrix().norm();
    };
    const Eigen::VectorXd& p = problem.source.label_prior;
    const Eigen::VectorXd r = Rlls(options).solve(problem.source, predicted).ratio;
    EXPECT_NEAR(p.dot(r), 1.0, 1e-12);
    for (int other = 0; other < 200; ++other) {
      const Eigen::VectorXd aim =
          other == 0 ? Eigen::VectorXd::Ones(m) : Eigen::VectorXd(dirichlet(m, 0.5, rng).cwiseQuotient(p));
      const double length = std::pow(10.0, -4.0 * rng.uniform());
      EXPECT_GE(objective(r + length * (aim - r)), objective(r) - 1e-9) << trial;
    }
  }
}

}  // namespace
}  // namespace labelshift
