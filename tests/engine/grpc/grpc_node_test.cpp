#include "labelshift/engine/grpc/grpc_node.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "labelshift/core/base/observer.hpp"
#include "tests/data/scratch.hpp"
#include "tests/engine/grpc/federation.hpp"
#include "tests/engine/grpc/raw_peers.hpp"

namespace labelshift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr Patience kBounded{.give_up = 30s};

const peer::CallId kCall{"run", 77, 5};
const peer::Card kCard{{.run = "run"}, 0, 2};

std::string said(const peer::FromCoordinator& message) {
  return peer::encode(message);
}

/// The messages of a request.
std::vector<std::string> asked(const Request& request, const Addressee& to, const peer::CallId& call = kCall) {
  const Bytes own = to_bytes(to), shared = to_bytes(request);
  std::vector<std::string> messages = {
      said(peer::RequestHead{call, own.size(), peer::checksum_of(own), shared.size(), peer::checksum_of(shared)})};
  const auto add = [&](bool is_own, const Bytes& bytes) {
    messages.push_back(said(peer::Piece{call, is_own, 0, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}}));
  };
  add(true, own);
  add(false, shared);
  return messages;
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// What a coordinator may say that it may not, and what the node thinks of it.
struct Lie {
  const char* name;
  std::vector<std::string> messages;
  const char* sentence;
  bool answered = false;  // by a failure, instead of a lost connection

  friend void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }
};

std::vector<Lie> lies() {
  const std::string card = said(kCard);
  const Addressee to{.node = 0};
  Request endless = kRequest;
  endless.weights[3] = INFINITY;
  const auto with_head = [&](const auto& change) {
    std::vector<std::string> messages = asked(kRequest, to);
    auto head = std::get<peer::RequestHead>(peer::parse_from_coordinator(std::as_bytes(std::span(messages[0]))));
    change(head);
    messages[0] = said(head);
    return joined({card}, messages);
  };
  return {
      {"RandomBytes", {"\x7f\x03 no protobuf"}, "bytes that are none of the protocol"},
      {"AsksFirst", asked(kRequest, to), "it asks before it says what is going on"},
      {"OtherVersion", {said(peer::Card{{.run = "run", .protocol = 99}, 0, 2})}, "it speaks version 99"},
      {"NodeThatIsNone", {said(peer::Card{{.run = "run"}, 2, 2})}, "a node 3 of 2"},
      {"AnotherNodeThanBefore", {card, said(peer::Card{{.run = "run"}, 1, 2})}, "was node 1 of this run and is to be"},
      {"OversizedRequest", with_head([](auto& head) { head.size = ~std::uint64_t{0}; }),
       "it announces 18446744073709551615"},
      {"OversizedOwn", with_head([](auto& head) { head.own_size = 1'000'001; }), "it announces 1000001 bytes"},
      {"EmptyRequest", with_head([](auto& head) { head.size = 0; }), "a request of 0 bytes"},
      {"OtherRun", joined({card}, asked(kRequest, to, {"\x1b[1m", 1, 5})), "it asks for run \"\\x1b[1m\""},
      {"PieceOfNothing", {card, said(peer::Piece{kCall, false, 0, "abc"})}, "a piece of nothing"},
      {"TwoHeads", joined({card, asked(kRequest, to)[0]}, asked(kRequest, to)), "begins a request before the last"},
      {"PieceTooLong",
       {card, asked(kRequest, to)[0], said(peer::Piece{kCall, true, 0, std::string(33, 'x')})},
       "a piece of 33 bytes begins at 0, expected 0 with at most 32"},
      {"MoreThanAnnouncedWithTheHead",
       {card, said(peer::RequestHead{kCall, 32, 1, 5, 1, std::string(33, 'x')})},
       "a piece of 33 bytes begins at 0, expected 0 with at most 32"},
      {"TheSecondPartBeforeTheFirst",
       {card, said(peer::RequestHead{kCall, 32, 1, 5, 1, "own", "abc"})},
       "a piece of nothing"},
      {"FirstBytesASecondTime",
       {card, said(peer::RequestHead{kCall, 3, 1, 5, 1, "own", "abc"}), said(peer::Piece{kCall, false, 0, "ab"})},
       "a piece of 2 bytes begins at 0, expected 3"},
      {"BadChecksumOfAHead",
       {card, said(peer::RequestHead{kCall, 3, 1, 3, 1, "own", "abc"})},
       "another checksum than was announced",
       true},
      {"BadChecksum", with_head([](auto& head) { ++head.checksum; }), "another checksum than was announced", true},
      {"SomebodyElse", joined({card}, asked(kRequest, {.node = 1})), "it was asked as node 2", true},
      {"OtherRound", joined({card}, asked(kRequest, to, {"run", 77, 6})), "round 5 in a message of round 6", true},
      {"NotFinite", joined({card}, asked(endless, to)), "not finite", true},
  };
}

class HostileCoordinator : public testing::TestWithParam<Lie> {};

TEST_P(HostileCoordinator, IsToldOrLeftAndTheNodeGoesOn) {
  const RawCoordinator hostile(GetParam().messages);
  std::atomic<int> calls = 0;
  ServedNodes node({.connect = hostile.address(), .seats = plain_seats(1), .most_bytes = 1'000'000},
                   [&](const NodeCall& call) {
                     ++calls;
                     return rough_answer(call);
                   });
  if (GetParam().answered) {
    await([&] { return !hostile.came().empty(); }, "the node answered");
    const auto failure = std::get<peer::Failure>(hostile.came()[0]);
    EXPECT_EQ(failure.call.serial, kCall.serial);
    EXPECT_THAT(failure.sentence, HasSubstr(GetParam().sentence));
  } else {
    node.lines.await_line(GetParam().sentence);
    await([&] { return hostile.visits() >= 2; }, "the node came again");
    EXPECT_TRUE(hostile.came().empty());
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(node.lines.count("\x1b"), 0);
}

INSTANTIATE_TEST_SUITE_P(Engine, HostileCoordinator, testing::ValuesIn(lies()),
                         [](const auto& lie) { return std::string(lie.param.name); });

TEST(GrpcNode, TellsItsProgramsWhichRunItIsAndMakesNewOnesForAnother) {
  const auto engine = make_grpc_engine({.names = node_names(2)});
  std::mutex mutex;
  std::vector<RunCard> cards;
  ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(2)}, GrpcProgramMaker([&](const RunCard& card) {
                      const std::lock_guard lock(mutex);
                      cards.push_back(card);
                      if (card.settings == "bad") throw Error(ErrorKind::kInput, "settings that are none");
                      return programs(rough_answer);
                    }));
  engine->announce({.run = "one", .settings = "a"});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(engine->run(kRequest, first(2), kTerms, kBounded).failed.empty());
  engine->announce({.run = "two", .settings = "bad"});
  EXPECT_EQ(engine->run(kRequest, first(2), kTerms, kBounded).failed[0].sentence, "settings that are none");
  engine->announce({.run = "three", .settings = "c"});
  EXPECT_TRUE(engine->run(kRequest, first(2), kTerms, kBounded).failed.empty());
  engine->finish();
  EXPECT_EQ(nodes.join(), GrpcEnd::kFinished);
  EXPECT_EQ(cards.front(), (RunCard{.run = "one", .settings = "a"}));
  // Once: if node 2 tries the bad one while node 1 is asked for the next, the worker goes back to what it has.
  EXPECT_EQ(std::ranges::count(cards, RunCard{.run = "three", .settings = "c"}), 1);
  EXPECT_GE(cards.size(), 3U);
  EXPECT_LE(cards.size(), 4U);  // one that failed may be tried for each node
}

TEST(GrpcNode, SendsTheAnswerOfALostConnectionOnTheNextWithoutComputingItAgain) {
  const RawCoordinator coordinator(joined({said(kCard)}, asked(kRequest, {.node = 0})), /*cut=*/2);
  std::atomic<int> calls = 0;
  ServedNodes node({.connect = coordinator.address(), .seats = plain_seats(1)}, [&](const NodeCall& call) {
    ++calls;
    EXPECT_EQ(call.serial, kCall.serial);
    await([&] { return coordinator.visits() >= 3; }, "the connection was lost twice");
    return rough_answer(call);
  });
  await([&] { return !coordinator.came().empty(); }, "the answer came");
  const auto answer = std::get<peer::AnswerHead>(coordinator.came()[0]);
  EXPECT_EQ(answer.call, kCall);
  EXPECT_EQ(answer.data.size(), answer.size);  // which is short
  EXPECT_EQ(calls, 1);
}

TEST(GrpcNode, GivesUpWhenNobodyCanBeReached) {
  const auto engine = make_grpc_engine({.names = node_names(1)});
  const std::string address = engine->address();
  engine->finish();
  const auto start = std::chrono::steady_clock::now();
  ServedNodes node({.connect = "127.0.0.1:1", .seats = plain_seats(1), .give_up_after = 300ms}, rough_answer);
  try {
    node.join();
    ADD_FAILURE() << "it did not give up";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_THAT(error.what(), HasSubstr("node-0 could not reach the coordinator at 127.0.0.1:1 for 300ms: "));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, 300ms);
}

TEST(GrpcNode, NothingLeavesThatCannotBeLogged) {
  const RawCoordinator coordinator({said(kCard)});
  ServedNodes full({.connect = coordinator.address(), .seats = plain_seats(1), .sent_log = "/dev/full"}, rough_answer);
  expect_error(ErrorKind::kSystem,
               "/dev/full: cannot be written (No space left on device); nothing leaves this node that is not logged "
               "there, so make room and start it again",
               [&] { full.join(); });
  EXPECT_EQ(coordinator.visits(), 0);
  expect_error(ErrorKind::kSystem,
               "/no/such/folder/log: cannot be written (No such file or directory); give the log of what leaves this "
               "node another place",
               [&] {
                 ServedNodes none(
                     {.connect = coordinator.address(), .seats = plain_seats(1), .sent_log = "/no/such/folder/log"},
                     rough_answer);
                 none.join();
               });
}

TEST(GrpcNode, EndsWhenItIsStoppedAlsoWhileItWorks) {
  const auto engine = make_grpc_engine({.names = node_names(1)});
  engine->announce({.run = "run"});
  std::atomic<bool> working = false;
  auto node = std::make_unique<ServedNodes>(GrpcNodeSettings{.connect = engine->address(), .seats = plain_seats(1)},
                                            [&](const NodeCall& call) -> Answer {
                                              working = true;
                                              await([&] { return call.cancelled.load(); }, "its work was cancelled");
                                              throw Stopped();
                                            });
  const auto outcome = engine->run(kRequest, first(1), kTerms, {.give_up = 30s}, [&](std::string_view, double) {
    if (!working) return true;
    if (node) {
      node.reset();
      engine->lock_out("node-0");
    }
    return true;
  });
  EXPECT_EQ(outcome.failed[0].sentence, "it is locked out");
}

TEST(GrpcNode, AThousandNodesTakeNoThreadEach) {
  const auto threads = [] {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
    return 0;
  };
  constexpr Index kNodes = 200;
  const auto engine = make_grpc_engine({.names = node_names(kNodes)});
  engine->announce({.run = "run"});
  ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(kNodes), .workers = 2}, rough_answer);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine->run(kRequest, first(kNodes), kTerms, kBounded).failed.empty());
  EXPECT_LT(threads(), 60);
  engine->finish();
  EXPECT_EQ(nodes.join(), GrpcEnd::kFinished);
}

}  // namespace
}  // namespace labelshift
