#include <gtest/gtest.h>

#include <Eigen/Core>

#include "tests/federation/gaussian_federation.hpp"
#include "tests/federation/true_weights.hpp"

// fafed_test.cpp has FAFED without importance weights.

namespace labelshift {
namespace {

using Eigen::ArrayXf;

TEST(WeightedFaFed, IsAlgorithm2OfWuEtAlOfTheWeightedLoss) {
  const FederatedData data = gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}});
  FederationSettings settings = quick_settings();
  settings.algorithm = "fafed";
  settings.ratio.method = "true";
  settings.rounds = 6;
  settings.evaluate_every = 6;
  settings.local = {.steps = 3, .batch = 64, .learning_rate = 0.1};  // whole nodes
  settings.server = {.optimiser = "adam", .weight_decay = 0.0, .beta1 = 0.7, .beta2 = 0.9, .epsilon = 0.05};
  LocalFederation federation(settings, data);
  std::vector<float> initial;
  const FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                                if (state.round == 0) initial = state.parameters;
                                              })});
  const auto net = global_model(settings, federation.task(), end);
  // Of the weighted batch at its own two points: the new weights, and those before the step.
  const auto gradient = [&](Index k, const ArrayXf& w) -> ArrayXf {
    std::copy(w.begin(), w.end(), net->parameters().begin());
    net->loss_and_gradient({*data.nodes[k].train, data.nodes[k].train_rows, true_weights(data, k)}, {}, 0);
    return Eigen::Map<const ArrayXf>(net->gradient().data(), w.size());
  };
  ArrayXf x = Eigen::Map<ArrayXf>(initial.data(), std::ssize(initial));
  ArrayXf m = (gradient(0, x) + gradient(1, x)) / 2;
  ArrayXf v = (gradient(0, x).square() + gradient(1, x).square()) / 2;
  for (int round = 2; round <= 6; ++round) {
    ArrayXf next_x = 0 * x, next_m = 0 * x, next_v = 0 * x;
    const ArrayXf a = v.sqrt() + 0.05F;
    for (Index k = 0; k < 2; ++k) {
      ArrayXf y = x, mine = m, squares = v;
      for (int step = 0; step < 3; ++step) {
        const ArrayXf before = y;
        y -= 0.1F / a * mine;
        const ArrayXf g = gradient(k, y);
        mine = g + 0.7F * (mine - gradient(k, before));
        squares = 0.9F * squares + 0.1F * g.square();
      }
      next_x += y / 2, next_m += mine / 2, next_v += squares / 2;
    }
    x = next_x, m = next_m, v = next_v;
  }
  // As in fafed_test.cpp, with gradients up to 5 times as large.
  for (Index i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(end.parameters[i], x[i], 2e-4) << i;
    EXPECT_NEAR(end.algorithm.parts.at("momentum")[i], m[i], 2e-4) << i;
    EXPECT_NEAR(end.algorithm.parts.at("squares")[i], v[i], 2e-4) << i;
  }
}

}  // namespace
}  // namespace labelshift
