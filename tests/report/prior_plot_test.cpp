#include "labelshift/report/prior_plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "labelshift/core/base/error.hpp"
#include "tests/report/parse_xml.hpp"

namespace labelshift {
namespace {

// Coordinates are printed to 0.01, so a length, the difference of two of them, is within 0.01 of the exact one.
constexpr double kRounding = 0.0101;

PriorPlot three_classes() {
  PriorPlot plot;
  plot.title = "Label shift";
  plot.classes = {"cat", "dog", "eel"};
  plot.source_prior = Eigen::Vector3d(0.25, 0.25, 0.5);
  plot.target_prior = Eigen::Vector3d(0.4, 0.6, 0.0);
  plot.target_prior_low = Eigen::Vector3d(0.3, 0.5, 0.0);
  plot.target_prior_high = Eigen::Vector3d(0.5, 0.7, 0.1);
  return plot;
}

/// m equally frequent source classes named "class C" in a target where `changed` gains `gain` at the others' expense.
PriorPlot many_classes(int m, int changed, double gain) {
  PriorPlot plot;
  plot.title = "Label shift";
  for (int c = 0; c < m; ++c) plot.classes.push_back("class " + std::to_string(c));
  plot.source_prior = Eigen::VectorXd::Constant(m, 1.0 / m);
  plot.target_prior = plot.source_prior.array() - gain / (m - 1);
  plot.target_prior[changed] = 1.0 / m + gain;
  plot.target_prior_low = plot.target_prior * 0.9;
  plot.target_prior_high = (plot.target_prior * 1.1).cwiseMin(1.0);
  return plot;
}

std::vector<std::string> texts(const std::vector<XmlElement>& elements) {
  std::vector<std::string> found;
  for (const XmlElement& element : elements) found.push_back(element.text);
  return found;
}

/// Where a path moves to and draws: M x y, H x and V y, in order, as letter and numbers.
struct PathStep {
  char command;
  double x, y;
};
std::vector<PathStep> path_steps(const std::string& data) {
  std::vector<PathStep> steps;
  double x = 0.0, y = 0.0;
  const char* at = data.c_str();
  while (*at) {
    const char command = *at++;
    char* end = nullptr;
    if (command != 'V') x = std::strtod(at, &end), at = end;
    if (command != 'H') y = std::strtod(at, &end), at = end;
    steps.push_back({command, x, y});
  }
  return steps;
}

TEST(PriorPlot, DrawsBarsWhoseLengthsAreProportionalToThePriors) {
  const PriorPlot plot = three_classes();
  const auto elements = parse_xml(prior_plot(plot));
  const auto source = with_class(elements, "source"), target = with_class(elements, "target");
  ASSERT_EQ(source.size(), 3u);
  ASSERT_EQ(target.size(), 3u);
  const double unit = source[2].number("width") / 0.5;  // px a share of 1
  EXPECT_GT(unit, 100.0);
  for (int c = 0; c < 3; ++c) {
    // `unit` itself is off by at most kRounding / 0.5.
    EXPECT_NEAR(source[c].number("width"), unit * plot.source_prior[c], 3.0 * kRounding);
    EXPECT_NEAR(target[c].number("width"), unit * plot.target_prior[c], 3.0 * kRounding);
    EXPECT_EQ(source[c].number("x"), target[c].number("x"));
  }
}

TEST(PriorPlot, PutsTheTicksWhereTheBarsOfTheirValueEnd) {
  const auto elements = parse_xml(prior_plot(three_classes()));
  const auto ticks = with_class(elements, "tick");
  EXPECT_THAT(texts(ticks), testing::ElementsAre("0%", "20%", "40%", "60%", "80%"));
  const XmlElement bar = with_class(elements, "target")[1];
  EXPECT_NEAR(ticks[3].number("x"), bar.number("x") + bar.number("width"), 2.0 * kRounding);  // 0.6
  EXPECT_NEAR(ticks[0].number("x"), bar.number("x"), kRounding);
}

TEST(PriorPlot, EndsTheWhiskersAtTheEndsOfTheIntervals) {
  const PriorPlot plot = three_classes();
  const auto elements = parse_xml(prior_plot(plot));
  const auto bars = with_class(elements, "target"), whiskers = with_class(elements, "interval");
  ASSERT_EQ(whiskers.size(), 3u);
  const double zero = bars[0].number("x"), unit = bars[1].number("width") / 0.6;
  for (int c = 0; c < 3; ++c) {
    const auto steps = path_steps(whiskers[c].attributes.at("d"));
    ASSERT_GE(steps.size(), 4u);
    EXPECT_EQ(steps[1].command, 'H');
    EXPECT_NEAR(steps[0].x, zero + unit * plot.target_prior_low[c], 3.0 * kRounding);
    EXPECT_NEAR(steps[1].x, zero + unit * plot.target_prior_high[c], 3.0 * kRounding);
    EXPECT_EQ(steps[1].y, bars[c].number("y") + bars[c].number("height") / 2.0);
  }
}

TEST(PriorPlot, CapsBothEndsOfAnIntervalButOnlyTheUpperOneOfAOneSidedOne) {
  const auto whiskers = with_class(parse_xml(prior_plot(three_classes())), "interval");
  const auto capped_at = [&](int c) {
    std::vector<double> found;
    for (const PathStep& step : path_steps(whiskers[c].attributes.at("d")))
      if (step.command == 'V') found.push_back(step.x);
    return found;
  };
  const auto two_sided = path_steps(whiskers[0].attributes.at("d"));
  EXPECT_THAT(capped_at(0), testing::UnorderedElementsAre(two_sided[0].x, two_sided[1].x));
  EXPECT_THAT(capped_at(2), testing::ElementsAre(path_steps(whiskers[2].attributes.at("d"))[1].x));
}

TEST(PriorPlot, LabelsTheBarsWithTheirValues) {
  PriorPlot plot = three_classes();
  plot.source_prior = Eigen::Vector3d(0.2504, 0.7493, 0.0003);
  const auto elements = parse_xml(prior_plot(plot));
  EXPECT_THAT(texts(with_class(elements, "source-value")), testing::ElementsAre("25.0%", "74.9%", "<0.1%"));
  EXPECT_THAT(texts(with_class(elements, "target-value")), testing::ElementsAre("40.0%", "60.0%", "0%"));
}

TEST(PriorPlot, SaysEverythingAboutAClassInItsTooltip) {
  const std::string svg = prior_plot(three_classes());
  EXPECT_THAT(svg, testing::HasSubstr("<title>cat: source 25.0%, target 40.0% (95% interval 30.0% to 50.0%)</title>"));
  EXPECT_THAT(svg, testing::HasSubstr("<title>eel: source 50.0%, target 0% (95% upper bound 10.0%)</title>"));
}

TEST(PriorPlot, ShowsTheTitleTheSubtitlesAndTheLevel) {
  PriorPlot plot = three_classes();
  plot.subtitles = {"first line", "second line"};
  plot.level = 0.999;
  const auto shown = texts(parse_xml(prior_plot(plot)));
  EXPECT_THAT(shown, testing::IsSupersetOf({"Label shift", "first line", "second line", "source", "target",
                                            "99.9% interval of the target"}));
}

TEST(PriorPlot, DrawsNoWhiskersWithoutIntervals) {
  PriorPlot plot = three_classes();
  plot.target_prior_low.resize(0);
  plot.target_prior_high.resize(0);
  const std::string svg = prior_plot(plot);
  EXPECT_TRUE(with_class(parse_xml(svg), "interval").empty());
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("interval")));
  EXPECT_EQ(with_class(parse_xml(svg), "target").size(), 3u);
}

TEST(PriorPlot, IsWellFormedWithNastyNamesAndKeepsThem) {
  PriorPlot plot = three_classes();
  plot.classes = {"<b>&\"", "it's ]]> \u65e5\u672c", ""};
  EXPECT_THAT(texts(with_class(parse_xml(prior_plot(plot)), "name")), testing::ElementsAreArray(plot.classes));
  plot.classes = {std::string(1000, 'W'), "\x01\xff", "a\nb"};
  const auto elements = parse_xml(prior_plot(plot));
  EXPECT_THAT(texts(elements), testing::Contains(testing::StartsWith(plot.classes[0] + ": source")));  // as tooltip
  EXPECT_LT(with_class(elements, "name")[0].text.size(), 50u);
}

TEST(PriorPlot, ShowsUpToThirtyClassesInTheirOwnOrder) {
  const PriorPlot plot = many_classes(30, 17, 0.2);
  const std::string svg = prior_plot(plot);
  EXPECT_THAT(texts(with_class(parse_xml(svg), "name")), testing::ElementsAreArray(plot.classes));
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("largest changes")));
}

TEST(PriorPlot, ShowsTheLargestChangesOfManyClassesAndSaysSo) {
  PriorPlot plot = many_classes(1000, 417, 0.02);
  plot.target_prior[990] = 0.0;    // -0.001
  plot.target_prior[3] = 0.0025;   // +0.0015
  plot.target_prior[500] = 0.001;  // no change: last of all
  const auto elements = parse_xml(prior_plot(plot));
  const auto names = texts(with_class(elements, "name"));
  ASSERT_EQ(names.size(), 30u);
  // The rest all lost the same, so they follow in class order.
  EXPECT_THAT(std::vector<std::string>(names.begin(), names.begin() + 6),
              testing::ElementsAre("class 417", "class 3", "class 990", "class 0", "class 1", "class 2"));
  EXPECT_THAT(texts(elements), testing::Contains("30 of 1,000 classes: the largest changes"));
}

TEST(PriorPlot, KeepsEverythingInsideThePictureAndRowsApart) {
  for (const int m : {2, 10, 100, 1000}) {
    const auto elements = parse_xml(prior_plot(many_classes(m, m - 1, 0.999 - 1.0 / m)));
    const double width = elements[0].number("width"), height = elements[0].number("height");
    double row_end = 0.0;
    for (const XmlElement& element : elements) {
      if (element.name == "text") {
        EXPECT_GT(element.number("x"), 0.0) << element.text;
        EXPECT_LT(element.number("y"), height) << element.text;
      }
      if (element.has_class("target-value")) {
        // Bold digits are 0.7 em wide in DejaVu Sans, the widest usual font, and the percent sign is one em.
        const double ems = 0.7 * static_cast<double>(element.text.size() - 1) + 1.0;
        EXPECT_LE(element.number("x") + ems * element.number("font-size"), width) << element.text;
      }
      if (!element.has_class("source") && !element.has_class("target")) continue;
      EXPECT_GE(element.number("y"), row_end);
      row_end = element.number("y") + element.number("height");
      EXPECT_LE(row_end, height);
    }
  }
}

TEST(PriorPlot, IsTheSameEveryTime) {
  const PriorPlot plot = many_classes(100, 42, 0.1);
  EXPECT_EQ(prior_plot(plot), prior_plot(plot));
}

TEST(PriorPlot, PicksTicksThatSuitSmallShares) {
  PriorPlot plot = many_classes(1000, 7, 0.0004);  // the largest interval end is 1.1 * 0.14 %
  const auto elements = parse_xml(prior_plot(plot));
  EXPECT_THAT(texts(with_class(elements, "tick")), testing::ElementsAre("0%", "0.05%", "0.10%", "0.15%", "0.20%"));
  EXPECT_EQ(with_class(elements, "target-value")[0].text, "0.140%");
}

void expect_input_error(const PriorPlot& plot, const std::string& message) {
  try {
    prior_plot(plot);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.what(), message);
  }
}

TEST(PriorPlot, RefusesVectorsThatDoNotFitTheClasses) {
  PriorPlot plot = three_classes();
  plot.target_prior_high.resize(0);
  expect_input_error(plot, "figure of priors: target_prior_high has 0 entries for 3 classes; give one a class");
  expect_input_error({}, "figure of priors: source_prior has 0 entries for 0 classes; give one a class");
}

TEST(PriorPlot, RefusesSharesThatAreNone) {
  PriorPlot plot = three_classes();
  plot.target_prior_high[1] = std::numeric_limits<double>::quiet_NaN();
  expect_input_error(plot, "figure of priors: target_prior_high of class \"dog\" is nan, expected 0 to 1");
  plot = three_classes();
  plot.source_prior[0] = 1.5;
  expect_input_error(plot, "figure of priors: source_prior of class \"cat\" is 1.5, expected 0 to 1");
}

}  // namespace
}  // namespace labelshift
