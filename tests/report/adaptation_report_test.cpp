#include "labelshift/report/adaptation_report.hpp"

#include <gmock/gmock.h>

namespace labelshift {
namespace {

using testing::HasSubstr;

/// 200 rows that were corrected, of a target whose mix has moved and where a label shift fits.
LabelShiftReport small_report() {
  LabelShiftReport report{.classes = {"cat", "dog"}};
  LabelShiftResult& result = report.result;
  result.source_prior = Eigen::Vector2d(0.5, 0.5);
  result.target_prior = Eigen::Vector2d(0.25, 0.75);
  result.target_rows = 200.0;
  result.estimate.stopped_by = StopReason::kTolerance;
  result.calibration_fit = CalibrationFit{};
  result.calibration_fit->converged = true;
  result.shift_test = {.statistic = 9.0, .p_value = 0.0027, .degrees_of_freedom = 1.0};
  result.fit_test = {.statistic = 1.0, .p_value = 0.3, .degrees_of_freedom = 1.0};
  report.adaptation = {.corrected = true, .rows = 200, .changed = 13, .changed_by_calibration = 2};
  return report;
}

TEST(AdaptationReport, SaysWhatBecameOfThePredictions) {
  LabelShiftReport report = small_report();
  EXPECT_EQ(adaptation_text(report),
            "Corrected 200 rows for the class mix found by mlls-sqp; 13 predictions changed (6.5 %); the calibration "
            "alone changes 2.\n"
            "Most moved: cat, from 0.5000 to 0.2500.\n" +
                verdict_line(report) + "\n");
  report.result.shift_test.p_value = 0.5;
  EXPECT_THAT(adaptation_text(report), testing::Not(HasSubstr("Most moved")));
  report.adaptation = {.corrected = false, .rows = 1};
  EXPECT_THAT(adaptation_text(report),
              testing::StartsWith("Left 1 row as the classifier gave them, not calibrated either.\nVerdict: "));
}

TEST(AdaptationReport, WarnsOfACorrectionThatTheTestsDoNotSupport) {
  LabelShiftReport report = small_report();
  EXPECT_FALSE(adaptation_warning(report));
  report.result.fit_test->p_value = 0.001;
  auto warning = adaptation_warning(report);
  ASSERT_TRUE(warning);
  EXPECT_THAT(warning->sentence, testing::StartsWith("the label-shift assumption does NOT fit (p = 0.001), so the "));
  EXPECT_EQ(warning->remedy, Remedy::kCorrectIfFits);
  report.result.source_evidence = SourceEvidence{};
  report.result.source_evidence->permuted = {0, 1};
  warning = adaptation_warning(report);
  ASSERT_TRUE(warning);
  EXPECT_THAT(warning->sentence, HasSubstr("the source tells nothing, so the corrected predictions are likely worse"));
  EXPECT_EQ(warning->remedy, Remedy::kCorrectIfFits);
}

TEST(AdaptationReport, SaysWhyPredictionsWereLeftAlone) {
  LabelShiftReport report = small_report();
  report.adaptation->corrected = false;
  report.result.fit_test->p_value = 0.001;
  EXPECT_EQ(adaptation_warning(report)->sentence,
            "the label-shift assumption does NOT fit, so the predictions were left alone");
  EXPECT_EQ(adaptation_warning(report)->remedy, Remedy::kNone);
  report.result.fit_test.reset();
  EXPECT_EQ(adaptation_warning(report)->sentence,
            "the label-shift assumption could not be tested, so the predictions were left alone");
  EXPECT_EQ(adaptation_warning(report)->remedy, Remedy::kCorrectAnyway);
  report.result.source_evidence = SourceEvidence{};
  report.result.source_evidence->permuted = {0, 1};
  EXPECT_EQ(adaptation_warning(report)->sentence, "the source tells nothing, so the predictions were left alone");
}

TEST(AdaptationReport, IsAmongTheWarningsOfTheResult) {
  LabelShiftReport report = small_report();
  EXPECT_TRUE(result_warnings(report).empty());
  report.result.fit_test->p_value = 0.001;
  ASSERT_EQ(result_warnings(report).size(), 1u);
  EXPECT_EQ(result_warnings(report)[0].remedy, Remedy::kCorrectIfFits);
  report.adaptation.reset();
  EXPECT_TRUE(result_warnings(report).empty());
}

}  // namespace
}  // namespace labelshift
