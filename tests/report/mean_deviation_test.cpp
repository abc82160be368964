#include "labelshift/report/mean_deviation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace labelshift {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

TEST(MeanDeviationTest, LeavesOutWhatIsUnknown) {
  const MeanDeviation value = mean_deviation({1.0, kUnknown, 3.0});
  EXPECT_EQ(value.mean, 2.0);
  EXPECT_DOUBLE_EQ(value.deviation, std::sqrt(2.0));
  EXPECT_TRUE(std::isnan(mean_deviation({kUnknown}).mean));
  EXPECT_TRUE(std::isnan(mean_deviation({5.0}).deviation));
}

}  // namespace
}  // namespace labelshift
