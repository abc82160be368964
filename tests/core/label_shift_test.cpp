#include "labelshift/core/label_shift.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/inference/bootstrap.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

class LabelShiftTest : public testing::Test {
 protected:
  LabelShiftTest() {
    Rng rng(2);
    source_ = problem_.sample(2000, problem_.source_prior, rng);
    target_ = problem_.sample(3000, truth_, rng);
    known_.target = {target_.probs};
    known_.source = SourceExamples{{source_.probs}, source_.labels, {}};
  }

  void expect_error(const LabelShiftProblem& problem, const LabelShiftOptions& options, ErrorKind kind,
                    const std::string& text) {
    try {
      analyse_label_shift(problem, options);
      FAIL() << "no error; expected: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }

  GaussianProblem problem_{.source_prior = Eigen::Vector3d(0.5, 0.3, 0.2), .sharpness = 2.5};
  Eigen::Vector3d truth_{0.2, 0.2, 0.6};
  GaussianSample source_, target_;
  LabelShiftProblem known_{.target = Scores::known(Eigen::MatrixXd(), /*logits=*/false)};
};

TEST_F(LabelShiftTest, FindsTheMixAndSaysThatItMovedAndThatTheAssumptionHolds) {
  LabelShiftOptions options;
  options.calibration = "bcts";
  const LabelShiftResult result = analyse_label_shift(known_, options);
  // Standard errors are near 0.012 (3000 target rows, overlapping classes); four of them.
  EXPECT_LE((result.target_prior - truth_).cwiseAbs().maxCoeff(), 0.05);
  EXPECT_NEAR(result.target_prior.sum(), 1.0, 1e-12);
  EXPECT_LE(*result.estimate.gap, 1e-9);
  EXPECT_LT(result.calibration_fit->nll_after, result.calibration_fit->nll_before);
  EXPECT_LT(result.shift_test.p_value, 1e-10);
  ASSERT_TRUE(result.fit_test);
  EXPECT_GT(result.fit_test->p_value, 1e-3);
}

TEST_F(LabelShiftTest, SourceWeightsThatAreAllAlikeLeaveTheIntervalsAlone) {
  for (const char* calibration : {"none", "bcts"}) {
    LabelShiftOptions options;
    options.calibration = calibration;
    known_.source->weights = {};
    const Intervals plain = analyse_label_shift(known_, options).intervals;
    const std::vector<double> weights(source_.labels.size(), 2.0);
    known_.source->weights = weights;
    const Intervals weighted = analyse_label_shift(known_, options).intervals;
    EXPECT_LE((weighted.prior_high - plain.prior_high).cwiseAbs().maxCoeff(), 1e-9) << calibration;  // rounding
    EXPECT_LE((weighted.ratio_low - plain.ratio_low).cwiseAbs().maxCoeff(), 1e-9) << calibration;
  }
}

TEST_F(LabelShiftTest, OnlyRelativeWeightsMatter) {
  Rng rng(7);
  std::vector<double> of_source(source_.labels.size()), of_target(3000);
  for (double& w : of_source) w = rng.uniform();
  for (double& w : of_target) w = rng.uniform();
  LabelShiftOptions options;
  options.smoothing = 0.5;
  const auto analyse = [&](int exponent) {
    std::vector<double> source = of_source, target = of_target;
    for (double& w : source) w = std::ldexp(w, exponent);
    for (double& w : target) w = std::ldexp(w, exponent);
    known_.source->weights = source;
    known_.target_weights = target;
    return analyse_label_shift(known_, options);
  };
  const LabelShiftResult plain = analyse(0);
  for (const int exponent : {-900, 700, 1023}) {  // powers of two, which change no digit
    const LabelShiftResult scaled = analyse(exponent);
    EXPECT_EQ(scaled.target_prior, plain.target_prior) << exponent;
    EXPECT_EQ(scaled.intervals.ratio_high, plain.intervals.ratio_high) << exponent;
    EXPECT_EQ(scaled.shift_test.p_value, plain.shift_test.p_value) << exponent;
    EXPECT_EQ(scaled.fit_test->p_value, plain.fit_test->p_value) << exponent;
  }
}

TEST_F(LabelShiftTest, CountsTheTargetsEffectiveRows) {
  std::vector<double> weights(3000, 1.0);
  std::fill_n(weights.begin(), 1500, 3.0);  // (1500 * 3 + 1500)^2 / (1500 * 9 + 1500) = 2400 rows
  LabelShiftOptions options;
  options.bound_terms = true;
  EXPECT_EQ(analyse_label_shift(known_, options).target_rows, 3000.0);
  known_.target_weights = weights;
  const LabelShiftResult result = analyse_label_shift(known_, options);
  EXPECT_NEAR(result.target_rows, 2400.0, 1e-9);
  // 4 sqrt(log(4 / delta) / n).
  EXPECT_NEAR(result.bound_terms->sampling_term, 4.0 * std::sqrt(std::log(4.0 / result.bound_terms->delta) / 2400.0),
              1e-12);
}

TEST_F(LabelShiftTest, RefusesAClassWhoseWeightIsNextToNothing) {
  std::vector<double> weights(source_.labels.size(), 1.0);
  weights[0] = 1e300;
  known_.source->weights = weights;
  expect_error(known_, {}, ErrorKind::kInput, "have less than 1e-50 of all weight");
}

TEST_F(LabelShiftTest, IntervalsHoldTheEstimate) {
  // Rows that are all alike: every resample has another prior, and the estimate's own lies on the edge of all of them.
  const Eigen::MatrixXd flat = Eigen::RowVector3d(0.3, 0.3, 0.4).replicate(30, 1);
  std::vector<int> labels(30);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i < 15 ? 0 : i < 25 ? 1 : 2;
  LabelShiftOptions options;
  for (const int bootstrap : {0, kLeastReplicates})
    for (const char* estimator : {"mlls-sqp", "mlls-em", "rlls"})
      for (const Eigen::MatrixXd& target : {flat, Eigen::MatrixXd(target_.probs.topRows(1)), target_.probs}) {
        options.bootstrap = bootstrap;
        options.estimator = estimator;
        LabelShiftProblem problem{.target = {target}};
        problem.source = SourceExamples{{flat}, labels, {}};
        const LabelShiftResult result = analyse_label_shift(problem, options);
        const Intervals& ends = result.intervals;
        EXPECT_TRUE((ends.prior_low.array() <= result.target_prior.array()).all()) << estimator << ends.prior_low;
        EXPECT_TRUE((ends.prior_high.array() >= result.target_prior.array()).all()) << estimator << ends.prior_high;
        EXPECT_TRUE((ends.ratio_low.array() <= result.estimate.ratio.array()).all()) << estimator << ends.ratio_low;
        EXPECT_TRUE((ends.ratio_high.array() >= result.estimate.ratio.array()).all()) << estimator << ends.ratio_high;
      }
}

TEST_F(LabelShiftTest, SeesLabelsThatAreOfOtherRows) {
  const LabelShiftResult right = analyse_label_shift(known_, {});
  double correct = 0.0;
  for (Index i = 0; i < source_.probs.rows(); ++i)
    correct += arg_max(source_.probs, i) == source_.labels[static_cast<std::size_t>(i)];
  EXPECT_NEAR(right.source_evidence->accuracy, correct / 2000.0, 1e-12);
  EXPECT_TRUE(right.source_evidence->says_labels());

  std::vector<int> moved = source_.labels;  // rows are independent draws, so those of the row before say nothing
  std::rotate(moved.begin(), moved.begin() + 1, moved.end());
  known_.source->labels = moved;
  for (const char* calibration : {"auto", "none", "bcts"}) {
    LabelShiftOptions options;
    options.calibration = calibration;
    const LabelShiftResult wrong = analyse_label_shift(known_, options);
    EXPECT_FALSE(wrong.source_evidence->says_labels()) << calibration;
    double entropy = 0.0;
    for (const double p : wrong.source_prior) entropy -= p * std::log(p);
    EXPECT_NEAR(wrong.source_evidence->prior_entropy, entropy, 1e-12);
  }
}

TEST_F(LabelShiftTest, KnowsTheEvidenceByTheCalibrationOfTheEstimateAndItsNoise) {
  const LabelShiftResult result = analyse_label_shift(known_, {});
  EXPECT_EQ(result.source_evidence->nll, result.calibration_choice->for_estimate().nll);
  EXPECT_EQ(result.source_evidence->nll_error, result.calibration_choice->for_estimate().nll_error);
  EXPECT_GT(result.source_evidence->nll_error, 0.0);
  // Two standard errors below the entropy of the label mix: 1/2 + 2/8 < 3/4 is wrong.
  EXPECT_TRUE((SourceEvidence{.nll = 0.5, .nll_error = 0.125, .prior_entropy = 0.76}.says_labels()));
  EXPECT_FALSE((SourceEvidence{.nll = 0.5, .nll_error = 0.125, .prior_entropy = 0.75}.says_labels()));

  // A candidate that is made up: its NLL is taken where it says labels, and that of bcts where it does not.
  CalibrationChoice choice;
  choice.candidates = {{.nll = 0.25, .nll_error = 0.125}};
  const SourceEvidence good = source_evidence(*known_.source, choice);
  EXPECT_EQ(good.nll, 0.25);
  EXPECT_EQ(good.nll_error, 0.125);
  choice.candidates = {{.nll = 0.25, .nll_error = 0.5}};
  const SourceEvidence mended = source_evidence(*known_.source, choice);
  const CalibrationKind bcts[] = {CalibrationKind::kBiasCorrected};
  const CalibrationChoice by_bcts = choose_calibration(bcts, known_.source->scores, known_.source->labels);
  EXPECT_EQ(mended.nll, by_bcts.for_estimate().nll);
  EXPECT_EQ(mended.nll_error, by_bcts.for_estimate().nll_error);
}

TEST_F(LabelShiftTest, SeesColumnsInAnotherOrderThanTheLabels) {
  EXPECT_TRUE(analyse_label_shift(known_, {}).source_evidence->permuted.empty());
  std::vector<int> turned = source_.labels;
  const int m = static_cast<int>(source_.probs.cols());
  for (int& label : turned) label = (label + 1) % m;
  known_.source->labels = turned;
  std::vector<Index> cycle;  // where the scores say a class, the label is the next
  for (Index c = 0; c < m; ++c) cycle.push_back(c);
  EXPECT_EQ(analyse_label_shift(known_, {}).source_evidence->permuted, cycle);
}

TEST_F(LabelShiftTest, DoesNotTakeScoresThatAreTooSureForWrongOnes) {
  Eigen::MatrixXd sure = source_.probs.array().max(1e-300).pow(20.0);
  sure = sure.array().colwise() / sure.rowwise().sum().array();
  known_.source->scores = {sure};
  LabelShiftOptions options;
  options.calibration = "none";
  EXPECT_TRUE(analyse_label_shift(known_, options).source_evidence->says_labels());
}

TEST_F(LabelShiftTest, ASourceOfAnotherMixThanTheTrainingIsWeightedToIt) {
  // A validation set with as many examples of each class, of a classifier that was trained on another mix and is too
  // sure.
  const Eigen::Vector3d trained_on(0.5, 0.3, 0.2), balanced = Eigen::Vector3d::Constant(1.0 / 3.0);
  const Eigen::Vector3d truth(0.2, 0.3, 0.5);
  const GaussianProblem problem{.source_prior = trained_on, .sharpness = 1.5};
  Rng rng(31);
  const GaussianSample source = problem.sample(3000, balanced, rng), target = problem.sample(4000, truth, rng);
  LabelShiftProblem known{.target = {target.probs}};
  known.source = SourceExamples{{source.probs}, source.labels, {}};
  known.source_prior = trained_on;
  Eigen::Vector3d drawn = Eigen::Vector3d::Zero();
  for (const int label : target.labels) drawn[label] += 1.0 / 4000.0;
  for (const char* calibration : {"auto", "bcts", "none"}) {
    for (const char* estimator : {"mlls-sqp", "bbse-soft"}) {
      LabelShiftOptions options;
      options.calibration = calibration;
      options.estimator = estimator;
      const LabelShiftResult result = analyse_label_shift(known, options);
      EXPECT_TRUE(result.source_is_weighted);
      // Without the weights a calibration is to the balanced mix, and the error 0.3.
      if (std::string(calibration) != "none" || std::string(estimator) == "bbse-soft") {
        EXPECT_LE((result.target_prior - drawn).cwiseAbs().maxCoeff(), 0.05) << calibration << " " << estimator;
      }
    }
  }
  // The mix has not moved from what the classifier was trained on, whatever the source's is.
  const GaussianSample same = problem.sample(4000, trained_on, rng);
  known.target = {same.probs};
  EXPECT_GT(analyse_label_shift(known, {}).shift_test.p_value, 0.01);
  const GaussianSample alike = problem.sample(3000, trained_on, rng);
  known.source = SourceExamples{{alike.probs}, alike.labels, {}};
  EXPECT_FALSE(analyse_label_shift(known, {}).source_is_weighted);
}

TEST_F(LabelShiftTest, CalibrationBringsAnOverconfidentPredictorCloser) {
  LabelShiftOptions options;
  options.calibration = "none";
  const double raw = (analyse_label_shift(known_, options).target_prior - truth_).norm();
  options.calibration = "bcts";
  EXPECT_LT((analyse_label_shift(known_, options).target_prior - truth_).norm(), 0.7 * raw);
}

TEST_F(LabelShiftTest, LogitsGiveTheAnswerOfTheirProbabilities) {
  const Eigen::MatrixXd source_logits = source_.probs.array().log() + 3.0;
  const Eigen::MatrixXd target_logits = target_.probs.array().log() - 1.0;
  for (const char* calibration : {"none", "bcts"}) {
    LabelShiftOptions options;
    options.calibration = calibration;
    const LabelShiftResult of_probs = analyse_label_shift(known_, options);
    LabelShiftProblem logits{.target = {target_logits, true}};
    logits.source = SourceExamples{{source_logits, true}, source_.labels, {}};
    const LabelShiftResult of_logits = analyse_label_shift(logits, options);
    EXPECT_TRUE(of_logits.target_prior.isApprox(of_probs.target_prior, 1e-7)) << calibration;
    EXPECT_TRUE(of_logits.intervals.prior_high.isApprox(of_probs.intervals.prior_high, 1e-6)) << calibration;
    EXPECT_NEAR(of_logits.shift_test.statistic, of_probs.shift_test.statistic, 1e-5 * of_probs.shift_test.statistic);
  }
}

TEST_F(LabelShiftTest, TheTestsLookAtRawPredictionsWhateverTheCalibration) {
  LabelShiftOptions options;
  const LabelShiftResult raw = analyse_label_shift(known_, options);
  options.calibration = "vs";
  const LabelShiftResult calibrated = analyse_label_shift(known_, options);
  EXPECT_EQ(raw.shift_test.p_value, calibrated.shift_test.p_value);
  EXPECT_EQ(raw.fit_test->p_value, calibrated.fit_test->p_value);
}

TEST_F(LabelShiftTest, WithThePriorAloneThereIsNoFitTestAndNoCalibration) {
  known_.source.reset();
  known_.source_prior = problem_.source_prior;
  const LabelShiftResult result = analyse_label_shift(known_, {});
  EXPECT_FALSE(result.fit_test);
  EXPECT_FALSE(result.calibration_fit);
  LabelShiftOptions options;
  options.calibration = "ts";
  expect_error(known_, options, ErrorKind::kUsage, "calibration \"ts\" is fitted on source examples");
  options = {};
  options.estimator = "bbse";
  expect_error(known_, options, ErrorKind::kUsage, "\"bbse\" needs source probabilities and labels");
  known_.source_prior.reset();
  expect_error(known_, {}, ErrorKind::kUsage, "nothing is known of the source");
}

TEST_F(LabelShiftTest, ASourceThatLacksAClassIsRightWithTheTrainingMixAlone) {
  // f is the exact posterior under the training mix. The source has no example of class 2, of which the target has 60
  // %.
  const std::vector<std::string> names{"cat", "dog", "eel"};
  problem_.sharpness = 1.0;
  Rng rng(3);
  source_ = problem_.sample(2000, Eigen::Vector3d(0.6, 0.4, 0.0), rng);
  target_ = problem_.sample(3000, truth_, rng);
  known_.target = {target_.probs};
  known_.source = SourceExamples{{source_.probs}, source_.labels, {}};
  known_.class_names = names;
  LabelShiftOptions options;
  options.smoothing = 1.0;
  for (const char* calibration : {"none", "bcts"}) {
    options.calibration = calibration;
    expect_error(known_, options, ErrorKind::kInput, "there is no source example of class eel");
  }
  known_.source_prior = problem_.source_prior;
  options = {};
  options.calibration = "none";
  const LabelShiftResult result = analyse_label_shift(known_, options);
  // Standard errors are near 0.012 (3000 target rows, overlapping classes); four of them.
  EXPECT_LE((result.target_prior - truth_).cwiseAbs().maxCoeff(), 0.05);
  EXPECT_EQ(result.unseen, std::vector<Index>{2});
  EXPECT_FALSE(result.fit_test);  // the target is no mixture of what the source has
  EXPECT_LT(result.shift_test.p_value, 1e-10);
  known_.target = {source_.probs};  // no shift from the source, but from the training mix
  EXPECT_LT(analyse_label_shift(known_, options).shift_test.p_value, 1e-10);
  known_.target = {target_.probs};
  options.calibration = "ts";
  expect_error(known_, options, ErrorKind::kInput, "calibration \"ts\" needs source examples of every class");
  options.calibration = "none";
  options.estimator = "bbse";
  expect_error(known_, options, ErrorKind::kInput, "estimator \"bbse\" needs source examples of every class");
}

TEST_F(LabelShiftTest, HasTheBitsOfTheStepsThatMethodsTake) {
  for (const char* calibration : {"none", "ts", "bcts", "vs", "matrix"}) {
    for (const char* name : {"mlls-sqp", "bbse-soft", "rlls"}) {
      const SourceExamples& source = *known_.source;
      const Eigen::VectorXd prior = label_prior(source.labels, {}, 3);
      const auto choice = choose_calibration(calibration_kinds(calibration), source.scores, source.labels);
      const Calibration fitted = fit_candidate(choice.for_estimate(), source).calibration;
      const RatioEstimate expected =
          estimate_ratio(summarise_with(fitted, source, prior), *make_estimator(find_estimator(name)), known_.target);
      const LabelShiftResult result = analyse_label_shift(known_, {.estimator = name, .calibration = calibration});
      EXPECT_EQ(result.calibration_fit->calibration.scale, fitted.scale);
      EXPECT_EQ(result.estimate.ratio, expected.ratio) << calibration << " " << name;
      EXPECT_EQ(result.estimate.iterations, expected.iterations) << calibration << " " << name;
    }
  }
}

TEST_F(LabelShiftTest, RefusesWhatDoesNotFitTogether) {
  LabelShiftOptions options;
  options.level = 1.0;
  expect_error(known_, options, ErrorKind::kUsage, "level is 1");
  options = {};
  for (const int few : {-1, 1, 99}) {
    options.bootstrap = few;
    expect_error(known_, options, ErrorKind::kUsage, "bootstrap replicates make no interval; ask for 100 or more");
  }
  options = {};
  options.smoothing = -1.0;
  expect_error(known_, options, ErrorKind::kUsage, "smoothing is -1");
  options.smoothing = 1e308;
  expect_error(known_, options, ErrorKind::kUsage, "smoothing is 1e+308, expected a number of examples from 0 to 1e12");
  known_.source_prior = Eigen::Vector2d(0.5, 0.5);
  expect_error(known_, {}, ErrorKind::kInput, "the source prior has 2 classes, the target 3 columns");
  known_.source_prior = problem_.source_prior;
  options.smoothing = 1.0;
  expect_error(known_, options, ErrorKind::kUsage, "smoothing is for a source prior that is counted");
  known_.source_prior.reset();
  const Eigen::MatrixXd two = Eigen::MatrixXd::Constant(2000, 2, 0.5);
  known_.source->scores = {two};
  expect_error(known_, {}, ErrorKind::kInput, "the target has 3 columns, the source 2");
}

TEST_F(LabelShiftTest, TellsTheObserverWhatItDoes) {
  std::vector<std::string> stages;
  double last = 0.0;
  LabelShiftOptions options;
  options.calibration = "ts";
  options.bootstrap = kLeastReplicates;
  analyse_label_shift(known_, options, [&](std::string_view stage, double done) {
    if (stages.empty() || stages.back() != stage) stages.emplace_back(stage);
    last = done;
    return true;
  });
  EXPECT_THAT(stages, testing::ElementsAre("checking the input", "testing", "calibrating", "estimating",
                                           "finding intervals", "bootstrap"));
  EXPECT_EQ(last, 1.0);
}

TEST_F(LabelShiftTest, StopsWithinCalibrating) {
  int calls = 0;
  EXPECT_THROW(analyse_label_shift(known_, {},
                                   [&](std::string_view stage, double) {
                                     calls += stage == "calibrating" ? 1 : 0;
                                     EXPECT_NE(stage, "estimating");
                                     return calls < 20;
                                   }),
               Stopped);
  EXPECT_EQ(calls, 20);
}

TEST_F(LabelShiftTest, StopsInEveryStage) {
  LabelShiftOptions options;
  options.calibration = "ts";
  options.bootstrap = kLeastReplicates;
  for (const char* last :
       {"checking the input", "testing", "calibrating", "estimating", "finding intervals", "bootstrap"}) {
    std::string reached;
    EXPECT_THROW(analyse_label_shift(known_, options,
                                     [&](std::string_view stage, double) {
                                       reached = stage;
                                       return stage != last;
                                     }),
                 Stopped);
    EXPECT_EQ(reached, last);
  }
}

TEST(AdaptRows, AreProportionalToFTimesR) {
  Eigen::MatrixXd f(2, 2);
  f << 0.8, 0.2, 1.0, 0.0;
  RowMajorMatrix<double> out(2, 2);
  adapt_rows(f, Eigen::Vector2d(0.5, 2.0), Eigen::Vector2d(0.3, 0.7), 0, out);
  EXPECT_DOUBLE_EQ(out(0, 0), 0.5);  // 0.8 * 0.5 : 0.2 * 2
  EXPECT_DOUBLE_EQ(out(1, 0), 1.0);
  adapt_rows(f, Eigen::Vector2d(0.0, 2.0), Eigen::Vector2d(0.0, 1.0), 0, out);
  EXPECT_DOUBLE_EQ(out(0, 1), 1.0);
}

TEST(AdaptRows, GiveARowThatThePriorRulesOutThePrior) {
  // A class whose share is 0 has probability 0, whatever the classifier says.
  const Eigen::MatrixXd f = Eigen::RowVector3d(1.0, 0.0, 0.0);
  RowMajorMatrix<double> out(1, 3);
  adapt_rows(f, Eigen::Vector3d(0.0, 1.5, 0.75), Eigen::Vector3d(0.0, 0.6, 0.4), 0, out);
  EXPECT_EQ(out, RowMajorMatrix<double>(Eigen::RowVector3d(0.0, 0.6, 0.4)));
}

TEST(ErrorBoundTerms, AreThoseOfAHandMadePredictor) {
  // Half the rows say (1, 0), half (0, 1): E[f f^T] = I / 2.
  Eigen::MatrixXd f(4, 2);
  f << 1, 0, 0, 1, 1, 0, 0, 1;
  const ErrorBoundTerms terms = error_bound_terms(Eigen::Vector2d(0.8, 0.2), f, 100.0, 0.05);
  EXPECT_EQ(terms.delta, 0.05);
  EXPECT_NEAR(terms.mu, 0.5, 1e-12);
  EXPECT_NEAR(terms.p_min, 0.2, 1e-12);
  EXPECT_NEAR(terms.scale, 20.0, 1e-9);
  EXPECT_NEAR(terms.strict_scale, 100.0, 1e-9);
  EXPECT_NEAR(terms.sampling_term, 4.0 * std::sqrt(std::log(80.0) / 100.0), 1e-12);
}

}  // namespace
}  // namespace labelshift
