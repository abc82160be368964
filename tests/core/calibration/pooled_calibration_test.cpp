#include "labelshift/core/calibration/pooled_calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/LU>
#include <cmath>
#include <functional>
#include <numeric>

#include "labelshift/core/base/rng.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kClasses = 4;

/// Logits of a classifier that is too sure by a factor of two, has wrong biases, and takes class 1 for class 0 more
/// often than it says.
struct Sample {
  MatrixXd logits;  // (n, m)
  std::vector<int> labels;

  Scores scores() const { return {logits, /*logits=*/true}; }
  Index rows() const { return logits.rows(); }
};

Sample sample(std::uint64_t seed, Index rows, double spread = 1.0, double too_sure = 2.0) {
  Rng rng(seed);
  Sample result{.logits = MatrixXd(rows, kClasses), .labels = {}};
  for (Index i = 0; i < rows; ++i) {
    VectorXd truth(kClasses);  // log-probabilities, up to a constant
    for (double& one : truth) one = spread * rng.normal();
    const VectorXd p = truth.array().exp() / truth.array().exp().sum();
    double left = rng.uniform();
    int label = 0;
    while (label + 1 < kClasses && (left -= p[label]) >= 0.0) ++label;
    result.labels.push_back(label);
    VectorXd said = too_sure * truth;
    said[0] += 0.7 + 0.8 * truth[1];
    said[2] -= 0.5;
    result.logits.row(i) = said.transpose();
  }
  return result;
}

/// The rows of a sample at several places.
std::vector<Sample> dealt(const Sample& all, Index places) {
  std::vector<Sample> parts(static_cast<std::size_t>(places));
  for (Sample& part : parts) part.logits.resize(0, kClasses);
  for (Index i = 0; i < all.rows(); ++i) {
    // Unevenly, and class 3 at the last place alone.
    const int label = all.labels[static_cast<std::size_t>(i)];
    Sample& part = parts[static_cast<std::size_t>(label == 3 ? places - 1 : (i * i + label) % places)];
    part.logits.conservativeResize(part.rows() + 1, kClasses);
    part.logits.row(part.rows() - 1) = all.logits.row(i);
    part.labels.push_back(label);
  }
  return parts;
}

struct Pooled {
  std::vector<Sample> places;
  std::vector<std::vector<Index>> folds;
  MatrixXd counts = MatrixXd::Zero(kClasses, kPooledFolds);

  explicit Pooled(std::vector<Sample> parts) : places(std::move(parts)) {
    for (std::size_t k = 0; k < places.size(); ++k) {
      folds.push_back(pooled_folds(places[k].labels, kClasses, k));
      for (std::size_t i = 0; i < places[k].labels.size(); ++i) ++counts(places[k].labels[i], folds[k][i]);
    }
  }

  PooledFit fit(std::vector<PooledCandidate> path, double unit = 0.0) const {
    PooledCalibration calibration(counts, std::move(path));
    while (const auto question = calibration.next()) {
      PooledSums sums = PooledSums::zero(kClasses, *question);
      for (std::size_t k = 0; k < places.size(); ++k)
        if (places[k].rows() > 0) sums += pooled_sums(*question, places[k].scores(), places[k].labels, folds[k]);
      if (unit > 0.0) {
        const auto round = [unit](double value) { return std::round(value / unit) * unit; };
        sums.values = sums.values.unaryExpr(round);
        sums.gradients = sums.gradients.unaryExpr(round);
        sums.curvature = sums.curvature.unaryExpr(round);
      }
      calibration.take(sums);
    }
    return calibration.result();
  }
};

/// Every class counts the same.
std::vector<double> balanced(const std::vector<int>& labels) {
  std::vector<double> counts(kClasses), weights;
  for (const int label : labels) ++counts[static_cast<std::size_t>(label)];
  for (const int label : labels) weights.push_back(1.0 / counts[static_cast<std::size_t>(label)]);
  return weights;
}

void expect_near(const Calibration& found, const Calibration& expected, double tolerance) {
  EXPECT_LE((found.scale - expected.scale).norm(), tolerance);
  EXPECT_LE((found.bias - expected.bias).norm(), tolerance);
  ASSERT_EQ(found.mixing.size(), expected.mixing.size());
  if (expected.mixing.size() > 0) {
    EXPECT_LE((found.mixing - expected.mixing).norm(), tolerance);
  }
}

struct OneKind : PooledCandidate {
  friend void PrintTo(const OneKind& one, std::ostream* out) { *out << to_string(one.kind) << one.strength; }
};

class PooledKind : public testing::TestWithParam<OneKind> {};

TEST_P(PooledKind, IsTheFitToAllExamplesInOnePlace) {
  const Sample all = sample(1, 600);
  const PooledFit found = Pooled(dealt(all, 3)).fit({GetParam()});
  const CalibrationFit expected =
      fit_calibration(GetParam().kind, all.scores(), all.labels, balanced(all.labels),
                      GetParam().kind == CalibrationKind::kMatrix ? GetParam().strength : kMatrixStrength);
  EXPECT_TRUE(found.converged);
  EXPECT_LE(found.steps, 20);
  // Both are within 1e-4 standard errors of the minimum; one is about 0.1 here.
  expect_near(found.calibration, expected.calibration, 1e-4);
  EXPECT_NEAR(found.nll_before, expected.nll_before, 1e-9);
  EXPECT_NEAR(found.nll_after, expected.nll_after, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Core, PooledKind,
    testing::Values(OneKind{{CalibrationKind::kTemperature}}, OneKind{{CalibrationKind::kBiasCorrected}},
                    OneKind{{CalibrationKind::kMatrix, 100.0}}, OneKind{{CalibrationKind::kMatrix, 1.0}}),
    [](const auto& one) {
      return std::string(to_string(one.param.kind)) +
             (one.param.strength > 0.0 ? std::to_string(static_cast<int>(one.param.strength)) : "");
    });

/// The loss on each fold of a fit to the others, made in one place.
double cross_validated(const Pooled& pooled, const PooledCandidate& candidate) {
  double nll = 0.0;
  for (Index fold = 0; fold < kPooledFolds; ++fold) {
    Sample seen, left;
    seen.logits.resize(0, kClasses);
    left.logits.resize(0, kClasses);
    for (std::size_t k = 0; k < pooled.places.size(); ++k)
      for (std::size_t i = 0; i < pooled.folds[k].size(); ++i) {
        Sample& to = pooled.folds[k][i] == fold ? left : seen;
        to.logits.conservativeResize(to.rows() + 1, kClasses);
        to.logits.row(to.rows() - 1) = pooled.places[k].logits.row(static_cast<Index>(i));
        to.labels.push_back(pooled.places[k].labels[i]);
      }
    const Calibration fit = fit_calibration(candidate.kind, seen.scores(), seen.labels, balanced(seen.labels),
                                            candidate.kind == CalibrationKind::kMatrix ? candidate.strength : 1.0)
                                .calibration;
    const auto probs = apply_calibration(fit, left.scores());
    for (Index i = 0; i < left.rows(); ++i) {
      const int y = left.labels[static_cast<std::size_t>(i)];
      nll -= std::log(probs.view()(i, y)) / (kClasses * pooled.counts.row(y).sum());
    }
  }
  return nll;
}

TEST(PooledCalibration, CrossValidatesByFitsThatDidNotSeeAFold) {
  const Pooled pooled(dealt(sample(2, 300), 3));
  const PooledFit found = pooled.fit({{CalibrationKind::kBiasCorrected}, {CalibrationKind::kMatrix, 30.0}});
  ASSERT_EQ(found.candidates.size(), 2U);
  for (const PooledCandidate& candidate : found.candidates)
    EXPECT_NEAR(candidate.nll, cross_validated(pooled, candidate), 1e-5) << to_string(candidate.kind);
  const bool second = found.candidates[1].nll < found.candidates[0].nll;
  EXPECT_EQ(found.chosen, second ? 1U : 0U);
}

TEST(PooledCalibration, FollowsNoCandidateThatIsMuchWorseAndChoosesTheSame) {
  for (const Index rows : {40, 80, 300, 3000})
    for (const std::uint64_t seed : {4, 21, 22}) {
      SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(seed));
      const Pooled pooled(dealt(sample(seed, rows), 3));
      if (pooled.counts.rowwise().sum().minCoeff() == 0.0) continue;
      const PooledFit found = pooled.fit(pooled_path());
      std::vector<double> nll;
      for (const PooledCandidate& candidate : found.candidates) nll.push_back(cross_validated(pooled, candidate));
      const auto best = std::min_element(nll.begin(), nll.end()) - nll.begin();
      EXPECT_EQ(found.chosen, static_cast<std::size_t>(best));
      const PooledFit alone = pooled.fit({found.candidates[found.chosen]});
      EXPECT_EQ(found.calibration.scale, alone.calibration.scale);
      EXPECT_EQ(found.calibration.bias, alone.calibration.bias);
      EXPECT_LE(found.steps, 16);  // 17 to 23 of few rows, if it did
    }
}

TEST(PooledCalibration, FollowsNoCandidateThatIsMuchWorseThanTheFirst) {
  const Pooled pooled(dealt(sample(4, 40), 3));
  const PooledFit found = pooled.fit({{CalibrationKind::kBiasCorrected}, {CalibrationKind::kMatrix, 1.0}});
  EXPECT_EQ(found.chosen, 0U);
  EXPECT_LE(found.steps, 13);  // 22 if the other were followed to its end
}

TEST(PooledCalibration, TriesACandidateOnceThatManyClassesMakeOfSeveral) {
  // No matrix is fitted to so many classes, so every strength of one is BCTS.
  Index classes = 2;
  while (pooled_kind(classes) == CalibrationKind::kMatrix) classes *= 2;
  const PooledCalibration calibration(MatrixXd::Ones(classes, kPooledFolds), pooled_path());
  ASSERT_GT(pooled_path().size(), 1U);
  ASSERT_EQ(calibration.result().candidates.size(), 1U);
  EXPECT_EQ(calibration.result().candidates[0].kind, CalibrationKind::kBiasCorrected);
}

TEST(PooledCalibration, TakesTheMatrixWhereItIsNeededAndThereIsEnoughToFitItTo) {
  const PooledFit many = Pooled(dealt(sample(3, 3000), 3)).fit(pooled_path());
  EXPECT_EQ(many.candidates[many.chosen].kind, CalibrationKind::kMatrix);
  EXPECT_GT(many.calibration.mixing.norm(), 0.1);
  EXPECT_LT(many.candidates[many.chosen].nll, many.candidates[0].nll);
  EXPECT_LT(many.nll_after, many.nll_before);
  const PooledFit few = Pooled(dealt(sample(4, 40), 3)).fit(pooled_path());
  EXPECT_GE(few.candidates[few.chosen].kind == CalibrationKind::kMatrix ? few.candidates[few.chosen].strength : 1e9,
            100.0);
  EXPECT_LE(few.steps, PooledCalibration::kMostSteps);
}

TEST(PooledCalibration, IsTheSameInFixedPoint) {
  const Pooled pooled(dealt(sample(5, 500), 3));
  const PooledFit plain = pooled.fit(pooled_path()), rounded = pooled.fit(pooled_path(), 0x1p-40);
  EXPECT_TRUE(rounded.converged);
  EXPECT_EQ(rounded.chosen, plain.chosen);
  expect_near(rounded.calibration, plain.calibration, 1e-5);
}

TEST(PooledCalibration, ComesToAnEndWithClassifiersThatAreFarTooSureOrKnowNothing) {
  for (const double too_sure : {0.0, 0.01, 30.0, 300.0}) {
    const PooledFit found = Pooled(dealt(sample(6, 400, 1.0, too_sure), 3)).fit(pooled_path());
    EXPECT_LE(found.steps, PooledCalibration::kMostSteps) << too_sure;
    EXPECT_TRUE(found.calibration.scale.allFinite() && found.calibration.bias.allFinite()) << too_sure;
    EXPECT_LE(found.nll_after, found.nll_before + 1e-9) << too_sure;
    EXPECT_LE(found.nll_after, std::log(kClasses) + 1e-6) << too_sure;
  }
}

TEST(PooledCalibration, FitsATemperatureAloneWhereAClassHasNoExample) {
  Sample all = sample(7, 200);
  Sample without{.logits = MatrixXd(0, kClasses), .labels = {}};
  for (Index i = 0; i < all.rows(); ++i) {
    if (all.labels[static_cast<std::size_t>(i)] == 2) continue;
    without.logits.conservativeResize(without.rows() + 1, kClasses);
    without.logits.row(without.rows() - 1) = all.logits.row(i);
    without.labels.push_back(all.labels[static_cast<std::size_t>(i)]);
  }
  const PooledFit found = Pooled({without}).fit(pooled_path());
  ASSERT_EQ(found.candidates.size(), 1U);
  EXPECT_EQ(found.candidates[0].kind, CalibrationKind::kTemperature);
  EXPECT_EQ(found.calibration.bias.norm(), 0.0);
  EXPECT_LT(found.calibration.scale[0], 0.8);
}

TEST(PooledCalibration, AsksNothingWhereThereAreNoExamples) {
  PooledCalibration calibration(MatrixXd::Zero(kClasses, kPooledFolds), pooled_path());
  EXPECT_FALSE(calibration.next());
  EXPECT_EQ(calibration.result().calibration.scale, VectorXd::Ones(kClasses));
}

TEST(PooledCalibration, KnowsHowMuchItsFitMovesWithTheExamples) {
  constexpr int kRuns = 300;
  MatrixXd fits(kRuns, 1 + kClasses);
  VectorXd variance = VectorXd::Zero(1 + kClasses);
  for (int run = 0; run < kRuns; ++run) {
    const PooledFit found =
        Pooled({sample(100 + static_cast<std::uint64_t>(run), 800)}).fit({{CalibrationKind::kBiasCorrected}});
    fits(run, 0) = found.calibration.scale[0];
    fits.row(run).tail(kClasses) = found.calibration.bias.transpose();
    variance[0] += found.covariance(0, 0) / kRuns;
    variance.tail(kClasses) += found.covariance.diagonal().tail(kClasses) / kRuns;
  }
  const Eigen::ArrayXd seen =
      (fits.rowwise() - fits.colwise().mean()).colwise().squaredNorm().transpose() / (kRuns - 1);
  // A variance of 300 draws has a standard error of 8 %; three of these, and 5 % for the theory's own error.
  for (Index i = 0; i < seen.size(); ++i) EXPECT_NEAR(variance[i] / seen[i], 1.0, 0.3) << i;
}

/// The first so many rows of each class.
Sample first_of(const Sample& all, std::vector<int> left) {
  Sample some{.logits = MatrixXd(0, kClasses), .labels = {}};
  for (Index i = 0; i < all.rows(); ++i) {
    const int label = all.labels[static_cast<std::size_t>(i)];
    if (left[static_cast<std::size_t>(label)]-- <= 0) continue;
    some.logits.conservativeResize(some.rows() + 1, kClasses);
    some.logits.row(some.rows() - 1) = all.logits.row(i);
    some.labels.push_back(label);
  }
  return some;
}

/// The covariance of scale and biases of BCTS, written out.
MatrixXd covariance_of_bcts(const Sample& sample, const Calibration& fit) {
  const auto probs = apply_calibration(fit, sample.scores());
  const std::vector<double> relative = balanced(sample.labels);
  const Index n = sample.rows(), p = 1 + kClasses;
  VectorXd counts = VectorXd::Zero(kClasses), weights(n);
  MatrixXd means = MatrixXd::Zero(p, kClasses), hessian = MatrixXd::Zero(p, p), noise = hessian;
  const auto gradient = [&](Index i, Index label) {
    VectorXd g = VectorXd::Zero(p);
    for (Index c = 0; c < kClasses; ++c) g[1 + c] = probs.view()(i, c);
    g[0] = g.tail(kClasses).dot(sample.logits.row(i)) - sample.logits(i, label);
    g[1 + label] -= 1.0;
    return g;
  };
  for (Index i = 0; i < n; ++i) {
    const int y = sample.labels[static_cast<std::size_t>(i)];
    weights[i] = relative[static_cast<std::size_t>(i)] / kClasses;
    ++counts[y];
    means.col(y) += gradient(i, y);
    VectorXd mean = VectorXd::Zero(p);
    for (Index c = 0; c < kClasses; ++c) {
      const VectorXd phi = gradient(i, y) - gradient(i, c);  // up to a constant
      hessian += weights[i] * probs.view()(i, c) * phi * phi.transpose();
      mean += probs.view()(i, c) * phi;
    }
    hessian -= weights[i] * mean * mean.transpose();
  }
  hessian.diagonal().array() += 0.01 * weights.squaredNorm();  // the penalty
  hessian.bottomRightCorner(kClasses, kClasses).array() += 1.0 / kClasses;
  means = means * counts.cwiseInverse().asDiagonal();
  for (Index i = 0; i < n; ++i) {
    const int y = sample.labels[static_cast<std::size_t>(i)];
    const VectorXd from_mean = gradient(i, y) - means.col(y);
    if (counts[y] > 1.0)
      noise += weights[i] * weights[i] * counts[y] / (counts[y] - 1.0) * from_mean * from_mean.transpose();
    for (Index c = 0; c < kClasses; ++c)  // of a class with one example, by what the classifier says of all
      if (counts[c] == 1.0)
        noise += weights[i] * kClasses * probs.view()(i, c) / (kClasses * kClasses) * gradient(i, c) *
                 gradient(i, c).transpose();
  }
  const MatrixXd inverse = hessian.inverse();
  return inverse * noise * inverse;
}

TEST(PooledCalibration, KnowsHowMuchItsFitMovesWithFewExamplesOfAClass) {
  const Sample all = sample(12, 2000);
  std::vector<double> of_last;
  for (const int last : {1, 2, 5, 60}) {
    const Sample some = first_of(all, {60, 60, 4, last});
    const PooledFit found = Pooled(dealt(some, 3)).fit({{CalibrationKind::kBiasCorrected}});
    const MatrixXd expected = covariance_of_bcts(some, found.calibration);
    std::vector<Index> free{0};
    for (Index c = 0; c < kClasses; ++c) free.push_back(found.covariance.rows() - kClasses + c);
    EXPECT_LE((found.covariance(free, free) - expected).norm(), 1e-6 * expected.norm()) << last;
    of_last.push_back(expected(kClasses, kClasses));
  }
  EXPECT_GT(of_last[0], of_last[2]);
  EXPECT_GT(of_last[2], of_last[3]);
}

TEST(PooledCalibration, AsksForNoNumberThatIsTooLargeForASumOfManyPlaces) {
  // Five examples of a class and thousands of others, and one of the five is a mistake that the classifier is sure of.
  Sample all = first_of(sample(13, 20000), {5, 3000, 3000, 3000});
  const auto mistake = std::find(all.labels.begin(), all.labels.end(), 0) - all.labels.begin();
  all.logits.row(mistake) << -100.0, 0.0, -100.0, -100.0;
  const Pooled pooled({all});
  PooledCalibration calibration(pooled.counts, pooled_path());
  double largest = 0.0;
  while (const auto question = calibration.next()) {
    const PooledSums sums = pooled_sums(*question, all.scores(), all.labels, pooled.folds[0]);
    for (const VectorXd* numbers : {&sums.values, &sums.held_out, &sums.curvature, &sums.noise})
      if (numbers->size() > 0) largest = std::max(largest, numbers->lpNorm<Eigen::Infinity>());
    largest = std::max(largest, sums.gradients.cwiseAbs().maxCoeff());
    calibration.take(sums);
  }
  EXPECT_LE(largest, 0x1p23 / 10'000);  // that a word of fixed point has for each of 10,000 places
}

TEST(PooledFolds, SpreadAClassEvenlyFromAFoldThatTheSeedGives) {
  const std::vector<int> labels{0, 1, 0, 0, 0, 0, 1, 3};
  const std::vector<Index> folds = pooled_folds(labels, kClasses, 11);
  std::vector<Index> of_first;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] == 0) of_first.push_back(folds[i]);
  EXPECT_THAT(of_first, testing::UnorderedElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(folds[6], (folds[1] + 1) % kPooledFolds);
  std::vector<int> starts(kPooledFolds);
  for (std::uint64_t seed = 0; seed < 500; ++seed)
    ++starts[static_cast<std::size_t>(pooled_folds(std::vector<int>{2}, kClasses, seed)[0])];
  for (const int count : starts) EXPECT_NEAR(count, 100, 4 * 9);  // four standard errors
}

}  // namespace
}  // namespace labelshift
