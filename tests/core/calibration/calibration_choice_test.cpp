#include "labelshift/core/calibration/calibration_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/parallel.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/label_shift.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {

void PrintTo(const CalibrationEntry& entry, std::ostream* out);  // of calibration_test.cpp

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::HasSubstr;

CalibrationChoice choose_auto(const MatrixXd& probs, const std::vector<int>& labels,
                              const std::vector<double>& weights = {}) {
  return choose_calibration(calibration_kinds(kAutoCalibration), {probs}, labels, weights);
}

GaussianProblem four_classes() {
  return {.source_prior = Eigen::Vector4d(0.4, 0.3, 0.2, 0.1), .separation = 2.0};
}

GaussianSample draw(const GaussianProblem& problem, Index rows, std::uint64_t seed) {
  Rng rng(seed);
  return problem.sample(rows, problem.source_prior, rng);
}

TEST(CalibrationKinds, AutoIsAllOfThemAndANameIsOne) {
  EXPECT_EQ(std::ssize(calibration_kinds("auto")), std::ssize(calibrations()));
  EXPECT_EQ(calibration_kinds("vs"), std::vector{CalibrationKind::kVector});
  try {
    calibration_kinds("aut");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("unknown calibration \"aut\"; did you mean \"auto\"? (known: auto, none, ts, "
                                        "bcts, vs, matrix)"));
  }
}

TEST(ChooseCalibration, LeavesAWellCalibratedClassifierAlone) {
  int none = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const GaussianSample sample = draw(four_classes(), 600, seed);
    none += choose_auto(sample.probs, sample.labels).for_estimate().kind == CalibrationKind::kNone;
  }
  // A kind that is no better than none beats it by more than its standard error once in six draws, and there are four
  // such kinds, which move together: four draws of ten at worst.
  EXPECT_GE(none, 12);
}

TEST(ChooseCalibration, MendsATemperature) {
  GaussianProblem problem = four_classes();
  problem.sharpness = 2.0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const GaussianSample sample = draw(problem, 600, seed);
    EXPECT_GE(choose_auto(sample.probs, sample.labels).for_estimate().kind, CalibrationKind::kTemperature);
  }
}

TEST(ChooseCalibration, MendsBiases) {
  GaussianProblem problem = four_classes();
  problem.bias = Eigen::Vector4d(1.0, -1.0, 0.5, -0.5);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const GaussianSample sample = draw(problem, 600, seed);
    const CalibrationChoice choice = choose_auto(sample.probs, sample.labels);
    EXPECT_GE(choice.for_estimate().kind, CalibrationKind::kBiasCorrected);
    EXPECT_GE(choice.for_intervals().kind, choice.for_estimate().kind);
  }
}

TEST(ChooseCalibration, MendsAMixingOfScores) {
  // Logits of which each takes from the next: no scale and no bias a class undoes that.
  const GaussianSample exact = draw(four_classes(), 3000, 3);
  MatrixXd logits = exact.probs.array().log();
  for (Index c = 0; c < 4; ++c) logits.col(c) += 0.5 * exact.probs.col((c + 1) % 4).array().log().matrix();
  const CalibrationChoice choice =
      choose_calibration(calibration_kinds(kAutoCalibration), {logits, /*logits=*/true}, exact.labels);
  EXPECT_EQ(choice.for_estimate().kind, CalibrationKind::kMatrix);
  EXPECT_GT(choice.for_estimate().strength, 0.0);
}

TEST(ChooseCalibration, TheOrderOfClassesDoesNotMatter) {
  GaussianProblem problem = four_classes();
  problem.sharpness = 1.5;
  const GaussianSample sample = draw(problem, 500, 4);
  const int to[] = {2, 0, 3, 1};
  GaussianSample permuted = sample;
  for (Index c = 0; c < 4; ++c) permuted.probs.col(to[c]) = sample.probs.col(c);
  for (int& y : permuted.labels) y = to[y];
  const CalibrationChoice a = choose_auto(sample.probs, sample.labels);
  const CalibrationChoice b = choose_auto(permuted.probs, permuted.labels);
  EXPECT_EQ(a.chosen, b.chosen);
  EXPECT_EQ(a.largest, b.largest);
  for (std::size_t k = 0; k < a.candidates.size(); ++k) {
    EXPECT_NEAR(a.candidates[k].nll, b.candidates[k].nll, 1e-6) << k;  // fits come to 0.03 of a standard error
    EXPECT_NEAR(a.candidates[k].excess_error, b.candidates[k].excess_error, 1e-6) << k;
  }
}

class EveryKindAndSize : public testing::TestWithParam<std::tuple<CalibrationEntry, Index>> {};

INSTANTIATE_TEST_SUITE_P(Core, EveryKindAndSize,
                         testing::Combine(testing::ValuesIn(calibrations()), testing::Values(Index{400}, Index{4100})),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + std::to_string(std::get<1>(row.param));
                         });

TEST_P(EveryKindAndSize, IsJudgedAsByRefittingWithoutEachFold) {
  const auto [entry, n] = GetParam();  // with 4,100 rows the Hessians are of every second one
  GaussianProblem problem = four_classes();
  problem.sharpness = 1.5;
  const GaussianSample sample = draw(problem, n, 5);
  const CalibrationKind kinds[] = {entry.kind};
  const CalibrationCandidate found = choose_calibration(kinds, {sample.probs}, sample.labels).candidates[0];
  const auto strength = found.strength > 0.0 ? found.strength : kMatrixStrength;
  std::vector<Index> next(4, -1);
  std::vector<Index> fold;
  for (Index i = 0; i < n; ++i) {
    Index& of_class = next[static_cast<std::size_t>(sample.labels[static_cast<std::size_t>(i)])];
    if (of_class < 0) of_class = i;
    fold.push_back(of_class++ % 10);
  }
  VectorXd losses(n);
  for (Index k = 0; k < 10; ++k) {
    std::vector<double> weights;
    for (const Index of_row : fold) weights.push_back(of_row == k ? 0.0 : 1.0);
    const Calibration fit = fit_calibration(entry.kind, {sample.probs}, sample.labels, weights, strength).calibration;
    const MatrixXd f = std::get<1>(apply_calibration(fit, {sample.probs}).values);
    for (Index i = 0; i < n; ++i)
      if (fold[static_cast<std::size_t>(i)] == k)
        losses[i] = -std::log(f(i, sample.labels[static_cast<std::size_t>(i)]));
  }
  const CalibrationFit all = fit_calibration(entry.kind, {sample.probs}, sample.labels, {}, strength);
  const double optimism = losses.mean() - all.nll_after;
  EXPECT_GE(optimism, 0.0);
  // One Newton step without a fold leaves an error of second order: a tenth of what a fold changes.
  EXPECT_NEAR(found.nll, losses.mean(), 0.1 * optimism + 1e-12);
  const double spread = std::sqrt((losses.array() - losses.mean()).square().sum()) / static_cast<double>(n);
  EXPECT_NEAR(found.nll_error, spread, 0.05 * spread);
}

TEST(ChooseCalibration, ComparesCandidatesRowByRow) {
  const GaussianSample sample = draw(four_classes(), 500, 6);
  const CalibrationChoice choice = choose_auto(sample.probs, sample.labels);
  const CalibrationCandidate& none = choice.candidates[0];
  const CalibrationCandidate& bcts = choice.candidates[2];
  ASSERT_EQ(bcts.kind, CalibrationKind::kBiasCorrected);
  EXPECT_GT(none.excess_error + bcts.excess_error, 0.0);
  EXPECT_LT(bcts.excess_error, 0.5 * bcts.nll_error);  // most of the noise of two kinds is the same
}

TEST(ChooseCalibration, CopesWithClassesOfOneOrTwoExamplesAndWithFewRows) {
  for (const Index rows : {Index{1}, Index{2}, Index{12}, Index{60}}) {
    GaussianSample sample = draw(four_classes(), rows, 7);
    for (std::size_t i = 0; i < sample.labels.size(); ++i)
      sample.labels[i] = i == 0 ? 3 : i < 3 ? 2 : sample.labels[i] % 2;
    const CalibrationChoice choice = choose_auto(sample.probs, sample.labels);
    ASSERT_EQ(std::ssize(choice.candidates), std::ssize(calibrations()));
    for (const CalibrationCandidate& candidate : choice.candidates)
      EXPECT_TRUE(std::isfinite(candidate.nll) && std::isfinite(candidate.excess_error)) << rows;
  }
}

TEST(ChooseCalibration, RowsOfWeightZeroDoNotCountAndScaledWeightsAreTheSame) {
  const GaussianSample sample = draw(four_classes(), 400, 8);
  MatrixXd half = sample.probs.topRows(200);
  const std::vector<int> half_labels(sample.labels.begin(), sample.labels.begin() + 200);
  std::vector<double> weights(400, 3.0);
  std::fill(weights.begin() + 200, weights.end(), 0.0);
  const CalibrationChoice a = choose_auto(half, half_labels);
  const CalibrationChoice b = choose_auto(sample.probs, sample.labels, weights);
  EXPECT_EQ(a.chosen, b.chosen);
  for (std::size_t k = 0; k < a.candidates.size(); ++k) EXPECT_NEAR(a.candidates[k].nll, b.candidates[k].nll, 1e-9);
}

TEST(ChooseCalibration, SinglePrecisionAndLogitsGiveTheSameChoice) {
  GaussianProblem problem = four_classes();
  problem.sharpness = 2.0;
  const GaussianSample sample = draw(problem, 400, 9);
  const Eigen::MatrixXf floats = sample.probs.cast<float>();
  const MatrixXd logits = sample.probs.array().log() + 3.0;
  const auto kinds = calibration_kinds(kAutoCalibration);
  const CalibrationChoice a = choose_auto(sample.probs, sample.labels);
  const CalibrationChoice b = choose_calibration(kinds, {floats}, sample.labels);
  const CalibrationChoice c = choose_calibration(kinds, {logits, /*logits=*/true}, sample.labels);
  for (std::size_t k = 0; k < a.candidates.size(); ++k) {
    EXPECT_NEAR(a.candidates[k].nll, b.candidates[k].nll, 1e-5);
    EXPECT_NEAR(a.candidates[k].nll, c.candidates[k].nll, 1e-9);
  }
}

TEST(ChooseCalibration, HugeLogitsAreMendedByTheirTemperature) {
  const GaussianSample source = draw(four_classes(), 300, 12);
  const MatrixXd logits = source.probs.array().log();
  const double nll = choose_auto(source.probs, source.labels).candidates[1].nll;
  for (const double scale : {1e3, 1e6, 1e12, 1e30, 1e80}) {
    const MatrixXd huge = scale * logits;
    const CalibrationChoice choice =
        choose_calibration(calibration_kinds(kAutoCalibration), {huge, /*logits=*/true}, source.labels, {});
    EXPECT_GT(choice.for_estimate().kind, CalibrationKind::kNone) << scale;
    // The scale is fitted either way, but for a penalty of 0.005 / n on its distance from 1.
    EXPECT_NEAR(choice.candidates[1].nll, nll, 1e-3) << scale;
    for (const CalibrationCandidate& candidate : choice.candidates) {
      EXPECT_TRUE(std::isfinite(candidate.nll_error)) << scale;
      if (candidate.kind == CalibrationKind::kNone) continue;
      EXPECT_LT(candidate.nll, nll + 0.2) << to_string(candidate.kind) << " " << scale;
    }
  }
}

TEST(ChooseCalibration, AFoldsStepDoesNotGoTooFar) {
  // Few rows and huge logits: curvatures change within a step.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const GaussianSample source = draw(four_classes(), 40, seed);
    for (const double scale : {1e1, 1e2, 1e3, 1e8, 1e300}) {
      const MatrixXd huge = scale * source.probs.array().log();
      const CalibrationChoice choice =
          choose_calibration(calibration_kinds(kAutoCalibration), {huge, /*logits=*/true}, source.labels, {});
      for (const CalibrationCandidate& candidate : choice.candidates)
        EXPECT_LE(candidate.nll, choice.candidates[0].nll + 5.0) << to_string(candidate.kind) << scale << " " << seed;
    }
  }
}

TEST(ChooseCalibration, AFoldForWhichNoStepGainsIsJudgedByTheFitToAllRows) {
  // So few rows that they can be told apart, and logits so huge that no part of a step down to a millionth lowers the
  // likelihood of the nine other folds. The whole step gives NLLs beyond 1e20. That of labels drawn at random is 1.4;
  // the fits here have up to 2.4.
  const std::pair<Index, std::uint64_t> draws[] = {{8, 1}, {12, 1}, {20, 4}};
  for (const auto& [rows, seed] : draws) {
    const GaussianSample source = draw(four_classes(), rows, seed);
    for (const double scale : {1e30, 1e60}) {
      const MatrixXd huge = scale * source.probs.array().log();
      const CalibrationChoice choice =
          choose_calibration(calibration_kinds(kAutoCalibration), {huge, /*logits=*/true}, source.labels, {});
      for (const CalibrationCandidate& candidate : choice.candidates) {
        if (candidate.kind == CalibrationKind::kNone) continue;
        EXPECT_LE(candidate.nll, 5.0) << to_string(candidate.kind) << " " << scale << " " << rows;
      }
    }
  }
}

TEST(ChooseCalibration, HasFiniteLikelihoodsOfTheLargestLogits) {
  const GaussianSample source = draw(four_classes(), 300, 12);
  const MatrixXd huge = 1e300 * source.probs.array().log();  // of which log_scores keeps 1e100
  const CalibrationChoice choice =
      choose_calibration(calibration_kinds(kAutoCalibration), {huge, /*logits=*/true}, source.labels, {});
  for (const CalibrationCandidate& candidate : choice.candidates) {
    EXPECT_TRUE(std::isfinite(candidate.nll)) << to_string(candidate.kind);
    EXPECT_TRUE(std::isfinite(candidate.nll_error)) << to_string(candidate.kind);
    EXPECT_LE(candidate.nll, choice.candidates[0].nll) << to_string(candidate.kind);
  }
}

TEST(ChooseCalibration, ManyClassesAreJudgedOnAFifthOfTheRowsWithoutAMatrix) {
  const Index m = 210;
  Rng rng(10);
  MatrixXd logits(900, m);
  std::vector<int> labels;
  for (Index i = 0; i < 900; ++i) {
    labels.push_back(static_cast<int>(i % m));
    for (Index c = 0; c < m; ++c) logits(i, c) = 3.0 * (rng.normal() + (c == labels.back() ? 3.0 : 0.0));
  }
  const CalibrationChoice choice =
      choose_calibration(calibration_kinds(kAutoCalibration), {logits, /*logits=*/true}, labels);
  ASSERT_EQ(choice.candidates.size(), 4U);
  EXPECT_EQ(choice.candidates.back().kind, CalibrationKind::kVector);
  EXPECT_GE(choice.for_estimate().kind, CalibrationKind::kTemperature);  // the logits are three times too sharp
  double sum = 0.0;
  int rows = 0;
  for (Index i = 0; i < 900; ++i) {
    if ((i % m + i / m) % 10 >= 2) continue;  // the first of a class is in the fold of its row, the next in the next
    const double top = logits.row(i).maxCoeff();
    sum += top + std::log((logits.row(i).array() - top).exp().sum()) - logits(i, i % m);
    ++rows;
  }
  EXPECT_NEAR(choice.candidates.front().nll, sum / rows, 1e-9);  // none: the uncalibrated ones
}

TEST(ChooseCalibration, GivesTheSameBitsOnAnyThread) {
  GaussianProblem problem = four_classes();
  problem.sharpness = 1.3;
  const GaussianSample sample = draw(problem, 500, 11);
  std::vector<CalibrationChoice> choices(5);
  for (const unsigned workers : {1U, 3U})
    run_in_parallel(workers == 1 ? 1 : 5, workers, [&](Index i) {
      const CalibrationChoice found = choose_auto(sample.probs, sample.labels);
      if (workers == 1)
        choices.assign(5, found);
      else
        EXPECT_EQ(found.candidates.back().nll, choices[static_cast<std::size_t>(i)].candidates.back().nll);
    });
}

TEST(AutoCalibration, MakesUpForTheNoiseOfTheCountedPrior) {
  const GaussianSample source = draw(four_classes(), 300, 12);
  const GaussianSample target = draw(four_classes(), 300, 13);
  LabelShiftProblem problem{.target = {target.probs}};
  problem.source = SourceExamples{{source.probs}, source.labels, {}};
  const LabelShiftResult result = analyse_label_shift(problem, {});
  ASSERT_EQ(result.calibration_fit->kind, CalibrationKind::kNone);
  // The same as Eq. (3) with the mean prediction as the source's prior.
  problem.source_prior = source.probs.colwise().mean().transpose();
  const LabelShiftResult expected = analyse_label_shift(problem, {.calibration = "none"});
  EXPECT_LE((result.target_prior - expected.target_prior).norm(), 1e-6);
  // Intervals come from a larger kind, but they are for this estimate.
  EXPECT_GE(result.calibration_choice->for_intervals().kind, CalibrationKind::kBiasCorrected);
  for (Index c = 0; c < 4; ++c) {
    EXPECT_LE(result.intervals.prior_low[c], result.target_prior[c]);
    EXPECT_GE(result.intervals.prior_high[c], result.target_prior[c]);
    EXPECT_LE(result.intervals.ratio_low[c], result.estimate.ratio[c]);
    EXPECT_GE(result.intervals.ratio_high[c], result.estimate.ratio[c]);
  }
}

TEST(AutoCalibration, IsNoneWithoutSourceExamples) {
  const GaussianSample target = draw(four_classes(), 300, 2);
  LabelShiftProblem problem{.target = {target.probs}};
  problem.source_prior = four_classes().source_prior;
  const LabelShiftResult chosen = analyse_label_shift(problem, {});
  EXPECT_FALSE(chosen.calibration_choice);
  EXPECT_EQ(chosen.target_prior, analyse_label_shift(problem, {.calibration = "none"}).target_prior);
}

TEST(AutoCalibration, TheBootstrapChoosesAgainAndHasTheSameBitsTwice) {
  GaussianProblem miscalibrated = four_classes();
  miscalibrated.sharpness = 1.3;
  const GaussianSample source = draw(miscalibrated, 600, 3);
  const GaussianSample target = draw(miscalibrated, 200, 4);
  LabelShiftProblem problem{.target = {target.probs}};
  problem.source = SourceExamples{{source.probs}, source.labels, {}};
  const LabelShiftOptions options{.bootstrap = 100, .seed = 5};
  const LabelShiftResult a = analyse_label_shift(problem, options);
  const LabelShiftResult b = analyse_label_shift(problem, options);
  EXPECT_EQ(a.intervals.prior_low, b.intervals.prior_low);
  EXPECT_EQ(a.intervals.prior_high, b.intervals.prior_high);
  LabelShiftOptions kept = options;
  kept.calibration = to_string(a.calibration_choice->for_intervals().kind);
  EXPECT_NE(a.intervals.prior_high, analyse_label_shift(problem, kept).intervals.prior_high);
}

/// One classifier of 201 classes: vector scaling has 402 parameters, too many for the Hessian of each fold.
GaussianSample of_many_classes() {
  return draw({.source_prior = VectorXd::Constant(201, 1.0 / 201), .separation = 3.0}, 1005, 5);
}

TEST(ChooseCalibration, EndsAtThePassAtWhichItsObserverStopsIt) {
  const std::pair<const char*, GaussianSample> samples[] = {{"auto", draw(four_classes(), 200, 3)},
                                                            {"vs", of_many_classes()}};
  for (const auto& [name, sample] : samples) {
    const std::vector<CalibrationKind> kinds = calibration_kinds(name);
    int calls = 0;
    int most = std::numeric_limits<int>::max();
    const Observer observer = [&](std::string_view stage, double) {
      EXPECT_EQ(stage, "calibrating");
      return ++calls < most;
    };
    const SourceExamples examples{{sample.probs}, sample.labels, {}};
    const auto choose_and_fit = [&] {
      const CalibrationChoice choice = choose_calibration(kinds, examples.scores, examples.labels, {}, observer);
      const int of_choice = calls;
      fit_candidate(choice.for_intervals(), examples, observer);
      return of_choice;
    };
    const int of_choice = choose_and_fit();
    const int all = calls;
    EXPECT_GT(of_choice, 5) << name;  // a pass to start with and one a step, of which Newton's method takes a few
    EXPECT_GT(all, of_choice) << name;
    for (const int last : {1, of_choice / 2, of_choice, all}) {
      calls = 0;
      most = last;
      EXPECT_THROW(choose_and_fit(), Stopped) << name;
      EXPECT_EQ(calls, last) << name;
    }
  }
}

}  // namespace
}  // namespace labelshift
