#include <gmock/gmock.h>

#include "tests/engine/grpc/federation.hpp"
#include "tests/engine/grpc/raw_peers.hpp"
#include "tests/engine/grpc/scripted_requests.hpp"

// How much a node takes of a coordinator, and when.

namespace labelshift {
namespace {

using testing::HasSubstr;

const std::string kAnnounced = said(peer::Card{{.run = "run"}, 0, 1});

std::vector<std::string> asked(std::size_t weights, std::uint64_t serial) {
  const Request request{.task = 3, .round = 5, .weights = std::vector<float>(weights, 0.5F)};
  return request_messages(request, {.node = 0}, {"run", serial, 5});
}

/// Programs that allow so many bytes of a request.
GrpcPrograms limited(std::uint64_t most_bytes) {
  return {programs([](const NodeCall& call) {
            return Answer{.numbers = {static_cast<double>(call.request.weights.size())}};
          }),
          most_bytes};
}

std::vector<std::uint64_t> answered(const RawCoordinator& coordinator) {
  std::vector<std::uint64_t> serials;
  for (const peer::FromNode& message : coordinator.came())
    if (const auto* head = std::get_if<peer::AnswerHead>(&message)) serials.push_back(head->call.serial);
  return serials;
}

/// A coordinator that keeps to the protocol, and a node whose programs allow 80,000 bytes in the run "short" and
/// 2,100,000 in others.
class GrpcNodeLimits : public testing::Test {
 protected:
  GrpcNodeLimits()
      : engine_(make_grpc_engine({.names = node_names(1)})),
        node_({.connect = engine_->address(), .seats = plain_seats(1)},
              GrpcProgramMaker([](const RunCard& card) { return limited(card.run == "short" ? 80'000 : 2'100'000); })) {
  }
  /// Whether the node answers a request of so many weights.
  bool answers(std::size_t weights) {
    const Request request{.task = 3, .weights = std::vector<float>(weights, 0.5F)};
    const CohortOutcome outcome = engine_->run(request, first(1), {.numbers = 1}, {.give_up = give_up_});
    return outcome.failed.empty() && outcome.sums.numbers[0] == static_cast<double>(weights);
  }
  std::chrono::seconds give_up_{30};
  const std::unique_ptr<GrpcEngine> engine_;
  ServedNodes node_;
};

TEST_F(GrpcNodeLimits, AreThoseThatTheProgramsOfTheRunAllow) {
  engine_->announce({.run = "short"});
  EXPECT_TRUE(answers(100));
  give_up_ = std::chrono::seconds(1);
  EXPECT_FALSE(answers(20'000));
  node_.lines.await_line("it announces 80028 bytes, expected at most 79968;");
}

TEST_F(GrpcNodeLimits, HoldForEachRun) {
  engine_->announce({.run = "long"});
  EXPECT_TRUE(answers(500'000));
  engine_->announce({.run = "short"});
  EXPECT_TRUE(answers(100));
  engine_->announce({.run = "long"});
  EXPECT_TRUE(answers(500'000));
  EXPECT_EQ(node_.lines.count("lost"), 0) << node_.lines.all();
}

TEST(GrpcNodeWithoutPrograms, RefusesALongFirstRequestThatTheyWillNotAllow) {
  const RawCoordinator coordinator({kAnnounced, asked(500'000, 1)[0]});  // the rest need not come
  ServedNodes node({.connect = coordinator.address(), .seats = plain_seats(1)},
                   [](const RunCard&) { return limited(1'500'000); });
  node.lines.await_line("it announces 2000028 bytes, expected at most 1499968;");
  EXPECT_TRUE(coordinator.came().empty());
}

TEST(GrpcNodeWithoutPrograms, SaysAtOnceWhyWhenALongRequestBegins) {
  std::vector<std::string> long_request = asked(500'000, 1);
  long_request.resize(4);  // the rest never comes, as from a coordinator that has heard of the failure
  const RawCoordinator coordinator(in_turn({{kAnnounced}, long_request, asked(100, 2)}));
  std::atomic<int> tries = 0;
  ServedNodes node({.connect = coordinator.address(), .seats = plain_seats(1)},
                   GrpcProgramMaker([&](const RunCard&) -> GrpcPrograms {
                     if (++tries == 1) throw Error(ErrorKind::kInput, "there is no model here");
                     return programs([](const NodeCall&) { return Answer{}; });
                   }));
  await([&] { return answered(coordinator).size() == 1; }, "the second request was answered");
  const auto failure = std::get<peer::Failure>(coordinator.came()[0]);
  EXPECT_EQ(failure.call.serial, 1U);
  EXPECT_EQ(failure.kind, ErrorKind::kInput);
  EXPECT_THAT(failure.sentence, HasSubstr("there is no model here"));
  EXPECT_EQ(answered(coordinator), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(coordinator.visits(), 1);
}

}  // namespace
}  // namespace labelshift
