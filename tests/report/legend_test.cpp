#include "labelshift/report/legend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/figure_parts.hpp"
#include "tests/report/parse_xml.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

std::vector<XmlElement> drawn(const Legend& legend) {
  Svg svg(1000.0, 1000.0, "", "");
  legend.draw(svg, 20.0, 40.0);
  return parse_xml(svg.str());
}

TEST(Legend, SetsNamesBesideEachOtherAfterASampleOfTheirLine) {
  const Legend legend({"a", "b"}, 400.0);
  const auto elements = drawn(legend);
  const auto names = with_class(elements, "legend");
  EXPECT_THAT(texts(names), ElementsAre("a", "b"));
  EXPECT_EQ(names[0].number("y"), names[1].number("y"));
  std::vector<XmlElement> samples;
  for (const XmlElement& element : elements)
    if (element.name == "line") samples.push_back(element);
  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_EQ(samples[0].number("x1"), 20.0);
  EXPECT_LT(samples[0].number("x2"), names[0].number("x"));
  EXPECT_GT(samples[1].number("x1"), names[0].number("x"));
  EXPECT_NE(samples[0].attributes.at("stroke"), samples[1].attributes.at("stroke"));
  EXPECT_THAT(with_class(elements, "legend-marker"), SizeIs(2));
}

TEST(Legend, StartsARowWhereANameDoesNotFit) {
  const std::string name(20, 'n');
  const Legend one({name}, 200.0), two({name, name}, 200.0);
  EXPECT_EQ(two.height(), 2.0 * one.height());
  const auto names = with_class(drawn(two), "legend");
  EXPECT_EQ(names[0].number("x"), names[1].number("x"));
  EXPECT_NEAR(names[1].number("y") - names[0].number("y"), one.height(), 1e-9);
  EXPECT_EQ(Legend({}, 200.0).height(), 0.0);
}

TEST(Legend, HasNoOverlapsWhateverTheNames) {
  std::vector<std::string> given;
  for (int k = 0; k < 15; ++k) given.push_back(std::string(1 + 7 * k, 'n') + std::to_string(k));
  given.push_back(std::string(1000, 'W'));
  const Legend legend(given, 420.0);
  const auto elements = drawn(legend);
  const auto names = with_class(elements, "legend");
  const auto markers = with_class(elements, "legend-marker");
  ASSERT_THAT(names, SizeIs(16));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double end = names[i].number("x") + text_width(names[i].text, names[i].number("font-size"));
    EXPECT_LE(end, 20.0 + 420.0) << i;
    EXPECT_LT(names[i].number("y"), 40.0 + legend.height() + 5.0) << i;
    if (i + 1 < names.size() && names[i].number("y") == names[i + 1].number("y")) {
      EXPECT_LT(end, corners(markers[i + 1]).at(0).x) << i;
    }
  }
}

}  // namespace
}  // namespace labelshift
