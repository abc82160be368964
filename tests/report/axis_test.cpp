#include "labelshift/report/axis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The labels of an axis over this range, and of a linear one a little more, as "10^2", or "0.5" without an exponent.
std::vector<std::string> labels(AxisScale scale, double low, double high) {
  std::vector<std::string> found;
  for (const Tick& tick : make_axis(scale, {.low = low, .high = high}, scale == AxisScale::kLog ? 0.0 : 0.05).ticks)
    if (!tick.minor()) found.push_back(tick.base + (tick.exponent.empty() ? "" : "^" + tick.exponent));
  return found;
}

TEST(Axis, PutsValuesInProportionOnALinearScale) {
  const Axis axis{.low = 10.0, .high = 20.0, .start = 300.0, .end = 100.0, .ticks = {}};
  EXPECT_EQ(axis.at(10.0), 300.0);
  EXPECT_EQ(axis.at(15.0), 200.0);
  EXPECT_EQ(axis.at(20.0), 100.0);
}

TEST(Axis, PutsRatiosInProportionOnALogScale) {
  const Axis axis{.scale = AxisScale::kLog, .low = 0.01, .high = 100.0, .start = 0.0, .end = 400.0, .ticks = {}};
  EXPECT_NEAR(axis.at(0.1), 100.0, 1e-12);
  EXPECT_NEAR(axis.at(1.0), 200.0, 1e-12);
  EXPECT_NEAR(axis.at(std::sqrt(10.0)), 250.0, 1e-12);
}

TEST(Axis, PutsWhatIsBeyondAnEndAtThatEnd) {
  const Axis linear{.low = 0.0, .high = 1.0, .start = 0.0, .end = 10.0, .ticks = {}};
  EXPECT_EQ(linear.at(-3.0), 0.0);
  EXPECT_EQ(linear.at(1.5), 10.0);
  const Axis log{.scale = AxisScale::kLog, .low = 1.0, .high = 10.0, .start = 0.0, .end = 10.0, .ticks = {}};
  EXPECT_EQ(log.at(0.0), 0.0);
  EXPECT_EQ(log.at(-1.0), 0.0);
}

TEST(ValueRange, IsEmptyUntilSomethingIsAdded) {
  ValueRange range;
  EXPECT_TRUE(range.empty());
  range.add(3.0);
  EXPECT_FALSE(range.empty());
  range.add(-1.0);
  range.add(2.0);
  EXPECT_EQ(range.low, -1.0);
  EXPECT_EQ(range.high, 3.0);
}

TEST(CanShow, KnowsWhatHasAPlaceOnAnAxis) {
  for (const double value : {1.0, 1e-290, 1e300}) {
    EXPECT_TRUE(can_show(AxisScale::kLinear, value)) << value;
    EXPECT_TRUE(can_show(AxisScale::kLog, value)) << value;
  }
  for (const double value : {0.0, -1.0, 1e-310}) {
    EXPECT_TRUE(can_show(AxisScale::kLinear, value)) << value;
    EXPECT_FALSE(can_show(AxisScale::kLog, value)) << value;
  }
  for (const double value : {kNan, kInfinity, -kInfinity, 1e301}) {
    EXPECT_FALSE(has_value(value)) << value;
    EXPECT_FALSE(can_show(AxisScale::kLinear, value)) << value;
    EXPECT_FALSE(can_show(AxisScale::kLog, value)) << value;
  }
}

TEST(NiceStep, IsOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_DOUBLE_EQ(nice_step(1.0), 1.0);
  EXPECT_DOUBLE_EQ(nice_step(1.1), 2.0);
  EXPECT_DOUBLE_EQ(nice_step(2.1), 5.0);
  EXPECT_DOUBLE_EQ(nice_step(5.1), 10.0);
  EXPECT_DOUBLE_EQ(nice_step(0.03), 0.05);
  EXPECT_DOUBLE_EQ(nice_step(1234.0), 2000.0);
  EXPECT_DOUBLE_EQ(nice_step(0.2 * (1.0 + 1e-15)), 0.2);  // rounding does not take it to the next
}

TEST(MakeAxis, ShowsTheRangeAndALittleMore) {
  const Axis linear = make_axis(AxisScale::kLinear, {.low = -10.0, .high = 10.0}, 0.05);
  EXPECT_DOUBLE_EQ(linear.low, -11.0);
  EXPECT_DOUBLE_EQ(linear.high, 11.0);
  const Axis log = make_axis(AxisScale::kLog, {.low = 1.0, .high = 1e4}, 0.25);
  EXPECT_DOUBLE_EQ(log.low, 0.1);
  EXPECT_DOUBLE_EQ(log.high, 1e5);
}

TEST(MakeAxis, StretchesALongLogAxisByAFactorOfTenAtMost) {
  const Axis axis = make_axis(AxisScale::kLog, {.low = 1e-100, .high = 1e100}, 0.05);
  EXPECT_DOUBLE_EQ(axis.low, 1e-101);
  EXPECT_DOUBLE_EQ(axis.high, 1e101);
}

TEST(MakeAxis, StaysAboveZeroWhereTheValuesDo) {
  EXPECT_EQ(make_axis(AxisScale::kLinear, {.low = 0.1, .high = 10.0}, 0.05).low, 0.0);
  EXPECT_LT(make_axis(AxisScale::kLinear, {.low = -0.1, .high = 10.0}, 0.05).low, -0.1);
}

TEST(MakeAxis, HasALengthAroundOneValueAndWithoutAny) {
  const Axis one = make_axis(AxisScale::kLinear, {.low = 4.0, .high = 4.0}, 0.05);
  EXPECT_EQ(one.low, 2.0);
  EXPECT_EQ(one.high, 6.0);
  const Axis zero = make_axis(AxisScale::kLinear, {.low = 0.0, .high = 0.0}, 0.05);
  EXPECT_EQ(zero.low, 0.0);
  EXPECT_EQ(zero.high, 1.0);
  const Axis log = make_axis(AxisScale::kLog, {.low = 4.0, .high = 4.0}, 0.05);
  EXPECT_EQ(log.low, 2.0);
  EXPECT_EQ(log.high, 8.0);
  for (const AxisScale scale : {AxisScale::kLinear, AxisScale::kLog}) {
    const Axis none = make_axis(scale, {}, 0.05);
    EXPECT_LT(none.low, none.high);
    EXPECT_GE(none.ticks.size(), 2u);
  }
}

TEST(MakeAxis, LabelsALogAxisOfModestNumbersInPlain) {
  EXPECT_THAT(labels(AxisScale::kLog, 0.099, 10.1), ElementsAre("0.1", "0.2", "0.5", "1", "2", "5", "10"));
  EXPECT_THAT(labels(AxisScale::kLog, 0.1, 1e4), ElementsAre("0.1", "1", "10", "100", "1000", "10000"));
}

TEST(MakeAxis, LabelsALogAxisOfSmallOrLargeNumbersByPowers) {
  EXPECT_THAT(labels(AxisScale::kLog, 1e-4, 1.0),
              ElementsAre("10^\u22124", "10^\u22123", "10^\u22122", "10^\u22121", "10^0"));
  EXPECT_THAT(labels(AxisScale::kLog, 1e-12, 1e12),  // 24 decades: every fourth
              ElementsAre("10^\u221212", "10^\u22128", "10^\u22124", "10^0", "10^4", "10^8", "10^12"));
}

TEST(MakeAxis, LabelsTwosAndFivesOnAShortLogAxis) {
  EXPECT_THAT(labels(AxisScale::kLog, 200.0, 10000.0), ElementsAre("200", "500", "1000", "2000", "5000", "10000"));
  EXPECT_THAT(labels(AxisScale::kLog, 2e-3, 2e-2),
              ElementsAre("2\u00d710^\u22123", "5\u00d710^\u22123", "10^\u22122", "2\u00d710^\u22122"));
  for (const Tick& tick : make_axis(AxisScale::kLog, {.low = 200.0, .high = 10000.0}, 0.0).ticks)
    EXPECT_EQ(tick.between_powers, tick.base.starts_with('2') || tick.base.starts_with('5')) << tick.base;
}

TEST(MakeAxis, MarksTheOtherDigitsOfALogAxisWithoutLabels) {
  const Axis axis = make_axis(AxisScale::kLog, {.low = 1.0, .high = 1e3}, 0.0);
  EXPECT_EQ(axis.ticks.size(), 28u);  // nine a decade, and the end
  EXPECT_THAT(labels(AxisScale::kLog, 1.0, 1e3), ElementsAre("1", "10", "100", "1000"));
}

TEST(MakeAxis, LabelsALogAxisOfLessThanATwofoldRangeToo) {
  EXPECT_THAT(labels(AxisScale::kLog, 3.1e-4, 3.6e-4),
              IsSupersetOf({"3.2\u00d710^\u22124", "3.4\u00d710^\u22124", "3.6\u00d710^\u22124"}));
}

TEST(MakeAxis, LabelsALinearAxisInRoundSteps) {
  EXPECT_THAT(labels(AxisScale::kLinear, -0.5, 1.0), ElementsAre("\u22120.5", "0", "0.5", "1.0"));
  EXPECT_THAT(labels(AxisScale::kLinear, 0.0, 10.0), ElementsAre("0", "5", "10"));
}

TEST(MakeAxis, TakesAPowerOutOfLargeAndSmallNumbersOnALinearAxis) {
  EXPECT_THAT(labels(AxisScale::kLinear, 0.0, 4e6),
              ElementsAre("0", "1\u00d710^6", "2\u00d710^6", "3\u00d710^6", "4\u00d710^6"));
  EXPECT_THAT(labels(AxisScale::kLinear, 0.0, 4e-5), IsSupersetOf({"0", "2\u00d710^\u22125"}));
}

}  // namespace
}  // namespace labelshift
