#include "labelshift/core/estimators/mlls_sqp.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/estimators/mlls_em.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"
#include "tests/core/exact_problems.hpp"

namespace labelshift {

void PrintTo(Penalty penalty, std::ostream* out) {
  *out << (penalty == Penalty::kL1 ? "l1" : "l2");
}

namespace {

double penalised(const HardProblem& problem, Penalty penalty, double strength, const Eigen::VectorXd& q) {
  const Eigen::ArrayXd departure = q.array() / problem.label_prior.array() - 1.0;
  const double value =
      Likelihood(problem.label_prior, problem.target()).at(q, Derivatives::kGradient).mean_log_likelihood;
  if (penalty == Penalty::kL1) return value - strength * departure.abs().sum();
  if (penalty == Penalty::kL2) return value - strength * departure.square().sum();
  return value;
}

TEST(MllsSqp, CertifiesAndAgreesWithEmWhateverTheTarget) {
  use_one_blas_thread();
  for (const Target kind : kTargets) {
    for (const Index m : {2, 5, 10, 50, 100}) {
      for (const Index n : {1, 3, 10, 100, 5000}) {
        if (m * n > 100'000) continue;
        Rng rng(static_cast<std::uint64_t>(n * 131 + m), static_cast<std::uint64_t>(kind));
        const HardProblem problem = hard_problem(kind, n, m, rng);
        const RatioEstimate sqp = MllsSqp().estimate(problem.source(), problem.target());
        const std::string place = "kind " + std::to_string(static_cast<int>(kind)) + ", m = " + std::to_string(m) +
                                  ", n = " + std::to_string(n);
        ASSERT_TRUE(sqp.ratio.allFinite()) << place;
        EXPECT_GE(sqp.ratio.minCoeff(), 0.0) << place;
        EXPECT_NEAR(problem.label_prior.dot(sqp.ratio), 1.0, 1e-12) << place;
        EXPECT_EQ(sqp.stopped_by, StopReason::kTolerance) << place;
        EXPECT_LE(*sqp.gap, 1e-9) << place;
        EXPECT_LE(sqp.iterations, 60) << place;
        // Each is within its own gap of the one maximum.
        const RatioEstimate em = MllsEm({.tolerance = 1e-7, .max_iterations = 300, .accelerate = true})
                                     .estimate(problem.source(), problem.target());
        EXPECT_LE(em.mean_log_likelihood, sqp.mean_log_likelihood + *sqp.gap + 1e-12) << place;
        EXPECT_LE(sqp.mean_log_likelihood, em.mean_log_likelihood + *em.gap + 1e-12) << place;
      }
    }
  }
}

class EveryPenalty : public testing::TestWithParam<Penalty> {};

TEST_P(EveryPenalty, HasNoBetterNeighbourAndAValidGap) {
  use_one_blas_thread();
  const Penalty penalty = GetParam();
  for (const Target kind : kTargets) {
    for (const Index m : {2, 5, 20}) {
      for (const Index n : {1, 10, 300}) {
        Rng rng(static_cast<std::uint64_t>(n * 17 + m), static_cast<std::uint64_t>(kind));
        const HardProblem problem = hard_problem(kind, n, m, rng);
        const double strength = (penalty == Penalty::kL1 ? 1.0 : 0.5) / static_cast<double>(n);  // the default
        const RatioEstimate found = MllsSqp({.penalty = penalty}).estimate(problem.source(), problem.target());
        ASSERT_TRUE(found.ratio.allFinite());
        // A class of p_c = 1e-6 multiplies rounding by 1e6 where the penalty has a kink there.
        EXPECT_LE(*found.gap, kind == Target::kRarePrior ? 1e-6 : 1e-9)
            << "kind " << static_cast<int>(kind) << ", m = " << m << ", n = " << n;
        const Eigen::VectorXd q = problem.label_prior.cwiseProduct(found.ratio);
        const double best = penalised(problem, penalty, strength, q);
        for (int trial = 0; trial < 60; ++trial) {
          const Eigen::VectorXd other = trial == 0 ? problem.label_prior : dirichlet(m, 1.0, rng);
          const double length = trial == 0 ? 1.0 : std::pow(10.0, -6.0 * rng.uniform());
          EXPECT_LE(penalised(problem, penalty, strength, q + length * (other - q)), best + *found.gap + 1e-12)
              << "kind " << static_cast<int>(kind) << ", m = " << m << ", n = " << n;
        }
      }
    }
  }
}

TEST_P(EveryPenalty, BoundsWhatAnEarlyStopMisses) {
  use_one_blas_thread();
  const Penalty penalty = GetParam();
  for (const Target kind : kTargets) {
    Rng rng(5, static_cast<std::uint64_t>(kind));
    const HardProblem problem = hard_problem(kind, 200, 6, rng);
    const double strength = (penalty == Penalty::kL1 ? 1.0 : 0.5) / 200.0;
    const auto value = [&](const RatioEstimate& e) {
      return penalised(problem, penalty, strength, problem.label_prior.cwiseProduct(e.ratio));
    };
    const double best = value(MllsSqp({.penalty = penalty}).estimate(problem.source(), problem.target()));
    for (const int passes : {1, 2, 3, 5}) {
      const RatioEstimate early =
          MllsSqp({.max_iterations = passes, .penalty = penalty}).estimate(problem.source(), problem.target());
      EXPECT_LE(early.iterations, passes);
      EXPECT_LE(best - value(early), *early.gap + 1e-12) << "kind " << static_cast<int>(kind);
      EXPECT_EQ(early.stopped_by == StopReason::kTolerance, *early.gap <= 1e-9);
    }
  }
}

TEST_P(EveryPenalty, OfNoStrengthIsNoneAndOfGreatStrengthAllowsNoShift) {
  Rng rng(6);
  const HardProblem problem = hard_problem(Target::kPlain, 100, 5, rng);
  const auto ratio = [&](double strength) {
    return MllsSqp({.penalty = GetParam(), .strength = strength}).estimate(problem.source(), problem.target()).ratio;
  };
  EXPECT_EQ(ratio(0.0), MllsSqp().estimate(problem.source(), problem.target()).ratio);
  // L2 at strength s leaves |r - 1| of about the slope of Eq. (3) over 2 s: (max g) max p / 2e6 at most.
  EXPECT_LE((ratio(1e6).array() - 1.0).abs().maxCoeff(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Core, EveryPenalty, testing::Values(Penalty::kL1, Penalty::kL2),
                         testing::PrintToStringParamName());

TEST(MllsSqp, CertifiesAPenalisedGapThatIsKnownByHand) {
  // One row, certainly of class 0, and p = (1/4, 3/4). At q = p the gradient is (4, 0) and there is no penalty. Moving
  // t from class 1 to class 0 gains at most 4 t by the gradient and costs, at strength 0.3, 0.3 (4 t + 4/3 t) = 1.6 t
  // or 0.3 (16 t^2 + 16/9 t^2) = 16/3 t^2. So the gap is 2.4 * 3/4 at t = 3/4, and 3/4 at t = 3/8.
  const SourceSummary source{.label_prior = Eigen::Vector2d(0.25, 0.75)};
  const Eigen::MatrixXd row = (Eigen::MatrixXd(1, 2) << 1.0, 0.0).finished();
  const auto gap = [&](Penalty penalty) {
    return *MllsSqp({.max_iterations = 1, .penalty = penalty, .strength = 0.3}).estimate(source, {row, {}}).gap;
  };
  EXPECT_NEAR(gap(Penalty::kNone), 3.0, 1e-12);
  EXPECT_NEAR(gap(Penalty::kL1), 1.8, 1e-12);
  EXPECT_NEAR(gap(Penalty::kL2), 0.75, 1e-12);
}

TEST(MllsSqp, TakesThePenaltiesStrengthFromTheEffectiveNumberOfRows) {
  Rng rng(7);
  const HardProblem problem = hard_problem(Target::kPlain, 50, 4, rng);
  std::vector<double> weights(50, 1.0);
  std::fill_n(weights.begin(), 25, 3.0);  // (25 * 3 + 25)^2 / (25 * 9 + 25) = 40 rows
  const TargetSample target{.probs = problem.probs, .weights = weights};
  for (const Penalty penalty : {Penalty::kL1, Penalty::kL2}) {
    const double strength = penalty == Penalty::kL1 ? 1.0 / 40.0 : 1.0 / 80.0;
    EXPECT_EQ(MllsSqp({.penalty = penalty}).estimate(problem.source(), target).ratio,
              MllsSqp({.penalty = penalty, .strength = strength}).estimate(problem.source(), target).ratio);
  }
}

TEST(MllsSqp, SolvesWhereTheRowsItStartsOnMislead) {
  use_one_blas_thread();
  // 80,000 rows are first solved on every 64th and every 8th of them. Here those rows carry no weight, or show one
  // class only, which none of the others does.
  Rng rng(8);
  HardProblem problem = hard_problem(Target::kConfident, 80'000, 25, rng);
  std::vector<double> weights(80'000, 1.0);
  for (std::size_t j = 0; j < weights.size(); j += 8) weights[j] = 0.0;
  const RatioEstimate weighted = MllsSqp().estimate(problem.source(), {problem.probs, weights});
  EXPECT_TRUE(weighted.ratio.allFinite());
  EXPECT_LE(*weighted.gap, 1e-9);
  for (Index j = 0; j < 80'000; ++j) {
    problem.probs(j, 24) = 0.0;
    problem.probs.row(j) /= problem.probs.row(j).sum();
    if (j % 8 == 0) problem.probs.row(j) = Eigen::VectorXd::Unit(25, 24);
  }
  const RatioEstimate misled = MllsSqp().estimate(problem.source(), problem.target());
  EXPECT_LE(*misled.gap, 1e-9);
  EXPECT_NEAR(misled.ratio[24] * problem.label_prior[24], 0.125, 1e-8);  // its own rows and no others
}

TEST(MllsSqp, LetsAClassWithoutWeightVanish) {
  // The only row that shows class 1 has no weight, so q_1 = 0 and that row has probability 0 at the optimum.
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(3, 2) << 1.0, 0.0, 1.0, 0.0, 0.0, 1.0).finished();
  const std::vector<double> weights = {1.0, 1.0, 0.0};
  const RatioEstimate found = MllsSqp().estimate({.label_prior = Eigen::Vector2d(0.5, 0.5)}, {probs, weights});
  EXPECT_EQ(found.ratio, Eigen::Vector2d(2.0, 0.0));
  EXPECT_EQ(found.stopped_by, StopReason::kTolerance);
}

}  // namespace
}  // namespace labelshift
