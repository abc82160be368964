#include "labelshift/experiments/ratio_report.hpp"

#include <gmock/gmock.h>

namespace labelshift {
namespace {

/// One panel with two methods, the second of which has half the error of the first.
StudyResult small_study() {
  PanelSummary panel{.title = "Digits", .values = {100.0, 1000.0}};
  panel.methods = {{.method = "mlls", .mse = {{4.0, 2.0, 8.0}, {1.0, 0.5, 2.0}}, .geometric_mean = 2.0},
                   {.method = "vrls",
                    .mse = {{2.0, 1.0, 4.0}, {0.5, 0.25, 1.0}},
                    .geometric_mean = 1.0,
                    .size_law = SizeLaw{.slope = {-0.5, -0.6, -0.4}, .floor = 0.01}}};
  panel.comparisons = {{.a = "mlls", .b = "vrls", .ratio = {2.0, 1.6, 2.5}}};
  return {.panels = {panel},
          .quality = {{{.zeta = 1.0, .predictor = 0, .accuracy = 0.5, .calibration_error = 0.25},
                       {.zeta = 1.0, .predictor = 1, .accuracy = 1.0, .calibration_error = 0.75},
                       {.zeta = {}, .predictor = 0, .accuracy = 0.875, .calibration_error = 0.125}}},
          .notes = {"Said."}};
}

TEST(RatioReport, HasTheQualityOfPredictorsAndTheMethodsNextToEachOther) {
  const std::vector<Table> tables = ratio_tables(small_study());
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].title, "Digits");
  EXPECT_EQ(table_csv(tables[0]), "zeta,accuracy,ece,predictors\n1,0.75,0.5,2\nauto,0.875,0.125,1\n");
  EXPECT_EQ(table_csv(tables[1]),  // the other way round than the comparison: below 1 is better than the first
            "method,mse,ratio,ratio_low,ratio_high,rmse_slope,mse_floor\n"
            "mlls,2,1,,,,\n"
            "vrls,1,0.5,0.4,0.625,-0.5,0.01\n");
}

TEST(RatioReport, DrawsTheErrorOfEveryMethod) {
  RatioFigure figure{.name = "f", .title = "Figure"};
  figure.panels = {{.title = "Digits", .sweep = Sweep::kSize, .methods = {"mlls", "vrls"}, .predictors = 2}};
  const LinePlot plot = ratio_plot(figure, {.trials = 7}, small_study());
  ASSERT_EQ(plot.panels.size(), 1u);
  ASSERT_EQ(plot.panels[0].series.size(), 2u);
  EXPECT_EQ(plot.panels[0].x_label, "test examples");
  EXPECT_EQ(plot.panels[0].series[1].name, "vrls");
  EXPECT_THAT(plot.panels[0].series[1].y, testing::ElementsAre(2.0, 0.5));
  EXPECT_THAT(plot.panels[0].series[1].high, testing::ElementsAre(4.0, 1.0));
  EXPECT_THAT(plot.subtitle, testing::HasSubstr("Means over 7 trials, then geometric means over 2 predictors"));
  EXPECT_THAT(plot.subtitle, testing::EndsWith(" Said."));
}

}  // namespace
}  // namespace labelshift
