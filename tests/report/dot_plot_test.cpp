#include "labelshift/report/dot_plot.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "tests/data/scratch.hpp"
#include "tests/report/figure_parts.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

DotPlot two_rows() {
  return {.title = "t",
          .x_label = "share",
          .rows = {"a < b", "other"},
          .series = {{.name = "estimate", .values = {0.25, 0.5}, .low = {0.2, kNan}, .high = {0.4, kNan}},
                     {.name = "truth", .values = {0.3, kNan}, .low = {}, .high = {}}}};
}

std::vector<XmlElement> drawn(const DotPlot& plot) {
  return parse_xml(dot_plot(plot));
}

/// The x of a marker whose first command moves there.
double start_x(const XmlElement& path) {
  return corners(path).empty() ? std::stod(path.attributes.at("d").substr(1)) : corners(path)[0].x;
}

TEST(DotPlot, DrawsAMarkForEachValueAndAWhiskerForEachInterval) {
  const auto elements = drawn(two_rows());
  EXPECT_THAT(with_class(elements, "marker"), SizeIs(3));
  EXPECT_THAT(with_class(elements, "whisker"), SizeIs(1));
  EXPECT_THAT(with_class(elements, "range"), IsEmpty());
  EXPECT_THAT(texts(with_class(elements, "name")), ElementsAre("a < b", "other"));
  EXPECT_THAT(texts(with_class(elements, "legend")), ElementsAre("estimate", "truth"));
  EXPECT_THAT(dot_plot(two_rows()), HasSubstr("<title>a &lt; b: estimate 0.25 (0.2 to 0.4), truth 0.3</title>"));
}

TEST(DotPlot, PutsEqualStepsOfAValueEqualStepsApart) {
  DotPlot plot = two_rows();
  plot.series = {{.name = "one", .values = {0.1, 0.3}, .low = {}, .high = {}}};
  plot.rows.emplace_back("third");
  plot.series[0].values.push_back(0.5);
  const auto markers = with_class(drawn(plot), "marker");
  ASSERT_THAT(markers, SizeIs(3));
  // Coordinates are printed to 0.01, and this is for the difference of three.
  EXPECT_NEAR(start_x(markers[1]) - start_x(markers[0]), start_x(markers[2]) - start_x(markers[1]), 0.021);
  EXPECT_GT(start_x(markers[1]), start_x(markers[0]) + 50.0);
}

TEST(DotPlot, JoinsTheMarksOfARowByABarThatLeavesOthersOut) {
  DotPlot plot = two_rows();
  plot.joined = true;
  plot.shown = {.low = 0.0, .high = 1.0};  // the same axis, whatever is on it
  plot.series.push_back({.name = "aside", .values = {0.9, 0.9}, .low = {}, .high = {}, .on_bar = false});
  const auto bars = with_class(drawn(plot), "range");
  ASSERT_THAT(bars, SizeIs(1));  // the second row has one value to join
  DotPlot without = plot;
  without.series[2].values = {kNan, kNan};
  EXPECT_EQ(bars[0].number("x2"), with_class(drawn(without), "range")[0].number("x2"));
}

TEST(DotPlot, NamesARowWithoutValues) {
  DotPlot plot = two_rows();
  plot.series = {{.name = "none", .values = {kNan, kNan}, .low = {}, .high = {}}};
  const auto elements = drawn(plot);
  EXPECT_THAT(with_class(elements, "name"), SizeIs(2));
  EXPECT_THAT(with_class(elements, "marker"), IsEmpty());
}

TEST(DotPlot, ShowsLongNamesAboveTheirRowsAndNeverTwoAlike) {
  DotPlot plot = two_rows();
  const std::string start(90, 'x');
  plot.rows = {start + " first", start + " second"};
  const auto elements = drawn(plot);
  const auto names = with_class(elements, "name");
  ASSERT_THAT(names, SizeIs(2));
  EXPECT_NE(names[0].text, names[1].text);
  EXPECT_EQ(names[0].attributes.count("text-anchor"), 0u);  // they begin at the left edge
  EXPECT_THAT(dot_plot(plot), HasSubstr(start + " second: estimate 0.5</title>"));
}

TEST(DotPlot, RefusesWhatItCannotDraw) {
  expect_error(ErrorKind::kInput, "dot plot: there are no rows, expected at least one", [] { dot_plot({}); });
  DotPlot plot = two_rows();
  plot.series[1].values.pop_back();
  expect_error(ErrorKind::kInput, "dot plot: series \"truth\" has 1 values, 0 lower and 0 upper ends for 2 rows",
               [&] { dot_plot(plot); });
  plot = two_rows();
  plot.series[0].high[0] = 0.1;
  expect_error(ErrorKind::kInput,
               "dot plot: series \"estimate\", row \"a < b\": the interval goes from 0.2 down to 0.1, expected up",
               [&] { dot_plot(plot); });
  plot = two_rows();
  plot.series.resize(17, plot.series[1]);
  expect_error(ErrorKind::kInput,
               "dot plot: there are 17 series, expected 1 to 16, which is all that can be told apart",
               [&] { dot_plot(plot); });
}

}  // namespace
}  // namespace labelshift
