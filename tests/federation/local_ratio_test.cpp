#include "labelshift/federation/local_ratio.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/methods.hpp"
#include "labelshift/learning/model_selection.hpp"
#include "labelshift/learning/trainer.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

using Eigen::Vector2d;
using Eigen::Vector3d;
using Eigen::VectorXd;
using testing::HasSubstr;
using testing::IsEmpty;

const std::atomic<bool> kGoOn = false;

/// A net whose logits are the values of the example.
class EchoNet : public Net {
 public:
  explicit EchoNet(Index classes) { spec_.classes = classes; }
  const NetSpec& spec() const override { return spec_; }
  std::span<const TensorPlace> tensors() const override { return {}; }
  std::span<float> parameters() override { return {}; }
  std::span<float> buffers() override { return {}; }
  std::span<const float> gradient() const override { return {}; }
  BatchLoss loss_and_gradient(const Batch&, const Objective&, std::uint64_t) override { return {}; }
  void logits(const Dataset& data, std::span<const Index> rows, std::span<float> out) override {
    ++calls;
    const Index m = data.shape.size();
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(&std::get<std::vector<float>>(data.values)[rows[i] * m], m, &out[i * m]);
  }
  int calls = 0;

 private:
  NetSpec spec_;
};

/// So many examples of these logits (m).
struct Alike {
  int count;
  std::vector<double> logits;
};

Dataset examples_of(const std::vector<Alike>& groups) {
  Dataset data;
  std::vector<float> values;
  data.shape = {1, 1, std::ssize(groups[0].logits)};
  for (std::size_t c = 0; c < groups[0].logits.size(); ++c) data.class_names.push_back("class-" + std::to_string(c));
  for (const Alike& group : groups)
    for (int i = 0; i < group.count; ++i) values.insert(values.end(), group.logits.begin(), group.logits.end());
  data.values = std::move(values);
  return data;
}

// An example looks like A or like B: p(A | 0) = 0.8, p(A | 1) = 0.2. Of a target with q = (1/4, 3/4) a share of 0.35
// looks like A, 7 of 20. Logits are floats, so that posteriors are right to 1e-7 and q to a few times that.
constexpr double kExact = 2e-6;

/// The posteriors of A and B where class 0 has this share of the source.
Dataset seven_of_twenty(double prior) {
  return examples_of({{7, {std::log(0.8 * prior), std::log(0.2 * (1.0 - prior))}},
                      {13, {std::log(0.2 * prior), std::log(0.8 * (1.0 - prior))}}});
}

VectorXd estimated(const VectorXd& prior, const SourceFit& fit, const std::string& estimator, const Dataset& target) {
  EchoNet net(prior.size());
  return estimate_target_prior(net, prior, fit, estimator, target, all_rows(target.size()));
}

SourceFit uncalibrated(const VectorXd& prior) {
  return known_fit(Calibration::identity((prior.array() > 0.0).count()), prior);
}

TEST(EstimateTargetPrior, FindsTheTargetFromExactPosteriors) {
  for (const double share : {0.5, 0.75, 0.1}) {
    const Vector2d prior(share, 1.0 - share);
    for (const char* estimator : {"mlls-sqp", "mlls-em"}) {
      const VectorXd q = estimated(prior, uncalibrated(prior), estimator, seven_of_twenty(share));
      // EM stops earlier: the tests of core bound how far off it is.
      const double tolerance = std::string(estimator) == "mlls-em" ? 1e-3 : kExact;
      EXPECT_LE((q - Vector2d(0.25, 0.75)).lpNorm<1>(), tolerance) << estimator << ", " << share;
    }
  }
}

TEST(EstimateTargetPrior, IsTheSourcePriorWhereNothingShifted) {
  const Vector2d prior(0.5, 0.5);
  const Dataset target = examples_of({{10, {std::log(0.8), std::log(0.2)}}, {10, {std::log(0.2), std::log(0.8)}}});
  EXPECT_LE((estimated(prior, uncalibrated(prior), "mlls-sqp", target) - prior).lpNorm<1>(), kExact);
}

TEST(EstimateTargetPrior, LooksAtTheRowsItIsGivenAlone) {
  const Dataset target = seven_of_twenty(0.5);
  std::vector<Index> rows = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};  // 7 of each look
  EchoNet net(2);
  const Vector2d prior(0.5, 0.5);
  const VectorXd q = estimate_target_prior(net, prior, uncalibrated(prior), "mlls-sqp", target, rows);
  EXPECT_LE((q - prior).lpNorm<1>(), kExact);
}

TEST(EstimateTargetPrior, GivesNothingToAClassThatTheNodeDoesNotHold) {
  // The predictor is sure of class 1, of which it has seen no example: f is renormalised over the others.
  const Dataset target =
      examples_of({{7, {std::log(0.8), 50.0, std::log(0.2)}}, {13, {std::log(0.2), 50.0, std::log(0.8)}}});
  const Vector3d prior(0.5, 0.0, 0.5);
  const VectorXd q = estimated(prior, uncalibrated(prior), "mlls-sqp", target);
  EXPECT_LE((q - Vector3d(0.25, 0.0, 0.75)).lpNorm<1>(), kExact);
  EXPECT_EQ(q[1], 0.0);
}

TEST(EstimateTargetPrior, CalibratesFirst) {
  Dataset target = seven_of_twenty(0.5);
  for (float& value : std::get<std::vector<float>>(target.values)) value *= 2.0F;  // twice as sure as it may be
  const Vector2d prior(0.5, 0.5);
  const Calibration halved{.scale = Vector2d(0.5, 0.5), .bias = Vector2d(0.0, 0.0)};
  EXPECT_LE((estimated(prior, known_fit(halved, prior), "mlls-sqp", target) - Vector2d(0.25, 0.75)).lpNorm<1>(),
            kExact);
  EXPECT_GT((estimated(prior, uncalibrated(prior), "mlls-sqp", target) - Vector2d(0.25, 0.75)).lpNorm<1>(), 0.05);
}

TEST(EstimateTargetPrior, SolvesWithTheConfusionMatrixWhereThereIsOne) {
  // 0.4 r_0 + 0.1 r_1 = 0.35 and 0.1 r_0 + 0.4 r_1 = 0.65: r = (1/2, 3/2).
  const Vector2d prior(0.5, 0.5);
  SourceFit fit = uncalibrated(prior);
  fit.summary.confusion = Eigen::Matrix2d{{0.4, 0.1}, {0.1, 0.4}};
  EXPECT_LE((estimated(prior, fit, "bbse", seven_of_twenty(0.5)) - Vector2d(0.25, 0.75)).lpNorm<1>(), 1e-12);
}

TEST(EstimateTargetPrior, RefusesAConfusionMatrixThatCouldNotBeMade) {
  const Vector2d prior(0.5, 0.5);
  for (const std::string estimator : {"bbse", "bbse-soft", "rlls"})
    expect_error(ErrorKind::kInput,
                 estimator +
                     " needs source examples that the predictor was not trained on, and this node has too few to hold "
                     "any out; use a likelihood method such as vrls",
                 [&] { estimated(prior, uncalibrated(prior), estimator, seven_of_twenty(0.5)); });
}

TEST(EstimateTargetPrior, NamesTheClassesThatAnErrorCounts) {
  const Vector3d prior(0.5, 0.0, 0.5);
  SourceFit fit = uncalibrated(prior);
  fit.summary.confusion = Eigen::Matrix2d{{0.5, 0.5}, {0.0, 0.0}};
  const Dataset target = examples_of({{3, {1.0, 0.0, 0.0}}});
  expect_error(ErrorKind::kInput,
               "no source example is predicted as class 1, so the confusion matrix is singular; use bbse-soft or an "
               "mlls estimator (its classes, from 0: class-0, class-2)",
               [&] { estimated(prior, fit, "bbse", target); });
}

TEST(EstimateTargetPrior, AsksNoPredictorWhereThereIsNothingToTellApart) {
  EchoNet net(3);
  const Dataset target = examples_of({{2, {1.0, 2.0, 3.0}}});
  const Vector3d one(0.0, 1.0, 0.0);
  EXPECT_EQ(estimate_target_prior(net, one, uncalibrated(one), "bbse", target, all_rows(2)), one);
  const Vector3d three(0.2, 0.3, 0.5);  // and no test examples: no target
  EXPECT_EQ(estimate_target_prior(net, three, uncalibrated(three), "mlls-sqp", target, {}), Vector3d::Zero());
  EXPECT_EQ(net.calls, 0);
}

TEST(KnownFit, IsOfTheClassesThatAreThere) {
  const Vector3d prior(0.25, 0.0, 0.75);
  const SourceFit fit = known_fit(Calibration::identity(2), prior);
  EXPECT_EQ(fit.summary.label_prior, Vector2d(0.25, 0.75));
  EXPECT_FALSE(fit.summary.confusion);
  EXPECT_FALSE(fit.summary.soft_confusion);
}

/// Labels alone, in blocks of these sizes.
Dataset labelled(const ClassCounts& counts) {
  return *gaussian_examples(counts, 1);
}

std::vector<Index> sorted_union(const PredictorRows& rows) {
  std::vector<Index> all = rows.train;
  all.insert(all.end(), rows.held_out.begin(), rows.held_out.end());
  std::sort(all.begin(), all.end());
  return all;
}

TEST(PredictorRowsTest, AreAllWhereTheMethodHoldsNothingOut) {
  const Dataset data = labelled({10, 20});
  const PredictorRows part = predictor_rows(data, all_rows(30), {.method = "mlls"}, 3);
  EXPECT_EQ(part.train, all_rows(30));
  EXPECT_THAT(part.held_out, IsEmpty());
}

TEST(PredictorRowsTest, HoldOutAShareOfEveryClass) {
  const Dataset data = labelled({10, 20, 30});
  for (const char* method : {"vrls", "bbse", "auto"}) {
    const PredictorRows part = predictor_rows(data, all_rows(60), {.method = method, .held_out = 0.2}, 3);
    EXPECT_EQ(sorted_union(part), all_rows(60)) << method;
    EXPECT_EQ(class_counts(data.labels, part.held_out, 3), (ClassCounts{2, 4, 6})) << method;
  }
}

TEST(PredictorRowsTest, KeepTheOnlyExampleOfAClassForTraining) {
  const Dataset data = labelled({10, 1});
  const PredictorRows part = predictor_rows(data, all_rows(11), {.method = "vrls", .held_out = 0.5}, 3);
  EXPECT_EQ(class_counts(data.labels, part.held_out, 2), (ClassCounts{5, 0}));
  EXPECT_EQ(class_counts(data.labels, part.train, 2), (ClassCounts{5, 1}));
  EXPECT_THAT(predictor_rows(labelled({1, 1}), all_rows(2), {.method = "vrls"}, 3).held_out, IsEmpty());
}

TEST(PredictorRowsTest, AreAFractionOfWhatTheNodeHasBeforeAnyAreHeldOut) {
  const Dataset data = labelled({20, 40});
  const std::vector<Index> rows = all_rows(60);
  const PredictorRows plain = predictor_rows(data, rows, {.method = "mlls", .fraction = 0.25}, 3);
  EXPECT_EQ(class_counts(data.labels, plain.train, 2), (ClassCounts{5, 10}));
  const PredictorRows both = predictor_rows(data, rows, {.method = "vrls", .fraction = 0.5, .held_out = 0.2}, 3);
  EXPECT_EQ(class_counts(data.labels, both.train, 2), (ClassCounts{8, 16}));
  EXPECT_EQ(class_counts(data.labels, both.held_out, 2), (ClassCounts{2, 4}));
}

TEST(PredictorRowsTest, AreAmongTheRowsOfTheNodeAndDependOnTheSeedAlone) {
  const Dataset data = labelled({20, 40});
  std::vector<Index> rows;
  for (Index row = 0; row < 60; row += 2) rows.push_back(row);
  const RatioSettings settings{.method = "vrls", .fraction = 0.5};
  const PredictorRows part = predictor_rows(data, rows, settings, 3);
  for (const Index row : sorted_union(part)) EXPECT_EQ(row % 2, 0);
  const PredictorRows again = predictor_rows(data, rows, settings, 3);
  EXPECT_EQ(again.train, part.train);
  EXPECT_EQ(again.held_out, part.held_out);
  EXPECT_NE(sorted_union(predictor_rows(data, rows, settings, 4)), sorted_union(part));
}

TEST(PredictorRowsTest, SuggestAMethodForAMisspeltOne) {
  const Dataset data = labelled({10, 20});
  try {
    predictor_rows(data, all_rows(30), {.method = "vlrs"}, 3);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("did you mean \"vrls\"?"));
  }
}

constexpr std::uint64_t kSeed = 5;

RatioSettings quick_ratio(const std::string& method) {
  RatioSettings settings = quick_settings().ratio;
  settings.method = method;
  settings.epochs = 3;
  return settings;
}

NetSpec logistic_for(const Dataset& data) {
  return {.name = "logistic", .settings = {}, .shape = data.shape, .classes = data.classes(), .normalisation = {}};
}

LocalPredictor trained(const RatioSettings& settings, const Dataset& data) {
  return train_local_predictor(settings, logistic_for(data), data, all_rows(data.size()), kSeed, Device::kCpu, kGoOn);
}

std::vector<float> weights_of(Net& net) {
  return {net.parameters().begin(), net.parameters().end()};
}

TEST(TrainLocalPredictor, TrainsWhatTheMethodSaysOnTheRowsItMaySee) {
  const Dataset data = *gaussian_examples({30, 20, 10}, 7);
  for (const char* method : {"mlls", "vrls-raw", "vrls"}) {
    const RatioSettings settings = quick_ratio(method);
    const LocalPredictor predictor = trained(settings, data);
    const PredictorRows part = predictor_rows(data, all_rows(60), settings, kSeed);
    const auto net = make_net(logistic_for(data), kSeed);
    train_predictor(*net, {data, part.train, {}},
                    {.zeta = *find_method(method).zeta,
                     .epochs = 3,
                     .adam = {.learning_rate = settings.learning_rate, .weight_decay = settings.weight_decay},
                     .seed = kSeed});
    EXPECT_EQ(weights_of(*predictor.net), weights_of(*net)) << method;
    EXPECT_EQ(predictor.source_prior, empirical_prior(class_counts(data.labels, part.train, 3))) << method;
    EXPECT_EQ(predictor.fit.summary.label_prior, predictor.source_prior) << method;
  }
}

TEST(TrainLocalPredictor, StopsWhereTheLossIsLowEnough) {
  const Dataset data = *gaussian_examples({30, 20, 10}, 7);
  RatioSettings settings = quick_ratio("mlls");
  settings.epochs = 1;
  const std::vector<float> one = weights_of(*trained(settings, data).net);
  settings.epochs = 3;
  settings.stop_below = 100.0;
  EXPECT_EQ(weights_of(*trained(settings, data).net), one);
}

TEST(TrainLocalPredictor, CalibratesOnWhatWasHeldOut) {
  const Dataset data = *gaussian_examples({60, 40, 20}, 7);
  const RatioSettings settings = quick_ratio("vrls");
  const LocalPredictor predictor = trained(settings, data);
  const PredictorRows part = predictor_rows(data, all_rows(120), settings, kSeed);
  const RowMajorMatrix<float> logits = evaluate_logits(*predictor.net, data, part.held_out);
  const SourceFit expected =
      fit_source(CalibrationKind::kBiasCorrected, {{logits, true}, labels_of(data, part.held_out), {}},
                 empirical_prior(class_counts(data.labels, part.train, 3)));
  EXPECT_EQ(predictor.fit.calibration.scale, expected.calibration.scale);
  EXPECT_EQ(predictor.fit.calibration.bias, expected.calibration.bias);
  ASSERT_TRUE(predictor.fit.summary.confusion && predictor.fit.summary.soft_confusion);
  EXPECT_EQ(*predictor.fit.summary.confusion, *expected.summary.confusion);
  EXPECT_NE(predictor.fit.calibration.scale[0], 1.0);
  EXPECT_GT(predictor.fit.calibration.bias.norm(), 0.0);
}

TEST(TrainLocalPredictor, NumbersTheClassesThatItsNodeHolds) {
  // The node lacks class 1. Its predictor is that of a node of two classes but for one more output.
  const Dataset data = *gaussian_examples({40, 0, 40}, 7);
  const RatioSettings settings = quick_ratio("vrls");
  const LocalPredictor predictor = trained(settings, data);
  EXPECT_EQ(predictor.source_prior, Vector3d(0.5, 0.0, 0.5));
  EXPECT_EQ(predictor.fit.summary.label_prior, Vector2d(0.5, 0.5));
  const PredictorRows part = predictor_rows(data, all_rows(80), settings, kSeed);
  const RowMajorMatrix<float> all = evaluate_logits(*predictor.net, data, part.held_out);
  RowMajorMatrix<float> logits(all.rows(), 2);
  logits << all.col(0), all.col(2);
  std::vector<int> labels;
  for (const int label : labels_of(data, part.held_out)) labels.push_back(label / 2);
  const SourceFit expected =
      fit_source(CalibrationKind::kBiasCorrected, {{logits, true}, labels, {}}, Vector2d(0.5, 0.5));
  EXPECT_EQ(predictor.fit.calibration.scale, expected.calibration.scale);
  EXPECT_EQ(predictor.fit.calibration.bias, expected.calibration.bias);
  EXPECT_EQ(*predictor.fit.summary.confusion, *expected.summary.confusion);
}

TEST(TrainLocalPredictor, FitsNoBiasToAClassWithoutHeldOutExamples) {
  const Dataset data = *gaussian_examples({40, 1, 40}, 7);
  const LocalPredictor predictor = trained(quick_ratio("vrls"), data);
  EXPECT_EQ(predictor.fit.calibration.bias, Vector3d::Zero());
  EXPECT_EQ(predictor.fit.calibration.scale, Vector3d::Constant(predictor.fit.calibration.scale[0]));
  EXPECT_GT(predictor.source_prior[1], 0.0);
}

TEST(TrainLocalPredictor, CalibratesNothingWhereNothingCanBeHeldOut) {
  const Dataset data = *gaussian_examples({1, 1, 1}, 7);
  const LocalPredictor predictor = trained(quick_ratio("vrls"), data);
  EXPECT_EQ(predictor.fit.calibration.scale, Vector3d::Ones());
  EXPECT_EQ(predictor.fit.calibration.bias, Vector3d::Zero());
  EXPECT_FALSE(predictor.fit.summary.confusion);
}

TEST(TrainLocalPredictor, TrainsNothingWhereThereIsOneClass) {
  const Dataset data = *gaussian_examples({0, 9, 0}, 7);
  for (const char* method : {"mlls", "vrls", "bbse"}) {
    const LocalPredictor predictor = trained(quick_ratio(method), data);
    EXPECT_EQ(weights_of(*predictor.net), weights_of(*make_net(logistic_for(data), kSeed))) << method;
    EXPECT_EQ(predictor.source_prior, Vector3d(0.0, 1.0, 0.0));
    EXPECT_EQ(predictor.fit.summary.label_prior, VectorXd::Ones(1));
  }
}

TEST(TrainLocalPredictor, FindsTheTargetOfItsNode) {
  const Dataset source = *gaussian_examples({200, 200, 200}, 7);
  const Dataset target = *gaussian_examples({50, 100, 450}, 8);
  RatioSettings settings = quick_ratio("vrls");
  settings.epochs = 20;
  const LocalPredictor predictor = trained(settings, source);
  const VectorXd q =
      estimate_target_prior(*predictor.net, predictor.source_prior, predictor.fit, "mlls-sqp", target, all_rows(600));
  EXPECT_NEAR(q.sum(), 1.0, 1e-9);
  // 600 examples that are told apart nine times in ten: a standard error of about 0.02 an entry, and as much again from
  // the calibration on 120 examples. Without an estimate the entries are off by 0.25, 0.17 and 0.42.
  EXPECT_LE((q - Vector3d(1.0 / 12.0, 1.0 / 6.0, 0.75)).lpNorm<Eigen::Infinity>(), 0.1);
}

TEST(EstimateLocally, HasIntervalsThatHoldTheTruthAsOftenAsTheySay) {
  constexpr int kNodes = 60;
  const Vector3d truth(0.1, 0.25, 0.65);
  RatioSettings settings = quick_ratio("vrls");
  settings.epochs = 20;
  for (const char* estimator : {"mlls-sqp", "bbse", "bbse-soft"}) {
    int held = 0;
    for (int node = 0; node < kNodes; ++node) {
      const auto seed = static_cast<std::uint64_t>(100 + node);
      const LocalPredictor predictor = trained(settings, *gaussian_examples({150, 150, 150}, seed));
      const Dataset target = *gaussian_examples({40, 100, 260}, seed + 1000);
      const LocalEstimate found = estimate_locally(predictor, estimator, target, all_rows(400));
      EXPECT_EQ(found.prior, estimate_target_prior(*predictor.net, predictor.source_prior, predictor.fit, estimator,
                                                   target, all_rows(400)));
      ASSERT_EQ(found.low.size(), 3);
      EXPECT_TRUE((found.low.array() <= found.prior.array()).all() &&
                  (found.prior.array() <= found.high.array()).all());
      EXPECT_LT((found.high - found.low).maxCoeff(), 0.5);
      held += static_cast<int>((found.low.array() <= truth.array() && truth.array() <= found.high.array()).count());
    }
    // 180 intervals of 95 %, three of a node: 3.4 standard errors of 60 independent nodes below. Targets of fixed
    // counts vary less than those that intervals are for.
    EXPECT_GE(held, 155) << estimator;
  }
}

TEST(EstimateLocally, HasIntervalsOnlyWhereEveryClassHasHeldOutExamples) {
  const Dataset target = *gaussian_examples({50, 50, 50}, 8);
  const auto low_of = [&](const char* method, const std::vector<Index>& counts) {
    const LocalPredictor predictor = trained(quick_ratio(method), *gaussian_examples(counts, 7));
    const LocalEstimate found = estimate_locally(predictor, "mlls-sqp", target, all_rows(150));
    EXPECT_EQ(found.prior.size(), 3);
    EXPECT_EQ(found.high.size(), found.low.size());
    return found.low.size();
  };
  for (const char* method : {"vrls", "auto"}) EXPECT_EQ(low_of(method, {60, 40, 20}), 3) << method;
  EXPECT_EQ(low_of("vrls-raw", {60, 40, 20}), 0);  // holds nothing out
  EXPECT_EQ(low_of("vrls", {60, 40, 1}), 0);
  EXPECT_EQ(low_of("vrls", {60, 40, 0}), 0);
  EXPECT_EQ(low_of("vrls", {60, 0, 0}), 0);
}

TEST(TrainLocalPredictor, StopsWhereItIsCancelled) {
  const Dataset data = *gaussian_examples({30, 20, 10}, 7);
  const std::atomic<bool> cancelled = true;
  for (const char* method : {"mlls", "vrls", "auto"})
    EXPECT_THROW(train_local_predictor(quick_ratio(method), logistic_for(data), data, all_rows(60), kSeed, Device::kCpu,
                                       cancelled),
                 Stopped)
        << method;
}

TEST(TrainLocalPredictor, ChoosesZetaAndCalibrationWithAuto) {
  const Dataset data = *gaussian_examples({60, 40, 20}, 7);
  const RatioSettings settings = quick_ratio("auto");
  const LocalPredictor predictor = trained(settings, data);
  const PredictorRows part = predictor_rows(data, all_rows(120), settings, kSeed);
  const auto net = make_net(logistic_for(data), kSeed);
  const Selection expected =
      choose_predictor(*net, {data, part.train, {}}, part.held_out,
                       {.epochs = 3,
                        .adam = {.learning_rate = settings.learning_rate, .weight_decay = settings.weight_decay},
                        .seed = kSeed});
  EXPECT_EQ(weights_of(*predictor.net), weights_of(*net));
  EXPECT_EQ(predictor.fit.calibration.scale, expected.calibration.calibration.scale);
  EXPECT_EQ(predictor.fit.calibration.bias, expected.calibration.calibration.bias);
  EXPECT_EQ(predictor.fit.summary.label_prior, predictor.source_prior);
}

TEST(TrainLocalPredictor, NeedsEveryClassForAuto) {
  const Dataset data = *gaussian_examples({30, 0, 20, 0}, 7);
  expect_error(ErrorKind::kInput,
               "method auto judges predictors by examples of every class, and there is none of b, d; use another "
               "method, or the federated predictor",
               [&] { trained(quick_ratio("auto"), data); });
}

}  // namespace
}  // namespace labelshift
