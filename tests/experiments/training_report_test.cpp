#include "labelshift/experiments/training_report.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A training with two candidates, of which the second was chosen.
TrainingReport small_report() {
  TrainingReport report{.data = "clothes",
                        .model = "mlp",
                        .seed = 7,
                        .examples = 90,
                        .zeta = 0.3,
                        .epochs = 1,
                        .stopped_by = "choice",
                        .calibration = "ts",
                        .predictor = "p.safetensors"};
  report.selection = Selection{.candidates = {{0.0, 4, "none", 0.25, 0.125}, {0.3, 1, "ts", 0.2, 0.0625}}, .chosen = 1};
  report.parts = {{.name = "held out",
                   .examples = 10,
                   .raw = {.accuracy = 0.5, .quality = {.nll = 1.5, .ece = 0.25}},
                   .calibrated = {.accuracy = 0.75, .quality = {.nll = 1.25, .ece = 0.125}}}};
  return report;
}

TEST(TrainingReport, MarksTheChosenCandidateInAColumnOfItsOwn) {
  const Table table = candidates_table(*small_report().selection);
  EXPECT_EQ(table_csv(table),
            "zeta,epochs,calibration,error,standard_error,chosen\n"
            "0,4,none,0.25,0.125,\n"
            "0.3,1,ts,0.2,0.0625,yes\n");
  EXPECT_EQ(table_text(table),
            "zeta  epochs  calibration  MSE of ratios  standard error  chosen\n"
            "   0       4  none               0.25000         0.12500\n"
            " 0.3       1  ts                 0.20000         0.06250  yes\n");
}

TEST(TrainingReport, HasARowAPart) {
  EXPECT_EQ(table_csv(quality_table(small_report().parts)),
            "part,examples,accuracy,nll,ece,calibrated_accuracy,calibrated_nll,calibrated_ece\n"
            "\"held out\",10,0.5,1.5,0.25,0.75,1.25,0.125\n");
}

TEST(TrainingReport, ListsTheSearchOrSaysHowToSeeIt) {
  const TrainingReport report = small_report();
  const std::string listed = training_text(report, {.listed = true, .hint = "; ask for them"});
  EXPECT_THAT(listed, StartsWith(table_text(candidates_table(*report.selection)) +
                                 "\nChose zeta 0.3, 1 epoch and calibration ts among 2 candidates.\n"
                                 "It errs least where held-out examples are resampled to known class mixes: MSE of "
                                 "ratios 0.20000, standard error 0.06250.\n"
                                 "Trained mlp on 90 examples of clothes with zeta 0.3: 1 epochs.\n\n"));
  const std::string hidden = training_text(report, {.hint = "; ask for them"});
  EXPECT_THAT(hidden, StartsWith("Chose zeta 0.3, 1 epoch and calibration ts among 2 candidates; ask for them.\n"));
  EXPECT_THAT(hidden, testing::EndsWith("\nCalibration ts was fitted on the held-out examples.\n"
                                        "Predictor: p.safetensors\n"));
}

TEST(TrainingReport, SaysWhatWasThereBefore) {
  TrainingReport report = small_report();
  report.resumed_from = 3;
  EXPECT_THAT(training_text(report), HasSubstr("1 epochs (3 of all trainings before).\n"));
  report.selection.reset();
  report.cross_entropy = {0.5, 0.375};
  report.calibration = "none";
  const std::string text = training_text(report, {.listed = true});
  EXPECT_THAT(text, StartsWith("Trained mlp on 90 examples of clothes with zeta 0.3: 1 epochs (3 of them before), "
                               "cross-entropy 0.3750 in the last.\n"));
  EXPECT_THAT(text, Not(HasSubstr("Calibration")));
}

TEST(TrainingReport, IsJson) {
  TrainingReport report = small_report();
  report.parts[0].raw.quality.nll = std::numeric_limits<double>::infinity();
  auto json = nlohmann::json::parse(training_json(report));
  EXPECT_EQ(json["predictor"], "p.safetensors");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["stopped_by"], "choice");
  EXPECT_EQ(json["quality"]["held out"]["examples"], 10);
  EXPECT_TRUE(json["quality"]["held out"]["raw"]["nll"].is_null());
  EXPECT_EQ(json["quality"]["held out"]["calibrated"]["ece"], 0.125);
  ASSERT_EQ(json["candidates"].size(), 2u);
  EXPECT_EQ(json["candidates"][1]["standard_error"], 0.0625);
  report.selection.reset();
  json = nlohmann::json::parse(training_json(report));
  EXPECT_FALSE(json.contains("candidates"));
}

}  // namespace
}  // namespace labelshift
