#include <gmock/gmock.h>

#include "tests/data/scratch.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

/// One node does not answer from some round on.
class WithoutNode : public Engine {
 public:
  WithoutNode(Engine& engine, Index absent, std::uint64_t from) : engine_(engine), absent_(absent), from_(from) {}

  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    if (request.round < from_) return engine_.run(request, cohort, terms, patience, observer);
    std::vector<Addressee> present;
    for (const Addressee& one : cohort)
      if (one.node != absent_) present.push_back(one);
    CohortOutcome outcome = engine_.run(request, present, terms, {}, observer);
    outcome.failed.push_back({.node = absent_, .kind = ErrorKind::kPeer, .sentence = "it is not there"});
    return outcome;
  }

 private:
  Engine& engine_;
  const Index absent_;
  const std::uint64_t from_;
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

TEST_F(AbsentNode, EndsTheRunWhereEverybodyIsNeeded) {
  expect_error(ErrorKind::kPeer, "node 2: it is not there", [&] { run(0); });
}

}  // namespace
}  // namespace labelshift
