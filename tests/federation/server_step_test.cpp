#include "labelshift/federation/server_step.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kParameters = 1003;  // no multiple of a vector's length

std::vector<float> random_vector(std::uint64_t stream) {
  Rng rng(17, stream);
  std::vector<float> values(kParameters);
  for (float& value : values) value = static_cast<float>(rng.normal() * std::exp(3.0 * rng.normal()));
  return values;
}

/// Every optimiser, sgd without and with momentum.
std::vector<ServerSettings> every_optimiser() {
  std::vector<ServerSettings> all{{.optimiser = "sgd", .momentum = 0.9}};
  for (const ServerOptimiserEntry& entry : server_optimisers()) all.push_back({.optimiser = entry.name});
  return all;
}

TEST(ServerStep, TakesPlainStepsWithSgd) {
  ServerStep server(2, {.optimiser = "sgd", .learning_rate = 0.5, .weight_decay = 0.25});
  std::vector<float> w{4.0F, -8.0F};
  server.step(w, std::vector<float>{1.0F, 2.0F});
  EXPECT_EQ(w, (std::vector<float>{3.0F, -8.0F}));  // 4 - (1 + 4/4) / 2 and -8 - (2 - 8/4) / 2
  EXPECT_EQ(server.state(), (ServerStep::State{.steps = 1}));
}

TEST(ServerStep, IsPlainFedAvgForSgdWithRateOneAndWhatLocalStepsTookAway) {
  ServerStep server(2, {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0});
  std::vector<float> w{4.0F, -8.0F};
  server.step(w, std::vector<float>{4.0F - 1.5F, -8.0F + 2.25F});
  EXPECT_EQ(w, (std::vector<float>{1.5F, -2.25F}));
}

TEST(ServerStep, KeepsMomentumWithSgd) {
  ServerStep server(1, {.optimiser = "sgd", .learning_rate = 0.5, .weight_decay = 0.0, .momentum = 0.5});
  std::vector<float> w{1.0F};
  server.step(w, std::vector<float>{2.0F});  // b = 2
  EXPECT_EQ(w[0], 0.0F);
  server.step(w, std::vector<float>{4.0F});  // b = 1 + 4
  EXPECT_EQ(w[0], -2.5F);
  server.step(w, std::vector<float>{0.0F});  // b = 2.5
  EXPECT_EQ(w[0], -3.75F);
  EXPECT_EQ(server.state(), (ServerStep::State{.steps = 3, .mean = {2.5F}}));
}

TEST(ServerStep, IsTheAdamOfTheLearningLayerBitForBit) {
  const AdamSettings same{.learning_rate = 0.01, .weight_decay = 1e-3, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6};
  ServerStep server(
      kParameters,
      {.optimiser = "adam", .learning_rate = 0.01, .weight_decay = 1e-3, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6});
  Adam adam(kParameters, same);
  std::vector<float> w = random_vector(0), expected = w;
  for (std::uint64_t t = 1; t <= 20; ++t) {
    server.step(w, random_vector(t));
    adam.step(expected, random_vector(t));
  }
  EXPECT_EQ(w, expected);
  EXPECT_EQ(server.state(), adam.state());
}

TEST(ServerStep, TakesTheStepsOfYogi) {
  // Two components, so that the second gradient is once larger and once smaller than the first. By hand: v_1 = g_1^2 /
  // 4, which the correction divides by 1/4, so the first step is rate * sign(g).
  ServerStep server(
      2, {.optimiser = "yogi", .learning_rate = 0.1, .weight_decay = 0.0, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.0});
  std::vector<float> w{1.0F, 1.0F};
  server.step(w, std::vector<float>{4.0F, -4.0F});
  EXPECT_EQ(server.state().squares, (std::vector<float>{4.0F, 4.0F}));
  EXPECT_NEAR(w[0], 0.9, 1e-6);  // three roundings, relative 6e-8 each
  EXPECT_NEAR(w[1], 1.1, 1e-6);
  server.step(w, std::vector<float>{8.0F, 1.0F});
  // 4 < 64: up by 64 / 4; 4 > 1: down by 1 / 4, where Adam would have gone to 3.25.
  EXPECT_EQ(server.state().squares, (std::vector<float>{20.0F, 3.75F}));
  EXPECT_EQ(server.state().mean, (std::vector<float>{5.0F, -0.5F}));
  // 1 - 0.5^2 = 0.75 and 1 - 0.75^2 = 0.4375.
  EXPECT_NEAR(w[0], 0.9 - 0.1 * (5.0 / 0.75) / std::sqrt(20.0 / 0.4375), 1e-6);
  EXPECT_NEAR(w[1], 1.1 + 0.1 * (0.5 / 0.75) / std::sqrt(3.75 / 0.4375), 1e-6);
  server.step(w, std::vector<float>{0.0F, 0.0F});
  EXPECT_EQ(server.state().squares, (std::vector<float>{20.0F, 3.75F}));  // Adam forgets, Yogi does not
}

TEST(ServerStep, GoesOnFromItsStateWithTheSameBits) {
  for (const ServerSettings& settings : every_optimiser()) {
    ServerStep whole(kParameters, settings), first(kParameters, settings), second(kParameters, settings);
    std::vector<float> w = random_vector(0), halves = w;
    for (std::uint64_t t = 1; t <= 20; ++t) whole.step(w, random_vector(t));
    for (std::uint64_t t = 1; t <= 10; ++t) first.step(halves, random_vector(t));
    second.restore(first.state());
    for (std::uint64_t t = 11; t <= 20; ++t) second.step(halves, random_vector(t));
    EXPECT_EQ(halves, w) << settings.optimiser;
    EXPECT_EQ(second.state(), whole.state()) << settings.optimiser;
    EXPECT_EQ(whole.state().steps, 20) << settings.optimiser;
  }
}

TEST(ServerStep, RefusesTheStateOfAnother) {
  ServerStep adam(3, {.optimiser = "adam"}), plain(3, {.optimiser = "sgd"});
  expect_error(
      ErrorKind::kInput,
      "the saved state of the server's optimiser has 0 steps, 2 means and 2 squares, expected 0 or more, 3 and 3 "
      "for adam with 3 parameters",
      [&] { adam.restore(ServerStep(2, {.optimiser = "adam"}).state()); });
  EXPECT_THROW(adam.restore(plain.state()), Error);
  EXPECT_THROW(plain.restore(adam.state()), Error);
  EXPECT_THROW(plain.restore(ServerStep(3, {.optimiser = "sgd", .momentum = 0.9}).state()), Error);
  EXPECT_THROW(plain.restore({.steps = -1}), Error);
}

TEST(ServerStep, SuggestsANameForAMisspeltOne) {
  expect_error(ErrorKind::kUsage, "unknown server optimiser \"Adam\"; did you mean \"adam\"? (known: sgd, adam, yogi)",
               [] { ServerStep(1, {.optimiser = "Adam"}); });
}

TEST(ServerStep, HasOptimisersOfDifferentNames) {
  std::set<std::string> names;
  for (const ServerOptimiserEntry& entry : server_optimisers()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(&find_server_optimiser(entry.name), &entry);
  }
}

}  // namespace
}  // namespace labelshift
