#include "labelshift/report/verdict.hpp"

#include <gtest/gtest.h>

namespace labelshift {
namespace {

HypothesisTest test_of(double p_value) {
  return {.statistic = 1.0, .p_value = p_value, .degrees_of_freedom = 2.0};
}

TEST(Verdict, SaysOnlyThatNothingFitsWhereTheFitIsRejected) {
  const Verdict verdict = judge({.shift_test = test_of(1e-9), .fit_test = test_of(0.04)});
  EXPECT_EQ(verdict.finding, Finding::kDoesNotFit);
}

TEST(Verdict, DoesNotSayThatNothingSpeaksAgainstAFitThatAStricterLevelLetPass) {
  EXPECT_EQ(judge({.shift_test = test_of(1e-9), .fit_test = test_of(0.004), .level = 0.001}).text,
            "the label mix has moved (p = 1e-09), and a label shift is not rejected at 0.001 (fit p = 0.004)");
  EXPECT_EQ(judge({.shift_test = test_of(1e-9), .fit_test = test_of(0.4), .level = 0.001}).text,
            "the label mix has moved (p = 1e-09), and nothing speaks against a label shift (fit p = 0.4)");
}

TEST(Verdict, SaysThatThereIsSomeEvidenceBetweenTheTwoLevels) {
  EXPECT_EQ(judge({.shift_test = test_of(0.01), .fit_test = test_of(0.4), .level = 0.001}).text,
            "there is some evidence of a change (p = 0.01, fit p = 0.4), but not enough for an alarm at 0.001");
  EXPECT_EQ(judge({.shift_test = test_of(0.5), .fit_test = test_of(0.4), .level = 0.001}).finding, Finding::kNotMoved);
}

}  // namespace
}  // namespace labelshift
