#include "labelshift/core/estimators/estimators.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/LU>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"
#include "tests/core/exact_problems.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {

void PrintTo(const EstimatorEntry& entry, std::ostream* out) {
  *out << entry.name;
}

namespace {

using testing::HasSubstr;

Settings setting(const std::string& name, const std::string& value) {
  Settings settings;
  settings.set(name, value);
  return settings;
}

class EveryEstimator : public testing::TestWithParam<EstimatorEntry> {
 protected:
  static std::string name() { return GetParam().name; }
  static bool certifies() { return name() != "mlls-sgd" && GetParam().family == EstimatorFamily::kLikelihood; }
  static bool sgd() { return name() == "mlls-sgd"; }

  /// 1e-6 unless penalised. rlls's penalty fades with the source's 1e12 examples as 1e-6 / (smallest singular value of
  /// A). The averaged iterates of mlls-sgd keep some noise of batches of 64 at steps near 0.08.
  static double exact_tolerance(const ExactProblem& problem, const TargetSample& target) {
    if (sgd()) return 0.1;
    if (name() == "mlls-l1" || name() == "mlls-l2") return 1.2 * penalty_bias(problem, target) + 1e-6;
    return GetParam().penalised ? 1e-4 : 1e-6;
  }

  /// To first order the penalty moves r by the solution of H dr + nu p = -penalty', p . dr = 0, with H the curvature of
  /// Eq. (3) in r. The default penalties' gradients are sign(r - 1) / n and (r - 1) / n. (1.2: the second order.)
  static double penalty_bias(const ExactProblem& problem, const TargetSample& target) {
    const Eigen::VectorXd& p = problem.source.label_prior;
    const Index m = p.size();
    const Eigen::VectorXd q = p.cwiseProduct(problem.true_ratio);
    Eigen::MatrixXd system = Eigen::MatrixXd::Zero(m + 1, m + 1);
    system.topLeftCorner(m, m) =
        p.asDiagonal() * Likelihood(p, target).at(q, Derivatives::kCurvature).curvature * p.asDiagonal();
    system.col(m).head(m) = system.row(m).head(m) = p;
    Eigen::VectorXd side = Eigen::VectorXd::Zero(m + 1);
    const Eigen::ArrayXd departure = problem.true_ratio.array() - 1.0;
    side.head(m) = (name() == "mlls-l1" ? departure.sign() : departure) / static_cast<double>(target.probs.rows());
    return Eigen::FullPivLU<Eigen::MatrixXd>(system).solve(side).head(m).norm();
  }

  static RatioEstimate estimate(const SourceSummary& source, const TargetSample& target) {
    return make_estimator(GetParam())->estimate(source, target);
  }

  static std::string message(const SourceSummary& source, const TargetSample& target) {
    try {
      estimate(source, target);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
};

/// The problem's rows, each as often as its weight says.
Eigen::MatrixXd repeated(const ExactProblem& problem) {
  std::vector<Index> rows;
  for (std::size_t x = 0; x < problem.weights.size(); ++x)
    rows.insert(rows.end(), static_cast<std::size_t>(std::lround(problem.weights[x])), static_cast<Index>(x));
  return problem.probs(rows, Eigen::all);
}

TEST_P(EveryEstimator, RecoversTheRatioFromExactPosteriors) {
  for (const ExactProblem& problem : {two_class_population(), three_class_population()}) {
    const Eigen::MatrixXd rows = repeated(problem).replicate(problem.weights.size() == 2 ? 200 : 1, 1);
    const RatioEstimate found = estimate(problem.source, {rows, {}});
    EXPECT_LE((found.ratio - problem.true_ratio).norm(), exact_tolerance(problem, {rows, {}}));
  }
}

TEST_P(EveryEstimator, TakesRowWeightsForRepeatedRows) {
  const ExactProblem problem = three_class_population();
  const RatioEstimate weighted = estimate(problem.source, problem.target());
  const RatioEstimate rows = estimate(problem.source, {repeated(problem), {}});
  // mlls-sgd cuts the rows into other batches, and the default penalties count effective rows: four against 2,000.
  if (sgd() || GetParam().penalised) return;
  EXPECT_LE((weighted.ratio - rows.ratio).norm(), 1e-6);
  EXPECT_NEAR(weighted.mean_log_likelihood, rows.mean_log_likelihood, 1e-9);
}

TEST_P(EveryEstimator, PermutesWithTheClasses) {
  const ExactProblem problem = three_class_population();
  const Eigen::MatrixXd rows = repeated(problem);
  const std::vector<Index> order = {2, 0, 1};
  SourceSummary permuted = problem.source;
  permuted.label_prior = problem.source.label_prior(order).eval();
  permuted.confusion = (*problem.source.confusion)(order, order).eval();
  permuted.soft_confusion = (*problem.source.soft_confusion)(order, order).eval();
  const Eigen::MatrixXd permuted_rows = rows(Eigen::all, order);
  const Eigen::VectorXd expected = estimate(problem.source, {rows, {}}).ratio(order);
  // Solvers stop within 1e-9 of the optimum, which is within sqrt(1e-9 / curvature) of its place.
  EXPECT_LE((estimate(permuted, {permuted_rows, {}}).ratio - expected).norm(), 1e-4);
}

TEST_P(EveryEstimator, GivesOnesWhereNothingShifted) {
  const Eigen::Vector3d p(0.5, 0.3, 0.2);
  const ExactProblem problem = exact_problem(
      (Eigen::MatrixXd(4, 3) << 0.7, 0.2, 0.05, 0.2, 0.5, 0.15, 0.05, 0.2, 0.7, 0.05, 0.1, 0.1).finished(), p, p,
      2000.0);
  // Penalties pull towards the answer here.
  EXPECT_LE((estimate(problem.source, {repeated(problem), {}}).ratio.array() - 1.0).matrix().norm(),
            sgd() ? 0.1 : 1e-6);
}

TEST_P(EveryEstimator, KeepsTheConstraintOnManyFloatRowsAndAgreesWithDouble) {
  const GaussianProblem gaussian{.source_prior = Eigen::Vector3d(0.5, 0.3, 0.2)};
  Rng rng(1);
  const GaussianSample source = gaussian.sample(2000, gaussian.source_prior, rng);
  const SourceSummary summary = summarise_source(source.source(), gaussian.source_prior);
  const GaussianSample target = gaussian.sample(sgd() ? 5000 : 100'000, Eigen::Vector3d(0.2, 0.3, 0.5), rng);
  const Eigen::MatrixXf floats = target.probs.cast<float>();
  const RatioEstimate found = estimate(summary, {floats, {}});
  EXPECT_NEAR(gaussian.source_prior.dot(found.ratio), 1.0, 1e-12);
  EXPECT_GE(found.ratio.minCoeff(), 0.0);
  // float32 rounds f by 6e-8 of itself; the ratio's condition here is about 10, and bbse may see a tie fall otherwise.
  EXPECT_LE((found.ratio - estimate(summary, target.target()).ratio).norm(), 1e-4);
}

TEST_P(EveryEstimator, ErrsAsOneOverTheRootOfTheRows) {
  const GaussianProblem gaussian{.source_prior = Eigen::Vector3d::Constant(1.0 / 3.0)};
  const Eigen::Vector3d q(0.2, 0.3, 0.5);
  Rng rng(2);
  const GaussianSample source = gaussian.sample(200'000, gaussian.source_prior, rng);
  const SourceSummary summary = summarise_source(source.source(), gaussian.source_prior);
  const auto rmse = [&](Index rows, int replicates) {
    double squares = 0.0;
    for (int i = 0; i < replicates; ++i) {
      const GaussianSample target = gaussian.sample(rows, q, rng);
      squares += (gaussian.source_prior.cwiseProduct(estimate(summary, target.target()).ratio) - q).squaredNorm();
    }
    return std::sqrt(squares / replicates);
  };
  // Slope of log RMSE over a factor of 16. Each mean square has 2 degrees of freedom a replicate, so log RMSE has
  // deviation 1 / sqrt(4 * 40) = 0.08 and the slope 0.08 sqrt(2) / log 16 = 0.04; the band is four of those. The noise
  // of mlls-sgd falls with the rows too.
  const double slope = std::log(rmse(3200, 40) / rmse(200, 40)) / std::log(16.0);
  EXPECT_NEAR(slope, -0.5, 0.16);
}

TEST_P(EveryEstimator, StopsWhenItsObserverSaysSo) {
  const ExactProblem problem = three_class_population();
  const auto estimator = make_estimator(GetParam());
  int told = 0;
  const auto count = [&](std::string_view stage, double) {
    EXPECT_EQ(stage, kEstimating);
    ++told;
    return true;
  };
  estimator->estimate(problem.source, problem.target(), count);
  EXPECT_GE(told, 1);
  EXPECT_THROW(
      estimator->estimate(problem.source, problem.target(), [&](std::string_view, double) { return --told > 0; }),
      Stopped);
  EXPECT_EQ(told, 0);  // at the last time, which is a pass over the rows
}

TEST_P(EveryEstimator, SaysHowItStoppedAndBoundsWhatItMissed) {
  const ExactProblem problem = three_class_population();
  const RatioEstimate found = estimate(problem.source, {repeated(problem), {}});
  if (GetParam().family != EstimatorFamily::kLikelihood) {
    // rlls bisects, and mlls-confusion is a likelihood of its own.
    const bool iterates = GetParam().penalised || GetParam().name == std::string("mlls-confusion");
    EXPECT_EQ(found.stopped_by, iterates ? StopReason::kTolerance : StopReason::kClosedForm);
    EXPECT_EQ(found.iterations > 0, iterates);
    EXPECT_FALSE(found.gap.has_value());
    return;
  }
  ASSERT_TRUE(found.gap.has_value());
  if (certifies()) {
    EXPECT_EQ(found.stopped_by, StopReason::kTolerance);
    EXPECT_LE(*found.gap, 1e-9);
  }
  if (!GetParam().penalised) {
    const RatioEstimate best = make_estimator(find_estimator("mlls-sqp"), setting("tolerance", "1e-12"))
                                   ->estimate(problem.source, {repeated(problem), {}});
    EXPECT_LE(best.mean_log_likelihood, found.mean_log_likelihood + *found.gap + 1e-13);
  }
  if (sgd()) {  // which is never certain to have converged
    EXPECT_EQ(found.stopped_by, StopReason::kIterationLimit);
    EXPECT_EQ(found.iterations, 50);
    return;
  }
  const RatioEstimate cut =
      make_estimator(GetParam(), setting("max-iterations", "1"))->estimate(problem.source, {repeated(problem), {}});
  EXPECT_EQ(cut.iterations, 1);
  EXPECT_EQ(cut.stopped_by, StopReason::kIterationLimit);
}

TEST_P(EveryEstimator, CertifiesAGapThatIsKnownByHand) {
  if (GetParam().family != EstimatorFamily::kLikelihood) return;
  // One row, certainly of class 0, so that the best q is (1, 0). At q = p Eq. (3) is log f . 1 = 0, its gradient is
  // (1 / p_0, 0), and the most that it can gain by that gradient is 1 / p_0 - 1.
  const SourceSummary source{.label_prior = Eigen::Vector2d(0.25, 0.75)};
  const Eigen::MatrixXd row = (Eigen::MatrixXd(1, 2) << 1.0, 0.0).finished();
  if (certifies() && !GetParam().penalised) {
    const RatioEstimate start = make_estimator(GetParam(), setting("max-iterations", "1"))->estimate(source, {row, {}});
    EXPECT_LE((start.ratio - Eigen::Vector2d(1.0, 1.0)).norm(), 1e-15);
    EXPECT_NEAR(start.mean_log_likelihood, 0.0, 1e-15);
    EXPECT_NEAR(*start.gap, 3.0, 1e-12);
  }
  // Whatever else an estimator without a penalty answers, its gap is that of the answer: max_c mean_j f_jc / (p_c f_j .
  // r) - 1.
  if (GetParam().penalised) return;
  const ExactProblem problem = three_class_population();
  for (const char* limit : {"1", "2", "4"}) {
    const Settings settings = setting(sgd() ? "epochs" : "max-iterations", limit);
    const RatioEstimate found = make_estimator(GetParam(), settings)->estimate(problem.source, problem.target());
    const Eigen::Map<const Eigen::VectorXd> w(problem.weights.data(), std::ssize(problem.weights));
    const Eigen::VectorXd by_mixture = w.cwiseQuotient(problem.probs * found.ratio) / w.sum();
    const Eigen::VectorXd gradient = (problem.probs.transpose() * by_mixture).cwiseQuotient(problem.source.label_prior);
    EXPECT_NEAR(*found.gap, std::max(gradient.maxCoeff() - 1.0, 0.0), 1e-12) << limit;
  }
}

TEST_P(EveryEstimator, NamesTheRowItCannotUse) {
  const ExactProblem problem = three_class_population();
  Eigen::MatrixXd rows = repeated(problem);
  const auto message = [&]() -> std::string {
    try {
      make_estimator(GetParam())->estimate(problem.source, {rows, {}});
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  rows(700, 1) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message(), HasSubstr("probabilities, row 701, column 2: found nan"));
  rows.row(700) << 1.2, -0.2, 0.0;
  EXPECT_THAT(message(), HasSubstr("row 701, column 2: found -0.2"));
  rows.row(700) << 0.5, 0.4, 0.07;
  EXPECT_THAT(message(), HasSubstr("row 701: probabilities sum to 0.97, not 1"));
}

TEST_P(EveryEstimator, RefusesWhatDoesNotFit) {
  const ExactProblem problem = three_class_population();
  const Eigen::MatrixXd narrow = Eigen::MatrixXd::Constant(5, 2, 0.5);
  EXPECT_THAT(message(problem.source, {narrow, {}}), HasSubstr("3 classes, the target probabilities have 2 columns"));
  SourceSummary empty_class = problem.source;
  empty_class.label_prior << 0.5, 0.5, 0.0;
  EXPECT_THAT(message(empty_class, problem.target()), HasSubstr("must be positive for every class"));
  EXPECT_THAT(message(problem.source, {problem.probs, std::vector<double>{1.0, -2.0, 1.0, 1.0}}),
              HasSubstr("target weights, row 2: found weight -2"));
  EXPECT_THAT(message(problem.source, {problem.probs, std::vector<double>(4, 0.0)}), HasSubstr("weights sum to 0"));
  EXPECT_THAT(message(problem.source, {problem.probs, std::vector<double>(3, 1.0)}), HasSubstr("3 weights for 4 rows"));
}

INSTANTIATE_TEST_SUITE_P(Core, EveryEstimator, testing::ValuesIn(estimators().begin(), estimators().end()),
                         [](const auto& row) {
                           std::string name = row.param.name;
                           for (char& letter : name)
                             if (letter == '-') letter = '_';
                           return name;
                         });

TEST(Estimators, DefaultIsAtLeastAsGoodAsEveryUnpenalisedOne) {
  const GaussianProblem gaussian{.source_prior = Eigen::VectorXd::Constant(4, 0.25)};
  Rng rng(3);
  const GaussianSample source = gaussian.sample(20'000, gaussian.source_prior, rng);
  const SourceSummary summary = summarise_source(source.source(), gaussian.source_prior);
  constexpr int kReplicates = 60;
  std::vector<std::vector<double>> errors(estimators().size());
  for (int i = 0; i < kReplicates; ++i) {
    const Eigen::VectorXd q = dirichlet(4, 1.0, rng);
    const GaussianSample target = gaussian.sample(500, q, rng);
    for (std::size_t e = 0; e < estimators().size(); ++e) {
      const RatioEstimate found = make_estimator(estimators()[e])->estimate(summary, target.target());
      errors[e].push_back((gaussian.source_prior.cwiseProduct(found.ratio) - q).norm());
    }
  }
  for (std::size_t e = 1; e < errors.size(); ++e) {
    if (estimators()[e].penalised) continue;
    double mean = 0.0;
    double square = 0.0;
    for (std::size_t i = 0; i < kReplicates; ++i) {
      const double difference = errors[0][i] - errors[e][i];
      mean += difference / kReplicates;
      square += difference * difference / kReplicates;
    }
    // Paired: the standard error of the mean difference; two of them plus what mlls-em's stopping point may differ by.
    EXPECT_LE(mean, 2.0 * std::sqrt((square - mean * mean) / kReplicates) + 1e-6) << estimators()[e].name;
  }
}

TEST(Estimators, AreFoundByNameWithASuggestion) {
  EXPECT_STREQ(find_estimator("rlls").name, "rlls");
  try {
    find_estimator("mlls_em");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "unknown estimator \"mlls_em\"; did you mean \"mlls-em\"? (known: mlls-sqp, mlls-em, mlls-l1, "
                 "mlls-l2, mlls-cg, mlls-sgd, bbse, bbse-soft, mlls-confusion, rlls)");
  }
}

TEST(Estimators, RefuseASettingTheyDoNotRead) {
  try {
    make_estimator(find_estimator("bbse"), setting("tolerance", "1"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "bbse has no settings, so \"tolerance\" cannot be set");
  }
  EXPECT_THROW(make_estimator(find_estimator("mlls-sqp"), setting("lambda", "1")), Error);
}

TEST(Estimators, TakeSettingsUpToTheirLimits) {
  for (const char* name : {"mlls-sqp", "mlls-em", "mlls-cg"}) {
    for (const char* value : {"0", "1"})
      EXPECT_NO_THROW(make_estimator(find_estimator(name), setting("tolerance", value)));
    for (const char* value : {"-1e-9", "1.01"})
      EXPECT_THROW(make_estimator(find_estimator(name), setting("tolerance", value)), Error) << name;
    for (const char* value : {"1", "1000000"})
      EXPECT_NO_THROW(make_estimator(find_estimator(name), setting("max-iterations", value)));
    for (const char* value : {"0", "1000001"})
      EXPECT_THROW(make_estimator(find_estimator(name), setting("max-iterations", value)), Error) << name;
  }
  const ExactProblem problem = three_class_population();
  const auto ratio = [&](const char* name, const Settings& settings) {
    return make_estimator(find_estimator(name), settings)->estimate(problem.source, problem.target()).ratio;
  };
  for (const char* name : {"mlls-l1", "mlls-l2"}) {  // lambda = 0 is no penalty, and not the default one
    EXPECT_EQ(ratio(name, setting("lambda", "0")), ratio("mlls-sqp", {})) << name;
    EXPECT_NE(ratio(name, {}), ratio("mlls-sqp", {})) << name;
    EXPECT_NO_THROW(make_estimator(find_estimator(name), setting("lambda", "1000000")));
    for (const char* value : {"-1e-9", "1000001"})
      EXPECT_THROW(make_estimator(find_estimator(name), setting("lambda", value)), Error) << name;
  }
}

}  // namespace
}  // namespace labelshift
