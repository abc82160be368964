#include "labelshift/core/estimators/mlls_em.hpp"

#include <gtest/gtest.h>

#include "tests/core/exact_problems.hpp"

namespace labelshift {
namespace {

TEST(MllsEm, TakesOneStepKnownByHand) {
  // From q = (1/2, 1/2) the E-step is f itself: q becomes the mean row.
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(2, 2) << 0.8, 0.2, 0.4, 0.6).finished();
  const RatioEstimate two =
      MllsEm({.max_iterations = 2}).estimate({.label_prior = Eigen::Vector2d(0.5, 0.5)}, {probs, {}});
  EXPECT_EQ(two.iterations, 2);
  EXPECT_LE((two.ratio - Eigen::Vector2d(1.2, 0.8)).norm(), 1e-15);
}

TEST(MllsEm, NeverLosesLikelihood) {
  Rng rng(1);
  const HardProblem problem = hard_problem(Target::kPlain, 100, 8, rng);
  for (const bool accelerate : {false, true}) {
    double before = -1e300;
    for (int passes = 1; passes < 40; passes += 3) {
      const RatioEstimate found =
          MllsEm({.max_iterations = passes, .accelerate = accelerate}).estimate(problem.source(), problem.target());
      EXPECT_LE(found.iterations, passes);
      // A limit may cut an extrapolation short, so the accelerated runs are not prefixes of each other.
      if (!accelerate) {
        EXPECT_GE(found.mean_log_likelihood, before - 1e-14);
      }
      before = found.mean_log_likelihood;
    }
  }
}

TEST(MllsEm, AcceleratedReachesTheSameGapInFewerPasses) {
  Rng rng(2);
  const HardProblem problem = hard_problem(Target::kOverlapping, 500, 10, rng);
  const MllsEmOptions options{.tolerance = 1e-6, .max_iterations = 20'000};
  const RatioEstimate plain = MllsEm(options).estimate(problem.source(), problem.target());
  MllsEmOptions faster = options;
  faster.accelerate = true;
  const RatioEstimate accelerated = MllsEm(faster).estimate(problem.source(), problem.target());
  EXPECT_EQ(plain.stopped_by, StopReason::kTolerance);
  EXPECT_EQ(accelerated.stopped_by, StopReason::kTolerance);
  EXPECT_NEAR(plain.mean_log_likelihood, accelerated.mean_log_likelihood, 1e-6);
  EXPECT_LT(2 * accelerated.iterations, plain.iterations);
}

}  // namespace
}  // namespace labelshift
