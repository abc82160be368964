#include "labelshift/sites/site_nodes.hpp"

#include <gmock/gmock.h>

#include "labelshift/engine/tasks.hpp"
#include "labelshift/federation/conversation.hpp"
#include "labelshift/federation/node_store.hpp"
#include "tests/data/scratch.hpp"
#include "tests/engine/grpc/federation.hpp"

namespace labelshift {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;

const std::vector<std::string> kNames = {"north", "south", "west"};

/// Three sites without certificates, whose nodes answer with `report` whatever they are asked.
class SiteNodesOfARun : public testing::Test {
 protected:
  SiteNodesOfARun() {
    task_.folder = "study/fedavg-seed-0";
    task_.settings.data = {.nodes = 3, .classes = {"ill", "well"}, .columns = {"age"}};
    task_.settings.federation.rounds = 20;
  }
  void start(SiteNodesOptions options = {}) {
    options.masked = false;
    options.between_statuses = 0ms;
    options.status = [this](const SiteStatus& status) { told_.push_back(status); };
    options.log = lines_.log();
    nodes_ = open_site_nodes(*engine_, task_, std::move(options));
    run_ = nodes_->start(task_.settings.federation, store_);
  }
  /// Begins node k.
  void join(Index k, const Bytes& report = {}) {
    const GrpcSeat seat{.name = kNames[static_cast<std::size_t>(k)]};
    served_.push_back(std::make_unique<ServedNodes>(GrpcNodeSettings{.connect = engine_->address(), .seats = {seat}},
                                                    [report](const NodeCall&) { return Answer{.report = report}; }));
    await([&] { return connected(*engine_, k); }, "the node joined");
  }
  CohortOutcome say_hello(Index cohort = 3) {
    return run_->run(request_for<Hello>({.run = "run"}), first(cohort), {.report = 1000}, {}, {});
  }
  template <typename Task>
  CohortOutcome ask(std::uint64_t round, const Patience& patience) {
    return run_->run(request_for<Task>({}, round), first(3), {.report = 1000}, patience, {});
  }

  Lines lines_;
  std::vector<SiteStatus> told_;
  RunTask task_;
  NodeStore store_{{}};
  std::unique_ptr<GrpcEngine> engine_ = make_grpc_engine({.names = kNames});
  std::unique_ptr<RunNodes> nodes_;
  std::unique_ptr<Engine> run_;
  std::vector<std::unique_ptr<ServedNodes>> served_;
};

TEST_F(SiteNodesOfARun, BelowAQuorumAreWaitedForByNameAndGivenUpInTheEnd) {
  start({.invitation = "labelshift node"});
  for (Index k = 0; k < 2; ++k) join(k);
  say_hello(2);
  // Longer than until it says for whom it waits, of which the text is below.
  expect_error(ErrorKind::kPeer,
               "gave up after 8 s: 2 of 3 nodes have answered, expected at least 3; the first that has not is west: it "
               "is not connected: it sent nothing for 8 s",
               [&] { ask<Train>(1, {.quorum = 3, .deadline = 1ms, .give_up = 8s}); });
  EXPECT_THAT(lines_.all(), testing::MatchesRegex("fedavg-seed-0: waiting for west \\(not connected\\) since [5-8] s "
                                                  "\\(training\\); start it there: labelshift node\n"));
  EXPECT_THAT(told_, Contains(Field(&SiteStatus::waiting_for, ElementsAre("west"))));
}

TEST_F(SiteNodesOfARun, ThatAreAllNeededAreGivenUpByTheirNames) {
  start({.give_up_after = 1s});
  expect_error(
      ErrorKind::kPeer,
      "north: it is not connected: it sent nothing for 1 s; start it there, or list it with exclude = true and "
      "begin again without it",
      [&] { say_hello(); });
}

TEST_F(SiteNodesOfARun, BelowAQuorumAreWaitedForUntilTheyCome) {
  start();
  for (Index k = 0; k < 2; ++k) join(k);
  say_hello(2);
  std::jthread late([&] {
    lines_.await_line("waiting for west (not connected)");
    join(2);
  });
  EXPECT_EQ(ask<Train>(1, {.quorum = 3, .deadline = 1ms, .give_up = 60s}).contributed.size(), 3U);
  late.join();
}

TEST_F(SiteNodesOfARun, AreNamedOnceWhereRoundsGoOnWithoutThemAndOnceWhenTheyAreBack) {
  start();
  for (Index k = 0; k < 2; ++k) join(k);
  say_hello(2);
  for (const std::uint64_t round : {1, 2, 3}) ask<Train>(round, {.quorum = 2, .deadline = 1ms, .give_up = 30s});
  EXPECT_EQ(lines_.all(), "fedavg-seed-0: rounds go on without west: it is not connected\n");
  join(2);
  for (const std::uint64_t round : {4, 5}) ask<Train>(round, {.quorum = 3, .deadline = 1ms, .give_up = 30s});
  EXPECT_EQ(lines_.all(),
            "fedavg-seed-0: rounds go on without west: it is not connected\n"
            "fedavg-seed-0: west takes part again from round 4 on\n");
}

TEST_F(SiteNodesOfARun, AreToldOfByNameWithRoundsAccuracyBytesAndTimeLeft) {
  start();
  join(0, to_bytes(Evaluate::Report{.examples = 10, .accuracy = 0.5}));
  join(1, to_bytes(Evaluate::Report{.examples = 10, .accuracy = 0.7}));
  say_hello(2);
  const Patience two{.quorum = 2, .deadline = 1ms, .give_up = 30s};
  ask<Train>(1, two);
  EXPECT_FALSE(told_.back().seconds_left);  // by one round nobody knows
  ask<Train>(2, two);
  ask<Evaluate>(2, two);
  const SiteStatus status = told_.back();
  EXPECT_EQ(status.run, "fedavg-seed-0");
  EXPECT_EQ(status.task, "evaluation");
  EXPECT_EQ(status.round, 2);
  EXPECT_EQ(status.rounds, 20);
  EXPECT_EQ(status.nodes, 3);
  EXPECT_THAT(status.connected, ElementsAre("north", "south"));
  EXPECT_THAT(status.away, ElementsAre("west"));
  ASSERT_TRUE(status.accuracy);
  EXPECT_NEAR(*status.accuracy, 0.6, 1e-12);
  EXPECT_FALSE(status.reweighted);
  EXPECT_EQ(status.traffic, engine_->status().traffic);
  EXPECT_GT(status.traffic.up, 0U);
  EXPECT_GT(status.traffic.down, 0U);
  EXPECT_TRUE(status.seconds_left);
  engine_->lock_out("west");
  ask<Train>(20, two);
  EXPECT_EQ(told_.back().away.size(), 0U);  // it may not come
  EXPECT_EQ(told_.back().seconds_left, 0.0);
}

TEST_F(SiteNodesOfARun, HaveAnotherAccuracyWhereTheirTestDataHaveNoLabels) {
  start();
  for (Index k = 0; k < 3; ++k)
    join(k, to_bytes(
                Evaluate::Report{.reweighted = Evaluate::Reweighted{.accuracy = 0.2 + 0.2 * static_cast<double>(k)}}));
  say_hello();
  ask<Evaluate>(1, {.give_up = 30s});
  EXPECT_TRUE(told_.back().reweighted);
  ASSERT_TRUE(told_.back().accuracy);
  EXPECT_NEAR(*told_.back().accuracy, 0.4, 1e-12);
}

TEST_F(SiteNodesOfARun, AreToldOfWhereARunGoesOn) {
  start();
  for (Index k = 0; k < 3; ++k) join(k);
  std::vector<Addressee> cohort = first(3);
  cohort[1].counted = 7;
  for (int i = 0; i < 2; ++i) run_->run(request_for<Hello>({.run = "run"}), cohort, {.report = 1000}, {}, {});
  EXPECT_EQ(lines_.all(), "fedavg-seed-0: goes on after round 7 of 20\n");
}

TEST_F(SiteNodesOfARun, AreNotAskedForAMixThatMasksCannotHide) {
  task_.settings.federation.ratio = {.method = "vrls", .goal_node = 2};
  const auto open = [&] { open_site_nodes(*engine_, task_, {.masked = true}); };
  expect_error(
      ErrorKind::kUsage,
      "[ratio] goal-node asks one node for its label mix alone, and a mask hides a number in a sum of three or "
      "more; drop goal-node, or run it in one process",
      open);
  task_.settings.federation.ratio.method = "none";
  open();
}

TEST_F(SiteNodesOfARun, ThatFailByABugOfOursAreNamedAndAreNoBugHere) {
  start();
  for (Index k = 0; k < 2; ++k) join(k);
  served_.push_back(
      std::make_unique<ServedNodes>(GrpcNodeSettings{.connect = engine_->address(), .seats = {{.name = "west"}}},
                                    [](const NodeCall&) -> Answer { throw std::length_error("too long"); }));
  expect_error(ErrorKind::kPeer, "west: an internal error there: too long", [&] { say_hello(); });
}

}  // namespace
}  // namespace labelshift
