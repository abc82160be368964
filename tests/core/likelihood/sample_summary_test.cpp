#include "labelshift/core/likelihood/sample_summary.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "labelshift/core/base/error.hpp"
#include "tests/core/error_of.hpp"

namespace labelshift {
namespace {

template <typename Use>
std::string input_error(Use&& use) {
  return error_of(ErrorKind::kInput, use);
}

TEST(CheckLabels, NamesTheRow) {
  const std::vector<int> labels = {0, 2, 3};
  EXPECT_NO_THROW(check_labels(labels, 3, 4, "y"));
  EXPECT_EQ(input_error([&] { check_labels(labels, 3, 3, "y"); }), "y, row 3: found label 3, expected 0 to 2");
  EXPECT_EQ(input_error([&] { check_labels(labels, 4, 4, "y"); }),
            "y has 3 labels for 4 rows; check that both are of the same rows");
  EXPECT_EQ(
      input_error([&] { check_labels(labels, 2, 4, "y"); }),
      "y has 3 labels for 2 rows; check that both are of the same rows, and that its first line is a label, or the "
      "word label if it is a header");
  EXPECT_EQ(input_error([&] { check_labels(std::vector<int>{-1}, 1, 3, "y"); }),
            "y, row 1: found label -1, expected 0 to 2");
}

TEST(Weights, CountRows) {
  const std::vector<double> weights = {3.0, 1.0, 0.0};
  EXPECT_EQ(total_weight(weights, 3), 4.0);
  EXPECT_EQ(total_weight({}, 3), 3.0);
  EXPECT_EQ(effective_rows(weights, 3), 1.6);  // 4^2 / 10
  EXPECT_EQ(effective_rows({}, 3), 3.0);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(input_error([&] {
              check_weights(std::vector<double>{1.0, infinity}, 2, "w");
            }),
            "w, row 2: found weight inf, expected a finite number that is not negative");
}

TEST(Weights, AreRelative) {
  const auto relative = [](std::vector<double> weights) { return relative_weights(weights); };
  EXPECT_EQ(relative({3.0, 1.0, 0.0}), (std::vector<double>{1.5, 0.5, 0.0}));
  EXPECT_EQ(relative({1e308, 1e308}), relative({std::ldexp(1e308, -900), std::ldexp(1e308, -900)}));
  EXPECT_EQ(relative({5e-324, 0.0}), (std::vector<double>{1.0, 0.0}));
  EXPECT_EQ(relative({4.0, -1.0}), (std::vector<double>{4.0, -1.0}));
  EXPECT_EQ(relative({0.0, 0.0}), (std::vector<double>{0.0, 0.0}));
  EXPECT_TRUE(relative({}).empty());
}

TEST(ArgMax, TakesTheFirstOfEquals) {
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(2, 3) << 0.4, 0.4, 0.2, 0.1, 0.2, 0.7).finished();
  EXPECT_EQ(arg_max(probs, 0), 0);
  EXPECT_EQ(arg_max(probs, 1), 2);
}

TEST(LabelPrior, CountsWeighsSmoothsAndNamesAbsentClasses) {
  const std::vector<int> labels = {0, 0, 0, 2};
  const std::vector<std::string> names = {"cat", "dog", "owl", "ape"};
  EXPECT_EQ(label_prior(std::vector<int>{0, 0, 0, 1}, {}, 2, 2.0), Eigen::Vector2d(0.625, 0.375));
  EXPECT_EQ(label_prior(std::vector<int>{0, 1}, std::vector<double>{3.0, 1.0}, 2), Eigen::Vector2d(0.75, 0.25));
  // Weights of 3 and 1 are 1.5 and 0.5 rows, whatever their scale.
  for (const double scale : {1.0, 1e-300, 1e300})
    EXPECT_TRUE(label_prior(std::vector<int>{0, 1}, std::vector<double>{3.0 * scale, 1.0 * scale}, 2, 1.0)
                    .isApprox(Eigen::Vector2d(0.625, 0.375), 1e-15));
  EXPECT_EQ(input_error([&] {
              label_prior(std::vector<int>{0, 2, 1}, std::vector<double>{1.0, 1.0, 1e-60}, 3, 0.0, names);
            }),
            "the source examples of class dog have less than 1e-50 of all weight, which is too little to divide by; "
            "check the weights");
  for (const double smoothing : {0.0, 1.0})
    EXPECT_EQ(input_error([&] { label_prior(labels, {}, 4, smoothing, names); }),
              "there is no source example of class dog, ape, so its share in what the classifier was trained on is "
              "unknown");
}

TEST(SummariseSource, GivesConfusionMatricesWhoseColumnsSumToThePrior) {
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(4, 2) << 0.9, 0.1, 0.4, 0.6, 0.2, 0.8, 0.3, 0.7).finished();
  const std::vector<int> labels = {0, 0, 1, 1};
  const SourceSummary summary = summarise_source({probs, labels, {}}, Eigen::Vector2d(0.25, 0.75));
  EXPECT_LE((*summary.confusion - (Eigen::Matrix2d() << 0.125, 0.0, 0.125, 0.75).finished()).norm(), 1e-15);
  EXPECT_LE((*summary.soft_confusion - (Eigen::Matrix2d() << 0.1625, 0.1875, 0.0875, 0.5625).finished()).norm(), 1e-15);
  EXPECT_EQ(summary.examples, 4.0);
}

TEST(SummariseSource, TakesAClassWithoutExamplesForPerfectlyPredicted) {
  const Eigen::MatrixXd probs = (Eigen::MatrixXd(1, 2) << 0.9, 0.1).finished();
  const SourceSummary summary = summarise_source({probs, std::vector<int>{0}, {}}, Eigen::Vector2d(0.75, 0.25));
  EXPECT_EQ(summary.confusion->col(1), Eigen::Vector2d(0.0, 0.25));
}

}  // namespace
}  // namespace labelshift
