#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "labelshift/core/stopped.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/gaussian_federation.hpp"

// What a run tells, and what it does with answers, memories and beginnings of its own.

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kNormed = LABELSHIFT_FEDERATION_REFERENCE "/normed.pt";

FederatedData two_nodes() {
  return gaussian_federation({{{20, 5, 5}, {5, 20, 5}}, {{5, 5, 20}, {10, 10, 10}}});
}

std::string error_of(ErrorKind kind, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

/// Changes answers on their way to the coordinator.
class Tampering : public Engine {
 public:
  Tampering(Engine& engine, std::function<void(CohortAnswer& answer)> change)
      : engine_(engine), change_(std::move(change)) {}
  Index nodes() const override { return engine_.nodes(); }
  CohortAnswer run(const Request& request, std::span<const Index> cohort, const CohortObserver& observer) override {
    CohortAnswer answer = engine_.run(request, cohort, observer);
    change_(answer);
    return answer;
  }

 private:
  Engine& engine_;
  std::function<void(CohortAnswer&)> change_;
};

TEST(Coordinator, RefusesAnswersOfAnotherLength) {
  const FederatedData data = two_nodes();
  const FederationSettings settings = quick_settings();
  LocalFederation federation(settings, data);
  const std::vector<std::function<void(CohortAnswer&)>> changes = {
      [](auto& answer) { answer.numbers.pop_back(); },
      [](auto& answer) { answer.numbers.push_back(0.0); },
      [](auto& answer) { answer.weights.push_back(0.0); },
      [](auto& answer) { answer.reports.pop_back(); },
      [](auto& answer) { answer.reports[0].values.resize(1); },
      [](auto& answer) { answer.reports[1].values.resize(1); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Tampering engine(federation.engine(), changes[i]);
    EXPECT_THAT(error_of(ErrorKind::kPeer, [&] { run_federation(settings, federation.task(), engine); }),
                HasSubstr("do they all run this version"))
        << i;
  }
}

TEST(Coordinator, RefusesRoundsThatWeighNothingOrDiverge) {
  const FederatedData data = two_nodes();
  FederationSettings together = weighted_settings("mlls");  // of a predictor, first of all
  together.ratio.predictor = PredictorScope::kFederated;
  for (const FederationSettings& settings : {quick_settings(), together}) {
    LocalFederation federation(settings, data);
    const auto with = [&](std::size_t number, double value) {
      Tampering engine(federation.engine(), [=](CohortAnswer& answer) {
        if (!answer.weights.empty()) answer.numbers[number] = value;
      });
      return error_of(number == 0 ? ErrorKind::kPeer : ErrorKind::kInput, [&] {
        run_federation(settings, federation.task(), engine, {.progress = [&](std::string_view stage, double) {
                         return settings.algorithm != "iw-erm" || stage != "training";  // a predictor's rounds alone
                       }});
      });
    };
    EXPECT_THAT(with(0, 0.0), HasSubstr("weigh nothing"));
    EXPECT_THAT(with(0, std::nan("")), HasSubstr("weigh nothing"));
    EXPECT_THAT(with(1, INFINITY), HasSubstr("round 1: the loss is not finite"));
  }
}

TEST(Coordinator, TellsHowMuchOfTheTrainingIsDone) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  settings.rounds = 4;
  settings.evaluate_every = 3;
  FederationState second;
  std::vector<double> done, evaluated;
  const FederationObserver observer{.progress =
                                        [&](std::string_view stage, double part) {
                                          if (stage == "training") done.push_back(part);
                                          if (stage == "evaluation") evaluated.push_back(part);
                                          return true;
                                        },
                                    .checkpoint =
                                        [&](const FederationState& state) {
                                          EXPECT_DOUBLE_EQ(done.empty() ? 0.0 : done.back(), 0.25 * state.round);
                                          if (state.round == 2) second = state;
                                        }};
  LocalFederation federation(settings, data);
  const FederationState end = federation.run(observer);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 1.0);
  EXPECT_EQ(evaluated.front(), 0.75);
  EXPECT_EQ(evaluated.back(), 1.0);
  std::vector<int> rounds;
  for (const NodeEvaluation& row : end.history) rounds.push_back(row.round);
  EXPECT_THAT(rounds, ElementsAre(3, 3, 4, 4));
  // Of two rounds that are left, each is a half.
  done.clear();
  federation.run(
      {.progress =
           [&](std::string_view stage, double part) {
             if (stage == "training") done.push_back(part);
             return true;
           },
       .checkpoint = [&](const FederationState& state) { EXPECT_DOUBLE_EQ(done.back(), 0.5 * (state.round - 2)); }},
      second);
  EXPECT_EQ(done.back(), 1.0);
}

TEST(Coordinator, TellsHowMuchOfTheRatiosIsDone) {
  const FederatedData data = two_nodes();
  for (const bool pairwise : {true, false}) {
    FederationSettings settings = weighted_settings("mlls");
    settings.rounds = 1;
    settings.ratio.rounds = 10;
    if (pairwise)
      settings.ratio.exchange = RatioExchange::kPairwise;
    else
      settings.ratio.predictor = PredictorScope::kFederated;
    std::vector<double> done;
    LocalFederation(settings, data).run({.progress = [&](std::string_view stage, double part) {
      if (stage == (pairwise ? "ratio" : "predictor")) done.push_back(part);
      return true;
    }});
    int drops = 0;
    for (std::size_t i = 1; i < done.size(); ++i) drops += done[i] < done[i - 1] - 1e-12;
    EXPECT_EQ(drops, pairwise ? 0 : 1);  // weights that balance the classes are a message of their own
    EXPECT_NEAR(*std::max_element(done.begin(), done.end()), 1.0, 1e-12);
    EXPECT_NEAR(done.back(), 1.0, 1e-12);
    if (pairwise) {
      EXPECT_THAT(done, testing::Contains(testing::DoubleNear(0.5, 1e-12)));  // the first of two nodes
      EXPECT_THAT(done, testing::Contains(testing::DoubleNear(0.75, 1e-12)));
    } else {
      EXPECT_THAT(done, testing::Contains(testing::DoubleNear(0.3, 1e-12)));  // three of ten rounds
    }
  }
}

TEST(Coordinator, NeverTellsOfMoreThanAll) {
  const FederatedData data = two_nodes();
  for (const char* method : {"true", "mlls-ts", "auto"})
    for (const PredictorScope scope : {PredictorScope::kLocal, PredictorScope::kFederated}) {
      FederationSettings settings = weighted_settings(method);
      settings.ratio.predictor = scope;
      settings.ratio.rounds = 5;
      settings.ratio.epochs = 4;
      settings.rounds = 3;
      settings.evaluate_every = 2;
      std::map<std::string, double> last;
      LocalFederation(settings, data).run({.progress = [&](std::string_view stage, double part) {
        EXPECT_GE(part, 0.0) << stage;
        EXPECT_LE(part, 1.0 + 1e-12) << stage;
        last[std::string(stage)] = part;
        return true;
      }});
      for (const auto& [stage, part] : last) EXPECT_NEAR(part, 1.0, 1e-12) << stage;
    }
}

TEST(Coordinator, StopsWhereTheObserverSaysSo) {
  const FederatedData data = two_nodes();
  for (const char* where : {"join", "training", "evaluation"}) {
    LocalFederation federation(quick_settings(), data);
    EXPECT_THROW(federation.run({.progress = [&](std::string_view stage, double) { return stage != where; }}), Stopped);
  }
}

TEST(Coordinator, CountsTimeAndMessagesOfEveryPhase) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("mlls-ts");
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.ratio.rounds = 7;
  settings.rounds = 4;
  settings.evaluate_every = 2;
  const FederationState end = LocalFederation(settings, data).run();
  std::vector<std::string> names;
  for (const PhaseCost& cost : end.phases) {
    names.push_back(cost.name);
    EXPECT_GT(cost.seconds, 0.0) << cost.name;
    EXPECT_GT(cost.traffic.up, 0u) << cost.name;
    EXPECT_GT(cost.traffic.down, 0u) << cost.name;
  }
  EXPECT_THAT(names, ElementsAre("join", "predictor", "ratio", "evaluation", "training"));
  EXPECT_EQ(end.phases[1].rounds, 1 + 7 + 1);  // class weights, training, temperatures
  EXPECT_EQ(end.phases[3].rounds, 1 + 2);      // the truth to compare with, two evaluations
  EXPECT_EQ(end.phases[4].rounds, 4);
  for (const NodeRatio& row : end.ratios) EXPECT_GT(row.seconds, 0.0);
  settings.ratio.predictor = PredictorScope::kLocal;
  settings.ratio.exchange = RatioExchange::kPairwise;
  const FederationState pairwise = LocalFederation(settings, data).run();
  EXPECT_THAT(pairwise.phases[1].name, "ratio");
  EXPECT_EQ(pairwise.phases[1].rounds, 2 * 3);  // for each node: its predictor, what all say, its weights
  for (const NodeRatio& row : pairwise.ratios) EXPECT_GT(row.seconds, 0.0);
}

TEST(Coordinator, NamesTenNodesThatLackSomethingAndCountsTheOthers) {
  for (const int nodes : {10, 11, 12}) {
    std::vector<GaussianNode> all(nodes, {{5, 5, 0}, {0, 0, 0}});
    all.push_back({{5, 5, 5}, {3, 3, 3}});
    const FederatedData data = gaussian_federation(all);
    FederationSettings settings = weighted_settings("true");
    settings.rounds = 1;
    const std::vector<std::string> warnings = LocalFederation(settings, data).run().warnings;
    ASSERT_EQ(warnings.size(), nodes > 10 ? 22u : 20u) << testing::PrintToString(warnings);
    EXPECT_THAT(warnings[0], HasSubstr("node 1 has no test examples"));
    EXPECT_THAT(warnings[1], HasSubstr("node 1 has no training example of class c"));
    EXPECT_THAT(warnings[18], HasSubstr("node 10 has no test examples"));
    EXPECT_THAT(warnings[19], HasSubstr("node 10 has no training example of class c"));
    if (nodes == 10) continue;
    EXPECT_THAT(warnings[20], HasSubstr(fmt::format("{} more nodes lack training examples", nodes - 10)));
    EXPECT_THAT(warnings[21], HasSubstr(fmt::format("{} more nodes have no test examples", nodes - 10)));
  }
}

TEST(Coordinator, SaysWhatClassesANodeLacksAndWhichNoNodeWillMeet) {
  const FederatedData data = gaussian_federation({{{0, 9, 0}, {1, 0, 0}}, {{9, 9, 9}, {4, 2, 0}}});
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  const std::vector<std::string> warnings = LocalFederation(settings, data).run().warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0], HasSubstr("node 1 has no training example of classes a, c"));
  EXPECT_THAT(warnings[1], HasSubstr("no weight is left for c: in these test data no node will meet it"));
  settings = quick_settings();  // nobody is told where there are no weights
  settings.rounds = 1;
  EXPECT_THAT(LocalFederation(settings, data).run().warnings, IsEmpty());
}

TEST(Coordinator, ANodeWhoseClassesNobodyMeetsCountsForNoExample) {
  const FederatedData data = gaussian_federation({{{0, 9}, {4, 0}}, {{9, 9}, {4, 0}}});
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  const std::vector<NodeRatio> ratios = LocalFederation(settings, data).run().ratios;
  EXPECT_EQ(ratios[0].largest, 0.0);
  EXPECT_EQ(ratios[0].effective_examples, 0.0);
  EXPECT_NEAR(ratios[1].effective_examples, 9.0, 1e-9);
}

TEST(Coordinator, NeedsTrainingExamplesOfAClassThatIsTestedOrWeighted) {
  const FederatedData unseen = gaussian_federation({{{9, 9, 0}, {4, 4, 0}}});
  const FederatedData tested = gaussian_federation({{{9, 9, 0}, {4, 4, 1}}});
  EXPECT_EQ(LocalFederation(quick_settings(), unseen).run().round, 20);
  LocalFederation both[] = {{quick_settings(), tested}, {weighted_settings("true"), unseen}};
  for (LocalFederation& federation : both)
    EXPECT_THAT(error_of(ErrorKind::kInput, [&] { federation.run(); }), HasSubstr("class c has no training examples"));
}

TEST(Coordinator, CannotKnowTrueRatiosWithoutLabels) {
  FederatedData data = two_nodes();
  data.sets[3]->labels.clear();
  LocalFederation federation(weighted_settings("true"), data);
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { federation.run(); }),
              HasSubstr("node 2: true ratios need test labels"));
}

TEST(Coordinator, KnowsTheErrorOfTheSumWhereEveryTestedNodeHasLabels) {
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 1;
  FederatedData data = gaussian_federation({{{20, 5}, {5, 20}}, {{5, 20}, {9, 9}}, {{5, 5}, {0, 0}}});
  const FederationState known = LocalFederation(settings, data).run();
  // Of three nodes the third counts 0 on both sides.
  const Eigen::Vector2d truth(0.2 + 0.5, 0.8 + 0.5);
  EXPECT_NEAR(known.target_error, (known.target_sum - truth).lpNorm<1>() / 3.0, 1e-12);
  data.sets[3]->labels.clear();
  const FederationState unknown = LocalFederation(settings, data).run();
  EXPECT_TRUE(std::isnan(unknown.target_error));
  EXPECT_EQ(unknown.target_sum, known.target_sum);
}

TEST(Coordinator, TakesUpWhatNodesHadEstimated) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  const FederationState first = federation.run();
  // Predictors that were trained again would be others: one epoch instead of twenty.
  settings.ratio.epochs = 1;
  LocalFederation again(settings, data);
  for (Index node = 0; node < 2; ++node) again.store().put(node, "estimate", federation.store().get(node, "estimate"));
  const FederationState kept = again.run({}, {.estimates_kept = true});
  EXPECT_EQ(kept.target_sum, first.target_sum);  // to the last bit
  EXPECT_EQ(kept.parameters, first.parameters);
  EXPECT_NE(again.run().target_sum, first.target_sum);  // without being told to
  LocalFederation fresh(settings, data);                // with nothing kept: as ever
  EXPECT_EQ(fresh.run({}, {.estimates_kept = true}).target_sum, LocalFederation(settings, data).run().target_sum);
  again.store().put(1, "estimate", std::vector<float>(12, 65535.0F));  // three numbers that are none
  EXPECT_THAT(error_of(ErrorKind::kInput, [&] { again.run({}, {.estimates_kept = true}); }),
              HasSubstr("node 2: what it remembers of its estimate is damaged"));
  for (const float piece : {-1.0F, 65536.0F}) {  // which no number is made of: it counts as 0
    again.store().put(1, "estimate", std::vector<float>(12, piece));
    EXPECT_NEAR(again.run({}, {.estimates_kept = true}).target_sum.sum(), 1.0, 1e-9);
  }
  again.store().put(1, "estimate", std::vector<float>(11));
  EXPECT_THAT(error_of(ErrorKind::kInput, [&] { again.run({}, {.estimates_kept = true}); }),
              HasSubstr("node 2: it remembers 11 numbers as its estimate, expected 12"));
}

class CoordinatorFolder : public Scratch {};

TEST_F(CoordinatorFolder, FedBnGoesOnWithTheSameBits) {
  const FederatedData data =
      gaussian_federation({{{20, 5, 5}, {5, 20, 5}}, {{5, 5, 20}, {10, 10, 10}}, {{5, 9, 5}, {5, 5, 5}}});
  FederationSettings settings = quick_settings();
  settings.algorithm = "fedbn";
  settings.model = {kNormed, {}};
  settings.sampled = 2;
  settings.rounds = 6;
  settings.evaluate_every = 1;
  LocalFederation whole(settings, data);
  FederationState saved;
  const FederationState end = whole.run({.checkpoint = [&](const FederationState& state) {
    if (state.round != 3) return;
    saved = state;
    whole.store().save(path("."));
  }});
  LocalFederation later(settings, data);
  later.store().load(path("."));
  const FederationState other = later.run({}, saved);
  EXPECT_EQ(other.parameters, end.parameters);
  ASSERT_EQ(other.history.size(), end.history.size());
  for (std::size_t i = 0; i < end.history.size(); ++i) EXPECT_EQ(other.history[i].loss, end.history[i].loss) << i;
  // What is evaluated at a node is the global model with that node's batch norms.
  for (Index node = 0; node < 3; ++node) {
    const auto model = global_model(settings, whole.task(), end);
    EXPECT_TRUE(take_batch_norms(*model, whole.store(), node));
    const Dataset& test = *data.nodes[node].test;
    std::vector<float> logits(test.size() * 3);
    model->logits(test, data.nodes[node].test_rows, logits);
    double nll = 0.0;
    for (Index i = 0; i < test.size(); ++i) {
      const float* row = &logits[3 * i];
      nll += std::log(std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2])) - row[test.labels[i]];
    }
    EXPECT_NEAR(end.history[end.history.size() - 3 + node].loss, nll / static_cast<double>(test.size()), 1e-5);
  }
  const auto model = global_model(settings, whole.task(), end);
  whole.store().put(0, "batch-norm", {1.0F});
  EXPECT_FALSE(take_batch_norms(*model, whole.store(), 0));  // of another model
  EXPECT_FALSE(take_batch_norms(*model, whole.store(), 3));  // who never trained
}

TEST(Coordinator, RefusesStatesAndMemoriesOfAnotherModel) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("true");
  settings.algorithm = "scaffold";
  settings.local.steps = 2;
  settings.model = {kNormed, {}};
  settings.rounds = 2;
  LocalFederation federation(settings, data);
  FederationState saved;
  federation.run({.checkpoint = [&](const FederationState& state) {
    if (state.round == 1) saved = state;
  }});
  const auto refused = [&](const FederationState& state, const std::string& part) {
    EXPECT_THAT(error_of(ErrorKind::kInput, [&] { federation.run({}, state); }), HasSubstr(part));
  };
  FederationState wrong = saved;
  wrong.parameters.push_back(0.0F);
  wrong.control.push_back(0.0F);
  refused(wrong, "the saved model has 14 weights, expected 13");
  wrong = saved;
  wrong.buffers.push_back(0.0F);
  refused(wrong, "the saved model has");
  wrong = saved;
  wrong.control.pop_back();
  refused(wrong, "the saved model has");
  wrong = saved;
  wrong.server = {.steps = 1, .mean = {1.0F}, .squares = {1.0F}};
  refused(wrong, "state of the server's optimiser");
  federation.store().put(1, "control", std::vector<float>(12));
  refused(saved, "node 2: it remembers 12 numbers as its control, expected 13");
  federation.store().put(0, "ratio", std::vector<float>(2));
  refused(saved, "node 1: it remembers 2 numbers as its ratio, expected 3");
}

TEST(Coordinator, SaysWhatBecomesOfBatchNorms) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  settings.rounds = 1;
  settings.algorithm = "fedbn";
  EXPECT_THAT(LocalFederation(settings, data).run().warnings, ElementsAre(HasSubstr("fedbn is fedavg here")));
  settings.model = {kNormed, {}};
  EXPECT_THAT(LocalFederation(settings, data).run().warnings,
              ElementsAre(HasSubstr("batch norms stay at their nodes")));
  settings.algorithm = "fedavg";
  LocalFederation federation(settings, data);
  const FederationState end = federation.run();
  EXPECT_THAT(end.warnings, IsEmpty());
  const auto model = global_model(settings, federation.task(), end);
  EXPECT_EQ(std::vector<float>(model->buffers().begin(), model->buffers().end()), end.buffers);
}

TEST(AverageAccuracy, IsThatOfTheLastRoundOverNodesWithTestExamples) {
  EXPECT_TRUE(std::isnan(average_accuracy({})));
  EXPECT_TRUE(std::isnan(average_accuracy({{.round = 1, .node = 0}})));
  EXPECT_EQ(average_accuracy({{.round = 1, .node = 0, .accuracy = 0.1},
                              {.round = 2, .node = 0, .accuracy = 0.5},
                              {.round = 2, .node = 1},
                              {.round = 2, .node = 2, .accuracy = 1.0}}),
            0.75);
}

}  // namespace
}  // namespace labelshift
