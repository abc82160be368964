#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "labelshift/engine/fixed_point.hpp"
#include "tests/federation/gaussian_federation.hpp"

// Estimates that the predicted labels of their own test data do not bear out.

namespace labelshift {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kDoubt = "do not bear out the estimated mix";

bool is(const Request& request, TaskKind task) {
  return request.task == static_cast<std::uint32_t>(task);
}

/// Favours the first class in whatever the nodes score with one net, and changes their answers.
class Meddling : public Engine {
 public:
  using Change = std::function<void(Index node, const Request& request, Answer& answer)>;
  Meddling(Engine& engine, float bias, Change change = {}) : engine_(engine), bias_(bias), change_(std::move(change)) {}
  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    Request biased = request;
    // Logistic regression: (3, 2) weights, then (3) biases.
    if (is(request, TaskKind::kHeldOut) || is(request, TaskKind::kTargetTogether)) biased.weights.at(6) += bias_;
    AnswerTerms changed = terms;
    changed.accept = [&](Index node, Answer& answer) {
      if (change_) change_(node, request, answer);
      if (terms.accept) terms.accept(node, answer);
    };
    return engine_.run(biased, cohort, changed, patience, observer);
  }

 private:
  Engine& engine_;
  const float bias_;
  const Change change_;
};

class Doubt : public testing::Test {
 protected:
  static FederationSettings settings(const std::string& method) {
    FederationSettings settings = weighted_settings(method);
    settings.ratio.predictor = PredictorScope::kFederated;
    settings.rounds = 2;
    settings.evaluate_every = 2;
    return settings;
  }
  FederationState run(const FederationSettings& settings, float bias, Meddling::Change change = {}) const {
    LocalFederation federation(settings, data_);
    Meddling engine(federation.engine(), bias, std::move(change));
    return run_federation(settings, federation.task(), engine);
  }
  /// What comes of nodes that say so many of them doubt: an error, or "none".
  std::string error_of(const std::map<Index, double>& doubtful) const {
    try {
      run(settings("mlls-bct"), 0.0F, [&](Index node, const Request& request, Answer& answer) {
        if (is(request, TaskKind::kTargetTogether) && doubtful.contains(node))
          answer.words.at(3) = to_fixed(doubtful.at(node), 2);  // behind the shares of 3 classes
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      return error.what();
    }
    return "none";
  }

  const FederatedData data_ =
      gaussian_federation({{{2000, 750, 750}, {480, 600, 120}}, {{750, 750, 2000}, {720, 240, 240}}});
};

TEST_F(Doubt, IsOfAPredictorThatFavoursAClassWhichOneTemperatureDoesNotMend) {
  // The odds of the first class are e^1.5 times what they should be. Biases of a calibration undo that; a temperature
  // does not, so both nodes take too many of their 1,200 examples to be of other classes, and the labels that they
  // predict, with the errors that held-out examples show, say otherwise.
  constexpr float kBias = 1.5F;
  const FederationState biased = run(settings("mlls-ts"), kBias);
  EXPECT_THAT(biased.warnings,
              Contains("at 2 of 2 nodes the predicted labels do not bear out the estimated mix (at a level of 1 % for "
                       "all nodes together): the predictor is not calibrated for their test data, or more than the "
                       "mix has changed there; compare with method = \"mlls-confusion\""));
  for (const NodeRatio& node : biased.ratios) EXPECT_LT(node.p_value, 0.005) << node.node;
  for (const auto& [method, bias] : {std::pair{"mlls-bct", kBias}, {"mlls-ts", 0.0F}, {"mlls-bct", 0.0F}}) {
    const FederationState good = run(settings(method), bias);
    EXPECT_THAT(good.warnings, Not(Contains(HasSubstr(kDoubt)))) << method << bias;
    for (const NodeRatio& node : good.ratios) EXPECT_GE(node.p_value, 0.005) << method << bias << node.node;
  }
}

TEST_F(Doubt, IsToldOfTheLastRefreshAloneAndOfThoseWhoseRiskIsTheGoal) {
  FederationSettings refreshed = settings("mlls-bct");
  refreshed.ratio.predictor = PredictorScope::kLocal;
  refreshed.ratio.epochs = 1;
  refreshed.ratio.refresh = 10;
  refreshed.rounds = 25;
  refreshed.evaluate_every = 25;
  for (const int goal : {0, 1})
    for (const std::uint64_t round : {10, 20}) {
      refreshed.ratio.goal_node = goal;
      const FederationState state = run(refreshed, 0.0F, [&](Index node, const Request& request, Answer& answer) {
        if (is(request, TaskKind::kTargetTogether) && request.round == round && node == 0)
          answer.words.at(3) = to_fixed(1.0, 2);
      });
      ASSERT_EQ(state.weighings.size(), 3u);
      for (std::size_t i = 1; i < 3; ++i)
        EXPECT_EQ(state.weighings[i].doubtful, state.weighings[i].round == static_cast<int>(round) ? 1 : 0) << i;
      if (round == 10) {
        EXPECT_THAT(state.warnings, Not(Contains(HasSubstr(kDoubt))));
      } else {
        EXPECT_THAT(state.warnings,
                    Contains(HasSubstr(fmt::format("where weights were refreshed after round 20, at 1 of {} nodes the "
                                                   "predicted labels do not bear out",
                                                   goal == 0 ? 2 : 1))));
      }
    }
}

TEST_F(Doubt, IsACountOfAtMostOneANode) {
  constexpr const char* kRefused =
      "node {}: it says that the number of nodes that doubt their estimate is {}, expected a count of 1 at most; does "
      "it run this version?";
  EXPECT_EQ(error_of({{0, 0.5}}), fmt::format(kRefused, 1, 0.5));
  EXPECT_EQ(error_of({{0, 2.0}}), fmt::format(kRefused, 1, 2));
  EXPECT_EQ(error_of({{1, -1.0}}), fmt::format(kRefused, 2, -1));
  EXPECT_EQ(error_of({{0, 1.0}, {1, 1.0}}), "none");
}

}  // namespace
}  // namespace labelshift
