#include "labelshift/report/line_plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/svg.hpp"
#include "tests/report/figure_parts.hpp"
#include "tests/report/parse_xml.hpp"

namespace labelshift {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 0.0101;  // coordinates are printed to 0.01, and this is for the difference of two

LineSeries falling(const std::string& name, int n, double level) {
  LineSeries series{.name = name, .x = {}, .y = {}, .low = {}, .high = {}};
  for (int i = 0; i < n; ++i) {
    series.x.push_back(200.0 * std::pow(50.0, i / std::max(1.0, n - 1.0)));
    series.y.push_back(level / series.x.back());
    series.low.push_back(0.8 * series.y.back());
    series.high.push_back(1.25 * series.y.back());
  }
  return series;
}

LinePanel panel_of(const std::vector<LineSeries>& series) {
  return {.title = "MNIST", .x_label = "n", .y_label = "MSE", .series = series};
}

LinePlot plot_of(const std::vector<LineSeries>& series) {
  return {.title = "Figure", .subtitle = "means", .panels = {panel_of(series)}};
}

LinePlot linear_plot(const std::vector<LineSeries>& series) {
  LinePlot plot = plot_of(series);
  plot.panels[0].x_scale = plot.panels[0].y_scale = AxisScale::kLinear;
  return plot;
}

std::vector<XmlElement> drawn(const LinePlot& plot) {
  return parse_xml(line_plot(plot));
}

TEST(LinePlot, DrawsAPowerLawAsAStraightLineOnLogAxes) {
  const auto lines = with_class(drawn(plot_of({falling("a", 5, 1.0)})), "line");
  ASSERT_THAT(lines, SizeIs(1));
  const auto points = corners(lines[0]);
  ASSERT_THAT(points, SizeIs(5));
  for (int i = 1; i < 5; ++i) {
    EXPECT_NEAR(points[i].x - points[i - 1].x, (points[4].x - points[0].x) / 4.0, 2.0 * kRounding);
    EXPECT_NEAR(points[i].y - points[i - 1].y, (points[4].y - points[0].y) / 4.0, 2.0 * kRounding);
  }
  EXPECT_GT(points[4].y, points[0].y);  // it falls, and y of a picture points down
}

TEST(LinePlot, DrawsALinearFunctionAsAStraightLineOnLinearAxes) {
  const auto points = corners(with_class(drawn(linear_plot({{"a", {0, 1, 4}, {10, 8, 2}, {}, {}}})), "line")[0]);
  ASSERT_THAT(points, SizeIs(3));
  EXPECT_NEAR(4.0 * (points[1].x - points[0].x), points[2].x - points[0].x, 5.0 * kRounding);
  EXPECT_NEAR(4.0 * (points[1].y - points[0].y), points[2].y - points[0].y, 5.0 * kRounding);
}

TEST(LinePlot, DrawsTheBandFromTheLowEndsToTheHighEnds) {
  const auto elements = drawn(linear_plot({{"a", {0, 1}, {10, 20}, {8, 17}, {12, 23}}}));
  const auto line = corners(with_class(elements, "line")[0]);
  const auto bands = with_class(elements, "band");
  ASSERT_THAT(bands, SizeIs(1));
  EXPECT_LT(bands[0].number("fill-opacity"), 0.5);
  const auto band = corners(bands[0]);  // along the high ends and back along the low ones
  ASSERT_THAT(band, SizeIs(4));
  const double unit = (line[0].y - line[1].y) / 10.0;
  EXPECT_NEAR(band[0].y, line[0].y - 2.0 * unit, 2.0 * kRounding);
  EXPECT_NEAR(band[1].y, line[1].y - 3.0 * unit, 2.0 * kRounding);
  EXPECT_NEAR(band[2].y, line[1].y + 3.0 * unit, 2.0 * kRounding);
  EXPECT_NEAR(band[3].y, line[0].y + 2.0 * unit, 2.0 * kRounding);
  EXPECT_EQ(band[0].x, line[0].x);
  EXPECT_EQ(band[2].x, line[1].x);
}

TEST(LinePlot, BreaksALongTitleInsteadOfCuttingIt) {
  LinePlot plot = plot_of({{"a", {1, 2}, {1, 2}, {}, {}}});
  plot.title =
      "The scenarios of a table with a title that is longer than one panel is wide, so that it needs two lines";
  const std::string svg = line_plot(plot);
  EXPECT_THAT(svg, Not(HasSubstr("…")));
  EXPECT_THAT(svg, HasSubstr("two lines</text>"));
}

TEST(LinePlot, DrawsNoBandWithoutEnds) {
  EXPECT_THAT(with_class(drawn(linear_plot({{"a", {0, 1}, {10, 20}, {}, {}}})), "band"), IsEmpty());
}

TEST(LinePlot, DrawsASinglePointAsAMarkerWithAWhisker) {
  const auto elements = drawn(plot_of({{"a", {1.0}, {0.02}, {0.01}, {0.03}}}));
  EXPECT_THAT(with_class(elements, "marker"), SizeIs(1));
  EXPECT_THAT(with_class(elements, "whisker"), SizeIs(1));
  EXPECT_THAT(with_class(elements, "line"), IsEmpty());
  EXPECT_THAT(with_class(elements, "band"), IsEmpty());
}

TEST(LinePlot, DrawsPointsAloneWhereverTheyAreEachWithItsWhisker) {
  const LineSeries points{.name = "a",
                          .x = {0.5, 0.0, 0.5, 0.5},  // in no order, some above each other
                          .y = {0.4, 0.0, 0.2, 0.3},
                          .low = {0.3, kNan, 0.1, 0.3},
                          .high = {0.6, kNan, 0.2, 0.3},
                          .joined = false};
  const auto elements = drawn(linear_plot({points, {"b", {0, 1}, {0, 1}, {}, {}}}));
  EXPECT_THAT(with_class(elements, "line"), SizeIs(1));  // of the other
  EXPECT_THAT(with_class(elements, "marker"), SizeIs(4 + 2));
  const auto whiskers = with_class(elements, "whisker");  // a point without an interval has none
  ASSERT_THAT(whiskers, SizeIs(3));
  EXPECT_NE(whiskers[0].attributes.at("d"), whiskers[1].attributes.at("d"));
  EXPECT_THAT(with_class(elements, "band"), IsEmpty());
}

TEST(LinePlot, BreaksTheLineAtAPointWithoutAValueAndCountsIt) {
  const auto elements = drawn(plot_of({{"a", {1, 2, 3, 4, 5, 6}, {1, 2, kNan, 3, 4, kInfinity}, {}, {}}}));
  const auto lines = with_class(elements, "line");
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(corners(lines[0]), SizeIs(2));
  EXPECT_THAT(corners(lines[1]), SizeIs(2));
  EXPECT_THAT(texts(with_class(elements, "note")), ElementsAre("Left out: 2 points without a value."));
}

TEST(LinePlot, PutsAValueOfZeroOnTheBottomOfALogAxisAndSaysSo) {
  LinePlot plot = plot_of({{"a", {1, 2, 3, 4}, {1, 2, 0, 3}, {}, {}}});
  const auto elements = drawn(plot);
  const auto zeros = with_class(elements, "at-zero");
  ASSERT_THAT(zeros, SizeIs(1));
  const auto frame = with_class(elements, "frame")[0].attributes.at("d");
  EXPECT_THAT(frame, HasSubstr("V" + svg_number(corners(zeros[0])[2].y)));  // its tip is on the x axis
  EXPECT_THAT(texts(with_class(elements, "note")),
              ElementsAre("Triangles on the axis: 1 value of 0 or below, which a log axis cannot show."));
  plot.panels[0].y_scale = AxisScale::kLinear;
  EXPECT_THAT(with_class(drawn(plot), "at-zero"), IsEmpty());
  EXPECT_THAT(with_class(drawn(plot), "note"), IsEmpty());
}

TEST(LinePlot, EndsABandThatReachesZeroAtTheBottomOfALogAxis) {
  const auto elements = drawn(plot_of({{"a", {1, 10}, {1e-3, 2e-3}, {0.0, -1.0}, {2e-3, 4e-3}}}));
  const auto band = corners(with_class(elements, "band")[0]);
  const auto frame = with_class(elements, "frame")[0].attributes.at("d");
  EXPECT_THAT(frame, HasSubstr("V" + svg_number(band[2].y) + "H"));
  EXPECT_EQ(band[2].y, band[3].y);
}

TEST(LinePlot, DoesNotLetABandNextToZeroStretchTheAxisByMoreThanTen) {
  const auto elements = drawn(plot_of({{"a", {1, 10}, {1.0, 1000.0}, {1e-30, 900.0}, {2.0, 1e30}}}));
  // The axis spans 0.1 to 10000 and 5% of that.
  EXPECT_THAT(ticks(elements), testing::IsSupersetOf({"0.1", "100", "1000", "10000"}));
  EXPECT_THAT(ticks(elements), testing::Not(testing::AnyOf(Contains("0.01"), Contains("100000"))));
}

TEST(LinePlot, GivesASeriesTheSameLookInAllPanelsAndInTheLegend) {
  LinePlot plot;
  std::vector<LineSeries> series;
  for (int k = 0; k < 16; ++k) series.push_back(falling("series " + std::to_string(k), 4, 1.0 + k));
  plot.panels = {panel_of(series), panel_of({series[9], series[3]})};
  const auto elements = drawn(plot);
  EXPECT_THAT(with_class(elements, "legend"), SizeIs(16));
  // Lines are drawn last series first: the second panel's are series 3, then series 9.
  const auto lines = with_class(elements, "line");
  ASSERT_THAT(lines, SizeIs(18));
  EXPECT_EQ(lines[16].attributes.at("stroke"), lines[15 - 3].attributes.at("stroke"));
  EXPECT_EQ(lines[17].attributes.at("stroke"), lines[15 - 9].attributes.at("stroke"));
  EXPECT_NE(lines[16].attributes.at("stroke"), lines[17].attributes.at("stroke"));
  const auto samples = with_class(elements, "legend-marker");
  ASSERT_THAT(samples, SizeIs(16));
  EXPECT_EQ(samples[3].attributes.at("fill"), lines[16].attributes.at("stroke"));
}

TEST(LinePlot, KeepsThePanelsBelowALegendOfManyRows) {
  std::vector<LineSeries> series;
  for (int k = 0; k < 16; ++k) series.push_back(falling(std::string(1 + 7 * k, 'n') + std::to_string(k), 3, 1.0 + k));
  const auto elements = drawn(plot_of(series));
  EXPECT_GT(with_class(elements, "panel-title")[0].number("y"), with_class(elements, "legend")[15].number("y") + 10.0);
}

TEST(LinePlot, ThinsOutMarkersOfManyPoints) {
  const auto few = with_class(drawn(plot_of({falling("a", 8, 1.0)})), "marker");
  const auto many = with_class(drawn(plot_of({falling("a", 50, 1.0)})), "marker");
  EXPECT_THAT(few, SizeIs(8));
  EXPECT_LT(many.size(), 25u);
  EXPECT_GT(many.size(), 8u);
}

TEST(LinePlot, SetsFourPanelsInARowThatDoNotOverlap) {
  LinePlot plot;
  for (int p = 0; p < 6; ++p) plot.panels.push_back(panel_of({falling("a", 20, 1.0)}));
  const auto elements = drawn(plot);
  const auto lines = with_class(elements, "line");
  ASSERT_THAT(lines, SizeIs(6));
  for (int p : {1, 2, 3}) {
    EXPECT_GT(corners(lines[p]).front().x, corners(lines[p - 1]).back().x);
    EXPECT_EQ(corners(lines[p]).front().y, corners(lines[0]).front().y);
  }
  EXPECT_EQ(corners(lines[4]).front().x, corners(lines[0]).front().x);
  EXPECT_GT(corners(lines[4]).front().y, corners(lines[0]).back().y);
  EXPECT_LT(corners(lines[5]).back().y, elements[0].number("height"));
  EXPECT_THAT(with_class(elements, "y-label"), SizeIs(2));  // one a row, as all are the same
}

TEST(LinePlot, LabelsTheYAxisOfEveryPanelIfTheyDiffer) {
  LinePlot plot;
  plot.panels = {panel_of({falling("a", 3, 1.0)}), panel_of({falling("a", 3, 1.0)})};
  plot.panels[1].y_label = "RMSE";
  EXPECT_THAT(texts(with_class(drawn(plot), "y-label")), ElementsAre("MSE", "RMSE"));
}

TEST(LinePlot, ShowsTitlesAndWrapsTheSubtitle) {
  LinePlot plot = plot_of({falling("a", 3, 1.0)});
  plot.subtitle = "";
  for (int i = 0; i < 60; ++i) plot.subtitle += "word" + std::to_string(i) + " ";
  const auto elements = drawn(plot);
  EXPECT_THAT(texts(with_class(elements, "title")), ElementsAre("Figure"));
  EXPECT_THAT(texts(with_class(elements, "panel-title")), ElementsAre("MNIST"));
  EXPECT_THAT(texts(with_class(elements, "x-label")), ElementsAre("n"));
  const auto lines = with_class(elements, "subtitle");
  EXPECT_GT(lines.size(), 3u);
  std::string together;
  for (const XmlElement& line : lines) {
    EXPECT_LE(line.number("x") + text_width(line.text, line.number("font-size")), elements[0].number("width"));
    together += line.text + " ";
  }
  EXPECT_EQ(together, plot.subtitle);
}

TEST(LinePlot, SurvivesExtremeAndConstantValues) {
  // A coordinate that is not a number fails both comparisons.
  for (const std::vector<double>& y : {std::vector<double>{1e-320, 1e-320},
                                       {1e-300, 1e300},
                                       {1e308, 1e308},
                                       {-1e308, 1e308},
                                       {5.0, 5.0},
                                       {0.0, 0.0},
                                       {-3.0, -3.0},
                                       {kNan, kNan},
                                       {1e9, 1e9 + 1e-6},
                                       {1e-290, 2e-290}})
    for (const AxisScale scale : {AxisScale::kLinear, AxisScale::kLog}) {
      LinePlot plot = plot_of({{"a", {1, 2}, y, y, y}});
      plot.panels[0].y_scale = scale;
      const auto elements = drawn(plot);
      for (const XmlElement& line : with_class(elements, "line"))
        for (const SvgPoint& point : corners(line)) {
          EXPECT_GT(point.y, 0.0);
          EXPECT_LT(point.y, elements[0].number("height"));
        }
      EXPECT_LT(ticks(elements).size(), 40u);
    }
}

TEST(LinePlot, IsWellFormedWithNastyTexts) {
  const std::string nasty = "]]><b>\"&'\x01\xff";
  LinePlot plot = plot_of({falling(nasty, 3, 1.0)});
  plot.title = plot.subtitle = nasty;
  plot.panels[0].title = plot.panels[0].x_label = plot.panels[0].y_label = nasty;
  EXPECT_THAT(with_class(drawn(plot), "legend"), SizeIs(1));
}

void expect_input_error(const LinePlot& plot, const std::string& message) {
  try {
    line_plot(plot);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.what(), message);
  }
}

TEST(LinePlot, RefusesVectorsThatDoNotFit) {
  const std::string place = "line plot: panel \"MNIST\", series \"a\": ";
  expect_input_error(plot_of({{"a", {1, 2}, {1}, {}, {}}}), place + "1 values of y for 2 of x");
  expect_input_error(plot_of({{"a", {1, 2}, {1, 1}, {1, 1}, {}}}),
                     place + "the band has 2 lower and 0 upper ends for 2 points");
  expect_input_error(plot_of({{"a", {1, 2}, {1, 1}, {1, 2}, {1, 1}}}),
                     place + "the band of point 1 goes from 2 down to 1, expected up");
}

TEST(LinePlot, RefusesXThatHaveNoPlaceOnTheAxis) {
  const std::string place = "line plot: panel \"MNIST\", series \"a\": ";
  expect_input_error(plot_of({{"a", {0, 2}, {1, 1}, {}, {}}}), place + "x of point 0 is 0, expected a positive number");
  expect_input_error(linear_plot({{"a", {0, kNan}, {1, 1}, {}, {}}}), place + "x of point 1 is nan, expected a number");
  expect_input_error(plot_of({{"a", {2, 2}, {1, 1}, {}, {}}}), place + "x of point 1 is 2 after 2, expected more");
}

TEST(LinePlot, RefusesNothingAndTooMuch) {
  expect_input_error({}, "line plot: there is no series, expected at least one");
  std::vector<LineSeries> series;
  for (int k = 0; k < 17; ++k) series.push_back(falling("series " + std::to_string(k), 3, 1.0));
  expect_input_error(plot_of(series),
                     "line plot: there are 17 different series, expected at most 16, which is all that can be told "
                     "apart");
}

}  // namespace
}  // namespace labelshift
