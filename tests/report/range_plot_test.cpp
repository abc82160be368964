#include "labelshift/report/range_plot.hpp"

#include <gmock/gmock.h>

#include "tests/data/scratch.hpp"
#include "tests/report/parse_xml.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

const RangeRow kRow{.name = "a < b", .worst = {0.25, 0.05}, .average = {0.5, 0.0}, .best = {0.75, 0.1}};

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(RangePlot, DrawsThreeMarksARowAndWhiskersWhereThereIsADeviation) {
  const std::string svg = range_plot({.title = "t", .x_label = "accuracy", .rows = {kRow, kRow}});
  XmlParser{svg};  // well formed
  EXPECT_EQ(count(svg, "class=\"mark\""), 6u);
  EXPECT_EQ(count(svg, "class=\"whisker\""), 4u);
  EXPECT_EQ(count(svg, "class=\"range\""), 2u);
  EXPECT_THAT(svg, HasSubstr("a &lt; b: worst 0.2500, average 0.5000, best 0.7500"));
}

TEST(RangePlot, BreaksALongSubtitleIntoLines) {
  std::string subtitle;
  for (int i = 0; i < 60; ++i) subtitle += "words ";
  const std::string svg = range_plot({.subtitle = subtitle, .rows = {kRow}});
  XmlParser{svg};
  EXPECT_GT(count(svg, "class=\"subtitle\""), 2u);
  EXPECT_EQ(count(svg, "words"), 60u);
}

TEST(RangePlot, NamesARowWithoutValues) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const std::string svg =
      range_plot({.rows = {{.name = "none", .worst = {unknown}, .average = {unknown}, .best = {unknown}}}});
  EXPECT_THAT(svg, HasSubstr(">none<"));
  EXPECT_EQ(count(svg, "class=\"mark\""), 0u);
}

TEST(RangePlot, RefusesWhatItCannotDraw) {
  expect_error(ErrorKind::kInput, "range plot: there are no rows, expected at least one", [] { range_plot({}); });
  RangeRow row = kRow;
  row.best.value = 1.5;
  expect_error(ErrorKind::kInput, "range plot, row a < b: found 1.5 +- 0.1, expected a value from 0 to 1",
               [&] { range_plot({.rows = {row}}); });
}

}  // namespace
}  // namespace labelshift
