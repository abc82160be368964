#include "labelshift/report/axis_drawing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/figure_parts.hpp"
#include "tests/report/parse_xml.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

const Axis kX{.low = 0.0, .high = 10.0, .start = 100.0, .end = 300.0, .ticks = {{0.0, "0", ""}, {3.0, "", ""}}};
const Axis kY{.low = 0.0, .high = 1.0, .start = 200.0, .end = 50.0, .ticks = {{0.5, "10", "2"}}};

std::vector<XmlElement> drawn(const Axis& x, const Axis& y) {
  Svg svg(400.0, 300.0, "", "");
  draw_ticks(svg, x, y);
  draw_frame(svg, x, y);
  return parse_xml(svg.str());
}

/// An axis of 200 with these ticks.
Axis axis_with(std::vector<Tick> ticks) {
  return {.low = 0.0, .high = 10.0, .start = 100.0, .end = 300.0, .ticks = std::move(ticks)};
}

TEST(DrawTicks, LabelsBothAxesOutsideOfTheFrame) {
  const auto elements = drawn(kX, kY);
  EXPECT_THAT(ticks(elements), ElementsAre("0", "10^2"));
  const auto labels = with_class(elements, "tick");
  EXPECT_EQ(labels[0].number("x"), 100.0);
  EXPECT_GT(labels[0].number("y"), 200.0);
  EXPECT_LT(labels[1].number("x"), 100.0);
}

TEST(DrawTicks, DrawsTheGridAtTicksWithALabelFromEdgeToEdge) {
  const auto grid = with_class(drawn(kX, kY), "grid");
  ASSERT_THAT(grid, SizeIs(2));  // the minor tick of x has none
  EXPECT_EQ(grid[0].number("x1"), 100.0);
  EXPECT_EQ(grid[0].number("x2"), 100.0);
  EXPECT_EQ(grid[0].number("y1"), 50.0);
  EXPECT_EQ(grid[0].number("y2"), 200.0);
  EXPECT_EQ(grid[1].number("y1"), 125.0);
  EXPECT_EQ(grid[1].number("x1"), 100.0);
  EXPECT_EQ(grid[1].number("x2"), 300.0);
}

TEST(DrawTicks, DrawsAMinorTickShorter) {
  std::vector<double> lengths;
  for (const XmlElement& element : drawn(kX, kY))
    if (element.name == "line" && element.attributes.count("class") == 0 && element.number("y1") == 200.0)
      lengths.push_back(element.number("y2") - 200.0);
  EXPECT_THAT(lengths, ElementsAre(4.0, 2.0));
}

TEST(DrawTicks, LeavesOutALabelThatWouldTouchTheOneBefore) {
  EXPECT_THAT(ticks(drawn(axis_with({{0.0, "10000", ""}, {1.0, "20000", ""}, {5.0, "50000", ""}}), kY)),
              ElementsAre("10000", "50000", "10^2"));
}

TEST(DrawTicks, LeavesOutLabelsBetweenPowersBeforeThoseOfPowers) {
  EXPECT_THAT(ticks(drawn(axis_with({{0.0, "50000", "", true}, {1.0, "100000", ""}}), kY)),
              ElementsAre("100000", "10^2"));
}

TEST(LabelRoom, HoldsTheWidestLabel) {
  const Axis axis = axis_with({{0.0, "0", ""}, {1.0, "10", "\u22125"}, {2.0, "", ""}});
  EXPECT_GT(label_width(axis.ticks[1]), text_width("10", 10.0));
  EXPECT_GT(label_room(axis), label_width(axis.ticks[1]));
  EXPECT_EQ(label_room(axis_with({})), 0.0);
}

TEST(DrawFrame, GoesDownTheLeftAndAlongTheBottom) {
  EXPECT_EQ(with_class(drawn(kX, kY), "frame")[0].attributes.at("d"), "M100 50V200H300");
}

}  // namespace
}  // namespace labelshift
