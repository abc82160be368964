#include "labelshift/experiments/ratio_summary.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace labelshift {
namespace {

/// Two methods, two predictors, one trial each at every point; b errs twice as much as a.
PanelTrials two_methods(const std::vector<double>& values, const std::vector<double>& mse) {
  PanelTrials trials{.panel = {.title = "t", .sweep = Sweep::kSize, .methods = {"a", "b"}, .predictors = 2},
                     .values = values};
  for (const double height : mse)
    trials.points.push_back({{0, 0, 0, height}, {1, 0, 0, 2 * height}, {0, 1, 0, height}, {1, 1, 0, 2 * height}});
  return trials;
}

TEST(RatioSummary, FindsTheSlopeOfAnErrorWithoutBias) {
  const std::vector<double> sizes{200, 400, 1000, 10000};
  std::vector<double> mse;
  for (const double n : sizes) mse.push_back(3.0 / n);
  const PanelSummary summary = summarise(two_methods(sizes, mse));
  for (const MethodSummary& method : summary.methods) {
    EXPECT_NEAR(method.size_law->slope.mean, -0.5, 1e-12);
    EXPECT_NEAR(method.size_law->floor, 0.0, 1e-12);
  }
  EXPECT_NEAR(summary.methods[0].size_law->variance, 3.0, 1e-9);
}

TEST(RatioSummary, FindsTheFloorThatABiasLeaves) {
  const std::vector<double> sizes{200, 400, 1000, 10000};
  std::vector<double> mse;
  for (const double n : sizes) mse.push_back(2.0 / n + 0.01);
  const SizeLaw law = fit_size_law(sizes, mse);
  EXPECT_NEAR(law.floor, 0.01, 1e-9);
  EXPECT_NEAR(law.variance, 2.0, 1e-6);
  EXPECT_GT(summarise(two_methods(sizes, mse)).methods[0].size_law->slope.mean, -0.4);
}

TEST(RatioSummary, GivesTheSlopeOfOnePredictorNoInterval) {
  PanelTrials trials = two_methods({200, 400, 1000}, {0.5, 0.3, 0.1});
  trials.panel.predictors = 1;
  for (auto& point : trials.points) point.resize(2);
  const SizeLaw law = *summarise(trials).methods[0].size_law;
  EXPECT_LT(law.slope.mean, 0.0);
  EXPECT_TRUE(std::isnan(law.slope.low) && std::isnan(law.slope.high));
}

TEST(RatioSummary, NeverFitsANegativeFloor) {
  const SizeLaw law = fit_size_law({100, 1000, 10000}, {1.0, 0.05, 0.001});
  EXPECT_EQ(law.floor, 0.0);
  EXPECT_GT(law.variance, 0.0);
}

TEST(RatioSummary, ComparesMethodsOnTheSameTestSets) {
  const PanelSummary summary = summarise(two_methods({200, 400, 1000}, {0.5, 0.1, 0.7}));
  ASSERT_EQ(summary.comparisons.size(), 1u);
  EXPECT_NEAR(summary.comparisons[0].ratio.mean, 0.5, 1e-12);
  // The ratio is one half in every pair, however much the errors themselves vary.
  EXPECT_NEAR(summary.comparisons[0].ratio.low, 0.5, 1e-12);
  EXPECT_NEAR(summary.comparisons[0].ratio.high, 0.5, 1e-12);
  EXPECT_EQ(summary.comparisons[0].lower_at, 3);
  EXPECT_NEAR(summary.methods[0].geometric_mean, std::cbrt(0.5 * 0.1 * 0.7), 1e-12);
}

TEST(RatioSummary, GivesStudentsInterval) {
  // Mean 2, standard deviation 1, three values: 2 -+ 4.302653 / sqrt(3).
  const MeanInterval interval = mean_interval({1.0, 2.0, 3.0});
  EXPECT_DOUBLE_EQ(interval.mean, 2.0);
  EXPECT_NEAR(interval.high - 2.0, 4.302653 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(2.0 - interval.low, 4.302653 / std::sqrt(3.0), 1e-5);
}

}  // namespace
}  // namespace labelshift
