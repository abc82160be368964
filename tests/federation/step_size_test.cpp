#include "labelshift/federation/step_size.hpp"

#include <gmock/gmock.h>

#include <Eigen/Core>
#include <cmath>

#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

FederationSettings theorem_settings(const std::string& algorithm) {
  FederationSettings settings = quick_settings();
  settings.algorithm = algorithm;
  settings.server = {.optimiser = "sgd", .learning_rate = 4.0, .weight_decay = 0.0};
  settings.compression = {.codec = "random-k", .kept = 0.5};
  settings.local.steps = 5;
  settings.step.rule = StepRule::kTheorem;
  return settings;
}

TEST(TheoremStep, IsThatOfTheoremF1) {
  FederationSettings settings = theorem_settings("fedcom");
  settings.step.smoothness = 3.0;
  // 1 / (2 r_max beta gamma tau (q / K + 1))
  const StepFacts facts{.largest_weight = 7.0, .compression_variance = 6.0, .nodes = 4.0};
  EXPECT_DOUBLE_EQ(theorem_step(settings, facts).rate, 1.0 / (2 * 7.0 * 3.0 * 4.0 * 5.0 * (6.0 / 4.0 + 1.0)));
  settings.algorithm = "fedcomgate";
  EXPECT_DOUBLE_EQ(theorem_step(settings, facts).rate, 1.0 / (2 * 7.0 * 3.0 * 4.0 * 5.0 * (6.0 / 4.0 + 1.0)));
  settings.algorithm = "fedcom";
  settings.local.steps = 1;  // the server steps, by gamma eta
  EXPECT_DOUBLE_EQ(theorem_step(settings, facts).rate, 1.0 / (2 * 7.0 * 3.0 * (6.0 / 4.0 + 1.0)));
}

TEST(TheoremStep, IsThatOfTheorem55) {
  FederationSettings settings = theorem_settings("fedavg");
  settings.local.steps = 1;
  settings.rounds = 400;
  settings.step.smoothness = 3.0;
  EXPECT_DOUBLE_EQ(theorem_step(settings, {.largest_weight = 7.0, .whole_batches = true}).rate, 1.0 / 21.0);
  settings.step.noise = 0.2;  // sigma^2 r_max beta T = 336
  EXPECT_DOUBLE_EQ(theorem_step(settings, {.largest_weight = 7.0}).rate, 1.0 / 21.0);
  settings.step.noise = 2.0;
  EXPECT_DOUBLE_EQ(theorem_step(settings, {.largest_weight = 7.0}).rate, 1.0 / std::sqrt(4.0 * 21.0 * 400.0));
}

TEST(TheoremStep, ComputesBetaOfLogisticRegressionFromTheLargestExample) {
  FederationSettings settings = theorem_settings("fedavg");
  settings.local.steps = 1;
  settings.step.noise = 0.0;
  EXPECT_DOUBLE_EQ(theorem_step(settings, {.largest_square = 9.0}).rate, 1.0 / 5.0);
  settings.server.weight_decay = 0.5;
  EXPECT_DOUBLE_EQ(theorem_step(settings, {.largest_square = 9.0}).rate, 1.0 / 5.5);
  // No example is curved more than beta, in any direction: with one bias and two columns.
  Rng rng(3);
  for (int trial = 0; trial < 200; ++trial) {
    const Eigen::Vector3d x(rng.normal(), rng.normal(), 1.0);
    Eigen::Array3d f(rng.uniform(), rng.uniform(), rng.uniform());
    f /= f.sum();
    const Eigen::Matrix3d softmax = Eigen::Matrix3d(f.matrix().asDiagonal()) - f.matrix() * f.matrix().transpose();
    Eigen::Matrix3d direction;
    for (double& one : direction.reshaped()) one = rng.normal();
    direction.normalize();
    const Eigen::Vector3d moved = direction * x;
    EXPECT_LE(moved.dot(softmax * moved), 0.5 * x.squaredNorm() + 1e-12);
  }
}

TEST(TheoremStep, IsMadeOfWhatTheNodesHave) {
  const FederatedData data = gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}});
  FederationSettings settings = theorem_settings("fedcom");
  settings.rounds = 3;
  settings.evaluate_every = 3;
  settings.ratio.method = "true";
  const FederationState end = LocalFederation(settings, data).run();
  double largest = 0.0;  // |x|^2
  const Normalisation& n = end.normalisation;
  for (const NodeData& node : data.nodes) {
    const auto& x = std::get<std::vector<float>>(node.train->values);
    for (std::size_t i = 0; i < x.size(); i += 2)
      largest = std::max(
          largest, std::pow((x[i] - n.mean[0]) * n.scale[0], 2.0) + std::pow((x[i + 1] - n.mean[1]) * n.scale[1], 2.0));
  }
  const double beta = 0.5 * (largest + 1.0), q = end.compression_variance;
  ASSERT_GT(q, 0.0);
  ASSERT_TRUE(end.step);
  EXPECT_NEAR(end.step->smoothness, beta, 1e-6 * beta);  // x is normalised in float32 here
  EXPECT_EQ(end.step->largest_weight, end.largest_weight);
  EXPECT_NEAR(end.step->rate, 1.0 / (2.0 * end.largest_weight * beta * 4.0 * 5.0 * (q / 2.0 + 1.0)), 1e-9);
  // The nodes take steps of this length.
  FederationSettings given = settings;
  given.step = {};
  given.local.learning_rate = end.step->rate;
  EXPECT_EQ(LocalFederation(given, data).run().parameters, end.parameters);
  given.local.learning_rate = 2.0 * end.step->rate;
  EXPECT_NE(LocalFederation(given, data).run().parameters, end.parameters);
}

TEST(TheoremStep, IsTheServersWhereNodesSendGradients) {
  const FederatedData data = gaussian_federation({{{12, 3, 3}, {3, 9, 3}}});
  FederationSettings settings = theorem_settings("fedavg");
  settings.compression = {};
  settings.local.steps = 1;
  settings.rounds = 3;
  settings.evaluate_every = 3;
  settings.step.noise = 0.1;
  const FederationState end = LocalFederation(settings, data).run();
  EXPECT_EQ(end.step->noise, 0.1);
  FederationSettings given = settings;
  given.step = {};
  given.server.learning_rate = end.step->rate;
  EXPECT_EQ(LocalFederation(given, data).run().parameters, end.parameters);
}

TEST(TheoremStep, TakesNoNoiseForGrantedWhereBatchesArePartsOfWhatANodeHas) {
  const FederatedData data = gaussian_federation({{{12, 3, 3}, {3, 9, 3}}});  // 18 examples
  FederationSettings settings = theorem_settings("iw-erm");
  settings.ratio.method = "true";
  settings.compression = {};
  settings.local.steps = 1;
  settings.rounds = 1;
  settings.evaluate_every = 1;
  settings.local.batch = 17;
  expect_refused("give it as noise, or noise = 0 where a batch is all that a node has",
                 [&] { LocalFederation(settings, data).run(); });
  settings.step.noise = 0.0;
  const double rate = LocalFederation(settings, data).run().step->rate;
  settings.step.noise.reset();
  settings.local.batch = 18;
  const FederationState whole = LocalFederation(settings, data).run();
  EXPECT_EQ(whole.step->rate, rate);
  EXPECT_EQ(whole.step->noise, 0.0);
  // Thm. F.1 has no sigma.
  settings = theorem_settings("fedcom");
  settings.rounds = 1;
  settings.evaluate_every = 1;
  EXPECT_FALSE(LocalFederation(settings, data).run().step->noise);
}

TEST(TheoremStep, CountsTheNodesOfARound) {
  const FederatedData data = gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}});
  FederationSettings settings = theorem_settings("fedcom");
  settings.rounds = 1;
  settings.step.smoothness = 3.0;
  const FederationState all = LocalFederation(settings, data).run();
  settings.sampled = 1;
  const FederationState one = LocalFederation(settings, data).run();
  EXPECT_DOUBLE_EQ(one.step->rate / all.step->rate,
                   (all.compression_variance / 2.0 + 1.0) / (all.compression_variance + 1.0));
}

TEST(TheoremStep, HasTheRangeOfALearningRate) {
  FederationSettings settings = theorem_settings("fedcom");
  for (const double beta : {1e300, 1e-30}) {
    settings.step.smoothness = beta;
    expect_refused("expected a number from 1e-30 to 1000000", [&] { theorem_step(settings, {}); });
  }
}

TEST(TheoremStep, RefusesWhatNoTheoremIsAbout) {
  const auto refused = [&](const std::string& part, const auto& change) {
    FederationSettings settings = theorem_settings("fedcom");
    change(settings);
    expect_refused(part, [&] { check_settings(settings, 2); });
  };
  check_settings(theorem_settings("fedcom"), 2);
  refused("no theorem gives the step of scaffold", [](auto& s) { s.algorithm = "scaffold"; });
  refused("which is about one local step", [](auto& s) { s.algorithm = "fedavg"; });
  refused("of at least the number of nodes; give learning-rate = 2", [](auto& s) { s.server.learning_rate = 1.9; });
  refused("instead of local-epochs", [](auto& s) {
    s.local.steps = 1;
    s.local.epochs = 2;
  });
  refused("without momentum", [](auto& s) {
    s.algorithm = "fedavg";
    s.local.steps = 1;
    s.server.optimiser = "adam";
  });
  refused("give smoothness for mlp", [](auto& s) { s.model = {"mlp", {}}; });
  FederationSettings settings = theorem_settings("fedcom");
  const StepFacts secret{.largest_square = std::nullopt};
  expect_refused("give it as smoothness", [&] { theorem_step(settings, secret); });
  const StepFacts hidden{.largest_weight = kUnknown};
  expect_refused("cut them by max-ratio", [&] { theorem_step(settings, hidden); });
  settings.ratio.max_ratio = 5.0;
  EXPECT_DOUBLE_EQ(theorem_step(settings, hidden).rate, theorem_step(settings, {.largest_weight = 5.0}).rate);
  EXPECT_EQ(theorem_step(settings, hidden).largest_weight, 5.0);
}

}  // namespace
}  // namespace labelshift
