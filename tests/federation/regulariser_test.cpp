#include "labelshift/federation/regulariser.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {

void PrintTo(const RegulariserEntry& entry, std::ostream* out) {
  *out << entry.name;
}

namespace {

std::unique_ptr<Net> logistic(Index columns, Index classes) {
  return make_net({.name = "logistic", .shape = {1, 1, columns}, .classes = classes}, 0);
}

/// R of one group.
double value_of(const RegulariserSettings& settings, std::span<const float> w) {
  double absolute = 0.0, squares = 0.0, largest = 0.0;
  for (const float one : w) {
    absolute += std::abs(one);
    squares += static_cast<double>(one) * one;
    largest = std::max(largest, static_cast<double>(std::abs(one)));
  }
  if (settings.name == "l1") return settings.strength * absolute;
  if (settings.name == "group-l1")
    return settings.strength * std::sqrt(static_cast<double>(w.size())) * std::sqrt(squares);
  return largest <= settings.bound ? 0.0 : std::numeric_limits<double>::infinity();
}

class EveryRegulariser : public testing::TestWithParam<RegulariserEntry> {};

TEST_P(EveryRegulariser, TakesTheBestPointOfItsProximalProblem) {
  // The problem is strictly convex, so a point that no other point near it beats is its solution.
  const RegulariserSettings settings{.name = GetParam().name, .strength = 0.8, .bound = 0.5};
  constexpr double kStep = 0.5;
  Rng rng(5);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<float> w(3), u;
    for (float& one : w) one = static_cast<float>(rng.normal());
    u = w;
    GetParam().prox(settings, kStep, u);
    const auto cost = [&](std::span<const float> point) {
      double distance = 0.0;
      for (std::size_t i = 0; i < w.size(); ++i) distance += std::pow(static_cast<double>(point[i]) - w[i], 2);
      return value_of(settings, point) + distance / (2.0 * kStep);
    };
    const double best = cost(u);
    EXPECT_LE(best, cost(w));
    for (int other = 0; other < 200; ++other) {
      std::vector<float> near = u;
      for (float& one : near) one += static_cast<float>(rng.normal() * std::pow(10.0, -1 - other % 3));
      EXPECT_GE(cost(near), best - 1e-6);  // u is rounded to float32, and the slope of the cost is at most 10
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Federation, EveryRegulariser, testing::ValuesIn(regularisers().begin(), regularisers().end()),
                         [](const auto& row) {
                           std::string name = row.param.name;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

TEST(Regulariser, OfL1IsSoftThresholding) {
  std::vector<float> w{0.5F, -0.5F, 0.125F, -0.0625F, 0.0F};
  find_regulariser("l1").prox({.strength = 0.5}, 0.25, w);
  EXPECT_EQ(w, (std::vector<float>{0.375F, -0.375F, 0.0F, -0.0F, 0.0F}));
}

TEST(Regulariser, OfGroupsShortensThemByTheRootOfTheirSize) {
  std::vector<float> w{3.0F, 4.0F, 0.0F, 0.0F};  // of norm 5 and size 4
  find_regulariser("group-l1").prox({.strength = 0.25}, 5.0, w);
  EXPECT_EQ(w, (std::vector<float>{1.5F, 2.0F, 0.0F, 0.0F}));  // by 2.5
  find_regulariser("group-l1").prox({.strength = 0.25}, 5.0, w);
  EXPECT_EQ(w, (std::vector<float>{0.0F, 0.0F, 0.0F, 0.0F}));
}

TEST(Regulariser, HasAGroupForEveryUnitAndLeavesBiasesAlone) {
  const auto layers = make_net({.name = "mlp", .settings = {{"hidden", "5"}}, .shape = {1, 1, 4}, .classes = 3}, 0);
  const auto one_layer = logistic(4, 3);
  for (const auto& [net, units] : {std::pair{one_layer.get(), 3}, {layers.get(), 5 + 5 + 3}}) {
    const Regulariser all({.name = "l1", .strength = 1.0}, *net, /*batch_norms=*/true);
    ASSERT_EQ(std::ssize(all.groups()), units);
    std::vector<float> w(net->parameters().size(), 0.25F);
    all.prox(w, 1.0);
    int left = 0;
    for (const TensorPlace& place : net->tensors())
      for (Index i = 0; i < place.shape[0] * (place.shape.size() > 1 ? place.shape[1] : 1); ++i) {
        EXPECT_EQ(w[place.offset + i], place.shape.size() > 1 ? 0.0F : 0.25F) << place.name;
        left += place.shape.size() == 1;
      }
    EXPECT_EQ(left, units);
  }
}

TEST(Regulariser, FindsItsWeightsWhereBatchNormsDoNotTravel) {
  const std::string path = LABELSHIFT_FEDERATION_REFERENCE "/normed.pt";
  const auto net = make_net({.name = path, .shape = {1, 1, 2}, .classes = 3}, 0);
  const SharedWeights shared(*net, /*batch_norms=*/false);
  std::vector<float> w = shared.gather(net->parameters(), net->buffers());
  const std::vector<float> before = w;
  const Regulariser box({.name = "box", .bound = 0.0}, *net, /*batch_norms=*/false);
  box.prox(std::span(w).first(static_cast<std::size_t>(shared.parameters())), 1.0);
  shared.scatter(w, net->parameters(), net->buffers());
  for (const TensorPlace& place : net->tensors()) {
    if (place.buffer || place.batch_norm) continue;
    if (place.shape.size() > 1) {
      EXPECT_EQ(net->parameters()[place.offset], 0.0F) << place.name;
    } else {
      EXPECT_NE(net->parameters()[place.offset], 0.0F) << place.name;
    }
  }
}

TEST(Regulariser, IsTakenByTheServerAfterItsStep) {
  const FederatedData data = gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}});
  FederationSettings settings = quick_settings();
  settings.rounds = 1;
  settings.evaluate_every = 1;
  settings.server = {.optimiser = "sgd", .learning_rate = 0.5, .weight_decay = 0.0};
  for (const int steps : {1, 3}) {
    settings.local = {.steps = steps, .batch = 8, .learning_rate = 0.1};
    settings.regulariser = {};
    const FederationState plain = LocalFederation(settings, data).run();
    EXPECT_TRUE(std::isnan(plain.zeros));
    settings.regulariser = {.name = "l1", .strength = 0.2};
    const FederationState sparse = LocalFederation(settings, data).run();
    // The server has gone 0.5 along a gradient, or 0.5 along the sum of three steps of 0.1.
    const float threshold = static_cast<float>(steps == 1 ? 0.2 * 0.5 : 0.2 * 0.5 * 3 * 0.1);
    int zeros = 0;
    for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
      const float w = plain.parameters[i];
      const float expected = i < 6 ? std::copysign(std::max(std::abs(w) - threshold, 0.0F), w) : w;
      EXPECT_FLOAT_EQ(sparse.parameters[i], expected) << i;
      zeros += sparse.parameters[i] == 0.0F;
    }
    EXPECT_EQ(sparse.zeros, zeros);
  }
}

TEST(Regulariser, RefusesWhatItDoesNotGoWith) {
  FederationSettings settings = quick_settings();
  settings.regulariser.name = "l1";
  expect_refused("give server = \"sgd\"", [&] { check_settings(settings, 2); });
  settings.server.optimiser = "sgd";
  check_settings(settings, 2);
  settings.local.epochs = 2;
  expect_refused("give local-steps instead", [&] { check_settings(settings, 2); });
  settings.local.epochs = 0;
  settings.regulariser.name = "l11";
  expect_refused("did you mean \"l1\"", [&] { check_settings(settings, 2); });
}

}  // namespace
}  // namespace labelshift
