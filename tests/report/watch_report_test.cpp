#include "labelshift/report/watch_report.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace labelshift {
namespace {

/// A look at 12 rows of two classes, with numbers that are told apart in every place.
WatchReport small_report() {
  WatchReport report{.classes = {"cat", "a \"dog\""},
                     .source_prior = Eigen::Vector2d(0.5, 0.5),
                     .verdict = {Finding::kMoved, "the label mix has moved"},
                     .level = 0.9,
                     .skipped_lines = 3};
  report.state.rows = 12.0;
  report.state.effective_rows = 10.5;
  report.state.target_prior = Eigen::Vector2d(0.25, 0.75);
  report.state.intervals.prior_low = Eigen::Vector2d(0.2, 0.7);
  report.state.intervals.prior_high = Eigen::Vector2d(0.3, 0.8);
  report.state.shift_test = {.statistic = 9.0, .p_value = 0.0027, .degrees_of_freedom = 1.0};
  return report;
}

TEST(WatchReport, HasAllOfALookInEveryRow) {
  WatchReport report = small_report();
  EXPECT_EQ(table_csv(watch_table(report)),
            "rows,class,source_prior,target_prior,target_prior_low,target_prior_high,p_value,fit_p_value,verdict,alarm,"
            "skipped_lines\n"
            "12,cat,0.5,0.25,0.2,0.3,0.0027,,moved,true,3\n"
            "12,\"a \"\"dog\"\"\",0.5,0.75,0.7,0.8,0.0027,,moved,true,3\n");
  report.verdict.finding = Finding::kNotMoved;
  report.state.fit_test = {.statistic = 1.0, .p_value = 0.25, .degrees_of_freedom = 1.0};
  EXPECT_THAT(table_csv(watch_table(report), /*with_keys=*/false),
              testing::StartsWith("12,cat,0.5,0.25,0.2,0.3,0.0027,0.25,not-moved,false,3\n"));
}

TEST(WatchReport, IsText) {
  EXPECT_EQ(watch_text(small_report()),
            "After 12 rows, bad lines skipped: 3\n"
            "class    source  target     low    high\n"
            "cat      0.5000  0.2500  0.2000  0.3000\n"
            "a \"dog\"  0.5000  0.7500  0.7000  0.8000\n"
            "ALARM: the label mix has moved.\n\n");
  WatchReport report = small_report();
  report.state.rows = 1.0;
  report.skipped_lines = 0;
  report.verdict = {Finding::kUntested, "there is too little data"};
  EXPECT_THAT(watch_text(report), testing::StartsWith("After 1 row\n"));
  EXPECT_THAT(watch_text(report), testing::HasSubstr("No alarm: there is too little data.\n"));
}

TEST(WatchReport, IsALineOfJson) {
  WatchReport report = small_report();
  const std::string line = watch_json(report);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["rows"], 12);
  EXPECT_EQ(json["skipped_lines"], 3);
  EXPECT_EQ(json["effective_rows"], 10.5);
  EXPECT_EQ(json["level"], 0.9);
  EXPECT_EQ(json["classes"][1], "a \"dog\"");
  EXPECT_EQ(json["target_prior_low"], (nlohmann::json{0.2, 0.7}));
  EXPECT_EQ(json["shift_test"], (nlohmann::json{{"statistic", 9.0}, {"p_value", 0.0027}}));
  EXPECT_TRUE(json["fit_test"].is_null());
  EXPECT_EQ(json["verdict_text"], "the label mix has moved");
  EXPECT_EQ(json["alarm"], true);
  report.state.fit_test = {.statistic = 1.0, .p_value = 0.25, .degrees_of_freedom = 1.0};
  json = nlohmann::json::parse(watch_json(report));
  EXPECT_EQ(json["fit_test"]["p_value"], 0.25);
}

TEST(WatchReport, DrawsTheMixUnderItsVerdict) {
  const PriorPlot plot = watch_plot(small_report());
  EXPECT_THAT(plot.subtitles, testing::ElementsAre("After 12 rows", "Verdict: the label mix has moved."));
  EXPECT_EQ(plot.classes[0], "cat");
  EXPECT_EQ(plot.source_prior, Eigen::Vector2d(0.5, 0.5));
  EXPECT_EQ(plot.target_prior, Eigen::Vector2d(0.25, 0.75));
  EXPECT_EQ(plot.target_prior_low, Eigen::Vector2d(0.2, 0.7));
  EXPECT_EQ(plot.target_prior_high, Eigen::Vector2d(0.3, 0.8));
  EXPECT_EQ(plot.level, 0.9);
}

TEST(WatchReport, IsAnAlarmWhereAnythingHasChanged) {
  WatchReport report;
  for (const Finding finding : {Finding::kDoesNotFit, Finding::kMoved}) {
    report.verdict.finding = finding;
    EXPECT_TRUE(report.is_alarm()) << to_string(finding);
  }
  for (const Finding finding : {Finding::kWrongSource, Finding::kNotMoved, Finding::kUntested}) {
    report.verdict.finding = finding;
    EXPECT_FALSE(report.is_alarm()) << to_string(finding);
  }
}

}  // namespace
}  // namespace labelshift
