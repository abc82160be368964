#include "labelshift/report/label_shift_report.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Two classes, with numbers that are told apart in every place.
LabelShiftReport small_report() {
  LabelShiftReport report{.classes = {"cat", "<dog>"}};
  LabelShiftResult& result = report.result;
  result.source_prior = Eigen::Vector2d(0.5, 0.5);
  result.target_prior = Eigen::Vector2d(0.25, 0.75);
  result.target_rows = 1000.0;
  result.estimate.ratio = Eigen::Vector2d(0.5, 1.5);
  result.estimate.gap = 1e-12;
  result.estimate.iterations = 6;
  result.estimate.stopped_by = StopReason::kTolerance;
  result.intervals = {.level = 0.95,
                      .prior_low = Eigen::Vector2d(0.2, 0.7),
                      .prior_high = Eigen::Vector2d(0.3, 0.8),
                      .ratio_low = Eigen::Vector2d(0.4, 1.4),
                      .ratio_high = Eigen::Vector2d(0.6, 1.6)};
  result.shift_test = {.statistic = 9.0, .p_value = 0.0027, .degrees_of_freedom = 1.0};
  return report;
}

TEST(LabelShiftReport, HasARowAClassAndSaysBelowHowItWasFound) {
  const LabelShiftReport report = small_report();
  EXPECT_EQ(table_csv(report_table(report)),
            "class,source_prior,target_prior,target_prior_low,target_prior_high,ratio,ratio_low,ratio_high\n"
            "cat,0.5,0.25,0.2,0.3,0.5,0.4,0.6\n"
            "<dog>,0.5,0.75,0.7,0.8,1.5,1.4,1.6\n");
  EXPECT_THAT(report_text(report),
              StartsWith("class  source  target     low    high  ratio    low   high\n"
                         "cat    0.5000  0.2500  0.2000  0.3000  0.500  0.400  0.600\n"
                         "<dog>  0.5000  0.7500  0.7000  0.8000  1.500  1.400  1.600\n"
                         "\n"
                         "low and high are the ends of 95 % intervals, each on its own.\n"
                         "Found by mlls-sqp in 6 iterations, within 1e-12 of the best likelihood.\n"));
  EXPECT_THAT(report_table(report).notes.back(), HasSubstr("Verdict: the label mix has moved (p = 0.0027"));
}

TEST(LabelShiftReport, IsJsonThatSaysWhatTheTableSays) {
  const auto json = nlohmann::json::parse(report_json(small_report()));
  EXPECT_EQ(json["classes"], (nlohmann::json{"cat", "<dog>"}));
  EXPECT_EQ(json["target_prior"], (nlohmann::json{0.25, 0.75}));
  EXPECT_EQ(json["ratio_high"], (nlohmann::json{0.6, 1.6}));
  EXPECT_EQ(json["verdict"], "moved");
  EXPECT_EQ(json["stopped_by"], "tolerance");
  EXPECT_TRUE(json["fit_test"].is_null());
}

TEST(LabelShiftReport, DrawsTheMixUnderItsVerdict) {
  const PriorPlot plot = report_plot(small_report());
  EXPECT_EQ(plot.target_prior_high, Eigen::VectorXd(Eigen::Vector2d(0.3, 0.8)));
  EXPECT_THAT(plot.subtitles, ElementsAre(StartsWith("Verdict: the label mix has moved")));
  EXPECT_THAT(prior_plot(plot), HasSubstr("&lt;dog&gt;"));
}

TEST(LabelShiftReport, FitsWhereThatWasTestedAndNotRejected) {
  LabelShiftReport report = small_report();
  EXPECT_FALSE(label_shift_fits(report));
  report.result.fit_test = {.statistic = 1.0, .p_value = 0.25, .degrees_of_freedom = 1.0};
  EXPECT_TRUE(label_shift_fits(report));
  report.result.source_evidence = SourceEvidence{.nll = 1.0, .nll_error = 0.1, .prior_entropy = 1.0};
  EXPECT_FALSE(label_shift_fits(report));  // the source tells nothing
  report.result.source_evidence.reset();
  report.result.fit_test->p_value = 0.01;
  EXPECT_FALSE(label_shift_fits(report));
}

TEST(LabelShiftReport, WarnsOfWhatMakesItWorthLittleAndNamesARemedy) {
  LabelShiftReport report = small_report();
  EXPECT_TRUE(result_warnings(report).empty());
  report.result.target_rows = 3.0;
  ASSERT_EQ(result_warnings(report).size(), 1u);
  EXPECT_THAT(result_warnings(report)[0].sentence, StartsWith("the target has 3 rows, too few to tell"));
  report = small_report();
  report.options.estimator = "mlls-em";
  report.result.estimate.stopped_by = StopReason::kIterationLimit;
  EXPECT_EQ(result_warnings(report)[0].remedy, Remedy::kIterations);
  report.options.estimator = "mlls-sgd";  // whose epochs are its own affair
  EXPECT_EQ(result_warnings(report)[0].remedy, Remedy::kEstimator);
  report.result.estimate.stopped_by = StopReason::kRounding;
  EXPECT_EQ(result_warnings(report)[0].remedy, Remedy::kTolerance);
}

TEST(MixTable, NeedsNoRatio) {
  const LabelShiftReport report = small_report();
  const Table table =
      mix_table(report.classes, report.result.source_prior, report.result.target_prior, report.result.intervals);
  EXPECT_EQ(table_csv(table),
            "class,source_prior,target_prior,target_prior_low,target_prior_high\n"
            "cat,0.5,0.25,0.2,0.3\n"
            "<dog>,0.5,0.75,0.7,0.8\n");
}

}  // namespace
}  // namespace labelshift
