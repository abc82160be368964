#include "labelshift/core/inference/bootstrap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/label_shift.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

TEST(Bootstrap, AgreesWithTheAsymptoticIntervalsInsideTheSimplex) {
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.4, 0.3, 0.3), .sharpness = 1.5};
  Rng rng(8);
  const GaussianSample source = problem.sample(600, problem.source_prior, rng);
  const GaussianSample target = problem.sample(600, Eigen::Vector3d(0.2, 0.5, 0.3), rng);
  LabelShiftProblem known{.target = {target.probs}};
  known.source = SourceExamples{{source.probs}, source.labels, {}};
  LabelShiftOptions options;
  options.calibration = "bcts";
  const Intervals asymptotic = analyse_label_shift(known, options).intervals;
  options.bootstrap = 400;
  const Intervals bootstrap = analyse_label_shift(known, options).intervals;
  for (Index c = 0; c < 3; ++c) {
    // The width of a percentile interval from 400 replicates has a standard error of about 5 %; three of them, and as
    // much again for the difference of the two theories at 600 rows.
    const double ratio =
        (bootstrap.prior_high[c] - bootstrap.prior_low[c]) / (asymptotic.prior_high[c] - asymptotic.prior_low[c]);
    EXPECT_NEAR(ratio, 1.0, 0.3) << "class " << c;
    const double of_ratio =
        (bootstrap.ratio_high[c] - bootstrap.ratio_low[c]) / (asymptotic.ratio_high[c] - asymptotic.ratio_low[c]);
    EXPECT_NEAR(of_ratio, 1.0, 0.3) << "class " << c;
  }
}

TEST(Bootstrap, GivesTheSameBitsForTheSameSeedOnAllCores) {
  const auto run = [](std::uint64_t seed) {
    return bootstrap_intervals(
        Eigen::Vector2d(0.5, 0.5), {}, {}, 50, {}, {.replicates = 64, .seed = seed, .level = 0.9},
        [](std::span<const double>, std::span<const double> target) {
          const double first = target[0] / std::accumulate(target.begin(), target.end(), 0.0);
          return BootstrapReplicate{Eigen::Vector2d(first, 1.0 - first), Eigen::Vector2d(first, first)};
        });
  };
  EXPECT_EQ(run(1).prior_high, run(1).prior_high);
  EXPECT_NE(run(1).prior_high, run(2).prior_high);
}

TEST(Bootstrap, GivesTheSameBitsWhereBlasIsAtWork) {
  use_one_blas_thread();
  Rng rng(9);
  const GaussianProblem problem{.source_prior = Eigen::VectorXd::Constant(100, 0.01), .separation = 4.0};
  const GaussianSample target = problem.sample(100, problem.source_prior, rng);
  LabelShiftProblem known{.target = {target.probs}};
  known.source_prior = problem.source_prior;
  LabelShiftOptions options;
  options.bootstrap = kLeastReplicates;
  const Intervals once = analyse_label_shift(known, options).intervals;
  EXPECT_EQ(analyse_label_shift(known, options).intervals.prior_high, once.prior_high);
}

TEST(Bootstrap, LogitsGiveTheIntervalsOfTheirProbabilities) {
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.4, 0.3, 0.3)};
  Rng rng(10);
  const GaussianSample source = problem.sample(200, problem.source_prior, rng);
  const GaussianSample target = problem.sample(200, Eigen::Vector3d(0.2, 0.5, 0.3), rng);
  const Eigen::MatrixXd source_logits = source.probs.array().log() + 1.0;
  const Eigen::MatrixXd target_logits = target.probs.array().log() - 2.0;
  for (const char* estimator : {"mlls-sqp", "bbse-soft"}) {
    LabelShiftOptions options;
    options.estimator = estimator;
    options.bootstrap = kLeastReplicates;
    LabelShiftProblem probs{.target = {target.probs}};
    probs.source = SourceExamples{{source.probs}, source.labels, {}};
    LabelShiftProblem logits{.target = {target_logits, true}};
    logits.source = SourceExamples{{source_logits, true}, source.labels, {}};
    const Intervals of_probs = analyse_label_shift(probs, options).intervals;
    const Intervals of_logits = analyse_label_shift(logits, options).intervals;
    EXPECT_TRUE(of_logits.prior_low.isApprox(of_probs.prior_low, 1e-6)) << estimator;
    EXPECT_TRUE(of_logits.ratio_high.isApprox(of_probs.ratio_high, 1e-6)) << estimator;
  }
}

TEST(Bootstrap, KeepsARowThatHasWeight) {
  // One of three rows has weight: 8 of 27 draws have none of it.
  const std::vector<double> weights{0.0, 0.0, 1.0};
  Eigen::MatrixXd f(3, 2);
  f << 0.5, 0.5, 0.5, 0.5, 0.25, 0.75;
  LabelShiftProblem known{.target = {f}, .target_weights = weights};
  known.source_prior = Eigen::Vector2d(0.5, 0.5);
  LabelShiftOptions options;
  options.bootstrap = kLeastReplicates;
  EXPECT_EQ(analyse_label_shift(known, options).intervals.prior_high[1], 1.0);
}

TEST(Bootstrap, DrawsAsManyRowsAsThereAreAndKeepsTheirWeights) {
  const std::vector<double> weights{1.0, 2.0, 4.0};
  int calls = 0;
  bootstrap_intervals(
      Eigen::Vector2d(0.5, 0.5), {}, {}, 3, weights, {.replicates = 20, .seed = 3, .level = 0.9},
      [&](std::span<const double>, std::span<const double> target) {
        EXPECT_DOUBLE_EQ(target[0] / 1.0 + target[1] / 2.0 + target[2] / 4.0, 3.0);
        return BootstrapReplicate{Eigen::Vector2d(0.5, 0.5), Eigen::Vector2d(1, 1)};
      },
      [&](std::string_view stage, double done) {
        EXPECT_EQ(stage, "bootstrap");
        EXPECT_DOUBLE_EQ(done, ++calls / 20.0);
        return true;
      });
  EXPECT_EQ(calls, 20);
}

TEST(Bootstrap, JoinsTheAnalyticEndWhereItReachesZero) {
  // Of 100 rows: none of the first class in any replicate, some of the second in most, and of the third in all. The
  // shares of the fourth never quite reach 0, as those of EM do not.
  const Intervals percentile{.prior_low = Eigen::Vector4d(0.0, 0.0, 0.2, 1e-6),
                             .prior_high = Eigen::Vector4d(0.0, 0.05, 0.4, 0.01),
                             .ratio_low = Eigen::Vector4d(0.0, 0.0, 0.8, 4e-6),
                             .ratio_high = Eigen::Vector4d(0.0, 0.2, 1.6, 0.04)};
  const Intervals analytic{.prior_low = Eigen::Vector4d(0.0, 0.01, 0.1, 0.0),
                           .prior_high = Eigen::Vector4d(0.03, 0.04, 0.5, 0.02),
                           .ratio_low = Eigen::Vector4d(0.0, 0.04, 0.4, 0.0),
                           .ratio_high = Eigen::Vector4d(0.12, 0.16, 2.0, 0.08)};
  const Intervals joined = join_at_zero(percentile, analytic, 100.0);
  EXPECT_EQ(joined.prior_low, Eigen::VectorXd(Eigen::Vector4d(0.0, 0.0, 0.2, 0.0)));
  EXPECT_EQ(joined.prior_high, Eigen::VectorXd(Eigen::Vector4d(0.03, 0.05, 0.4, 0.02)));
  EXPECT_EQ(joined.ratio_low, Eigen::VectorXd(Eigen::Vector4d(0.0, 0.0, 0.8, 0.0)));
  EXPECT_EQ(joined.ratio_high, Eigen::VectorXd(Eigen::Vector4d(0.12, 0.2, 1.6, 0.08)));
}

TEST(Bootstrap, NeverSaysThatAClassIsAbsentForCertain) {
  // 100 rows of class 0 for certain: every replicate says that there is nothing else. The rule of three says 3 %.
  Eigen::MatrixXd f(100, 2);
  f.col(0).setOnes();
  f.col(1).setZero();
  LabelShiftProblem known{.target = {f}};
  known.source_prior = Eigen::Vector2d(0.5, 0.5);
  LabelShiftOptions options;
  options.bootstrap = kLeastReplicates;
  const Intervals intervals = analyse_label_shift(known, options).intervals;
  EXPECT_EQ(intervals.prior_low[1], 0.0);
  EXPECT_NEAR(intervals.prior_high[1], 0.03, 0.001);
  EXPECT_NEAR(intervals.ratio_high[1], 0.06, 0.002);
}

TEST(Bootstrap, KeepsARowOfEveryClass) {
  // One row a class, so that nearly every draw misses some.
  std::vector<int> labels(30);
  std::iota(labels.begin(), labels.end(), 0);
  const auto keeps = [&](std::span<const double> source, std::span<const double>) {
    EXPECT_TRUE(std::ranges::all_of(source, [](double weight) { return weight > 0.0; }));
    return BootstrapReplicate{Eigen::Vector2d(0.5, 0.5), Eigen::Vector2d(1, 1)};
  };
  bootstrap_intervals(Eigen::Vector2d(0.5, 0.5), labels, {}, 3, {}, {.replicates = 20}, keeps);
}

TEST(Bootstrap, HasIntervalsWhereClassesHaveFewRows) {
  const GaussianProblem problem{.source_prior = Eigen::VectorXd::Constant(20, 0.05), .separation = 4.0};
  Rng rng(11);
  GaussianSample source = problem.sample(40, problem.source_prior, rng);
  for (int c = 0; c < 20; ++c) source.labels[static_cast<std::size_t>(c)] = c;
  const GaussianSample target = problem.sample(100, problem.source_prior, rng);
  LabelShiftProblem known{.target = {target.probs}};
  known.source = SourceExamples{{source.probs}, source.labels, {}};
  LabelShiftOptions options;
  options.calibration = "none";
  options.bootstrap = kLeastReplicates;
  const Intervals intervals = analyse_label_shift(known, options).intervals;
  EXPECT_TRUE((intervals.prior_low.array() < intervals.prior_high.array()).all());
}

TEST(Bootstrap, DrawsAgainWhatCannotBeEstimated) {
  const auto run = [](const auto& refuses) {
    return bootstrap_intervals(Eigen::Vector2d(0.5, 0.5), {}, {}, 3, {}, {.replicates = 20},
                               [&](std::span<const double>, std::span<const double> target) {
                                 if (refuses(target)) throw Error(ErrorKind::kInput, "the matrix is singular");
                                 return BootstrapReplicate{Eigen::Vector2d(0.5, 0.5), Eigen::Vector2d(1, 1)};
                               });
  };
  EXPECT_EQ(run([](std::span<const double> target) { return target[0] == 0.0; }).prior_low[0], 0.5);
  std::atomic<int> draws = 0;
  try {
    run([&](std::span<const double>) { return ++draws > 0; });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(draws % 50, 0);  // of one replicate a thread, all of which give up
    EXPECT_STREQ(error.what(),
                 "the bootstrap drew rows 50 times and could not estimate from any draw; from the last it could not "
                 "because the matrix is singular");
  }
}

TEST(Bootstrap, DoesNotDrawAgainForAnErrorOfAnotherKind) {
  std::atomic<int> calls = 0;
  EXPECT_THROW(bootstrap_intervals(Eigen::Vector2d(0.5, 0.5), {}, {}, 3, {}, {.replicates = 1},
                                   [&](std::span<const double>, std::span<const double>) -> BootstrapReplicate {
                                     ++calls;
                                     throw Error(ErrorKind::kUsage, "no such thing");
                                   }),
               Error);
  EXPECT_EQ(calls, 1);
}

TEST(Bootstrap, PassesOnTheErrorOfAReplicate) {
  EXPECT_THROW(bootstrap_intervals(Eigen::Vector2d(0.5, 0.5), {}, {}, 3, {}, {.replicates = 20},
                                   [](std::span<const double>, std::span<const double>) -> BootstrapReplicate {
                                     throw std::runtime_error("no");
                                   }),
               std::runtime_error);
}

}  // namespace
}  // namespace labelshift
