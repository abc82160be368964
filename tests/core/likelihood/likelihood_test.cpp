#include "labelshift/core/likelihood/likelihood.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/likelihood/row_block.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "tests/core/exact_problems.hpp"

namespace labelshift {

namespace {

using RowMajorF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Eq. (3) and its derivatives in q, term by term.
LikelihoodValue plain_value(const Eigen::MatrixXd& f, const Eigen::VectorXd& w, const Eigen::VectorXd& p,
                            const Eigen::VectorXd& q) {
  LikelihoodValue value;
  value.gradient = Eigen::VectorXd::Zero(p.size());
  value.curvature = Eigen::MatrixXd::Zero(p.size(), p.size());
  for (Index j = 0; j < f.rows(); ++j) {
    const Eigen::VectorXd a = f.row(j).transpose().cwiseQuotient(p);
    const Eigen::VectorXd s = a / a.dot(q);
    value.mean_log_likelihood += w[j] * std::log(a.dot(q)) / w.sum();
    value.gradient += w[j] * s / w.sum();
    value.curvature += w[j] * s * s.transpose() / w.sum();
  }
  return value;
}

void expect_same(const LikelihoodValue& found, const LikelihoodValue& expected, double tolerance) {
  EXPECT_NEAR(found.mean_log_likelihood, expected.mean_log_likelihood,
              tolerance * (1.0 + std::abs(expected.mean_log_likelihood)));
  EXPECT_LE((found.gradient - expected.gradient).cwiseAbs().maxCoeff(), tolerance * expected.gradient.maxCoeff());
  EXPECT_LE((found.curvature - expected.curvature).cwiseAbs().maxCoeff(), tolerance * expected.curvature.maxCoeff());
}

class EveryShape : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(EveryShape, AgreesWithThePlainFormulasInEveryLayout) {
  const auto [n, m] = GetParam();
  Rng rng(7, static_cast<std::uint64_t>(n * 1000 + m));
  const HardProblem problem = hard_problem(Target::kConfident, n, m, rng);
  const Eigen::VectorXd q = dirichlet(m, 1.0, rng);
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(n);
  std::vector<double> weights;
  for (int j = 0; j < n; ++j) weights.push_back(j % 7 == 3 && n > 1 ? 0.0 : 0.1 + rng.uniform());
  const Eigen::VectorXd w = Eigen::Map<Eigen::VectorXd>(weights.data(), n);

  const RowMajorF floats = problem.probs.cast<float>();
  const Eigen::MatrixXf float_columns = floats;
  const Eigen::MatrixXd doubled = floats.cast<double>();  // what the float views hold, exactly
  RowMajorF wide = RowMajorF::Constant(n, 3 * m, -1.0f);  // every third entry of a wider row
  for (int c = 0; c < m; ++c) wide.col(3 * c) = floats.col(c);
  const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> double_rows = doubled;

  const LikelihoodValue plain = plain_value(doubled, ones, problem.label_prior, q);
  const LikelihoodValue weighted = plain_value(doubled, w, problem.label_prior, q);
  const Probabilities views[] = {floats, float_columns, double_rows, doubled,
                                 Probabilities(MatrixView(wide.data(), n, m, 3 * m, 3))};
  for (const Probabilities& view : views) {
    // n terms of relative rounding 1e-16 each, all of one sign.
    expect_same(Likelihood(problem.label_prior, {view, {}}).at(q, Derivatives::kCurvature), plain, 1e-12);
    expect_same(Likelihood(problem.label_prior, {view, weights}).at(q, Derivatives::kCurvature), weighted, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Core, EveryShape,
                         testing::Combine(testing::Values(1, 5, 247, 248, 249, 1000),
                                          testing::Values(2, 3, 7, 8, 9, 10, 17, 33, 100, 130, 200)));

TEST(Likelihood, LooksAtNoRowAndNoColumnBeyondItsOwn) {
  Rng rng(12);
  for (const Index m : {2, 7, 17, 40}) {
    for (const Index n : {1, 5, 8, 249}) {
      const HardProblem problem = hard_problem(Target::kPlain, n, m, rng);
      const double nan = std::numeric_limits<double>::quiet_NaN();
      RowMajorMatrix<double> more = RowMajorMatrix<double>::Constant(n + 300, m + 1, nan);
      more.topLeftCorner(n, m) = problem.probs;
      const MatrixView part(more.data(), n, m, m + 1, 1);
      const Eigen::VectorXd q = dirichlet(m, 1.0, rng);
      const LikelihoodValue expected = plain_value(problem.probs, Eigen::VectorXd::Ones(n), problem.label_prior, q);
      const Likelihood likelihood(problem.label_prior, {Probabilities(part), {}});
      expect_same(likelihood.at(q, Derivatives::kCurvature), expected, 1e-12);  // as above
      EXPECT_LE((likelihood.at(q, Derivatives::kGradient).gradient - expected.gradient).cwiseAbs().maxCoeff(),
                1e-12 * expected.gradient.maxCoeff());
    }
  }
}

TEST(Likelihood, HasTheGradientAndCurvatureOfItsValue) {
  Rng rng(1);
  const HardProblem problem = hard_problem(Target::kPlain, 300, 4, rng);
  const Likelihood likelihood(problem.label_prior, problem.target());
  const Eigen::VectorXd q = dirichlet(4, 5.0, rng);
  const LikelihoodValue at = likelihood.at(q, Derivatives::kCurvature);
  const double h = 1e-5;  // central differences: h^2 f''' / 6 and 1e-16 / h are both near 1e-10 times the derivatives
  for (Index c = 0; c < 4; ++c) {
    const Eigen::VectorXd step = h * q[c] * Eigen::VectorXd::Unit(4, c);
    const LikelihoodValue above = likelihood.at(q + step, Derivatives::kGradient);
    const LikelihoodValue below = likelihood.at(q - step, Derivatives::kGradient);
    EXPECT_NEAR((above.mean_log_likelihood - below.mean_log_likelihood) / (2.0 * h * q[c]), at.gradient[c],
                1e-7 * at.gradient.maxCoeff());
    const Eigen::VectorXd bend = (above.gradient - below.gradient) / (2.0 * h * q[c]);
    EXPECT_LE((bend + at.curvature.col(c)).norm(), 1e-6 * at.curvature.norm());
  }
  EXPECT_NEAR(q.dot(at.gradient), 1.0, 1e-14);
}

TEST(Likelihood, TakesAWeightOfTwoForARowTwice) {
  Rng rng(2);
  const HardProblem problem = hard_problem(Target::kPlain, 40, 5, rng);
  Eigen::MatrixXd twice(60, 5);
  twice << problem.probs, problem.probs.topRows(20);
  std::vector<double> weights(40, 1.0);
  std::fill_n(weights.begin(), 20, 2.0);
  const Eigen::VectorXd q = dirichlet(5, 1.0, rng);
  expect_same(Likelihood(problem.label_prior, {problem.probs, weights}).at(q, Derivatives::kCurvature),
              Likelihood(problem.label_prior, {twice, {}}).at(q, Derivatives::kCurvature), 1e-13);
}

TEST(Likelihood, HasTheScoreCovarianceOfSquaredWeights) {
  Rng rng(3);
  const HardProblem problem = hard_problem(Target::kPlain, 30, 3, rng);
  std::vector<double> weights;
  for (int j = 0; j < 30; ++j) weights.push_back(rng.uniform());
  const Eigen::VectorXd w = Eigen::Map<Eigen::VectorXd>(weights.data(), 30);
  const Eigen::VectorXd q = dirichlet(3, 1.0, rng);
  Eigen::MatrixXd expected = Eigen::MatrixXd::Zero(3, 3);
  for (Index j = 0; j < 30; ++j) {
    const Eigen::VectorXd a = problem.probs.row(j).transpose().cwiseQuotient(problem.label_prior);
    expected += std::pow(w[j] / w.mean(), 2) / 30.0 * (a / a.dot(q)) * (a / a.dot(q)).transpose();
  }
  const Likelihood likelihood(problem.label_prior, {problem.probs, weights});
  EXPECT_LE((likelihood.score_covariance(q) - expected).norm(), 1e-12 * expected.norm());
}

TEST(Likelihood, GivesTheSameBitsOnAnyNumberOfThreads) {
  use_one_blas_thread();
  for (const Index m : {3, 40, 140}) {  // chunks of 256 blocks, of 16 blocks, and BLAS's outer products
    const Index n = m == 3 ? 400'000 : 30'000;
    Rng rng(4);
    Eigen::MatrixXf probs(n, m);
    for (Index j = 0; j < n; ++j) {
      for (Index c = 0; c < m; ++c) probs(j, c) = static_cast<float>(rng.uniform());
      probs.row(j) /= probs.row(j).sum();
    }
    const Eigen::VectorXd p = dirichlet(m, 5.0, rng);
    const Likelihood likelihood(p, {probs, {}});
    const Eigen::VectorXd q = dirichlet(m, 1.0, rng);
    const LikelihoodValue one = likelihood.at(q, Derivatives::kCurvature, 1);
    for (const unsigned threads : {2u, 3u, 7u}) {
      const LikelihoodValue many = likelihood.at(q, Derivatives::kCurvature, threads);
      EXPECT_EQ(one.mean_log_likelihood, many.mean_log_likelihood) << threads << " threads, m = " << m;
      EXPECT_TRUE(one.gradient == many.gradient) << threads << " threads, m = " << m;
      EXPECT_TRUE(one.curvature == many.curvature) << threads << " threads, m = " << m;
    }
  }
}

TEST(Likelihood, IsMinusInfinityWhereThePriorRulesARowOut) {
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(3, 2) << 1.0, 0.0, 0.0, 1.0, 0.5, 0.5).finished();
  const Likelihood likelihood(Eigen::Vector2d(0.5, 0.5), {probs, {}});
  EXPECT_EQ(likelihood.at(Eigen::Vector2d(1.0, 0.0), Derivatives::kGradient).mean_log_likelihood,
            -std::numeric_limits<double>::infinity());
}

TEST(Likelihood, LeavesOutARowWithoutWeightEvenWhereThePriorRulesItOut) {
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(2, 2) << 1.0, 0.0, 0.0, 1.0).finished();
  const std::vector<double> weights = {1.0, 0.0};
  const Likelihood likelihood(Eigen::Vector2d(0.5, 0.5), {probs, weights});
  const LikelihoodValue at = likelihood.at(Eigen::Vector2d(1.0, 0.0), Derivatives::kCurvature);
  EXPECT_DOUBLE_EQ(at.mean_log_likelihood, std::log(2.0));
  EXPECT_EQ(at.gradient, Eigen::Vector2d(1.0, 0.0));
  EXPECT_EQ(at.curvature, (Eigen::Matrix2d() << 1.0, 0.0, 0.0, 0.0).finished());
}

TEST(Likelihood, TakesZerosAndDenormals) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const Eigen::MatrixXd probs =
      (Eigen::MatrixXd(8, 2) << 1.0, tiny, 1.0, 0.0, 1.0, 1e-310, 0.0, 1.0, tiny, 1.0, 1e-300, 1.0, 0.5, 0.5, 1.0, 0.0)
          .finished();
  const Eigen::Vector2d p(0.5, 0.5);
  const Eigen::Vector2d q(1e-6, 1.0 - 1e-6);
  expect_same(Likelihood(p, {probs, {}}).at(q, Derivatives::kCurvature),
              plain_value(probs, Eigen::VectorXd::Ones(8), p, q), 1e-13);
}

TEST(Likelihood, OfEveryThirdRowKeepsTheRowsWeights) {
  Rng rng(6);
  const HardProblem problem = hard_problem(Target::kPlain, 10, 3, rng);
  std::vector<double> weights;
  for (int j = 0; j < 10; ++j) weights.push_back(rng.uniform());
  const Eigen::MatrixXd kept = problem.probs({0, 3, 6, 9}, Eigen::all);
  const Eigen::Vector4d w(weights[0], weights[3], weights[6], weights[9]);
  const Likelihood part = Likelihood(problem.label_prior, {problem.probs, weights}).every(3);
  EXPECT_DOUBLE_EQ(part.total_weight(), w.sum());
  expect_same(part.at(problem.label_prior, Derivatives::kCurvature),
              plain_value(kept, w, problem.label_prior, problem.label_prior), 1e-13);
}

TEST(Likelihood, RefusesAPriorWithAnEmptyClassOrOfTheWrongSize) {
  const Eigen::MatrixXd probs = Eigen::MatrixXd::Constant(3, 2, 0.5);
  const auto message = [&](const Eigen::VectorXd& p) -> std::string {
    try {
      Likelihood(p, {probs, {}});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "";
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Eigen::Vector2d& p : {Eigen::Vector2d(1.0, 0.0), Eigen::Vector2d(0.5, 0.6), Eigen::Vector2d(0.5, nan)})
    EXPECT_THAT(message(p), testing::HasSubstr("must be positive for every class and sum to 1"));
  EXPECT_EQ(message(Eigen::Vector2d(kLeastPrior, 1.0)), "");
  EXPECT_THAT(message(Eigen::Vector2d(0.9 * kLeastPrior, 1.0)), testing::HasSubstr("no share below 1e-50"));
  EXPECT_THAT(message(Eigen::Vector3d(0.2, 0.3, 0.5)),
              testing::HasSubstr("the source prior has 3 classes, the target probabilities have 2 columns"));
}

class EveryKernel : public testing::TestWithParam<const char*> {
 protected:
  static const LikelihoodKernel* kernel() {
    const std::string name = GetParam();
#ifdef __x86_64__
    if (name == "avx2") return native_cpu() >= Cpu::kAvx2 ? &kKernelAvx2 : nullptr;
    if (name == "avx512") return native_cpu() == Cpu::kAvx512 ? &kKernelAvx512 : nullptr;
#endif
    return name == "generic" ? &kKernelGeneric : nullptr;
  }
};

TEST_P(EveryKernel, GivesThePlainSums) {
  const LikelihoodKernel* k = kernel();
  if (!k) GTEST_SKIP() << "this processor cannot run it";
  for (const Index m : {2, 3, 7, 8, 9, 17, 33}) {
    for (const Index n : {1, 8, 100, 247, 248}) {
      Rng rng(8, static_cast<std::uint64_t>(m * 1000 + n));
      const HardProblem problem = hard_problem(Target::kPlain, n, m, rng);
      const RowMajorF rows = problem.probs.cast<float>();
      std::vector<double> t(static_cast<std::size_t>(m * kBlockRows));
      k->load_floats(rows.data(), m, 1, n, m, kBlockRows, t.data());
      EXPECT_TRUE(k->all_probabilities(t.data(), m, kBlockRows, n, 1e-3));
      for (Index c = 0; c < m; ++c) {
        for (Index b = 0; b < kBlockRows; ++b)
          ASSERT_EQ(t[static_cast<std::size_t>(c * kBlockRows + b)], b < n ? static_cast<double>(rows(b, c)) : 1.0);
      }
      const Eigen::VectorXd r = dirichlet(m, 1.0, rng);
      std::vector<double> root(kBlockRows, 0.0);
      std::fill_n(root.begin(), n, 1.0);
      std::vector<double> mixture(kBlockRows);
      std::vector<double> gradient(static_cast<std::size_t>(m * k->lanes));
      std::vector<double> curvature(static_cast<std::size_t>(m * m * k->lanes));
      k->scores(t.data(), r.data(), root.data(), m, kBlockRows, mixture.data(), gradient.data());
      k->scores(t.data(), r.data(), root.data(), m, kBlockRows, mixture.data(), nullptr);
      k->outer_products(t.data(), m, kBlockRows, curvature.data());
      const LikelihoodValue plain =
          plain_value(rows.cast<double>(), Eigen::VectorXd::Ones(n), Eigen::VectorXd::Ones(m), r);
      const double rows_double = static_cast<double>(n);
      for (Index c = 0; c < m; ++c) {
        const auto lanes = [&](const std::vector<double>& sums, Index at) {
          return Eigen::Map<const Eigen::ArrayXd>(&sums[static_cast<std::size_t>(at * k->lanes)], k->lanes).sum();
        };
        EXPECT_NEAR(lanes(gradient, c) / rows_double, plain.gradient[c], 1e-12 * plain.gradient.maxCoeff());
        for (Index d = 0; d <= c; ++d)
          EXPECT_NEAR(lanes(curvature, c * m + d) / rows_double, plain.curvature(c, d),
                      1e-12 * plain.curvature.maxCoeff());
      }
      double logs = 0.0;
      for (const double x : mixture) logs += std::log(x);
      EXPECT_NEAR(k->sum_of_logs(mixture.data(), kBlockRows), logs, 1e-12 * (1.0 + std::abs(logs)));
    }
  }
}

TEST_P(EveryKernel, DoesInRegistersWhatItDoesByColumns) {
  const LikelihoodKernel* k = kernel();
  if (!k) GTEST_SKIP() << "this processor cannot run it";
  for (Index m = 2; m <= LikelihoodKernel::kFewColumns; ++m) {
    Rng rng(9, static_cast<std::uint64_t>(m));
    const RowMajorF floats = hard_problem(Target::kPlain, kBlockRows, m, rng).probs.cast<float>();
    const RowMajorMatrix<double> doubles = floats.cast<double>();
    const Eigen::VectorXd r = dirichlet(m, 1.0, rng);
    Eigen::VectorXd root(kBlockRows);
    for (Index b = 0; b < kBlockRows; ++b) root[b] = b % 5 == 0 ? 0.0 : rng.uniform();

    const auto doubles_of = [](Index count) { return Eigen::VectorXd(Eigen::VectorXd::Constant(count, 0.25)); };
    Eigen::VectorXd t = doubles_of(m * kBlockRows), mixture = doubles_of(kBlockRows),
                    gradient = doubles_of(m * k->lanes);
    k->load_floats(floats.data(), m, 1, kBlockRows, m, kBlockRows, t.data());
    k->scores(t.data(), r.data(), root.data(), m, kBlockRows, mixture.data(), gradient.data());
    k->scores(t.data(), r.data(), root.data(), m, kBlockRows, mixture.data(), nullptr);

    Eigen::VectorXd few_t = doubles_of(m * kBlockRows), few_mixture = doubles_of(kBlockRows);
    Eigen::VectorXd few_gradient = doubles_of(m * k->lanes);
    const auto expect_equal = [&] {  // up to the order of rounding
      EXPECT_LE((few_t - t).cwiseAbs().maxCoeff(), 1e-14 * t.maxCoeff()) << m;
      EXPECT_LE((few_mixture - mixture).cwiseAbs().maxCoeff(), 1e-15) << m;
      EXPECT_LE((few_gradient - gradient).cwiseAbs().maxCoeff(), 1e-14 * gradient.maxCoeff()) << m;
    };
    k->few_scores_floats(floats.data(), m, r.data(), root.data(), m, kBlockRows, few_mixture.data(),
                         few_gradient.data(), few_t.data());
    EXPECT_EQ(few_t, doubles_of(m * kBlockRows)) << "only one of the two is asked for";
    k->few_scores_floats(floats.data(), m, r.data(), root.data(), m, kBlockRows, few_mixture.data(), nullptr,
                         few_t.data());
    expect_equal();
    few_gradient = doubles_of(m * k->lanes);
    k->few_scores_doubles(doubles.data(), m, r.data(), root.data(), m, kBlockRows, few_mixture.data(),
                          few_gradient.data(), few_t.data());
    k->few_scores_doubles(doubles.data(), m, r.data(), root.data(), m, kBlockRows, few_mixture.data(), nullptr,
                          few_t.data());
    expect_equal();

    EXPECT_TRUE(k->few_probabilities_floats(floats.data(), m, kBlockRows, m, 1e-3));
    EXPECT_TRUE(k->few_probabilities_doubles(doubles.data(), m, kBlockRows, m, 1e-3));
    for (const float bad : {NAN, INFINITY, -INFINITY, -1e-6f, 1.1f}) {
      for (const Index row : {0, 9, 247}) {
        RowMajorF spoilt = floats;
        spoilt(row, m - 1) = bad;
        EXPECT_FALSE(k->few_probabilities_floats(spoilt.data(), m, kBlockRows, m, 1e-3)) << bad << " in row " << row;
        const RowMajorMatrix<double> spoilt_doubles = spoilt.cast<double>();
        EXPECT_FALSE(k->few_probabilities_doubles(spoilt_doubles.data(), m, kBlockRows, m, 1e-3)) << bad;
      }
    }
  }
}

TEST_P(EveryKernel, DoesAlongRowsWhatItDoesByColumns) {
  const LikelihoodKernel* k = kernel();
  if (!k) GTEST_SKIP() << "this processor cannot run it";
  for (const Index m : {17, 20, 24, 31, 40, 100}) {
    Rng rng(11, static_cast<std::uint64_t>(m));
    const Index stride = m + 3;  // rows are parts of longer ones, whose rest is not to be looked at
    RowMajorF floats = RowMajorF::Constant(kBlockRows, stride, NAN);
    floats.leftCols(m) = hard_problem(Target::kPlain, kBlockRows, m, rng).probs.cast<float>();
    for (Index b = 0; b < kBlockRows; b += 3) floats(b, m - 1) = floats(b, m - 3) = floats.row(b).head(m).maxCoeff();
    const RowMajorMatrix<double> doubles = floats.cast<double>();
    const Eigen::VectorXd r = dirichlet(m, 1.0, rng);
    Eigen::VectorXd root(kBlockRows);
    for (Index b = 0; b < kBlockRows; ++b) root[b] = b % 5 == 0 ? 0.0 : rng.uniform();

    Eigen::MatrixXd t(kBlockRows, m);
    Eigen::VectorXd mixture(kBlockRows), gradient = Eigen::VectorXd::Constant(m * k->lanes, 0.25);
    k->load_floats(floats.data(), stride, 1, kBlockRows, m, kBlockRows, t.data());
    k->scores(t.data(), r.data(), root.data(), m, kBlockRows, mixture.data(), gradient.data());
    const Eigen::RowVectorXd sums = gradient.reshaped(k->lanes, m).colwise().sum();
    std::vector<double> value(kBlockRows);
    std::vector<std::int64_t> column(kBlockRows);
    k->largest(t.data(), m, kBlockRows, value.data(), column.data());

    Eigen::VectorXd wide_mixture(kBlockRows), wide_gradient(m * k->lanes), memory(m);
    std::vector<double> wide_value(kBlockRows);
    std::vector<std::int64_t> wide_column(kBlockRows);
    const auto expect_equal = [&] {  // up to the order of rounding
      EXPECT_LE((wide_mixture - mixture).cwiseAbs().maxCoeff(), 1e-14) << m;
      const Eigen::RowVectorXd wide_sums = wide_gradient.reshaped(k->lanes, m).colwise().sum();
      EXPECT_LE((wide_sums - sums).cwiseAbs().maxCoeff(), 1e-13 * sums.maxCoeff()) << m;
      EXPECT_EQ(wide_value, value) << m;
      EXPECT_EQ(wide_column, column) << m;
    };
    wide_gradient.setConstant(0.25);
    k->wide_gradient_floats(floats.data(), stride, r.data(), root.data(), m, kBlockRows, wide_mixture.data(),
                            wide_gradient.data(), memory.data());
    k->wide_largest_floats(floats.data(), stride, kBlockRows, m, wide_value.data(), wide_column.data());
    expect_equal();
    wide_gradient.setConstant(0.25);
    k->wide_gradient_doubles(doubles.data(), stride, r.data(), root.data(), m, kBlockRows, wide_mixture.data(),
                             wide_gradient.data(), memory.data());
    k->wide_largest_doubles(doubles.data(), stride, kBlockRows, m, wide_value.data(), wide_column.data());
    expect_equal();
  }
}

TEST_P(EveryKernel, SeesEveryBadProbabilityAlongRows) {
  const LikelihoodKernel* k = kernel();
  if (!k) GTEST_SKIP() << "this processor cannot run it";
  for (const Index m : {17, 32}) {
    const RowMajorF good = RowMajorF::Constant(16, m, 1.0f / static_cast<float>(m));
    EXPECT_TRUE(k->wide_probabilities_floats(good.data(), m, 16, m, 1e-3));
    EXPECT_TRUE(k->wide_probabilities_doubles(good.cast<double>().eval().data(), m, 16, m, 1e-3));
    for (const float bad : {NAN, INFINITY, -INFINITY, -1e-6f, 0.3f}) {
      for (const Index row : {0, 9, 15}) {
        for (const Index c : {Index{0}, Index{9}, m - 1}) {
          RowMajorF spoilt = good;
          spoilt(row, c) = bad;
          if (bad == -1e-6f) spoilt(row, (c + 1) % m) += good(row, c);  // its sum is right
          EXPECT_FALSE(k->wide_probabilities_floats(spoilt.data(), m, 16, m, 1e-3)) << bad << " in row " << row;
          const RowMajorMatrix<double> doubles = spoilt.cast<double>();
          EXPECT_FALSE(k->wide_probabilities_doubles(doubles.data(), m, 16, m, 1e-3)) << bad << " in row " << row;
        }
      }
    }
  }
}

TEST_P(EveryKernel, SeesEveryBadProbability) {
  const LikelihoodKernel* k = kernel();
  if (!k) GTEST_SKIP() << "this processor cannot run it";
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Index row : {0, 7, 8, 100}) {
    for (const double bad : {nan, infinity, -infinity, -1e-9, 0.6}) {
      std::vector<double> t(2 * kBlockRows, 0.5);
      t[static_cast<std::size_t>(row)] = bad;
      t[static_cast<std::size_t>(row + kBlockRows)] = bad == -1e-9 ? 1.0 - bad : 0.5;
      EXPECT_FALSE(k->all_probabilities(t.data(), 2, kBlockRows, 101, 1e-3)) << bad << " in row " << row;
    }
  }
}

TEST_P(EveryKernel, AddsLogsOfZeroAndDenormals) {
  const LikelihoodKernel* k = kernel();
  if (!k) GTEST_SKIP() << "this processor cannot run it";
  std::vector<double> mixture(16, 1e300);
  mixture[3] = 1e-310;
  EXPECT_NEAR(k->sum_of_logs(mixture.data(), 16), 15 * std::log(1e300) + std::log(1e-310), 1e-9);
  mixture[9] = 0.0;
  EXPECT_EQ(k->sum_of_logs(mixture.data(), 16), -std::numeric_limits<double>::infinity());
}

TEST_P(EveryKernel, FindsTheFirstOfTheLargest) {
  const LikelihoodKernel* k = kernel();
  if (!k) GTEST_SKIP() << "this processor cannot run it";
  for (const Index m : {1, 2, 5, 16, 17, 40, 43}) {
    Rng rng(10, static_cast<std::uint64_t>(m));
    Eigen::MatrixXd t(kBlockRows, m);  // a few values only, so that many are equal
    for (double& x : t.reshaped()) x = static_cast<double>(rng.below(4)) / 4.0;
    std::vector<double> value(kBlockRows);
    std::vector<std::int64_t> column(kBlockRows);
    k->largest(t.data(), m, kBlockRows, value.data(), column.data());
    for (Index b = 0; b < kBlockRows; ++b) {
      const double largest = t.row(b).maxCoeff();
      Index first = 0;
      while (t(b, first) < largest) ++first;
      EXPECT_EQ(value[static_cast<std::size_t>(b)], largest);
      EXPECT_EQ(column[static_cast<std::size_t>(b)], first);
    }
    if (m <= LikelihoodKernel::kFewColumns) continue;
    const RowMajorMatrix<double> rows = t;
    std::vector<std::int64_t> along(kBlockRows);
    k->wide_largest_doubles(rows.data(), m, kBlockRows, m, value.data(), along.data());
    EXPECT_EQ(along, column);
  }
}

INSTANTIATE_TEST_SUITE_P(Core, EveryKernel, testing::Values("generic", "avx2", "avx512"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace labelshift
