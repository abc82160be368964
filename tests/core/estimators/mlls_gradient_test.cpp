#include "labelshift/core/estimators/mlls_gradient.hpp"

#include <gtest/gtest.h>

#include "labelshift/core/estimators/mlls_sqp.hpp"
#include "tests/core/exact_problems.hpp"

namespace labelshift {
namespace {

TEST(MllsCg, FindsWhatMllsSqpFinds) {
  for (const Target kind : kTargets) {
    for (const Index n : {1, 10, 500}) {
      Rng rng(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(kind));
      const HardProblem problem = hard_problem(kind, n, 6, rng);
      const RatioEstimate best = MllsSqp().estimate(problem.source(), problem.target());
      const RatioEstimate found = MllsCg({.tolerance = 1e-6}).estimate(problem.source(), problem.target());
      ASSERT_TRUE(found.ratio.allFinite());
      EXPECT_LE(found.iterations, 100);  // passes; the hardest takes 52
      EXPECT_LE(best.mean_log_likelihood, found.mean_log_likelihood + *found.gap + 1e-12);
      EXPECT_EQ(found.stopped_by, StopReason::kTolerance)
          << "kind " << static_cast<int>(kind) << ", n = " << n << ", gap " << *found.gap;
    }
  }
}

TEST(MllsSgd, GivesTheSameAnswerForTheSameSeedOnly) {
  Rng rng(2);
  const HardProblem problem = hard_problem(Target::kPlain, 300, 4, rng);
  const auto ratio = [&](std::uint64_t seed) {
    return MllsSgd({.seed = seed}).estimate(problem.source(), problem.target()).ratio;
  };
  EXPECT_EQ(ratio(1), ratio(1));
  EXPECT_NE(ratio(1), ratio(2));
}

TEST(MllsSgd, KeepsAClassThatMostBatchesLack) {
  // Of 6,400 hard predictions 64 are of class 1: of 100 batches about half hold none.
  Eigen::MatrixXd probs = Eigen::MatrixXd::Zero(6400, 2);
  for (Index j = 0; j < 6400; ++j) probs(j, j % 100 == 0 ? 1 : 0) = 1.0;
  const RatioEstimate found = MllsSgd().estimate({.label_prior = Eigen::Vector2d(0.5, 0.5)}, {probs, {}});
  ASSERT_TRUE(found.ratio.allFinite());
  // A batch's share has deviation sqrt(0.01 * 0.99 / 64) = 0.012; steps of 0.08 average it over 25 epochs of batches
  // that see every row once each: below 0.002.
  EXPECT_NEAR(0.5 * found.ratio[1], 0.01, 0.002);
}

}  // namespace
}  // namespace labelshift
