#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/fixed_point.hpp"
#include "labelshift/federation/streams.hpp"
#include "tests/federation/gaussian_federation.hpp"

// Importance weights that are made again while the model is trained.

namespace labelshift {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Changes answers before they are looked at, or loses them.
class Tampering : public Engine {
 public:
  using Change = std::function<void(Index node, const Request& request, Answer& answer)>;
  Tampering(Engine& engine, Change change) : engine_(engine), change_(std::move(change)) {}
  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    AnswerTerms changed = terms;
    changed.accept = [&](Index node, Answer& answer) {
      change_(node, request, answer);
      if (terms.accept) terms.accept(node, answer);
    };
    return engine_.run(request, cohort, changed, patience, observer);
  }

 private:
  Engine& engine_;
  const Change change_;
};

bool is(const Request& request, TaskKind task) {
  return request.task == static_cast<std::uint32_t>(task);
}

/// Two nodes of three classes: their targets add up to (0.65, 1.1, 0.25).
FederatedData two_nodes() {
  return gaussian_federation({{{800, 100, 100}, {30, 540, 30}}, {{100, 100, 800}, {360, 120, 120}}});
}
const Eigen::Vector3d kTruth(0.65, 1.1, 0.25);

/// Local predictors that are not trained to speak of.
FederationSettings refreshed_settings(const std::string& method = "mlls") {
  FederationSettings settings = weighted_settings(method);
  settings.rounds = 40;
  settings.evaluate_every = 20;
  settings.ratio.epochs = 1;
  settings.ratio.learning_rate = 1e-9;
  settings.ratio.refresh = 10;
  return settings;
}

TEST(Refresh, BringsTheSumCloserToTheTruthThanABadPredictorDid) {
  const FederatedData data = two_nodes();
  for (const char* method : {"mlls", "vrls", "mlls-ts"}) {
    SCOPED_TRACE(method);
    LocalFederation federation(refreshed_settings(method), data);
    const FederationState state = federation.run();
    ASSERT_EQ(state.weighings.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(state.weighings[i].round, 10 * static_cast<int>(i));
      EXPECT_EQ(state.weighings[i].skipped, "");
    }
    EXPECT_GT(state.weighings[0].target_error, 0.5);
    // Of 600 examples a share is found to 0.026 by a calibrated model of this accuracy (federation_test.cpp); the
    // calibration, from 180 held-out examples of each of two classes and 40 of the third, adds as much. Four times the
    // root of the sum of squares is 0.15 for each of three shares; that of the mean of two nodes is less.
    EXPECT_LT(state.weighings[3].target_error, 0.3);
    EXPECT_EQ(state.target_error, state.weighings[3].target_error);
    EXPECT_NEAR((state.target_sum - kTruth).lpNorm<1>() / 2.0, state.target_error, 1e-9);
    for (const NodeRatio& node : state.ratios) EXPECT_LT(node.prior_error, 0.4) << node.node;
  }
}

TEST(Refresh, GivesEveryNodeTheWeightsOfTheNewSumWithAShareOfThePooledPrior) {
  const FederatedData data = two_nodes();
  for (const double floor : {0.0, 0.01, 0.3})
    for (const Weighting weighting : {Weighting::kNodes, Weighting::kPooled}) {
      FederationSettings settings = refreshed_settings();
      settings.weighting = weighting;
      settings.ratio.floor = floor;
      LocalFederation federation(settings, data);
      const FederationState state = federation.run();
      EXPECT_NEAR(state.target_sum.sum(), 2.0, 1e-9);  // as it was estimated, without the floor
      const Eigen::Vector3d pooled(0.45, 0.1, 0.45);   // a fifth of each class is held out at both nodes
      const double priors[2][3] = {{0.8, 0.1, 0.1}, {0.1, 0.1, 0.8}};
      for (Index k = 0; k < 2; ++k) {
        const std::vector<float> ratio = federation.numbers(k, "ratio-30");
        ASSERT_EQ(ratio.size(), 3u);
        for (Index c = 0; c < 3; ++c) {
          const double goal = (1.0 - floor) * state.target_sum[c] + floor * 2.0 * pooled[c];
          EXPECT_NEAR(ratio[c], goal / (weighting == Weighting::kPooled ? pooled[c] : priors[k][c]), 1e-4) << k << c;
        }
        EXPECT_EQ(state.ratios[k].examples, 800.0);
      }
    }
}

TEST(Refresh, LeavesNoWeightsBehindThatNobodyCanGoBackTo) {
  const FederatedData data = two_nodes();
  LocalFederation federation(refreshed_settings(), data);
  federation.run({.checkpoint = with_state([](const FederationState&) {})});  // every round is saved
  for (Index k = 0; k < 2; ++k) {
    EXPECT_THAT(federation.store().of(k)->names("ratio"), testing::ElementsAre("ratio-30"));
    EXPECT_THAT(federation.store().of(k)->names("target"), testing::ElementsAre("target-30"));
  }
}

TEST(Refresh, ChangesTheMixThatTheModelIsTrainedTowards) {
  const FederatedData data = two_nodes();
  LocalFederation federation(refreshed_settings(), data);
  std::vector<Eigen::VectorXd> told;  // at evaluations
  Tampering engine(federation.engine(), [&](Index, const Request& request, Answer&) {
    if (is(request, TaskKind::kEvaluate)) told.push_back(from_bytes<Evaluate::Request>(request.body).trained_mix);
  });
  Eigen::VectorXd before;
  const FederationState state = run_federation(refreshed_settings(), federation.task(), engine,
                                               {.checkpoint = with_state([&](const FederationState& now) {
                                                  if (now.round == 1) before = now.trained_mix;
                                                })});
  // Weighted with what nodes have from the last refresh on; they count the same.
  Eigen::Vector3d mix = Eigen::Vector3d::Zero();
  const double priors[2][3] = {{0.8, 0.1, 0.1}, {0.1, 0.1, 0.8}};
  for (Index k = 0; k < 2; ++k) {
    const std::vector<float> ratio = federation.numbers(k, "ratio-30");
    for (Index c = 0; c < 3; ++c) mix[c] += ratio[static_cast<std::size_t>(c)] * priors[k][c];
  }
  EXPECT_LE((state.trained_mix - mix / mix.sum()).lpNorm<1>(), 1e-6);
  EXPECT_GT((state.trained_mix - before).lpNorm<1>(), 0.2);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), state.trained_mix);
}

TEST(Refresh, SaysWhereTheCalibrationStoppedBeforeItsOptimum) {
  const FederatedData data = two_nodes();
  const auto warnings = [&](FederationSettings settings, bool uphill) {
    LocalFederation federation(settings, data);
    Tampering engine(federation.engine(), [&](Index, const Request& request, Answer& answer) {
      if (!is(request, TaskKind::kCalibrate) || !uphill) return;
      const auto asked = from_bytes<Calibrate::Request>(request.body);
      const std::size_t fits = asked.left_out.size();
      for (std::size_t i = 2 * fits; i < 2 * fits + static_cast<std::size_t>(asked.parameters.size()); ++i)
        answer.words[i] = std::uint64_t{0} - answer.words[i];  // gradients, after values and those of held-out folds
    });
    return run_federation(settings, federation.task(), engine).warnings;
  };
  FederationSettings settings = refreshed_settings("vrls");
  EXPECT_THAT(warnings(settings, false), testing::Not(Contains(HasSubstr("stopped before its optimum"))));
  EXPECT_THAT(warnings(settings, true),
              Contains(HasSubstr("the calibration of the model on all nodes' held-out examples stopped before its "
                                 "optimum and is used as it stands")));
  settings.ratio.refresh = 0;
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.ratio.rounds = 5;
  EXPECT_THAT(warnings(settings, true), Contains(HasSubstr("the calibration of the predictor on all nodes' held-out")));
}

TEST(Refresh, LetsAClassWhoseWeightFellToNothingComeBack) {
  const FederatedData data = two_nodes();
  const auto run = [&](double floor, std::vector<float>& first) {
    FederationSettings settings = refreshed_settings();
    settings.ratio.floor = floor;
    LocalFederation federation(settings, data);
    // Both nodes take all they see before training for the first class.
    Tampering engine(federation.engine(), [](Index, const Request& request, Answer& answer) {
      if (!is(request, TaskKind::kTarget) || from_bytes<Target::Request>(request.body).kind == Target::Kind::kTruth)
        return;
      const auto shares = to_fixed(std::vector{1.0, 0.0, 0.0}, 1);
      std::copy(shares.begin(), shares.end(), answer.words.begin());
    });
    return run_federation(settings, federation.task(), engine,
                          {.checkpoint = with_state([&](const FederationState& state) {
                             if (state.round == 1) first = federation.numbers(0, "ratio");
                           })});
  };
  std::vector<float> with, without;
  const FederationState state = run(0.01, with);
  // Of the sum (2, 0, 0): 0.99 * 2 + 0.02 * 0.45 over 0.8, and 0.02 * 0.1 and 0.02 * 0.45 over 0.1.
  EXPECT_NEAR(with[0], 1.989 / 0.8, 1e-5);
  EXPECT_NEAR(with[1], 0.002 / 0.1, 1e-5);
  EXPECT_NEAR(with[2], 0.009 / 0.1, 1e-5);
  EXPECT_GT(state.weighings[0].target_error, 1.3);
  EXPECT_LT(state.weighings[3].target_error, 0.3);  // as in BringsTheSumCloserToTheTruthThanABadPredictorDid
  EXPECT_THAT(state.warnings, testing::Not(Contains(HasSubstr("no weight is left"))));
  const FederationState bare = run(0.0, without);
  EXPECT_EQ(without[1], 0.0F);
  EXPECT_EQ(without[2], 0.0F);
  EXPECT_THAT(bare.warnings, Contains("no weight is left for b, c: by the estimates no node will meet them"));
}

TEST(Refresh, TrainsTheModelOnNothingThatItIsCalibratedOn) {
  FederationSettings settings = refreshed_settings();
  settings.rounds = 8;  // none is due
  settings.evaluate_every = 8;
  FederatedData data = gaussian_federation({{{80, 10, 10}, {5, 90, 5}}, {{10, 10, 80}, {60, 20, 20}}});
  const FederationState state = LocalFederation(settings, data).run();
  EXPECT_THAT(state.warnings, Contains(HasSubstr("weights are never refreshed, since training has 8 rounds and "
                                                 "ratio.refresh is 10")));
  // What the held-out examples are does not matter to it then.
  for (std::size_t node = 0; node < 2; ++node) {
    const NodeData& has = data.nodes[node];
    const PredictorRows rows =
        predictor_rows(*has.train, has.train_rows, settings.ratio,
                       node_seed(settings.seed, Stream::kLocalPredictor, static_cast<Index>(node)));
    EXPECT_EQ(rows.held_out.size(), 20u);
    auto& values = std::get<std::vector<float>>(const_cast<Dataset*>(has.train)->values);
    for (const Index row : rows.held_out) values[static_cast<std::size_t>(2 * row)] = 1e3F;
  }
  EXPECT_EQ(LocalFederation(settings, data).run().parameters, state.parameters);
  settings.ratio.refresh = 0;
  EXPECT_NE(LocalFederation(settings, data).run().parameters, state.parameters);
}

class RefreshOf : public testing::TestWithParam<const char*> {
 protected:
  static FederationSettings settings() {
    FederationSettings settings = refreshed_settings("vrls");
    settings.algorithm = GetParam();
    settings.rounds = 17;
    settings.evaluate_every = 4;
    settings.source_holdout = 0.2;  // so that evaluations look at q_k
    settings.ratio.refresh = 5;
    settings.local = {.steps = 3, .batch = 8, .learning_rate = 0.1};
    settings.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
    if (settings.algorithm == "fedbn") settings.model = {LABELSHIFT_FEDERATION_REFERENCE "/normed.pt", {}};
    return settings;
  }
  static void expect_same(const FederationState& a, const FederationState& b) {
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.target_sum, b.target_sum);
    ASSERT_EQ(a.weighings.size(), b.weighings.size());
    for (std::size_t i = 0; i < a.weighings.size(); ++i) {
      EXPECT_EQ(a.weighings[i].round, b.weighings[i].round);
      EXPECT_EQ(a.weighings[i].target_error, b.weighings[i].target_error);
      EXPECT_EQ(a.weighings[i].skipped, b.weighings[i].skipped);
    }
    ASSERT_EQ(a.history.size(), b.history.size());
    for (std::size_t i = 0; i < a.history.size(); ++i) {
      EXPECT_EQ(a.history[i].loss, b.history[i].loss) << i;
      EXPECT_EQ(a.history[i].reweighted_accuracy, b.history[i].reweighted_accuracy) << i;
    }
  }

  const FederatedData data_ =
      gaussian_federation({{{80, 20, 20}, {15, 40, 15}}, {{20, 80, 20}, {15, 15, 40}}, {{20, 20, 80}, {40, 15, 15}}});
};

TEST_P(RefreshOf, GivesTheSameBitsForAnyNumberOfWorkers) {
  const FederationState one = LocalFederation(settings(), data_, 1).run();
  ASSERT_EQ(one.weighings.size(), 4u);
  for (const Weighing& weighing : one.weighings) EXPECT_LT(weighing.target_error, 2.0);  // it is known
  for (const NodeEvaluation& row : one.history) EXPECT_GE(row.reweighted_accuracy, 0.0);
  expect_same(LocalFederation(settings(), data_, 3).run(), one);
}

TEST_P(RefreshOf, GoesOnWithTheSameBitsFromAnyRound) {
  const FederationState whole = LocalFederation(settings(), data_).run();
  for (const int stop : {0, 3, 5, 7, 10, 16}) {
    SCOPED_TRACE(stop);
    const std::string folder = testing::TempDir() + fmt::format("labelshift-refresh-{}-{}", ::getpid(), stop);
    std::filesystem::create_directories(folder);
    FederationState saved;
    LocalFederation stopped(settings(), data_);
    EXPECT_THROW(stopped.run({.checkpoint = with_state([&](const FederationState& state) {
                                saved = state;
                                if (state.round != stop) return;
                                stopped.store().save(folder);
                                throw Stopped{};
                              })}),
                 Stopped);
    LocalFederation federation(settings(), data_);
    federation.store().load(folder);
    std::filesystem::remove_all(folder);
    expect_same(federation.run({}, saved), whole);
  }
}

TEST_P(RefreshOf, GoesOnFromACheckpointWithNodesThatHaveGoneFurther) {
  const FederationState whole = LocalFederation(settings(), data_).run();
  for (const int saved_round : {0, 3, 5, 7, 10, 14}) {
    SCOPED_TRACE(saved_round);
    LocalFederation federation(settings(), data_);  // whose nodes remember all that comes
    FederationState saved;
    const FederationHooks hooks{.checkpoint = [&](const FederationMoment& moment) {
      if (moment.round != saved_round) return false;
      saved = moment.state();
      return true;
    }};
    expect_same(federation.run(hooks), whole);
    expect_same(federation.run(hooks, saved), whole);
  }
}

TEST_P(RefreshOf, KeepsNoMoreThanCanBeAskedForAgain) {
  LocalFederation federation(settings(), data_);
  federation.run({.checkpoint = [](const FederationMoment& moment) { return moment.round == 7; }});
  // A coordinator can go back to round 7, whose weights are those of round 5, and has used those of 10 and 15.
  for (Index node = 0; node < 3; ++node) {
    EXPECT_TRUE(federation.numbers(node, "ratio").empty());
    EXPECT_TRUE(federation.numbers(node, "target").empty());
    for (const char* entry : {"ratio-5", "ratio-10", "ratio-15", "target-5", "target-10", "target-15"})
      EXPECT_EQ(federation.numbers(node, entry).size(), 3u) << entry;
  }
}

INSTANTIATE_TEST_SUITE_P(Federation, RefreshOf, testing::Values("iw-erm", "scaffold", "fedbn"), [](const auto& row) {
  std::string name = row.param;
  std::erase(name, '-');
  return name;
});

/// What is lost on its way, of node 2 after round 10.
struct LostTask {
  TaskKind task;
  const char* name;

  friend void PrintTo(const LostTask& row, std::ostream* out) { *out << row.name; }
};

class LostIn : public testing::TestWithParam<LostTask> {
 protected:
  FederationState run(Index quorum, std::function<std::vector<Index>()> left_out = {}) {
    FederationSettings settings = settings_of();
    settings.patience.quorum = quorum;
    federation_ = std::make_unique<LocalFederation>(settings, data_);
    Tampering engine(federation_->engine(), [&](Index node, const Request& request, Answer&) {
      const bool lost = node == 1 && is(request, GetParam().task) && done_ == 10 && times_ == 0;
      if (!lost) return;
      ++times_;
      throw Error(ErrorKind::kPeer, "it is not there");
    });
    return run_federation(settings, federation_->task(), engine,
                          {.checkpoint = with_state([&](const FederationState& state) {
                             done_ = state.round;
                             if (done_ == 10) before_ = state;
                             if (done_ == 11) after_ = state;
                           }),
                           .left_out = left_out});
  }

  static FederationSettings settings_of() {
    FederationSettings settings = refreshed_settings();
    settings.ratio.shared_prior = GetParam().task == TaskKind::kSharedMix || GetParam().task == TaskKind::kSharedTarget;
    return settings;
  }

  const FederatedData data_ = gaussian_federation(
      {{{160, 20, 20}, {30, 80, 30}}, {{20, 160, 20}, {60, 60, 20}}, {{20, 20, 160}, {80, 15, 15}}});
  std::unique_ptr<LocalFederation> federation_;
  int done_ = 0, times_ = 0;
  FederationState before_, after_;  // the refresh
};

TEST_P(LostIn, LeavesTheOldWeightsWhereRoundsGoOnWithoutSome) {
  const FederationState state = run(/*quorum=*/2);
  EXPECT_EQ(times_, 1);
  EXPECT_EQ(state.round, 40);
  ASSERT_EQ(state.weighings.size(), 4u);
  EXPECT_EQ(state.weighings[1].round, 10);
  EXPECT_EQ(state.weighings[1].skipped, "node 2: it is not there");
  EXPECT_TRUE(std::isnan(state.weighings[1].target_error));
  EXPECT_EQ(state.weighings[2].skipped, "");
  EXPECT_THAT(
      state.warnings,
      Contains("weights were not refreshed after round 10, and those from before stayed: node 2: it is not there"));
  // What is said of the weights is said of those that count.
  EXPECT_EQ(after_.target_sum, before_.target_sum);
  EXPECT_EQ(after_.target_error, before_.target_error);
  EXPECT_EQ(after_.largest_weight, before_.largest_weight);
  EXPECT_EQ(after_.ratios[0].largest, before_.ratios[0].largest);
  // Rounds 11 to 20 are those of a run that is not refreshed after round 10 either.
  FederationSettings settings = settings_of();
  settings.ratio.refresh = 20;
  settings.rounds = 20;
  settings.evaluate_every = 20;
  const FederationState other = LocalFederation(settings, data_).run();
  const auto after = [](const FederationState& of) {
    std::vector<double> losses;
    for (const NodeEvaluation& row : of.history)
      if (row.round == 20) losses.push_back(row.loss);
    return losses;
  };
  EXPECT_EQ(after(state), after(other));
}

TEST_P(LostIn, EndsTheRunWhereEverybodyIsNeeded) {
  try {
    run(/*quorum=*/0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_STREQ(error.what(), "node 2: it is not there");
  }
}

TEST_P(LostIn, IsDoneWithoutWhomTheOperatorLeavesOutMeanwhile) {
  for (const Index quorum : {0, 2}) {
    times_ = done_ = 0;
    const FederationState state =
        run(quorum, [&] { return times_ > 0 && done_ < 25 ? std::vector<Index>{1} : std::vector<Index>(); });
    ASSERT_EQ(state.weighings.size(), 5u) << quorum;
    const int rounds[] = {0, 10, 20, 25, 30};  // it comes back after round 25, and all weights change with it
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(state.weighings[i].round, rounds[i]);
      EXPECT_EQ(state.weighings[i].skipped, "");
    }
    EXPECT_NEAR(state.target_sum.sum(), 3.0, 1e-9);
    EXPECT_TRUE(state.left_out.empty());
    EXPECT_THAT(state.warnings, Contains("node 2 is let in by the operator from round 26 on, and all weights have "
                                         "changed with it"));
    // Without it there was no new weight for it.
    EXPECT_TRUE(federation_->numbers(1, "ratio-20").empty());
    EXPECT_EQ(federation_->numbers(1, "ratio-30").size(), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(Federation, LostIn,
                         testing::Values(LostTask{TaskKind::kJoin, "Join"}, LostTask{TaskKind::kHeldOut, "HeldOut"},
                                         LostTask{TaskKind::kCalibrate, "Calibrate"},
                                         LostTask{TaskKind::kTargetTogether, "TargetTogether"},
                                         LostTask{TaskKind::kSharedMix, "SharedMix"},
                                         LostTask{TaskKind::kSharedTarget, "SharedTarget"},
                                         LostTask{TaskKind::kRatio, "Ratio"}),
                         [](const auto& row) { return row.param.name; });

TEST(Refresh, AimsAtOneNodeWhereThatIsTheGoal) {
  FederationSettings settings = refreshed_settings();
  settings.ratio.goal_node = 1;
  const FederatedData data = two_nodes();
  const FederationState state = LocalFederation(settings, data).run();
  EXPECT_NEAR(state.target_sum.sum(), 1.0, 1e-9);
  EXPECT_LT((state.target_sum - Eigen::Vector3d(0.05, 0.9, 0.05)).lpNorm<1>(), 0.4);  // of one node, as of every
}

TEST(Refresh, LeavesNoScoresAtAnyNode) {
  const FederatedData data = two_nodes();
  for (const int goal : {0, 1})
    for (const int refresh : {0, 10}) {
      FederationSettings settings = refreshed_settings("vrls");
      settings.ratio.refresh = refresh;
      if (refresh == 0) settings.ratio.predictor = PredictorScope::kFederated;
      settings.ratio.rounds = 5;
      settings.ratio.goal_node = goal;
      settings.ratio.shared_prior = goal == 0;
      LocalFederation federation(settings, data);
      federation.run();
      for (Index k = 0; k < 2; ++k)
        for (const char* entry : {kHeldOutEntry, kTargetRowsEntry})
          EXPECT_FALSE(federation.store().of(k)->get(entry)) << goal << refresh << k << entry;
    }
}

TEST(Refresh, IsSkippedWhereTheDataDoNotAllowIt) {
  const FederatedData data = two_nodes();
  LocalFederation federation(refreshed_settings(), data);
  Tampering engine(federation.engine(), [](Index, const Request& request, Answer&) {
    if (is(request, TaskKind::kTargetTogether) && request.round == 20)
      throw Error(ErrorKind::kInput, "its confusion matrix is singular");
  });
  const FederationState state = run_federation(refreshed_settings(), federation.task(), engine);
  EXPECT_EQ(state.round, 40);
  ASSERT_EQ(state.weighings.size(), 4u);
  EXPECT_EQ(state.weighings[2].skipped, "node 1: its confusion matrix is singular");
  EXPECT_EQ(state.weighings[3].skipped, "");
}

TEST(Refresh, IsSkippedWhereTheNodeWhoseRiskIsTheGoalIsLeftOut) {
  FederationSettings settings = refreshed_settings();
  settings.ratio.goal_node = 1;
  const FederatedData data = two_nodes();
  LocalFederation federation(settings, data);
  int done = 0;
  const FederationState state =
      federation.run({.checkpoint = with_state([&](const FederationState& now) { done = now.round; }),
                      .left_out = [&] { return done >= 15 ? std::vector<Index>{0} : std::vector<Index>(); }});
  EXPECT_EQ(state.round, 40);
  ASSERT_EQ(state.weighings.size(), 4u);
  EXPECT_EQ(state.weighings[1].skipped, "");
  for (const std::size_t i : {2, 3})
    EXPECT_EQ(state.weighings[i].skipped, "node 1, whose risk is the goal, is left out");
  EXPECT_THAT(state.warnings, Contains("weights were not refreshed after round 20, 30, and those from before stayed: "
                                       "node 1, whose risk is the goal, is left out"));
}

TEST(Refresh, TellsWhatItCostsAsAPhaseOfItsOwn) {
  FederationSettings settings = refreshed_settings("bbse-soft");  // which calibrates nothing
  const FederatedData data = two_nodes();
  const FederationState state = LocalFederation(settings, data).run();
  const auto found = std::find_if(state.phases.begin(), state.phases.end(),
                                  [](const PhaseCost& cost) { return cost.name == phase::kRefresh; });
  ASSERT_NE(found, state.phases.end());
  EXPECT_EQ(found->rounds, 3 * 4);  // join, held-out examples, targets, ratios
  EXPECT_GT(found->traffic.up, 0u);
}

}  // namespace
}  // namespace labelshift
