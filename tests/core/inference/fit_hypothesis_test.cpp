#include "labelshift/core/inference/fit_hypothesis.hpp"

#include <gtest/gtest.h>

#include <Eigen/LU>
#include <cmath>
#include <span>
#include <vector>

#include "labelshift/core/base/distributions.hpp"
#include "labelshift/core/base/error.hpp"
#include "tests/core/fashion_mnist_example.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Over-confident and biased towards the last classes.
GaussianProblem miscalibrated(Index classes) {
  return {.source_prior = VectorXd::Constant(classes, 1.0 / static_cast<double>(classes)),
          .sharpness = 3.0,
          .bias = VectorXd::LinSpaced(classes, -1.0, 1.0)};
}

/// About half of the target is class 0, the rest is uneven.
VectorXd shifted_prior(Index classes) {
  VectorXd q(classes);
  for (Index c = 0; c < classes; ++c) q[c] = c == 0 ? 0.5 * static_cast<double>(classes) : (c % 2 == 1 ? 1.0 : 0.4);
  return q / q.sum();
}

/// Two classes with predictions in {0.6, 0.9} for either: four cells. Row counts by cell, for one class.
void append_rows(std::span<const int> counts, int label, MatrixXd& probs, std::vector<int>& labels) {
  static constexpr double kFirst[] = {0.6, 0.9, 0.4, 0.1};  // f_0 of the cells
  for (std::size_t cell = 0; cell < 4; ++cell) {
    for (int i = 0; i < counts[cell]; ++i) {
      probs.conservativeResize(probs.rows() + 1, 2);
      probs.row(probs.rows() - 1) << kFirst[cell], 1.0 - kFirst[cell];
      labels.push_back(label);
    }
  }
}

struct TwoClasses {
  MatrixXd probs = MatrixXd(0, 2);
  std::vector<int> labels;
};

TwoClasses two_classes(const std::vector<int>& first, const std::vector<int>& second) {
  TwoClasses result;
  append_rows(first, 0, result.probs, result.labels);
  append_rows(second, 1, result.probs, result.labels);
  return result;
}

TEST(FitTest, IsZeroForAnExactMixture) {
  const TwoClasses source = two_classes({40, 100, 40, 20}, {20, 20, 60, 100});
  const TwoClasses target = two_classes({120, 300, 120, 60}, {20, 20, 60, 100});  // q = (3/4, 1/4)
  const auto test = label_shift_fit_test({source.probs, source.labels, {}}, {target.probs, {}});
  ASSERT_TRUE(test.has_value());
  EXPECT_NEAR(test->statistic, 0.0, 1e-3);  // the solver stops once it can gain no more than 1e-4
  EXPECT_EQ(test->degrees_of_freedom, 2.0);
  EXPECT_GT(test->p_value, 0.999);
}

TEST(FitTest, RejectsWhatNoMixtureExplains) {
  const TwoClasses source = two_classes({40, 100, 40, 20}, {20, 20, 60, 100});
  const TwoClasses target = two_classes({100, 40, 40, 20}, {100, 20, 60, 20});
  const auto test = label_shift_fit_test({source.probs, source.labels, {}}, {target.probs, {}});
  ASSERT_TRUE(test.has_value());
  EXPECT_LT(test->p_value, 1e-6);
}

TEST(FitTest, IsPearsonsTestOfHomogeneityForOneClass) {
  // With one class in the source q = 1 is all there is, and J compares two multinomials: Pearson's chi-squared of the
  // 2 x 4 table, whose variances are those of the pooled frequencies. Half a pseudo-row in 200 and three rounds of
  // variances leave a difference of well under 1 %.
  const TwoClasses source = two_classes({40, 100, 40, 20}, {0, 0, 0, 0});
  const TwoClasses target = two_classes({60, 80, 35, 25}, {0, 0, 0, 0});
  const auto test = label_shift_fit_test({source.probs, source.labels, {}}, {target.probs, {}});
  ASSERT_TRUE(test.has_value());
  const double pearson = 400.0 / 100 + 400.0 / 180 + 25.0 / 75 + 25.0 / 45;  // (a - b)^2 / (a + b)
  EXPECT_EQ(test->degrees_of_freedom, 3.0);
  EXPECT_NEAR(test->statistic, pearson, 0.01 * pearson);
}

/// The statistic of one or two classes as the header describes it, by plain formulas: (D, k) source rows by cell and
/// class, (D) target rows by cell. Shares are found by a golden-section search and have to be within (0, 1).
double plain_statistic(const MatrixXd& source_rows, const VectorXd& target_rows) {
  const Index classes = source_rows.cols();
  const double n = target_rows.sum();
  const VectorXd rows = source_rows.colwise().sum();
  const MatrixXd m = source_rows * rows.cwiseInverse().asDiagonal();
  const VectorXd pi = target_rows / n;
  const VectorXd pooled = source_rows.rowwise().sum() / rows.sum();
  const auto covariance = [](const VectorXd& p) { return MatrixXd(MatrixXd(p.asDiagonal()) - p * p.transpose()); };
  MatrixXd source = m;  // the frequencies that variances are computed from
  VectorXd target = pi;
  const auto add_half_a_row = [&] {
    for (Index c = 0; c < classes; ++c) source.col(c) = (rows[c] * source.col(c) + 0.5 * pooled) / (rows[c] + 0.5);
    target = (n * target + 0.5 * pooled) / (n + 0.5);
  };
  const auto shares = [&](double first) -> VectorXd {
    return classes == 1 ? VectorXd(VectorXd::Ones(1)) : VectorXd(Eigen::Vector2d(first, 1.0 - first));
  };
  const auto multiplier = [&](const VectorXd& q) {                               // V^-1 (pi - M q)
    MatrixXd v = covariance(target) / n + MatrixXd::Ones(pi.size(), pi.size());  // V takes ones to zero
    for (Index c = 0; c < classes; ++c) v += q[c] * q[c] / rows[c] * covariance(source.col(c));
    return VectorXd(v.fullPivLu().solve(pi - m * q));
  };
  const auto statistic = [&](const VectorXd& q) { return (pi - m * q).dot(multiplier(q)); };
  VectorXd q;
  for (int round = 1;; ++round) {
    add_half_a_row();
    double low = 0.0, high = 1.0;
    for (int step = 0; step < 60; ++step) {
      const double a = low + 0.381966 * (high - low), b = high - 0.381966 * (high - low);
      const bool left = statistic(shares(a)) < statistic(shares(b));
      (left ? high : low) = left ? b : a;
    }
    q = shares(0.5 * (low + high));
    if (round == 3) return statistic(q);
    const VectorXd price = multiplier(q);  // next: the frequencies nearest to the observed ones with pi = M q
    const MatrixXd before = source;
    for (Index c = 0; c < classes; ++c) {
      source.col(c) = (m.col(c) + q[c] / rows[c] * covariance(before.col(c)) * price).cwiseMax(0.0);
      source.col(c) /= source.col(c).sum();
    }
    target = (pi - covariance(target) * price / n).cwiseMax(0.0);
    target /= target.sum();
  }
}

TEST(FitTest, IsWhatPlainFormulasGive) {
  const std::vector<int> none = {0, 0, 0, 0};
  const struct {
    std::vector<int> first, second, target;
  } tables[] = {
      {{40, 100, 40, 20}, none, {60, 80, 35, 25}},
      {{15, 15, 15, 15}, none, {2, 9, 3, 6}},  // so few rows that half a row of them counts
      {{15, 15, 15, 15}, none, {200, 300, 250, 150}},
      {{40, 100, 40, 20}, {20, 20, 60, 100}, {70, 90, 60, 80}},
      {{20, 50, 10, 10}, {10, 10, 40, 60}, {9, 8, 4, 14}},
      {{20, 50, 10, 10}, {10, 10, 40, 60}, {250, 200, 300, 150}},
  };
  for (const auto& [first, second, target] : tables) {
    const TwoClasses source = two_classes(first, second);
    const TwoClasses shown = two_classes(target, none);
    MatrixXd source_rows(4, second == none ? 1 : 2);
    VectorXd target_rows(4);
    for (Index cell = 0; cell < 4; ++cell) {
      const auto at = static_cast<std::size_t>(cell);
      source_rows(cell, 0) = first[at];
      if (second != none) source_rows(cell, 1) = second[at];
      target_rows[cell] = target[at];
    }
    const double expected = plain_statistic(source_rows, target_rows);
    const auto test = label_shift_fit_test({source.probs, source.labels, {}}, {shown.probs, {}});
    ASSERT_TRUE(test.has_value());
    EXPECT_EQ(test->degrees_of_freedom, second == none ? 3.0 : 2.0);
    EXPECT_GT(expected, 0.1);
    // Without a share to find there is rounding alone. Else a descent ends 0.01 standard errors from its minimum, 1e-4
    // above it, and takes the frequencies of the next round 0.01 of theirs along: 0.01 / sqrt(10) = 3e-3 of a cell of
    // ten rows, and of all cells, in which the variances are the sums, less.
    EXPECT_NEAR(test->statistic, expected, (second == none ? 1e-9 : 1e-3) * expected) << testing::PrintToString(target);
    EXPECT_NEAR(test->p_value, chi_squared_survival(test->statistic, test->degrees_of_freedom), 1e-12);
  }
}

TEST(FitTest, CountsAWeightAsThatManyRowsInMeansButNotInEvidence) {
  const TwoClasses source = two_classes({40, 100, 40, 20}, {20, 20, 60, 100});
  const TwoClasses target = two_classes({60, 100, 60, 60}, {20, 20, 60, 20});
  const std::vector<double> twos(400, 2.0);
  const auto plain = label_shift_fit_test({source.probs, source.labels, {}}, {target.probs, {}});
  const auto weighted = label_shift_fit_test({source.probs, source.labels, twos}, {target.probs, twos});
  ASSERT_TRUE(plain && weighted);
  EXPECT_GT(plain->statistic, 1.0);
  EXPECT_NEAR(weighted->statistic, plain->statistic, 1e-9);
}

TEST(FitTest, CannotBeComputedWithoutMoreCellsThanClasses) {
  const TwoClasses few = two_classes({5, 5, 0, 0}, {0, 0, 5, 5});
  EXPECT_FALSE(label_shift_fit_test({few.probs, few.labels, {}}, {few.probs, {}}).has_value());
  // Saturated: every confidence is 1, so the two predicted classes are the only cells.
  MatrixXd saturated = MatrixXd::Zero(200, 2);
  std::vector<int> labels;
  for (Index i = 0; i < 200; ++i) {
    saturated(i, i % 2) = 1.0;
    labels.push_back(static_cast<int>(i % 2));
  }
  EXPECT_FALSE(label_shift_fit_test({saturated, labels, {}}, {saturated, {}}).has_value());
}

TEST(ConfidenceCells, HaveABinForEveryFifteenSourceRowsAndFourAtMost) {
  // 10, 30, 45 and 300 rows whose largest score is that of class 0, 1, 2 and 3, with confidences that all differ.
  const std::vector<Index> rows = {10, 30, 45, 300};
  MatrixXd probs(385, 4);
  Index row = 0;
  for (Index c = 0; c < 4; ++c) {
    for (Index i = 0; i < rows[static_cast<std::size_t>(c)]; ++i, ++row) {
      const double confidence = 0.5 + 0.4 * static_cast<double>(i + 1) / 301.0;
      probs.row(row).setConstant((1.0 - confidence) / 3.0);
      probs(row, c) = confidence;
    }
  }
  const ConfidenceCells cells(probs);
  const std::vector<Index> bins = {1, 2, 3, 4};
  for (Index c = 0; c < 4; ++c)
    EXPECT_EQ((c < 3 ? cells.first_of(c + 1) : cells.size()) - cells.first_of(c), bins[static_cast<std::size_t>(c)])
        << c;
}

TEST(ConfidenceCells, HaveNoEmptyOnesBetweenEqualConfidences) {
  // 100 rows say class 0 with 0.6, 0.9 or 1: of the quartiles 0.9, 1 and 1 the last is no edge of its own. All 50 that
  // say class 1 are certain.
  MatrixXd probs(150, 2);
  for (Index i = 0; i < 150; ++i) {
    const double first = i < 10 ? 0.6 : i < 40 ? 0.9 : i < 100 ? 1.0 : 0.0;
    probs.row(i) << first, 1.0 - first;
  }
  const ConfidenceCells cells(probs);
  EXPECT_EQ(cells.first_of(1), 3);
  EXPECT_EQ(cells.size(), 5);
  EXPECT_EQ(cells.cell_of(0, 0.6), 0);
  EXPECT_EQ(cells.cell_of(0, 0.9), 1);
  EXPECT_EQ(cells.cell_of(0, 0.99), 1);
  EXPECT_EQ(cells.cell_of(0, 1.0), 2);
  EXPECT_EQ(cells.cell_of(1, 0.99), 3);
  EXPECT_EQ(cells.cell_of(1, 1.0), 4);
}

TEST(ConfidenceCells, DoNotTellApartWhatFourDigitsWouldRound) {
  MatrixXd probs(120, 2);
  for (Index i = 0; i < 120; ++i) {
    const double first = i < 40 ? static_cast<double>(0.6F) : i < 80 ? 1.0 - 1e-8 * static_cast<double>(i) : 1.0;
    probs.row(i) << first, 1.0 - first;
  }
  const ConfidenceCells cells(probs);
  EXPECT_EQ(cells.first_of(1), 3);  // below 0.6, below 0.9995, and above it
  EXPECT_EQ(cells.cell_of(0, 0.6), 1);
  EXPECT_EQ(cells.cell_of(0, 0.5994), 0);
  EXPECT_EQ(cells.cell_of(0, 0.9999), 2);
  EXPECT_EQ(cells.cell_of(0, 1.0 - 1e-8), 2);
  EXPECT_EQ(cells.cell_of(0, 1.0), 2);
}

TEST(FitTest, HoldsWhereTheTargetIsWrittenWithFewerDigits) {
  // Float32 probabilities of a real classifier, a fifth of which are 1 to seven digits; the other half of its rows,
  // with four decimals and divided by their sums. With edges at the quantiles themselves p was 1e-20.
  const FashionMnistExample example = read_fashion_mnist_example();
  const Index half = example.probs.rows() / 2;
  const MatrixXd source = example.probs.topRows(half).cast<double>();
  const MatrixXd target = example.probs.bottomRows(half).cast<double>();
  MatrixXd rounded = (1e4 * target).array().round() / 1e4;
  rounded.array().colwise() /= rounded.rowwise().sum().array().eval();
  const std::vector<int> labels(example.labels.begin(), example.labels.begin() + half);
  const double exact = label_shift_fit_test({source, labels, {}}, {target, {}})->p_value;
  EXPECT_GT(exact, 0.05);
  EXPECT_NEAR(label_shift_fit_test({source, labels, {}}, {rounded, {}})->p_value, exact, 0.3 * exact);
}

TEST(FitTest, RefusesSamplesThatDoNotFitTogether) {
  const TwoClasses source = two_classes({5, 5, 0, 0}, {0, 0, 5, 5});
  const MatrixXd target = MatrixXd::Constant(4, 3, 1.0 / 3);
  try {
    label_shift_fit_test({source.probs, source.labels, {}}, {target, {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(), "the source has 2 columns and the target 3; expected one column a class in both");
  }
}

// Rejections at 5 % in 300 repetitions are binomial with standard deviation 3.8: 4 of them above 15 is 30. From below,
// only "not always" is asked for: the test is known to be cautious when cells are small.
constexpr int kRepetitions = 300;
constexpr int kMost = 30;

struct Sizes {
  Index classes, source, target;

  std::string name() const {
    return std::to_string(classes) + "Classes" + std::to_string(source) + "Source" + std::to_string(target) + "Target";
  }
  friend void PrintTo(const Sizes& sizes, std::ostream* out) { *out << sizes.name(); }
};

class FitTestLevel : public testing::TestWithParam<Sizes> {};

TEST_P(FitTestLevel, HoldsUnderLabelShiftWithAMiscalibratedPredictor) {
  const auto [classes, source_rows, target_rows] = GetParam();
  const GaussianProblem problem = miscalibrated(classes);
  Rng rng(1, static_cast<std::uint64_t>(classes * source_rows + target_rows));
  int rejections = 0;
  for (int k = 0; k < kRepetitions; ++k) {
    const GaussianSample source = problem.sample(source_rows, problem.source_prior, rng);
    const GaussianSample target = problem.sample(target_rows, shifted_prior(classes), rng);
    const auto test = label_shift_fit_test(source.source(), target.target());
    ASSERT_TRUE(test.has_value());
    rejections += test->p_value < 0.05;
  }
  EXPECT_LE(rejections, kMost);
  EXPECT_GE(rejections, 1);
}

INSTANTIATE_TEST_SUITE_P(Core, FitTestLevel,
                         testing::Values(Sizes{3, 500, 500}, Sizes{3, 500, 5000}, Sizes{3, 2000, 500},
                                         Sizes{10, 500, 500}, Sizes{10, 500, 5000}, Sizes{10, 2000, 2000}),
                         [](const auto& sizes) { return sizes.param.name(); });

TEST(FitTest, HoldsItsLevelWhereAClassIsAbsentFromTheTarget) {
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.2, 0.3, 0.5), .sharpness = 2.0};
  Rng rng(2);
  int rejections = 0;
  for (int k = 0; k < kRepetitions; ++k) {
    const GaussianSample source = problem.sample(1000, problem.source_prior, rng);
    const GaussianSample target = problem.sample(1000, Eigen::Vector3d(0.0, 0.3, 0.7), rng);
    rejections += label_shift_fit_test(source.source(), target.target())->p_value < 0.05;
  }
  EXPECT_LE(rejections, kMost);
}

TEST(FitTest, HoldsItsLevelWhereHalfOfTheClassesAreAbsentFromTheTarget) {
  const GaussianProblem problem = miscalibrated(10);
  VectorXd prior = VectorXd::Zero(10);
  prior.head(5).setConstant(0.2);
  Rng rng(6);
  int rejections = 0;
  for (int k = 0; k < kRepetitions; ++k) {
    const GaussianSample source = problem.sample(1000, problem.source_prior, rng);
    const GaussianSample target = problem.sample(1000, prior, rng);
    rejections += label_shift_fit_test(source.source(), target.target())->p_value < 0.05;
  }
  EXPECT_LE(rejections, kMost);
}

TEST(FitTest, RejectsWhatOnlyANegativeShareWouldExplain) {
  // Labels of which most say nothing: every class looks like all of them, and a target of another mix is beyond what
  // mixtures of such classes can be.
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.5, 0.3, 0.2)};
  Rng rng(7);
  for (int k = 0; k < 10; ++k) {
    GaussianSample source = problem.sample(5000, problem.source_prior, rng);
    for (std::size_t i = 0; i < 3000; ++i)
      std::swap(source.labels[i], source.labels[static_cast<std::size_t>(rng.below(3000))]);
    const GaussianSample target = problem.sample(5000, Eigen::Vector3d(0.1, 0.2, 0.7), rng);
    EXPECT_LT(label_shift_fit_test(source.source(), target.target())->p_value, 1e-4);
  }
}

TEST(FitTest, HoldsItsLevelOnHalvesOfARealClassifiersRows) {
  const FashionMnistExample example = read_fashion_mnist_example();
  const Index half = example.probs.rows() / 2;
  Rng rng(3);
  int rejections = 0;
  for (int k = 0; k < kRepetitions; ++k) {
    const FashionMnistExample rows = shuffled(example, rng);
    const Probabilities view(rows.probs);
    const auto labels = std::span(rows.labels).first(static_cast<std::size_t>(half));
    const auto test = label_shift_fit_test({view.middle_rows(0, half), labels, {}}, {view.middle_rows(half, half), {}});
    ASSERT_TRUE(test.has_value());
    rejections += test->p_value < 0.05;
  }
  EXPECT_LE(rejections, kMost);
}

// Power, at 95 % accuracy: with classes that overlap more, both changes come close to being mixtures of the classes and
// no test of f can see them. Over 60 other draws the four powers were 1.00, 0.93, 1.00 and 1.00; 50 repetitions at 0.93
// have a standard deviation of 1.8 around 46.5, so 40 rejections allow for 3.6 of them.
constexpr int kPowerRepetitions = 50;
constexpr int kEnough = 40;

TEST(FitTest, RejectsWhenTheFeaturesOfOneClassBecomeNoisy) {
  for (const Index classes : {3, 10}) {
    GaussianProblem problem = miscalibrated(classes);
    problem.separation = 4.0;
    Rng rng(4, static_cast<std::uint64_t>(classes));
    int rejections = 0;
    for (int k = 0; k < kPowerRepetitions; ++k) {
      const GaussianSample source = problem.sample(5000, problem.source_prior, rng);
      GaussianSample target = problem.sample(5000, shifted_prior(classes), rng);
      for (Index j = 0; j < 5000; ++j) {
        if (target.labels[static_cast<std::size_t>(j)] != 0) continue;
        target.features(j, 0) += rng.normal();
        target.features(j, 1) += rng.normal();
      }
      target.probs = problem.predict(target.features);
      rejections += label_shift_fit_test(source.source(), target.target())->p_value < 0.05;
    }
    EXPECT_GE(rejections, kEnough) << classes;
  }
}

TEST(FitTest, RejectsWhenTheFeaturesArePermuted) {
  // The classifier's answers then have little to do with the classes, and only a q far from the simplex, whose own
  // noise is huge, would explain how often each is given. Ten classes in 16 dimensions, 50 source rows each.
  constexpr Index kClasses = 10, kFeatures = 16;
  Rng rng(3);
  MatrixXd means(kFeatures, kClasses);
  for (double& x : means.reshaped()) x = rng.normal();
  const VectorXd uniform = VectorXd::Constant(kClasses, 0.1);
  const auto sample = [&](Index rows, const VectorXd& prior, bool permuted, std::vector<int>& labels) {
    MatrixXd probs(rows, kClasses);
    for (Index i = 0; i < rows; ++i) {
      double left = rng.uniform();
      int y = 0;
      while (y + 1 < kClasses && (left -= prior[y]) >= 0.0) ++y;
      labels.push_back(y);
      VectorXd x = means.col(y);
      for (double& feature : x) feature += rng.normal();
      const VectorXd before = x;
      for (Index k = 0; permuted && k < kFeatures; ++k) x[k] = before[(7 * k + 3) % kFeatures];
      Eigen::ArrayXd f = -0.5 * (means.colwise() - x).colwise().squaredNorm().transpose().array();
      f = (f - f.maxCoeff()).exp();
      probs.row(i) = (f / f.sum()).matrix().transpose();
    }
    return probs;
  };
  constexpr int kDraws = 100;
  int rejected = 0;
  for (int i = 0; i < kDraws; ++i) {
    VectorXd q(kClasses);
    for (double& share : q) share = rng.gamma(0.5);
    q /= q.sum();
    std::vector<int> labels, unused;
    const MatrixXd source = sample(500, uniform, false, labels);
    const MatrixXd target = sample(250, q, true, unused);
    const auto test = label_shift_fit_test({source, labels, {}}, {target, {}});
    ASSERT_TRUE(test);
    rejected += test->p_value < 0.05 ? 1 : 0;
  }
  EXPECT_GE(rejected, kDraws - 1);
}

TEST(FitTest, RejectsWhenAnUnseenClassMakesUpATenthOfTheTarget) {
  for (const Index classes : {3, 10}) {
    GaussianProblem problem = miscalibrated(classes);
    problem.separation = 4.0;
    Rng rng(5, static_cast<std::uint64_t>(classes));
    int rejections = 0;
    for (int k = 0; k < kPowerRepetitions; ++k) {
      const GaussianSample source = problem.sample(5000, problem.source_prior, rng);
      GaussianSample target = problem.sample(5000, shifted_prior(classes), rng);
      for (Index j = 0; j < 500; ++j)  // the new class is at the centre of the circle
        target.features.row(j) = Eigen::RowVector2d(rng.normal(), rng.normal());
      target.probs = problem.predict(target.features);
      rejections += label_shift_fit_test(source.source(), target.target())->p_value < 0.05;
    }
    EXPECT_GE(rejections, kEnough) << classes;
  }
}

}  // namespace
}  // namespace labelshift
