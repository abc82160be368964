#include <gmock/gmock.h>

#include <cmath>

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

/// A request that a node does not take, and what it says of it to the coordinator and in its own log.
struct Refused {
  const char* name;
  std::vector<std::string> messages;
  const char* why;

  friend void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
};

std::vector<Refused> refused_requests() {
  const peer::CallId call{"run", 1, 5};
  const auto of_weights = [&](float weight) {
    return request_messages({.task = 3, .round = 5, .weights = {1.0F, weight}}, {.node = 0}, call);
  };
  std::vector<std::string> damaged = of_weights(2.0F);
  damaged.back()[damaged.back().size() - 1] ^= 1;
  return {
      {"NaN", of_weights(std::nanf("")), "a message has a number that is not finite"},
      {"Infinity", of_weights(-INFINITY), "a message has a number that is not finite"},
      {"Damaged", damaged, "a message has another checksum than was announced"},
      {"OfAnotherNode", request_messages({.round = 5}, {.node = 1}, call), "it was asked as node 2, but was told"},
      {"OfAnotherRound", request_messages({.round = 6}, {.node = 0}, call), "it was asked for round 6 in a message of"},
  };
}

class ARefusedRequest : public testing::TestWithParam<Refused> {};

TEST_P(ARefusedRequest, IsAFailureAndALineOfTheLog) {
  const RawCoordinator coordinator(in_turn({{kAnnounced}, GetParam().messages}));
  std::atomic<int> calls = 0;
  ServedNodes node({.connect = coordinator.address(), .seats = plain_seats(1)}, [&](const NodeCall&) {
    ++calls;
    return Answer{};
  });
  node.lines.await_line(std::string("node-0: refused a request of round 5: ") + GetParam().why);
  await([&] { return !coordinator.came().empty(); }, "the coordinator was told");
  EXPECT_THAT(std::get<peer::Failure>(coordinator.came()[0]).sentence, HasSubstr(GetParam().why));
  EXPECT_EQ(calls, 0);
}

INSTANTIATE_TEST_SUITE_P(Engine, ARefusedRequest, testing::ValuesIn(refused_requests()),
                         [](const auto& refused) { return std::string(refused.param.name); });

TEST(GrpcNodeRefusals, FillNoLogAndNoTerminal) {
  const auto engine = make_grpc_engine({.names = node_names(1)});
  engine->announce({.run = "run"});
  ServedNodes node({.connect = engine->address(), .seats = plain_seats(1)},
                   [](const NodeCall&) -> Answer { throw Error(ErrorKind::kPeer, "\x1b[1m what it was told"); });
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) engine->run(kRequest, first(1), kTerms, {.give_up = std::chrono::seconds(30)});
  node.lines.await_line("node-0: refused a request of round 5: \\x1b[1m what it was told");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(node.lines.count("refused a request"), 20 + static_cast<int>(seconds) + 1);  // one a second after 20
  EXPECT_EQ(node.lines.count("\x1b"), 0);
}

TEST(GrpcNode, TakesNoQuestionASecondTimeOnOneStream) {
  // What may be repeated is the last question alone, which is answered by what was computed.
  const RawCoordinator coordinator(in_turn({{kAnnounced}, asked(10, 7), asked(10, 7), asked(10, 8), asked(10, 7)}));
  ServedNodes node({.connect = coordinator.address(), .seats = plain_seats(1)},
                   [&](const NodeCall&) { return Answer{}; });
  node.lines.await_line("it asks question 7 again, after question 8;");
  EXPECT_EQ(node.lines.count("it asks question 7 again, after question 7"), 0);
}

TEST(GrpcNode, TakesNoOtherRequestUnderTheSameSerial) {
  const RawCoordinator coordinator(in_turn({{kAnnounced}, asked(10, 7), asked(11, 7)}));
  ServedNodes node({.connect = coordinator.address(), .seats = plain_seats(1)},
                   [&](const NodeCall&) { return Answer{}; });
  node.lines.await_line("it asks question 7 again, after question 7;");
}

TEST(GrpcNode, ComputesNothingForAQuestionThatWasCancelledAndComesAgain) {
  const RawCoordinator coordinator(
      in_turn({{kAnnounced}, asked(10, 7), {said(peer::Cancel{{"run", 7, 5}})}, asked(10, 7)}));
  ServedNodes node({.connect = coordinator.address(), .seats = plain_seats(1)},
                   [&](const NodeCall&) { return Answer{}; });
  node.lines.await_line("it asks question 7 again, after question 7;");
}

}  // namespace
}  // namespace labelshift
