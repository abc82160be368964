#include "labelshift/federation/federation_settings.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "labelshift/federation/setting_error.hpp"
#include "tests/federation/gaussian_federation.hpp"
#include "tests/federation/range_ends.hpp"

namespace labelshift {
namespace {

/// A number among the settings, the last values that are good and the first that are not.
struct Limits {
  std::string key;
  std::function<void(FederationSettings&, double)> set;
  std::vector<double> good, bad;
};

void PrintTo(const Limits& limits, std::ostream* out) {
  *out << limits.key;
}

class EverySetting : public testing::TestWithParam<Limits> {};

TEST_P(EverySetting, IsGoodUpToItsLimits) {
  const auto set = [](double value) {
    FederationSettings settings = weighted_settings("vrls");
    GetParam().set(settings, value);
    check_settings(settings, /*nodes=*/5);
  };
  for (const double value : GetParam().good) EXPECT_NO_THROW(set(value)) << value;
  for (const double value : GetParam().bad) {
    try {
      set(value);
      ADD_FAILURE() << "expected an error for " << value;
    } catch (const SettingError& error) {
      EXPECT_EQ(error.key(), GetParam().key);
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    }
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename Of, typename Number>
auto member(Of FederationSettings::*part, Number Of::*number) {
  return [=](FederationSettings& settings, double value) { settings.*part.*number = static_cast<Number>(value); };
}
template <typename Number>
auto member(Number FederationSettings::*number) {
  return [=](FederationSettings& settings, double value) { settings.*number = static_cast<Number>(value); };
}

INSTANTIATE_TEST_SUITE_P(
    Federation, EverySetting,
    testing::Values(
        Limits{"training.rounds", member(&FederationSettings::rounds), {1}, {0, -1}},
        Limits{"training.sampled", member(&FederationSettings::sampled), {0, 1, 5}, {-1, 6}},
        Limits{"run.evaluate-every", member(&FederationSettings::evaluate_every), {1}, {0}},
        Limits{"training.local-epochs", member(&FederationSettings::local, &LocalSettings::epochs), {0, 1}, {-1}},
        Limits{"training.local-steps", member(&FederationSettings::local, &LocalSettings::steps), {1, 2}, {0}},
        Limits{"training.batch", member(&FederationSettings::local, &LocalSettings::batch), {1}, {0}},
        Limits{"training.local-weight-decay",
               member(&FederationSettings::local, &LocalSettings::weight_decay),
               {0.0, 1.0},
               {-1e-9, kNan, kInfinity}},
        Limits{"training.local-learning-rate",
               member(&FederationSettings::local, &LocalSettings::learning_rate),
               {1e-9},
               {0.0, -1.0, kNan, kInfinity}},
        Limits{"training.weight-decay",
               member(&FederationSettings::server, &ServerSettings::weight_decay),
               {0.0, 1.0},
               {-1e-9, kNan, kInfinity}},
        Limits{"training.learning-rate",
               member(&FederationSettings::server, &ServerSettings::learning_rate),
               {1e-9},
               {0.0, -1.0, kNan, kInfinity}},
        Limits{"training.momentum",
               [](FederationSettings& settings, double value) {
                 settings.server.optimiser = "sgd";
                 settings.server.momentum = value;
               },
               {0.0, 0.99},
               {-0.1, 1.0, kNan}},
        Limits{"training.momentum",
               [](FederationSettings& settings, double value) {
                 settings.server.optimiser = "yogi";
                 settings.server.momentum = value;
               },
               {0.0},
               {0.5}},
        Limits{"training.beta1", member(&FederationSettings::server, &ServerSettings::beta1), {0.0, 0.99}, {-0.1, 1.0}},
        Limits{"training.beta2", member(&FederationSettings::server, &ServerSettings::beta2), {0.0, 0.99}, {-0.1, 1.0}},
        Limits{"training.proximal",
               [](FederationSettings& settings, double value) {
                 settings.algorithm = "fedprox";
                 settings.local = {.steps = 2, .proximal = value};
               },
               {1e-9},
               {0.0, -1.0}},
        Limits{"training.proximal", member(&FederationSettings::local, &LocalSettings::proximal), {0.0}, {0.1}},
        Limits{"run.target-holdout", member(&FederationSettings::target_holdout), {0.0, 0.5}, {-0.1, 1.0}},
        Limits{"run.source-holdout", member(&FederationSettings::source_holdout), {0.0, 0.5}, {-0.1, 1.0}},
        Limits{"ratio.goal-node", member(&FederationSettings::ratio, &RatioSettings::goal_node), {0, 1, 5}, {-1, 6}},
        Limits{"ratio.max-ratio",
               [](FederationSettings& settings, double value) { settings.ratio.max_ratio = value; },
               {1e-9},
               {0.0, -1.0}},
        Limits{"ratio.refresh", member(&FederationSettings::ratio, &RatioSettings::refresh), {0, 1, 100}, {-1}},
        Limits{"ratio.floor", member(&FederationSettings::ratio, &RatioSettings::floor), {0.0, 0.99}, {-0.01, 1.0}},
        Limits{
            "ratio.fraction", member(&FederationSettings::ratio, &RatioSettings::fraction), {1e-9, 1.0}, {0.0, 1.01}},
        Limits{
            "ratio.held-out", member(&FederationSettings::ratio, &RatioSettings::held_out), {0.01, 0.99}, {0.0, 1.0}},
        Limits{"ratio.learning-rate",
               member(&FederationSettings::ratio, &RatioSettings::learning_rate),
               {1e-9},
               {0.0, kNan, kInfinity}},
        Limits{"ratio.weight-decay",
               member(&FederationSettings::ratio, &RatioSettings::weight_decay),
               {0.0},
               {-0.1, kInfinity}},
        Limits{"ratio.stop-below",
               member(&FederationSettings::ratio, &RatioSettings::stop_below),
               {0.0, 0.1},
               {-0.1, kInfinity}},
        Limits{"ratio.epochs", member(&FederationSettings::ratio, &RatioSettings::epochs), {1}, {0}},
        Limits{"ratio.rounds", member(&FederationSettings::ratio, &RatioSettings::rounds), {1}, {0}}));

/// What is said of good settings after one of them is given another value; empty: nothing.
std::string refusal(const RangedSetting<FederationSettings>& setting, double value) {
  FederationSettings settings = weighted_settings("vrls");
  setting.set(settings, value);
  try {
    check_settings(settings, /*nodes=*/5);
  } catch (const SettingError& error) {
    EXPECT_EQ(error.key(), setting.name);
    return error.what();
  }
  return "";
}

TEST(FederationSettings, AreGoodFromEndToEndOfTheirRanges) {
  for (const RangedSetting<FederationSettings>& setting : ranged_settings<FederationSettings>()) {
    for (const double value : just_outside(setting.range))
      EXPECT_EQ(refusal(setting, value),
                fmt::format("{} is {}, expected {}", setting.name, value, setting.range.words()));
    for (const double value : ends_of(setting.range))  // what does not go with the other settings is another refusal
      EXPECT_THAT(refusal(setting, value), testing::Not(testing::HasSubstr(setting.range.words()))) << value;
  }
}

TEST(FederationSettings, AreThePapersUnlessTheyAreSet) {
  const FederationSettings settings;
  EXPECT_EQ(settings.local.steps, 1);  // the nodes' gradients are averaged every step
  EXPECT_EQ(settings.local.batch, 64);
  EXPECT_EQ(settings.server.optimiser, "adam");
  for (const double rate : {settings.server.learning_rate, settings.ratio.learning_rate}) EXPECT_EQ(rate, 1e-3);
  for (const double decay : {settings.server.weight_decay, settings.ratio.weight_decay}) EXPECT_EQ(decay, 1e-6);
  EXPECT_EQ(settings.rounds, 5000);
  EXPECT_EQ(settings.ratio.fraction, 1.0);
  EXPECT_EQ(settings.target_holdout, 0.0);
}

TEST(Range, SaysItsEndsInWords) {
  EXPECT_EQ((Range{.low = 1, .high = 5, .whole = true}.words()), "a whole number from 1 to 5");
  EXPECT_EQ((Range{.high = 1}.words()), "a number from 0 to 1");
  EXPECT_EQ((Range{.high = 1, .open_high = true}.words()), "a number from 0 to below 1");
  EXPECT_EQ((Range{.high = 1, .open_low = true}.words()), "a number above 0 and at most 1");
  EXPECT_EQ((Range{.high = 1, .open_low = true, .open_high = true}.words()), "a number above 0 and below 1");
  EXPECT_EQ((Range{.open_low = true}.words()), "a number above 0");
}

/// Settings of a federation that is good but for what two of them are to each other.
std::string refused_key(const std::function<void(FederationSettings&)>& change) {
  FederationSettings settings = weighted_settings("mlls");
  change(settings);
  try {
    check_settings(settings, /*nodes=*/5);
  } catch (const SettingError& error) {
    return error.key();
  }
  return "";
}

void pairwise(FederationSettings& settings) {
  settings.ratio.exchange = RatioExchange::kPairwise;
}
void federated(FederationSettings& settings) {
  settings.ratio.predictor = PredictorScope::kFederated;
}
void pooled(FederationSettings& settings) {
  settings.weighting = Weighting::kPooled;
}
void bbse(FederationSettings& settings) {
  settings.ratio.method = "bbse";
}

TEST(FederationSettings, HaveTheDefaultsOfThePaperAndOfPyTorch) {
  const FederationSettings settings;
  EXPECT_EQ(settings.local.batch, 64);
  EXPECT_EQ(settings.local.steps, 1);
  EXPECT_EQ(settings.local.learning_rate, 0.1);
  EXPECT_EQ(settings.local.weight_decay, 0.0);
  EXPECT_EQ(settings.server.optimiser, "adam");
  EXPECT_EQ(settings.server.learning_rate, 1e-3);
  EXPECT_EQ(settings.server.weight_decay, 1e-6);
  EXPECT_EQ(settings.server.beta1, 0.9);
  EXPECT_EQ(settings.server.beta2, 0.999);
  EXPECT_EQ(settings.server.epsilon, 1e-8);
  EXPECT_EQ(settings.evaluate_every, 500);  // and of the documentation
}

TEST(FederationSettings, CountTheStochasticGradientsOfANode) {
  EXPECT_EQ((LocalSettings{.steps = 5}.iterations(/*rounds=*/3)), 15);
  EXPECT_EQ((LocalSettings{.epochs = 5}.iterations(/*rounds=*/3)), 3);
  EXPECT_EQ((LocalSettings{.steps = 1'000'000'000}.iterations(/*rounds=*/1'000'000'000)), 1'000'000'000'000'000'000);
}

TEST(FederationSettings, GoTogetherOrDoNot) {
  const std::string fine;
  EXPECT_EQ(refused_key(pairwise), fine);
  EXPECT_EQ(refused_key(federated), fine);
  EXPECT_EQ(refused_key(pooled), fine);
  EXPECT_EQ(refused_key(bbse), fine);
  const auto both = [](auto one, auto other) {
    return refused_key([=](FederationSettings& settings) {
      one(settings);
      other(settings);
    });
  };
  EXPECT_EQ(both(pairwise, federated), "ratio.exchange");
  EXPECT_EQ(both(pairwise, pooled), "training.weighting");
  EXPECT_EQ(both(federated, pooled), fine);
  EXPECT_EQ(both(pairwise, bbse), "ratio.method");
  EXPECT_EQ(both(federated, bbse), fine);
  const auto oracle = [](FederationSettings& settings) { settings.ratio.calibrate_on_test = true; };
  EXPECT_EQ(refused_key(oracle), "ratio.calibrate-on-test");
  EXPECT_EQ(both(federated, oracle), fine);
  const auto shared = [](FederationSettings& settings) { settings.ratio.shared_prior = true; };
  const auto together = [&](FederationSettings& settings) {
    federated(settings);
    shared(settings);
  };
  EXPECT_EQ(refused_key(shared), "ratio.shared-prior");
  EXPECT_EQ(refused_key(together), fine);
  EXPECT_EQ(both(together, bbse), "ratio.shared-prior");
  EXPECT_EQ(both(together, [](FederationSettings& settings) { settings.ratio.method = "true"; }), "ratio.shared-prior");
  EXPECT_EQ(both(together, [](FederationSettings& settings) { settings.ratio.goal_node = 5; }), "ratio.shared-prior");
  const auto goal = [](FederationSettings& settings) { settings.ratio.goal_node = 5; };
  EXPECT_EQ(both(pairwise, goal), "ratio.goal-node");
  EXPECT_EQ(both(federated, goal), fine);
  const auto without_shift = [](FederationSettings& settings) { settings.ratio.goal_shift = false; };
  EXPECT_EQ(both(goal, without_shift), fine);
  EXPECT_EQ(refused_key(without_shift), "ratio.goal-shift");
  const auto scaffold = [](FederationSettings& settings) { settings.algorithm = "scaffold"; };
  const auto steps = [](FederationSettings& settings) { settings.local.steps = 2; };
  const auto epoch = [](FederationSettings& settings) { settings.local.epochs = 1; };
  EXPECT_EQ(refused_key(scaffold), "training.algorithm");
  const auto fedprox = [](FederationSettings& settings) {
    settings.algorithm = "fedprox";
    settings.local.proximal = 0.1;
  };
  EXPECT_EQ(refused_key(fedprox), "training.algorithm");
  EXPECT_EQ(both(fedprox, steps), fine);
  EXPECT_EQ(both(scaffold, steps), fine);
  EXPECT_EQ(both(scaffold, epoch), fine);
  EXPECT_EQ(both(steps, epoch), "training.local-epochs");
  const auto true_ratios = [](FederationSettings& settings) { settings.ratio.method = "true"; };
  EXPECT_EQ(both(true_ratios, federated), fine);  // which has no say then
  const auto no_ratios = [](FederationSettings& settings) { settings.ratio.method = "none"; };
  EXPECT_EQ(refused_key(no_ratios), "ratio.method");  // iw-erm needs some
  EXPECT_EQ(both(no_ratios, [](FederationSettings& settings) { settings.algorithm = "fedavg"; }), fine);
  EXPECT_EQ(refused_key([](FederationSettings& settings) { settings.ratio.method = "auto"; }), fine);
  const auto refresh = [](FederationSettings& settings) { settings.ratio.refresh = 10; };
  for (const auto& with : {federated, pooled, bbse}) EXPECT_EQ(both(refresh, with), fine);
  EXPECT_EQ(both(refresh, goal), fine);
  EXPECT_EQ(both(refresh, pairwise), "ratio.refresh");
  EXPECT_EQ(both(refresh, [](FederationSettings& settings) { settings.algorithm = "fedpals"; }), "ratio.refresh");
  EXPECT_EQ(both(refresh, true_ratios), "ratio.refresh");
  EXPECT_EQ(both(refresh,
                 [&](FederationSettings& settings) {
                   no_ratios(settings);
                   settings.algorithm = "fedavg";
                 }),
            "ratio.refresh");
  EXPECT_EQ(both(refresh,
                 [&](FederationSettings& settings) {
                   goal(settings);
                   without_shift(settings);
                 }),
            "ratio.refresh");
  EXPECT_EQ(both(refresh,
                 [](FederationSettings& settings) {
                   settings.step = {.rule = StepRule::kTheorem, .smoothness = 1.0};
                   settings.server = {.optimiser = "sgd", .weight_decay = 0.0};
                 }),
            "ratio.refresh");
}

}  // namespace
}  // namespace labelshift
