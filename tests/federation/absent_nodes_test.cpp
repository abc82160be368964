#include <gmock/gmock.h>

#include <memory>

#include "labelshift/engine/tasks.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

/// Some nodes, one behind the other, do not answer from some round on.
class WithoutNode : public Engine {
 public:
  WithoutNode(Engine& engine, Index absent, std::uint64_t from, Index count = 1)
      : engine_(engine), absent_(absent), from_(from), count_(count) {}

  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    if (request.round < from_) return engine_.run(request, cohort, terms, patience, observer);
    std::vector<Addressee> present;
    for (const Addressee& one : cohort)
      if (one.node < absent_ || one.node >= absent_ + count_) present.push_back(one);
    CohortOutcome outcome = engine_.run(request, present, terms, {}, observer);
    for (Index node = absent_; node < absent_ + count_; ++node)
      outcome.failed.push_back({.node = node, .kind = ErrorKind::kPeer, .sentence = "it is not there"});
    return outcome;
  }

 private:
  Engine& engine_;
  const Index absent_;
  const std::uint64_t from_;
  const Index count_;
};

class AbsentNode : public Scratch {
 protected:
  FederationState run(Index quorum) const {
    FederationSettings settings{.model = {"logistic", {}}, .rounds = 6, .evaluate_every = 3};
    settings.patience.quorum = quorum;
    const FederatedData data =
        gaussian_federation({{{20, 20, 20}, {9, 9, 9}}, {{20, 20, 20}, {9, 9, 9}}, {{20, 20, 20}, {9, 9, 9}}});
    NodeStore store({.folder = path("nodes")});
    const auto engine = make_in_process_engine(3, make_node_programs(settings, data, store), {.workers = 1});
    WithoutNode lossy(*engine, 1, 5);
    return run_federation(settings, {.shape = data.shape, .class_names = data.class_names, .run = "r"}, lossy);
  }
};

TEST_F(AbsentNode, IsUnknownInAnEvaluationThatGoesOnWithoutIt) {
  const FederationState state = run(2);
  ASSERT_EQ(state.history.size(), 6u);  // three nodes after rounds 3 and 6
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(state.history[i].node, static_cast<Index>(i % 3));
    EXPECT_EQ(state.history[i].round, i < 3 ? 3 : 6);
    EXPECT_EQ(std::isnan(state.history[i].accuracy), i == 4) << i;
  }
  EXPECT_EQ(average_accuracy(state.history), (state.history[3].accuracy + state.history[5].accuracy) / 2);
}

TEST_F(AbsentNode, IsSaidToHaveMissedItsRounds) {
  const FederationState state = run(2);
  ASSERT_EQ(state.absences.size(), 1u);
  EXPECT_EQ(state.absences[0].node, 1);
  EXPECT_EQ(state.absences[0].rounds, 2);
  EXPECT_THAT(state.warnings, testing::ElementsAre("node 2 took no part in 2 of 6 rounds, last since it is not there"));
}

TEST_F(AbsentNode, IsOneOfTenThatAreNamed) {
  FederationSettings settings{.model = {"logistic", {}}, .rounds = 2, .evaluate_every = 2};
  settings.patience.quorum = 1;
  const FederatedData data = gaussian_federation(std::vector<GaussianNode>(14, {{4, 4, 4}, {3, 3, 3}}));
  for (const Index absent : {10, 13}) {
    LocalFederation federation(settings, data);
    WithoutNode lossy(federation.engine(), 1, 1, absent);
    std::vector<std::string> said = run_federation(settings, federation.task(), lossy).warnings;
    ASSERT_EQ(said.size(), absent == 10 ? 10U : 11U);
    EXPECT_EQ(said[9], "node 11 took no part in 2 of 2 rounds, last since it is not there");
    EXPECT_EQ(said.back(), absent == 10 ? said[9] : "3 more nodes took no part in some rounds");
  }
}

TEST_F(AbsentNode, EndsTheRunWhereEverybodyIsNeeded) {
  expect_error(ErrorKind::kPeer, "node 2: it is not there", [&] { run(0); });
}

/// Four nodes of which the operator leaves some out, by round.
class LeftOut : public testing::Test {
 protected:
  LeftOut()
      : data_(gaussian_federation({{{40, 10, 10}, {10, 30, 10}},
                                   {{10, 40, 10}, {10, 10, 30}},
                                   {{10, 10, 40}, {30, 10, 10}},
                                   {{20, 20, 20}, {50, 5, 5}}})),
        settings_(short_settings()),
        federation_(settings_, data_) {}

  static FederationSettings short_settings() {
    FederationSettings settings = weighted_settings("mlls");
    settings.rounds = 6;
    settings.evaluate_every = 3;
    return settings;
  }
  /// Nodes that are left out while `until` rounds are done, and nobody after it.
  static FederationHooks without(std::vector<Index> nodes, int until, std::vector<FederationState>* seen = nullptr) {
    const auto done = std::make_shared<int>(0);
    return {.checkpoint = with_state([done, seen](const FederationState& state) {
              *done = state.round;
              if (seen) seen->push_back(state);
            }),
            .left_out = [=] { return *done < until ? nodes : std::vector<Index>(); }};
  }

  const FederatedData data_;
  FederationSettings settings_;
  LocalFederation federation_;
};

TEST_F(LeftOut, ANodeIsNeitherInTheGoalNorInTraining) {
  const FederationState all = LocalFederation(settings_, data_).run();
  const FederationState state = federation_.run(without({3}, 100));
  EXPECT_NEAR(all.target_sum.sum(), 4.0, 1e-9);
  EXPECT_NEAR(state.target_sum.sum(), 3.0, 1e-9);
  EXPECT_EQ(state.left_out, std::vector<Index>{3});
  EXPECT_EQ(state.counted, (std::vector<std::uint64_t>{6, 6, 6, 0}));
  EXPECT_TRUE(federation_.numbers(3, "ratio").empty());
  ASSERT_EQ(state.history.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(state.history[i].accuracy), i % 4 == 3) << i;
  EXPECT_THAT(state.warnings,
              testing::Contains("node 4 was left out by the operator in phase 1; its label mix is not in the goal"));
  // Of three nodes alone, as numbers of nodes go.
  FederatedData three =
      gaussian_federation({{{40, 10, 10}, {10, 30, 10}}, {{10, 40, 10}, {10, 10, 30}}, {{10, 10, 40}, {30, 10, 10}}});
  EXPECT_EQ(LocalFederation(settings_, three).run().parameters, state.parameters);
}

TEST_F(LeftOut, ANodeCannotBeTheGoal) {
  settings_.ratio.goal_node = 2;
  const auto run_without = [&](Index node) { LocalFederation(settings_, data_).run(without({node}, 100)); };
  try {
    run_without(1);
    ADD_FAILURE() << "nobody said so";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the goal is the risk of node 2, which is left out"));
  }
  run_without(2);  // another than the goal
}

TEST_F(LeftOut, ANodeThatIsLetInChangesTheWeightsOfAllFromThatRoundOn) {
  std::vector<FederationState> seen;
  const FederationState state = federation_.run(without({1, 3}, 2, &seen));
  LocalFederation always(settings_, data_);
  const FederationState all = always.run();
  EXPECT_EQ(seen[2].round, 2);
  EXPECT_NEAR(seen[2].target_sum.sum(), 2.0, 1e-9);
  // Values stay normalised as they were agreed on without them, so estimates may differ a little.
  for (Index c = 0; c < 3; ++c) EXPECT_NEAR(seen[3].target_sum[c], all.target_sum[c], 0.05) << c;
  EXPECT_NEAR(seen[3].target_sum.sum(), 4.0, 1e-9);
  EXPECT_TRUE(state.left_out.empty());
  const double priors[4][3] = {{4, 1, 1}, {1, 4, 1}, {1, 1, 4}, {2, 2, 2}};  // / 6
  for (Index k = 0; k < 4; ++k)
    for (Index c = 0; c < 3; ++c)
      EXPECT_NEAR(federation_.numbers(k, "ratio")[c], 6.0 * state.target_sum[c] / priors[k][c], 1e-5) << k << c;
  EXPECT_EQ(state.counted, (std::vector<std::uint64_t>{6, 6, 6, 6}));
  EXPECT_FALSE(std::isnan(state.history[7].accuracy));
  for (const char* node : {"2", "4"})
    EXPECT_THAT(state.warnings,
                testing::Contains(std::string("node ") + node +
                                  " is let in by the operator from round 3 on, and all weights have changed with it"));
  EXPECT_NE(state.parameters, all.parameters);
}

TEST_F(LeftOut, ARunThatGoesOnFromACheckpointEndsInTheSameBits) {
  std::vector<FederationState> seen;
  const FederationState whole = federation_.run(without({3}, 2, &seen));
  LocalFederation again(settings_, data_);
  std::vector<FederationState> first;
  again.run(without({3}, 100, &first));  // as far as round 2, nodes remember the same
  ASSERT_EQ(first[2].round, 2);
  const FederationState state = again.run({.left_out = [] { return std::vector<Index>(); }}, first[2]);
  EXPECT_EQ(state.parameters, whole.parameters);
  EXPECT_EQ(state.target_sum, whole.target_sum);
  // One that is left out while nothing runs is named too.
  const FederationState without = again.run({.left_out = [] { return std::vector<Index>{1, 3}; }}, first[2]);
  EXPECT_THAT(without.warnings, testing::Contains("node 2 is left out by the operator from round 3 on; its label mix "
                                                  "stays in the goal"));
}

TEST_F(LeftOut, ANodeIsLeftOutOfControlsThatGoOnFromACheckpointToo) {
  settings_.algorithm = "scaffold";
  settings_.local.steps = 3;
  const auto left_out = [] { return std::vector<Index>{3}; };
  std::vector<FederationState> seen;
  LocalFederation federation(settings_, data_);
  const FederationState whole = federation.run(without({3}, 100, &seen));
  LocalFederation again(settings_, data_);
  std::vector<FederationState> first;
  int rounds = 0;
  EXPECT_THROW(again.run({.progress = [&](std::string_view, double) { return rounds < 3; },
                          .checkpoint = with_state([&](const FederationState& state) {
                            first.push_back(state);
                            rounds = state.round;
                          }),
                          .left_out = left_out}),
               Stopped);
  ASSERT_EQ(first.back().round, 3);
  EXPECT_EQ(again.run({.left_out = left_out}, first.back()).parameters, whole.parameters);
}

TEST_F(LeftOut, WeightsAreMadeAnewWhereANodeThatWasLetInFailsHalfWay) {
  /// Node 4 fails when it gets its weights, after the others got theirs.
  class FailsAtRatio : public Engine {
   public:
    explicit FailsAtRatio(Engine& engine) : engine_(engine) {}
    Index nodes() const override { return engine_.nodes(); }
    CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                      const Patience& patience, const Observer& observer) override {
      CohortOutcome outcome = engine_.run(request, cohort, terms, patience, observer);
      if (request.task != static_cast<std::uint32_t>(TaskKind::kRatio) || cohort.back().node != 3) return outcome;
      failed = true;
      outcome.contributed.pop_back();
      outcome.failed.push_back({.node = 3, .kind = ErrorKind::kPeer, .sentence = "it is not there"});
      return outcome;
    }
    bool failed = false;

   private:
    Engine& engine_;
  };
  FailsAtRatio engine(federation_.engine());
  int done = 0;
  const FederationState state = run_federation(
      settings_, federation_.task(), engine,
      {.checkpoint = with_state([&](const FederationState& now) { done = now.round; }),
       .left_out = [&] { return done < 2 || engine.failed ? std::vector<Index>{3} : std::vector<Index>(); }});
  EXPECT_TRUE(engine.failed);
  LocalFederation never(settings_, data_);
  const FederationState without_it = never.run(without({3}, 100));
  EXPECT_EQ(state.target_sum, without_it.target_sum);
  for (Index k = 0; k < 3; ++k) EXPECT_EQ(federation_.numbers(k, "ratio"), never.numbers(k, "ratio")) << k;
  EXPECT_EQ(state.parameters, without_it.parameters);
}

TEST_F(LeftOut, ANodeThatWasInTheGoalStaysThereAndComesBackWithoutNewWeights) {
  LocalFederation always(settings_, data_);
  const FederationState all = always.run();
  int done = 0;
  const FederationState state = federation_.run(
      {.checkpoint = with_state([&](const FederationState& now) { done = now.round; }),
       .left_out = [&] { return done == 2 || done == 3 ? std::vector<Index>{1} : std::vector<Index>(); }});
  EXPECT_EQ(state.target_sum, all.target_sum);
  EXPECT_EQ(state.counted, (std::vector<std::uint64_t>{6, 6, 6, 6}));
  EXPECT_THAT(state.warnings, testing::Contains("node 2 is left out by the operator from round 3 on; its label mix "
                                                "stays in the goal"));
  EXPECT_THAT(state.warnings, testing::Contains("node 2 is let in by the operator from round 5 on"));
  EXPECT_NE(state.parameters, all.parameters);
}

TEST_F(LeftOut, WarningsSayWhoseMixIsInTheGoalAtTheEnd) {
  // Node 4 is not there at first. Node 2 leaves after round 2, and node 4 comes after round 4, with new weights.
  int done = 0;
  const FederationState state = federation_.run(
      {.checkpoint = with_state([&](const FederationState& now) { done = now.round; }), .left_out = [&] {
         return done < 2 ? std::vector<Index>{3} : done < 4 ? std::vector<Index>{1, 3} : std::vector<Index>{1};
       }});
  EXPECT_NEAR(state.target_sum.sum(), 3.0, 1e-9);
  EXPECT_THAT(state.warnings,
              testing::IsSupersetOf({"node 4 was left out by the operator in phase 1",
                                     "node 2 is left out by the operator from round 3 on; its label mix is not in the "
                                     "goal",
                                     "node 4 is let in by the operator from round 5 on, and all weights have changed "
                                     "with it"}));
}

TEST_F(LeftOut, ANodeLeavesNothingInWhatAddsUpOverNodes) {
  settings_.ratio.method = "none";
  settings_.algorithm = "scaffold";
  settings_.local.steps = 3;
  settings_.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
  LocalFederation federation(settings_, data_);
  int done = 0;
  const FederationState state =
      federation.run({.checkpoint = with_state([&](const FederationState& now) { done = now.round; }),
                      .left_out = [&] { return done >= 2 ? std::vector<Index>{3} : std::vector<Index>(); }});
  EXPECT_EQ(state.counted, (std::vector<std::uint64_t>{6, 6, 6, 0}));
  EXPECT_EQ(state.company, 3);
  EXPECT_THAT(state.warnings, testing::Contains("scaffold begins anew at round 3, since what nodes keep of it adds up "
                                                "over those that take part"));
  const std::vector<float>& control = state.algorithm.parts.at("control");
  std::vector<double> mean(control.size());
  for (Index k = 0; k < 3; ++k) {
    const NamedParts kept = recall_round(*federation.store().of(k), 6);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += kept.at("control")[i] / 3.0;
  }
  double largest = 0.0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(control[i], mean[i], 1e-5) << i;  // both are float32
    largest = std::max(largest, std::abs(mean[i]));
  }
  EXPECT_GT(largest, 1e-3);
}

/// Node 4 fails at a task until it is left out, which the operator does when it has failed.
class Failing : public Engine {
 public:
  Failing(Engine& engine, TaskKind task, int before = 0)
      : engine_(engine), task_(static_cast<std::uint32_t>(task)), left_(before) {}
  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    CohortOutcome outcome = engine_.run(request, cohort, terms, patience, observer);
    if (request.task != task_ || request.round == 1 || cohort.back().node != 3 || left_-- > 0) return outcome;
    failed = true;
    outcome.contributed.pop_back();
    outcome.failed.push_back({.node = 3, .kind = ErrorKind::kPeer, .sentence = "it is not there"});
    return outcome;
  }
  bool failed = false;

 private:
  Engine& engine_;
  const std::uint32_t task_;
  int left_;  // how often it does not fail yet
};

TEST_F(LeftOut, WhatNeedsEveryNodeIsTriedAgainWithoutOneThatIsLeftOutMeanwhile) {
  for (const TaskKind task : {TaskKind::kHello, TaskKind::kJoin, TaskKind::kTarget, TaskKind::kRatio, TaskKind::kTrain,
                              TaskKind::kEvaluate}) {
    LocalFederation local(settings_, data_);
    Failing engine(local.engine(), task);
    const auto left_out = [&] { return engine.failed ? std::vector<Index>{3} : std::vector<Index>(); };
    const FederationState state = run_federation(settings_, local.task(), engine, {.left_out = left_out});
    EXPECT_EQ(state.round, 6);
    const bool in_goal = task == TaskKind::kTrain || task == TaskKind::kEvaluate;
    EXPECT_NEAR(state.target_sum.sum(), in_goal ? 4.0 : 3.0, 1e-9) << static_cast<int>(task);
    EXPECT_EQ(state.counted[3], task == TaskKind::kTrain ? 1u : task == TaskKind::kEvaluate ? 3u : 0u);
    EXPECT_THAT(state.warnings, testing::Contains(testing::HasSubstr("left out by the operator")));
    LocalFederation never(settings_, data_);
    Failing ends(never.engine(), task);
    EXPECT_THROW(run_federation(settings_, never.task(), ends), Error);
  }
}

TEST_F(LeftOut, APredictorOfAllBeginsAgainWithoutANodeThatIsLostWhileItIsCalibrated) {
  settings_.ratio.method = "vrls";
  settings_.ratio.predictor = PredictorScope::kFederated;
  settings_.ratio.rounds = 5;
  settings_.ratio.shared_prior = true;
  LocalFederation without(settings_, data_);
  const FederationState expected = without.run({.left_out = [] { return std::vector<Index>{3}; }});
  struct Moment {
    TaskKind task;
    int before;
  };
  for (const auto& [task, before] :
       {Moment{TaskKind::kHeldOut, 0}, Moment{TaskKind::kCalibrate, 0}, Moment{TaskKind::kCalibrate, 3},
        Moment{TaskKind::kTargetTogether, 0}, Moment{TaskKind::kSharedMix, 0}, Moment{TaskKind::kSharedMix, 5},
        Moment{TaskKind::kSharedTarget, 0}}) {
    LocalFederation local(settings_, data_);
    Failing engine(local.engine(), task, before);
    const FederationState state =
        run_federation(settings_, local.task(), engine,
                       {.left_out = [&] { return engine.failed ? std::vector<Index>{3} : std::vector<Index>(); }});
    EXPECT_TRUE(engine.failed) << static_cast<int>(task);
    EXPECT_EQ(state.target_sum, expected.target_sum) << static_cast<int>(task);
    EXPECT_EQ(state.parameters, expected.parameters) << static_cast<int>(task);
  }
}

}  // namespace
}  // namespace labelshift
