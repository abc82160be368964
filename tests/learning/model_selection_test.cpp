#include "labelshift/learning/model_selection.hpp"

#include <gmock/gmock.h>

#include "labelshift/learning/evaluation.hpp"
#include "tests/data/scratch.hpp"
#include "tests/learning/softmax_net.hpp"

namespace labelshift {
namespace {

class ModelSelection : public Scratch {
 protected:
  const Eigen::Vector3d prior = {0.2, 0.3, 0.5};
};

/// Exact log posteriors, and the same too flat, which a temperature mends, or with biases, which it does not.
struct ExactLogits {
  RowMajorMatrix<float> exact, flat, biased;
  std::vector<int> labels;
};

ExactLogits exact_logits(const Eigen::Vector3d& prior) {
  Rng rng(5);
  const GaussianSample sample = GaussianProblem{.source_prior = prior}.sample(2000, prior, rng);
  ExactLogits result{.labels = sample.labels};
  result.exact = sample.probs.array().log().cast<float>();
  result.flat = 0.3F * result.exact;
  result.biased = result.exact.rowwise() + Eigen::RowVector3f(1.0F, -1.0F, 0.0F);
  return result;
}

TEST_F(ModelSelection, RanksPredictorsAndCalibrationsByHowWellTheyFindPriors) {
  const ExactLogits logits = exact_logits(prior);
  const PriorTrials trials(logits.labels, prior, {}, 1);
  const double exact = trials.score(logits.exact, "none").error;
  EXPECT_GT(trials.score(logits.flat, "none").error, 5.0 * exact);
  EXPECT_GT(trials.score(logits.biased, "none").error, 5.0 * exact);
  EXPECT_LT(trials.score(logits.flat, "ts").error, 1.1 * exact);
  EXPECT_GT(trials.score(logits.biased, "ts").error, 5.0 * exact);
  EXPECT_LT(trials.score(logits.biased, "bcts").error, 1.5 * exact);
}

TEST_F(ModelSelection, JudgesACalibrationOnExamplesItWasNotFittedOn) {
  // Logits of noise, of which vector scaling can make nothing but an overfitted map: judged on the 7 or 8 examples that
  // its 6 parameters were fitted to, it errs a third less than no calibration; on others, as much (fixed seed).
  Rng rng(6);
  RowMajorMatrix<float> noise(15, 3);
  std::vector<int> labels;
  for (Index i = 0; i < noise.rows(); ++i) {
    labels.push_back(static_cast<int>(i % 3));
    for (Index c = 0; c < 3; ++c) noise(i, c) = static_cast<float>(rng.normal());
  }
  SelectionSettings settings;
  settings.priors = 50;
  const PriorTrials trials(labels, Eigen::Vector3d::Constant(1.0 / 3), settings, 1);
  EXPECT_GT(trials.score(noise, "vs").error, 0.8 * trials.score(noise, "none").error);
}

TEST_F(ModelSelection, DrawsTheSameTrialsFromTheSameSeed) {
  const ExactLogits logits = exact_logits(prior);
  const auto error = [&](std::uint64_t seed) {
    return PriorTrials(logits.labels, prior, {}, seed).score(logits.exact, "bcts").error;
  };
  EXPECT_EQ(error(1), error(1));
  EXPECT_NE(error(1), error(2));
}

TEST_F(ModelSelection, DoesWithoutAClassThatAHalfLacks) {
  RowMajorMatrix<float> logits(5, 3);
  logits << 2, 0, 0, 0, 2, 0, 0, 2, 0, 2, 0, 0, 0, 0, 2;
  const PriorTrials trials(std::vector{0, 1, 1, 0, 2}, prior, {}, 1);
  EXPECT_TRUE(std::isfinite(trials.score(logits, "bcts").error));
  expect_error(ErrorKind::kInput,
               "1 examples are held out, expected at least 2 to judge predictors by; hold out a larger fraction",
               [&] { PriorTrials(std::vector{0}, prior, {}, 1); });
}

class ChoosePredictor : public ModelSelection {
 protected:
  const Dataset data = gaussian_data(600, 2, prior);
  const HoldOut split = hold_out(data.labels, all_rows(data.size()), 3, Fraction{0.5}, 1);
  const TrainingExamples examples{data, split.kept, {}};
  const TrainingSettings training{.epochs = 8, .adam = {.learning_rate = 0.02}};
};

TEST_F(ChoosePredictor, KeepsTheWeightsAndTheCalibrationThatErrLeast) {
  SoftmaxNet net(data);
  // The last zeta makes everything look alike, so that the best is not simply what the net was left with.
  SelectionSettings settings;
  settings.zetas = {0.0, 0.1, 100.0};
  const Selection selection = choose_predictor(net, examples, split.held_out, training, settings);
  EXPECT_EQ(selection.candidates.size(), 3U * 4U * 3U);  // zetas, epochs 1, 2, 4 and 8, calibrations
  EXPECT_LT(selection.best().zeta, 100.0);
  for (const Candidate& candidate : selection.candidates) EXPECT_GE(candidate.error, selection.best().error);
  // The net is the chosen one: its own score is the one that won.
  const Eigen::VectorXd train_prior = empirical_prior(class_counts(data.labels, split.kept, 3));
  const std::vector<int> labels = labels_of(data, split.held_out);
  const RowMajorMatrix<float> logits = evaluate_logits(net, data, split.held_out);
  const PriorTrials trials(labels, train_prior, settings, training.seed);
  EXPECT_EQ(trials.score(logits, selection.best().calibration).error, selection.best().error);
  SoftmaxNet alone(data);
  TrainingSettings chosen = training;
  chosen.zeta = selection.best().zeta;
  chosen.epochs = selection.best().epochs;
  train_predictor(alone, examples, chosen);
  EXPECT_THAT(net.parameters(), testing::ElementsAreArray(alone.parameters()));
}

TEST_F(ChoosePredictor, LooksWhereATrainingStopsByItself) {
  SoftmaxNet net(data);
  TrainingSettings settings = training;
  settings.stop_below = 100.0;  // after one epoch
  settings.epochs = 16;         // looked at after 2, 4, 8 and 16
  const Selection selection =
      choose_predictor(net, examples, split.held_out, settings, {.zetas = {0.0}, .calibrations = {"none"}});
  ASSERT_EQ(selection.candidates.size(), 1U);
  EXPECT_EQ(selection.candidates[0].epochs, 1);
}

TEST_F(ChoosePredictor, GoesOnFromAFolderToTheSameBits) {
  const SelectionSettings settings{.zetas = {0.0, 1.0}, .calibrations = {"none"}};
  SoftmaxNet whole(data);
  const Selection expected = choose_predictor(whole, examples, split.held_out, training, settings);
  Selection selection;
  int runs = 0;
  for (bool ended = false; !ended; ++runs) {  // stopped again and again, in the middle of an epoch
    SoftmaxNet net(data);
    int steps = 0;
    try {
      selection = choose_predictor(
          net, examples, split.held_out, training, settings, [&](std::string_view, double) { return ++steps < 12; },
          path(""));
    } catch (const Stopped&) {
      continue;
    }
    ended = true;
    EXPECT_THAT(net.parameters(), testing::ElementsAreArray(whole.parameters()));
  }
  EXPECT_GT(runs, 4);
  EXPECT_EQ(selection.epochs, 16);
  EXPECT_EQ(selection.chosen, expected.chosen);
  ASSERT_EQ(selection.candidates.size(), expected.candidates.size());
  for (std::size_t i = 0; i < expected.candidates.size(); ++i)
    EXPECT_EQ(selection.candidates[i].error, expected.candidates[i].error);
}

TEST_F(ChoosePredictor, FitsTheCalibrationToTheMixOfTraining) {
  // Most held-out examples are of the class of which the training has the fewest.
  std::vector<Index> uneven;
  std::vector<Index> left = {50, 20, 20};
  for (const Index row : split.held_out)
    if (left[static_cast<std::size_t>(data.labels[static_cast<std::size_t>(row)])]-- > 0) uneven.push_back(row);
  ASSERT_EQ(uneven.size(), 90U);
  SoftmaxNet net(data);
  const Selection selection =
      choose_predictor(net, examples, uneven, training, {.zetas = {0.0}, .calibrations = {"bcts"}});
  const std::vector<int> labels = labels_of(data, uneven);
  const RowMajorMatrix<float> logits = evaluate_logits(net, data, uneven);
  const Eigen::VectorXd train_prior = empirical_prior(class_counts(data.labels, split.kept, 3));
  const SourceFit expected =
      fit_source(CalibrationKind::kBiasCorrected, {{logits, /*logits=*/true}, labels, {}}, train_prior);
  const Calibration unweighted =
      fit_calibration(CalibrationKind::kBiasCorrected, {logits, /*logits=*/true}, labels).calibration;
  ASSERT_GT((expected.calibration.bias - unweighted.bias).norm(), 0.1);  // the mixes differ by e and more
  EXPECT_EQ(selection.calibration.calibration.bias, expected.calibration.bias);
  EXPECT_EQ(selection.calibration.calibration.scale, expected.calibration.scale);
}

TEST_F(ChoosePredictor, NeedsEveryClassInTheTraining) {
  std::vector<Index> two_classes;
  for (const Index row : split.kept)
    if (data.labels[row] != 1) two_classes.push_back(row);
  SoftmaxNet net(data);
  EXPECT_THROW(choose_predictor(net, {data, two_classes, {}}, split.held_out, training), Error);
}

}  // namespace
}  // namespace labelshift
