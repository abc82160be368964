#include "labelshift/report/series_style.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tests/report/figure_parts.hpp"
#include "tests/report/parse_xml.hpp"

namespace labelshift {
namespace {

using testing::SizeIs;

XmlElement marker_at(SvgPoint at, std::size_t number) {
  Svg svg(100.0, 100.0, "", "");
  draw_marker(svg, at, {number}, "marker");
  return with_class(parse_xml(svg.str()), "marker").at(0);
}

TEST(SeriesStyle, GivesEightSeriesEightColours) {
  std::set<std::string> colours;
  for (std::size_t i = 0; i < 8; ++i) colours.insert(SeriesStyle{i}.colour());
  EXPECT_THAT(colours, SizeIs(8));
}

TEST(SeriesStyle, DashesNeighboursDifferently) {
  const auto dashes = [](std::size_t i) {
    const char* found = SeriesStyle{i}.dashes();
    return std::string(found == nullptr ? "solid" : found);
  };
  EXPECT_EQ(dashes(0), "solid");
  for (std::size_t i = 1; i < kMaxSeriesStyles; ++i) EXPECT_NE(dashes(i), dashes(i - 1)) << i;
}

TEST(SeriesStyle, GivesEverySeriesAMarkerOfItsOwn) {
  std::set<std::string> looks;
  for (std::size_t i = 0; i < kMaxSeriesStyles; ++i) {
    const XmlElement marker = marker_at({50.0, 50.0}, i);
    looks.insert(marker.attributes.at("d") + marker.attributes.at("fill") + marker.attributes.at("stroke"));
  }
  EXPECT_THAT(looks, SizeIs(kMaxSeriesStyles));
}

TEST(SeriesStyle, GivesEightSeriesEightShapesForGreyPrint) {
  std::set<std::string> shapes;
  for (std::size_t i = 0; i < 8; ++i) shapes.insert(marker_at({50.0, 50.0}, i).attributes.at("d"));
  EXPECT_THAT(shapes, SizeIs(8));
  EXPECT_EQ(marker_at({50.0, 50.0}, 3).attributes.at("d"), marker_at({50.0, 50.0}, 11).attributes.at("d"));
}

TEST(DrawMarker, FillsTheFirstEightAndLeavesTheOthersHollow) {
  for (std::size_t i = 0; i < kMaxSeriesStyles; ++i) {
    const XmlElement marker = marker_at({50.0, 50.0}, i);
    const SeriesStyle style{i};
    EXPECT_EQ(style.hollow(), i >= 8);
    EXPECT_EQ(marker.attributes.at("fill"), style.hollow() ? "#ffffff" : style.colour()) << i;
    EXPECT_EQ(marker.attributes.at("stroke"), style.hollow() ? style.colour() : "#ffffff") << i;
  }
}

TEST(DrawMarker, StandsOnItsPoint) {
  for (std::size_t i = 1; i < 8; ++i) {  // 0 is a circle, which has no corners
    const auto points = corners(marker_at({40.0, 60.0}, i));
    ASSERT_GE(points.size(), 3u) << i;
    for (const SvgPoint& point : points) EXPECT_LT(std::hypot(point.x - 40.0, point.y - 60.0), 5.0) << i;
    const auto by_x = [](const SvgPoint& a, const SvgPoint& b) { return a.x < b.x; };
    const auto [left, right] = std::minmax_element(points.begin(), points.end(), by_x);
    EXPECT_LT(left->x, 40.0) << i;
    EXPECT_GT(right->x, 40.0) << i;
  }
  EXPECT_THAT(marker_at({40.0, 60.0}, 0).attributes.at("d"), testing::StartsWith("M37 60a3 3"));
}

}  // namespace
}  // namespace labelshift
