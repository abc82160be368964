#include "labelshift/learning/trainer.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/learning/checkpoint.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "tests/data/scratch.hpp"
#include "tests/learning/softmax_net.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

class TrainerTest : public Scratch {
 protected:
  const Dataset data = gaussian_data(200, 1);
  const std::vector<Index> rows = all_rows(data.size());
  const TrainingExamples examples{data, rows, {}};
};

TEST_F(TrainerTest, GoesOnFromACheckpointWithTheBitsOfAnUnbrokenRun) {
  const TrainingSettings whole{.zeta = 0.3, .epochs = 5, .seed = 7};
  SoftmaxNet unbroken(data);
  const TrainingResult expected = train_predictor(unbroken, examples, whole);
  for (int stop = 1; stop < whole.epochs; ++stop) {
    const RunDescription run = describe_run(unbroken.spec(), examples, whole);
    {
      SoftmaxNet first(data);
      TrainingSettings part = whole;
      part.epochs = stop;
      const TrainingResult result = train_predictor(first, examples, part);
      save_checkpoint(path("c"), run, first, result.state);
    }
    SoftmaxNet second(data);
    TrainingState state = load_checkpoint(path("c"), run, second);
    EXPECT_EQ(std::ssize(state.cross_entropy), stop);
    const TrainingResult result = train_predictor(second, examples, whole, {}, std::move(state));
    EXPECT_THAT(second.parameters(), ElementsAreArray(unbroken.parameters()));
    EXPECT_THAT(second.buffers(), ElementsAreArray(unbroken.buffers()));
    EXPECT_EQ(result.state.cross_entropy, expected.state.cross_entropy);
    EXPECT_EQ(result.state.adam.squares, expected.state.adam.squares);
  }
}

TEST_F(TrainerTest, DependsOnTheSeed) {
  SoftmaxNet one(data), same(data), other(data);
  train_predictor(one, examples, {.epochs = 1, .seed = 1});
  train_predictor(same, examples, {.epochs = 1, .seed = 1});
  train_predictor(other, examples, {.epochs = 1, .seed = 2});
  EXPECT_THAT(same.parameters(), ElementsAreArray(one.parameters()));
  EXPECT_THAT(other.parameters(), testing::Not(ElementsAreArray(one.parameters())));
}

TEST_F(TrainerTest, LearnsToTellClassesApart) {
  SoftmaxNet net(data);
  const TrainingResult result =
      train_predictor(net, examples, {.zeta = 0.0, .epochs = 60, .adam = {.learning_rate = 0.03}});
  // Neighbouring classes are 2 standard deviations apart: the best rule errs at about twice Phi(-1) x 0.7.
  const Evaluation quality =
      evaluate(evaluate_logits(net, data, rows), data.labels, Calibration::identity(data.classes()));
  EXPECT_GT(quality.accuracy, 0.7);
  EXPECT_LT(result.state.cross_entropy.back(), 0.7 * std::log(3.0));
}

TEST_F(TrainerTest, TakesEveryExampleOnceAnEpochInAnotherOrderEachTime) {
  const auto some = std::vector<Index>(rows.begin() + 10, rows.begin() + 139);  // 129 = 2 x 64 + 1
  SoftmaxNet net(data);
  std::vector<std::size_t> sizes;
  std::vector<Index> seen;
  net.watch = [&](const Batch& batch) {
    sizes.push_back(batch.rows.size());
    seen.insert(seen.end(), batch.rows.begin(), batch.rows.end());
  };
  train_predictor(net, {data, some, {}}, {.epochs = 2});
  // No batch of one example, in which a batch norm would have no variance.
  EXPECT_THAT(sizes, ElementsAre(64, 65, 64, 65));
  const std::vector<Index> first(seen.begin(), seen.begin() + 129), second(seen.begin() + 129, seen.end());
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(some));
  EXPECT_THAT(second, testing::UnorderedElementsAreArray(some));
  EXPECT_NE(first, some);
  EXPECT_NE(first, second);
}

TEST_F(TrainerTest, KeepsEachWeightWithItsExample) {
  std::vector<float> weights;
  for (const Index row : rows) weights.push_back(static_cast<float>(row) + 0.5F);
  SoftmaxNet net(data);
  net.watch = [&](const Batch& batch) {
    ASSERT_EQ(batch.weights.size(), batch.rows.size());
    for (std::size_t i = 0; i < batch.rows.size(); ++i)
      EXPECT_EQ(batch.weights[i], static_cast<float>(batch.rows[i]) + 0.5F);
  };
  train_predictor(net, {data, rows, weights}, {.epochs = 1});
}

TEST_F(TrainerTest, StopsBelowAThresholdOfTheCrossEntropyAlone) {
  // With zeta = 1 the objective is that much lower: log 3 - log 3 = 0 at the start. It must not be what is compared.
  SoftmaxNet net(data);
  const TrainingSettings settings{
      .zeta = 1.0, .epochs = 200, .stop_below = 0.95 * std::log(3.0), .adam = {.learning_rate = 0.01}};
  const TrainingResult result = train_predictor(net, examples, settings);
  EXPECT_EQ(result.stopped_by, TrainingStop::kThreshold);
  ASSERT_GT(result.state.cross_entropy.size(), 1U);
  EXPECT_LT(result.state.cross_entropy.back(), settings.stop_below);
  EXPECT_GE(result.state.cross_entropy.end()[-2], settings.stop_below);
  const TrainingResult again = train_predictor(net, examples, settings, {}, result.state);  // nothing left to do
  EXPECT_EQ(again.state.cross_entropy, result.state.cross_entropy);
}

TEST_F(TrainerTest, StopsAtTheStepAfterWhichTheObserverSaysSo) {
  SoftmaxNet net(data);
  std::vector<double> done;
  TrainingHooks hooks;
  hooks.progress = [&](std::string_view, double part) {
    done.push_back(part);
    return done.size() < 5;
  };
  int epochs = 0;
  hooks.epoch = [&](const TrainingState& state) { epochs = static_cast<int>(std::ssize(state.cross_entropy)); };
  EXPECT_THROW(train_predictor(net, examples, {.epochs = 10}, hooks), Stopped);  // 4 steps an epoch
  EXPECT_EQ(epochs, 1);
  EXPECT_THAT(done, ElementsAre(0.032, 0.064, 0.096, 0.1, testing::DoubleNear(0.132, 1e-12)));
}

/// A net that goes wrong at a step.
class FailingNet : public SoftmaxNet {
 public:
  using SoftmaxNet::SoftmaxNet;
  int at = 0;
  bool in_weights = false;

  BatchLoss loss_and_gradient(const Batch& batch, const Objective& objective, std::uint64_t noise) override {
    BatchLoss loss = SoftmaxNet::loss_and_gradient(batch, objective, noise);
    if (++steps_ == at) (in_weights ? parameters()[1] : bad_) = std::numeric_limits<float>::quiet_NaN();
    loss.objective += bad_;
    return loss;
  }

 private:
  int steps_ = 0;
  float bad_ = 0.0F;
};

TEST_F(TrainerTest, SaysAtWhichStepTheLossStoppedBeingANumber) {
  FailingNet net(data);
  net.at = 6;
  int epochs = 0;
  TrainingHooks hooks;
  hooks.epoch = [&](const TrainingState&) { ++epochs; };
  expect_error(ErrorKind::kInput,
               "training step 6 (epoch 2): the loss is nan, expected a finite number; use a smaller learning rate, or "
               "look for extreme values in the data",
               [&] { train_predictor(net, examples, {.epochs = 3}, hooks); });
  EXPECT_EQ(epochs, 1);
}

TEST_F(TrainerTest, NeverReportsAnEpochWhoseWeightsAreNotNumbers) {
  FailingNet net(data);
  net.at = 4;  // the last step of the first epoch: no loss is computed after it
  net.in_weights = true;
  TrainingHooks hooks;
  hooks.epoch = [&](const TrainingState&) { ADD_FAILURE(); };
  expect_error(ErrorKind::kInput,
               "training step 4 (epoch 1): a weight is nan, expected a finite number; use a smaller learning rate, or "
               "look for extreme values in the data",
               [&] { train_predictor(net, examples, {.epochs = 3}, hooks); });
}

TEST_F(TrainerTest, RefusesACheckpointOfAnotherRun) {
  SoftmaxNet net(data);
  const TrainingSettings settings{.zeta = 1.0, .epochs = 1};
  const TrainingResult result = train_predictor(net, examples, settings);
  save_checkpoint(path("c"), describe_run(net.spec(), examples, settings), net, result.state);
  const auto refused = [&](const std::string& difference, const TrainingExamples& other, const TrainingSettings& with) {
    expect_error(ErrorKind::kUsage,
                 "DIR/c is of a training with " + difference +
                     "; go on with the settings it was started with, or keep another checkpoint",
                 [&] { load_checkpoint(path("c"), describe_run(net.spec(), other, with), net); });
  };
  refused("zeta 1, not 0.3", examples, {.zeta = 0.3, .epochs = 1});
  refused("seed 0, not 1", examples, {.epochs = 1, .seed = 1});
  refused("learning-rate 0.001, not 0.01", examples, {.epochs = 1, .adam = {.learning_rate = 0.01}});
  Dataset changed = data;
  changed.labels[5] = (changed.labels[5] + 1) % 3;
  const auto hash = [&](const Dataset& of) { return "200 examples, hash " + fingerprint(of, rows); };
  refused("data " + hash(data) + ", not " + hash(changed), {changed, rows, {}}, settings);
  EXPECT_NO_THROW(load_checkpoint(path("c"), describe_run(net.spec(), examples, {.epochs = 99}), net));
}

TEST_F(TrainerTest, RefusesADamagedCheckpoint) {
  SoftmaxNet net(data);
  const RunDescription run = describe_run(net.spec(), examples, {});
  const auto refused = [&](const std::string& why) {
    expect_error(ErrorKind::kInput, "DIR/c: " + why, [&] { load_checkpoint(path("c"), run, net); });
  };
  const std::string expected = "; expected a checkpoint of a training";
  write_safetensors(path("c"), {}, {});
  refused("__metadata__ has no \"labelshift-checkpoint\"; expected a file that labelshift wrote");
  write_safetensors(path("c"), {}, {{"labelshift-checkpoint", "{"}});
  refused("its description is damaged" + expected);
  write_safetensors(path("c"), {}, {{"labelshift-checkpoint", R"({"run":{}})"}});
  const std::string reads =
      std::string(", which this labelshift ") + version() + " reads; use the other labelshift, or make it again";
  refused("found version 1 of its format, which labelshift 0.3.0 or older wrote, expected version 2" + reads);
  write_safetensors(path("c"), {}, {{"labelshift-checkpoint", R"({"format":3,"labelshift":"9.1","run":{}})"}});
  refused("found version 3 of its format, which labelshift 9.1 wrote, expected version 2" + reads);
  write_safetensors(path("c"), {}, {{"labelshift-checkpoint", R"({"format":2,"run":{}})"}});
  refused("it does not say what batch was" + expected);
  save_checkpoint(path("c"), run, net, {.adam = {.mean = {0.0F}, .squares = {0.0F}}});
  refused("found 0 epochs and 0 steps" + expected);
  save_checkpoint(path("c"), run, net, {{1.0}, {.steps = 4, .mean = {0.0F}, .squares = {0.0F}}});
  refused("tensor \"adam/mean\": found the shape [1], expected [9]");
  net.parameters()[7] = std::numeric_limits<float>::infinity();
  save_checkpoint(path("c"), run, net, {{1.0}, {.steps = 4}});
  refused("tensor \"bias\" holds a number that is not finite");
}

TEST_F(TrainerTest, RefusesACheckpointWithTwoFlippedBits) {
  SoftmaxNet net(data);
  const RunDescription run = describe_run(net.spec(), examples, {});
  const TrainingResult result = train_predictor(net, examples, {.epochs = 1});
  save_checkpoint(path("c"), run, net, result.state);
  load_checkpoint(path("c"), run, net);
  std::string bytes = bytes_of(path("c"));
  for (const std::size_t from_end : {2, 102}) {
    char& byte = bytes[bytes.size() - from_end];
    byte = static_cast<char>(byte ^ 0x40);
  }  // both are finite numbers still
  file("c", bytes);
  expect_error(ErrorKind::kInput,
               "DIR/c: its bytes are not those it was written with, by its SHA-256; copy it again, or make it again",
               [&] { load_checkpoint(path("c"), run, net); });
}

TEST_F(TrainerTest, EvaluatesInPiecesAsItDoesAtOnce) {
  const Dataset many = gaussian_data(2 * kEvaluationRows + 7, 3);
  const std::vector<Index> every = all_rows(many.size());
  SoftmaxNet net(many);
  train_predictor(net, {many, every, {}}, {.epochs = 1});
  const RowMajorMatrix<float> whole = evaluate_logits(net, many, every);
  const RowMajorMatrix<float> tail = evaluate_logits(net, many, std::span(every).subspan(kEvaluationRows));
  EXPECT_EQ(whole.bottomRows(tail.rows()), tail);
  Dataset unlabelled = many;
  unlabelled.labels.clear();
  expect_error(ErrorKind::kInput, "the data set has no labels, and this needs them",
               [&] { labels_of(unlabelled, every); });
}

TEST_F(TrainerTest, JudgesByHandComputedNumbers) {
  RowMajorMatrix<float> logits(2, 2);
  logits << 0.0F, std::log(3.0F), std::log(3.0F), 0.0F;  // (1/4, 3/4) and (3/4, 1/4)
  const Evaluation quality = evaluate(logits, std::vector{1, 1}, Calibration::identity(2));
  EXPECT_DOUBLE_EQ(quality.accuracy, 0.5);
  EXPECT_NEAR(quality.quality.nll, -0.5 * std::log(3.0 / 16.0), 1e-6);
  EXPECT_NEAR(quality.quality.ece, 0.25, 1e-6);
}

}  // namespace
}  // namespace labelshift
