#include "labelshift/engine/grpc/grpc_engine.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "tests/data/scratch.hpp"
#include "tests/engine/grpc/federation.hpp"
#include "tests/engine/grpc/raw_peers.hpp"

namespace labelshift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr Patience kBounded{.give_up = 30s};

/// A coordinator of so many nodes that are not encrypted.
std::unique_ptr<GrpcEngine> plain_engine(Index nodes, Lines* lines = nullptr) {
  auto engine = make_grpc_engine({.names = node_names(nodes), .log = lines ? lines->log() : GrpcLog{}});
  engine->announce({.run = "run"});
  return engine;
}

const Answer kGoodAnswer{.words = std::vector<std::uint64_t>(10, 1),
                         .numbers = std::vector<double>(20, 1.0),
                         .weights = std::vector<float>(300, 1.0F)};

TEST(GrpcEngine, SumsReportsAndTrafficHaveTheBitsOfOneProcess) {
  const auto engine = plain_engine(13);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(13), .workers = 2}, rough_answer);
  const auto one_process = make_in_process_engine(13, programs(rough_answer), {.workers = 2});
  for (const auto& some : std::vector<std::vector<Index>>{
           {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {0}, {12}, {5, 6}, {0, 3, 4, 7, 11, 12}, {}})
    for (const std::uint64_t round : {1, 2, 3}) {
      Request request = kRequest;
      request.round = round;
      expect_same(engine->run(request, cohort_of(some), kTerms, kBounded),
                  one_process->run(request, cohort_of(some), kTerms));
    }
}

TEST(GrpcEngine, AShortRequestIsOneMessage) {
  const auto engine = plain_engine(1);
  RawNode node(engine->address());
  node.hello("node-0");
  std::jthread reader([&] {
    EXPECT_TRUE(std::holds_alternative<peer::Card>(node.read().value()));
    const auto head = std::get<peer::RequestHead>(node.read().value());
    EXPECT_EQ(head.own.size(), head.own_size);
    EXPECT_EQ(head.data.size(), head.size);
    node.answer(head.call, kGoodAnswer);
  });
  EXPECT_TRUE(engine->run(kRequest, first(1), kTerms, kBounded).failed.empty());
}

TEST(GrpcEngine, ModelsLargerThanAMessageTravelInPieces) {
  const auto engine = plain_engine(3);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(3)}, rough_answer);
  const auto one_process = make_in_process_engine(3, programs(rough_answer), {.workers = 2});
  Request request = kRequest;
  request.weights.assign(1'200'001, 0.25F);  // 4.8 MB, and gRPC takes 4 at once
  AnswerTerms terms = kTerms;
  terms.weights = request.weights.size();
  std::vector<Addressee> cohort = first(3);
  cohort[1].own = Bytes(600'000);
  terms.report = 600'000;
  expect_same(engine->run(request, cohort, terms, kBounded), one_process->run(request, cohort, terms));
}

TEST(GrpcEngine, WhatNodesDoWrongIsAnOutcomeWithTheirWords) {
  const Work work = [](const NodeCall& call) {
    if (call.request.task == 1 && call.to.node == 1) throw Error(ErrorKind::kInput, "its data are bad", Remedy::kCpu);
    if (call.request.task == 2 && call.to.node == 1) throw std::logic_error("a bug");
    if (call.request.task == 3 && call.to.node == 1) throw 7;
    Answer answer = rough_answer(call);
    if (call.request.task == 4 && call.to.node == 1) answer.weights.pop_back();
    if (call.request.task == 5 && call.to.node == 1) answer.report.resize(2001);
    return answer;
  };
  const auto engine = plain_engine(3);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(3)}, work);
  const auto one_process = make_in_process_engine(3, programs(work), {.workers = 1});
  for (std::uint32_t task = 0; task <= 5; ++task) {
    Request request = kRequest;
    request.task = task;
    const Patience patience{.quorum = 2, .give_up = 30s};
    const CohortOutcome expected = one_process->run(request, first(3), kTerms, patience);
    EXPECT_EQ(expected.failed.size(), task == 0 ? 0U : 1U);
    CohortOutcome found = engine->run(request, first(3), kTerms, patience);
    found.traffic = expected.traffic;  // a node that throws is told, and answers with nothing that is counted
    expect_same(found, expected);
  }
}

TEST(GrpcEngine, RefusesNumbersThatAreNotFiniteAndWhatTheTermsDoNotAccept) {
  Lines lines;
  const auto engine = plain_engine(3, &lines);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(3)}, [](const NodeCall& call) {
    Answer answer = rough_answer(call);
    if (call.request.task == 1 && call.to.node == 2) answer.weights[7] = std::nanf("");
    if (call.request.task == 2 && call.to.node == 2) answer.numbers[0] = -INFINITY;
    if (call.request.task == 3 && call.to.node == 2) answer.packed.resize(10);
    if (call.request.task == 4 && call.to.node == 2) answer.weights.resize(10'000);
    return answer;
  });
  AnswerTerms picky = kTerms;
  picky.accept = [](Index node, Answer& answer) {
    if (!answer.packed.empty()) throw Error(ErrorKind::kPeer, fmt::format("packed by {}", node));
  };
  const auto one_process = make_in_process_engine(3, programs(rough_answer), {.workers = 1});
  const std::vector<std::string> sentences = {"not finite", "not finite", "packed by 2", "it announces 40282 bytes"};
  for (std::uint32_t task = 1; task <= 4; ++task) {
    Request request = kRequest;
    request.task = task;
    const CohortOutcome found = engine->run(request, first(3), picky, {.quorum = 2, .give_up = 30s});
    EXPECT_EQ(found.sums, one_process->run(request, first(2), kTerms).sums);
    ASSERT_EQ(found.failed.size(), 1U);
    EXPECT_EQ(found.failed[0].node, 2);
    EXPECT_EQ(found.failed[0].kind, ErrorKind::kPeer);
    EXPECT_THAT(found.failed[0].sentence, HasSubstr(sentences[task - 1]));
    lines.await_line(sentences[task - 1]);
  }
  EXPECT_TRUE(engine->run(kRequest, first(3), kTerms, kBounded).failed.empty());  // it has come back
}

TEST(GrpcEngine, WaitsForAQuorumAndForNobodyBeyondTheDeadlineOnceItIsThere) {
  const auto engine = plain_engine(4);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(3), .workers = 3},
                          [](const NodeCall& call) {
                            if (call.to.node == 1 && call.request.task == 1) {
                              await([&] { return call.cancelled.load(); }, "the engine cancelled its work");
                              throw Stopped();
                            }
                            return rough_answer(call);
                          });
  for (Index k = 0; k < 3; ++k) await([&] { return connected(*engine, k); }, "the node joined");
  Request request = kRequest;
  request.task = 1;
  CohortOutcome outcome = engine->run(request, first(4), kTerms, {.quorum = 2, .deadline = 200ms, .give_up = 30s});
  ASSERT_EQ(outcome.contributed.size(), 2U);
  ASSERT_EQ(outcome.failed.size(), 2U);
  EXPECT_EQ(outcome.failed[0].node, 1);
  EXPECT_EQ(outcome.failed[0].sentence, "it sent nothing for 200ms");
  EXPECT_EQ(outcome.failed[1].sentence, "it is not connected: it sent nothing for 200ms");
  outcome = engine->run(request, first(4), kTerms, {.quorum = 3, .deadline = 1ms, .give_up = 3s});
  EXPECT_EQ(outcome.contributed.size(), 2U);
  EXPECT_EQ(outcome.failed[0].sentence, "it sent nothing for 3 s");
  EXPECT_FALSE(outcome.failed[0].bystander);
  // Node 4 comes late, and is waited for.
  std::unique_ptr<ServedNodes> late;
  outcome =
      engine->run(kRequest, first(4), kTerms, {.deadline = 1ms, .give_up = 30s}, [&](std::string_view, double done) {
        if (done == 0.75 && !late)
          late = std::make_unique<ServedNodes>(
              GrpcNodeSettings{.connect = engine->address(), .seats = {{.name = "node-3"}}}, rough_answer);
        return true;
      });
  EXPECT_TRUE(outcome.failed.empty());
}

TEST(GrpcEngine, NobodyIsWaitedForOnceAQuorumCannotBeReached) {
  const auto engine = plain_engine(4);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(3), .workers = 3},
                          [](const NodeCall& call) {
                            if (call.to.node == 1) throw Error(ErrorKind::kInput, "no data");
                            if (call.to.node == 2) {
                              await([&] { return call.cancelled.load(); }, "the engine cancelled its work");
                              throw Stopped();
                            }
                            return rough_answer(call);
                          });
  await([&] { return connected(*engine, 0) && connected(*engine, 2); }, "nodes joined");
  const CohortOutcome outcome = engine->run(kRequest, first(4), kTerms);
  ASSERT_EQ(outcome.failed.size(), 3U);
  EXPECT_EQ(outcome.failed[0].node, 1);
  EXPECT_EQ(outcome.failed[0].sentence, "no data");
  EXPECT_EQ(outcome.failed[1].sentence, "its answer was not waited for, since others failed");
  EXPECT_FALSE(outcome.failed[0].bystander);
  EXPECT_TRUE(outcome.failed[1].bystander);
}

TEST(GrpcEngine, StopsWhenItsObserverSaysSoAndThrowsWhatItThrows) {
  const auto engine = plain_engine(2);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(2), .workers = 2},
                          [](const NodeCall& call) {
                            if (call.request.task != 1) return rough_answer(call);
                            await([&] { return call.cancelled.load(); }, "the engine cancelled its work");
                            throw Stopped();
                          });
  Request request = kRequest;
  request.task = 1;
  const auto caller = std::this_thread::get_id();
  int looks = 0;
  EXPECT_THROW(engine->run(request, first(2), kTerms, {},
                           [&](std::string_view, double) {
                             EXPECT_EQ(std::this_thread::get_id(), caller);
                             return ++looks < 3;
                           }),
               Stopped);
  EXPECT_THROW(engine->run(request, first(2), kTerms, {},
                           [](std::string_view, double) -> bool { throw std::runtime_error("terminal gone"); }),
               std::runtime_error);
  double last = 0.0;
  EXPECT_TRUE(engine
                  ->run(kRequest, first(2), kTerms, kBounded,
                        [&](std::string_view, double done) {
                          last = done;
                          return true;
                        })
                  .failed.empty());
  EXPECT_EQ(last, 1.0);
}

TEST(GrpcEngine, ANodeThatComesBackIsAskedAgainAndCountsOnce) {
  Lines lines;
  const auto engine = plain_engine(2, &lines);
  const ServedNodes other({.connect = engine->address(), .seats = plain_seats(1)}, rough_answer);
  std::vector<std::uint64_t> serials;
  std::jthread raw([&] {
    RawNode first_time(engine->address());
    first_time.hello("node-1");
    const peer::CallId call = first_time.read_request().call;
    serials.push_back(call.serial);
    const Bytes bytes = to_bytes(kGoodAnswer);
    first_time.send(peer::AnswerHead{call, bytes.size(), peer::checksum_of(bytes)});
    first_time.leave();  // in the middle of its answer
    RawNode again(engine->address());
    again.hello("node-1");
    const peer::CallId same = again.read_request().call;
    serials.push_back(same.serial);
    again.answer(same, kGoodAnswer);
    again.answer(same, kGoodAnswer);
    lines.await_line("refused an answer of node-1");
  });
  const auto outcome = engine->run(kRequest, first(2), kTerms, kBounded);
  raw.join();
  EXPECT_TRUE(outcome.failed.empty());
  ASSERT_EQ(serials.size(), 2U);
  EXPECT_EQ(serials[0], serials[1]);
  const auto alone = make_in_process_engine(2, programs(rough_answer), {.workers = 1});
  const CohortSums others = alone->run(kRequest, first(1), kTerms).sums;
  EXPECT_EQ(outcome.sums.numbers[0], others.numbers[0] + 1.0);
  EXPECT_EQ(outcome.sums.words[0], others.words[0] + 1);
}

TEST(GrpcEngine, AProcessThatComesBackReplacesItsOldConnectionButAnotherOfTheSameNameIsRefused) {
  Lines lines;
  const auto engine = plain_engine(1, &lines);
  RawNode old(engine->address());
  old.session.fill(std::byte{1});
  old.hello("node-0");
  await([&] { return connected(*engine, 0); }, "the node joined");
  RawNode twin(engine->address());
  twin.session.fill(std::byte{2});
  twin.hello("node-0");
  EXPECT_EQ(twin.finish().error_code(), grpc::StatusCode::ALREADY_EXISTS);
  lines.await_line("a node with the name \"node-0\" is connected already");
  RawNode back(engine->address());
  back.session.fill(std::byte{1});
  back.hello("node-0");
  EXPECT_EQ(old.finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(connected(*engine, 0));
}

/// What a node may send to the question `call` that is none of its answers, and what is said of it.
struct Forgery {
  const char* name;
  std::function<void(RawNode& node, const peer::CallId& call)> send;
  const char* sentence;
  bool ends = true;   // its stream
  bool fails = true;  // the node, so that nobody waits for it any longer

  friend void PrintTo(const Forgery& forgery, std::ostream* out) { *out << forgery.name; }
};

std::vector<Forgery> forgeries() {
  const auto with = [](peer::CallId call, const auto& change) {
    change(call);
    return call;
  };
  return {
      {"RandomBytes", [](RawNode& node, const peer::CallId&) { node.send_bytes("\x7f\x01 no protobuf at all"); },
       "a message has bytes that are none of the protocol"},
      {"NothingAtAll", [](RawNode& node, const peer::CallId&) { node.send_bytes(""); }, "no kind that is known"},
      {"OversizedLength",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{call, ~std::uint64_t{0}, {}});
       },
       "it announces 18446744073709551615 bytes, expected at most"},
      {"BadChecksum",
       [](RawNode& node, const peer::CallId& call) {
         const Bytes bytes = to_bytes(kGoodAnswer);
         node.send(peer::AnswerHead{call, bytes.size(), 7});
         node.pieces(call, bytes);
       },
       "another checksum than was announced"},
      {"PieceOfNothing", [](RawNode& node, const peer::CallId& call) { node.pieces(call, Bytes(10)); },
       "a piece of nothing"},
      {"PieceTooLong",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{call, 50, {}});
         node.pieces(call, Bytes(51));
       },
       "a piece of 51 bytes where 50 were to come"},
      {"PieceAtTheWrongPlace",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{call, 50, {}});
         node.send(peer::Piece{call, false, 10, "0123456789"});
       },
       "a piece of 10 bytes begins at 10, expected 0"},
      {"MoreThanAnnouncedWithTheHead",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{call, 50, 1, std::string(51, 'x')});
       },
       "a piece of 51 bytes where 50 were to come"},
      {"FirstBytesASecondTime",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{call, 50, 1, "0123456789"});
         node.send(peer::Piece{call, false, 0, "0123456789"});
       },
       "a piece of 10 bytes begins at 0, expected 10"},
      {"BadChecksumOfAHead",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{call, 10, 7, "0123456789"});
       },
       "another checksum than was announced"},
      {"MoreThanAnnouncedOfWhatNobodyAskedFor",
       [=](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{with(call, [](auto& id) { --id.serial; }), 5, 1, "012345"});
       },
       "a piece of 6 bytes where 5 were to come"},
      {"TwoHeads",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::AnswerHead{call, 50, {}});
         node.send(peer::AnswerHead{call, 50, {}});
       },
       "begins an answer before the last has ended"},
      {"NoAnswerInside",
       [](RawNode& node, const peer::CallId& call) {
         const Bytes bytes(100, std::byte{0xff});
         node.send(peer::AnswerHead{call, bytes.size(), peer::checksum_of(bytes)});
         node.pieces(call, bytes);
       },
       "a message ends"},
      {"NotANumber",
       [](RawNode& node, const peer::CallId& call) {
         Answer answer = kGoodAnswer;
         answer.numbers[3] = std::nan("");
         node.answer(call, answer);
       },
       "not finite"},
      {"HelloTwice", [](RawNode& node, const peer::CallId&) { node.hello("node-1"); }, "it says twice who it is"},
      {"WrongShape", [](RawNode& node, const peer::CallId& call) { node.answer(call, {.numbers = {1.0}}); },
       "it sent 0 words, 1 numbers and 0 weights, expected 10, 20 and 300", false},
      {"UnprintableFailure",
       [](RawNode& node, const peer::CallId& call) {
         node.send(peer::Failure{call, ErrorKind::kInput, Remedy::kNone, "\x1b[2Jgone"});
       },
       "\\x1b[2Jgone", false},
      {"OldSerial",
       [=](RawNode& node, const peer::CallId& call) {
         node.answer(with(call, [](auto& id) { --id.serial; }), kGoodAnswer);
       },
       "another question", false, false},
      {"OtherRun",
       [=](RawNode& node, const peer::CallId& call) {
         node.answer(with(call, [](auto& id) { id.run = "\x1b[31mrun"; }), kGoodAnswer);
       },
       "it is of the run \"\\x1b[31mrun\", expected \"run\"", false, false},
      {"OtherRound",
       [=](RawNode& node, const peer::CallId& call) {
         node.answer(with(call, [](auto& id) { ++id.round; }), kGoodAnswer);
       },
       "it is of round 6, expected 5", false, false},
  };
}

class HostileNode : public testing::TestWithParam<Forgery> {};

TEST_P(HostileNode, IsRefusedAndLoggedAndTheRoundGoesOn) {
  Lines lines;
  const auto engine = plain_engine(2, &lines);
  const ServedNodes honest({.connect = engine->address(), .seats = plain_seats(1)}, rough_answer);
  RawNode hostile(engine->address());
  hostile.hello("node-1");
  await([&] { return connected(*engine, 1); }, "it joined");
  std::jthread sender([&] { GetParam().send(hostile, hostile.read_request().call); });
  const CohortOutcome outcome =
      engine->run(kRequest, first(2), kTerms, {.quorum = 1, .deadline = GetParam().fails ? 30s : 3s, .give_up = 30s});
  sender.join();
  EXPECT_EQ(outcome.contributed.size(), 1U);
  ASSERT_EQ(outcome.failed.size(), 1U);
  EXPECT_EQ(outcome.failed[0].node, 1);
  if (outcome.failed[0].sentence.find(GetParam().sentence) == std::string::npos) {
    EXPECT_THAT(outcome.failed[0].sentence, HasSubstr("it sent nothing for "));
    lines.await_line(GetParam().sentence);
  }
  if (GetParam().ends) {
    EXPECT_EQ(hostile.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(connected(*engine, 1), !GetParam().ends);
  if (outcome.failed[0].kind == ErrorKind::kPeer) {
    EXPECT_GE(engine->status().refused, 1U);
  }
  EXPECT_EQ(lines.count("\x1b"), 0);
}

INSTANTIATE_TEST_SUITE_P(Engine, HostileNode, testing::ValuesIn(forgeries()),
                         [](const auto& forgery) { return std::string(forgery.param.name); });

TEST(GrpcEngine, EndsTheStreamOfANodeThatSendsNothingButWhatIsRefused) {
  Lines lines;
  const auto engine = plain_engine(1, &lines);
  RawNode hostile(engine->address());
  hostile.hello("node-0");
  for (int i = 0; i < 101; ++i) hostile.send(peer::Failure{{"run", 1, 1}, ErrorKind::kInput, Remedy::kNone, "no"});
  EXPECT_EQ(hostile.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(GrpcEngine, RefusesWhoDoesNotSayInTimeWhoItIs) {
  Lines lines;
  const auto engine = make_grpc_engine({.names = node_names(1), .limits = {.handshake = 200ms}, .log = lines.log()});
  RawNode silent(engine->address());
  EXPECT_EQ(silent.finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  lines.await_line("it did not say within 200ms who it is");
  const auto patient = plain_engine(1, &lines);
  RawNode other(patient->address());
  other.send(peer::Failure{});
  EXPECT_EQ(other.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  lines.await_line("its first message does not say who it is");
}

TEST(GrpcEngine, RefusesNamesThatAreNotOnTheListAndOtherVersions) {
  Lines lines;
  const auto engine = plain_engine(1, &lines);
  RawNode stranger(engine->address());
  stranger.hello("node-\x1b[1m");
  EXPECT_EQ(stranger.finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  lines.await_line("the name \"node-\\x1b[1m\" is not on the list of nodes");
  RawNode old(engine->address());
  old.send(peer::Hello{kProtocolVersion + 1, "node-0", {}});
  EXPECT_EQ(old.finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  lines.await_line(fmt::format("it speaks version {} of the protocol, and the coordinator version {}",
                               kProtocolVersion + 1, kProtocolVersion));
}

TEST(GrpcEngine, LimitsStreams) {
  Lines lines;
  const auto engine = make_grpc_engine({.names = node_names(5), .limits = {.most_streams = 2}, .log = lines.log()});
  RawNode one(engine->address()), two(engine->address());
  one.hello("node-0");
  two.hello("node-1");
  await([&] { return connected(*engine, 0) && connected(*engine, 1); }, "two joined");
  RawNode three(engine->address());
  EXPECT_EQ(three.finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  lines.await_line("there are 2 streams already");
}

TEST(GrpcEngine, ANodeThatIsLockedOutIsGoneUntilItIsReadmitted) {
  Lines lines;
  const auto engine = plain_engine(2, &lines);
  ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(2), .workers = 2}, [](const NodeCall& call) {
    if (call.to.node == 1 && call.request.task == 1) {
      await([&] { return call.cancelled.load(); }, "its work was cancelled");
      throw Stopped();
    }
    return rough_answer(call);
  });
  Request request = kRequest;
  request.task = 1;
  const auto outcome =
      engine->run(request, first(2), kTerms, {.quorum = 1, .give_up = 30s}, [&](std::string_view, double done) {
        if (done == 0.5) engine->lock_out("node-1");
        return true;
      });
  ASSERT_EQ(outcome.failed.size(), 1U);
  EXPECT_EQ(outcome.failed[0].sentence, "it is locked out");
  nodes.lines.await_line("\"node-1\" is locked out");  // it tries again, in vain
  EXPECT_FALSE(engine->status().nodes[1].allowed);
  EXPECT_EQ(engine->run(kRequest, first(2), kTerms, {.quorum = 1, .give_up = 30s}).failed[0].sentence,
            "it is locked out");
  engine->readmit("node-1");
  EXPECT_TRUE(engine->run(kRequest, first(2), kTerms, kBounded).failed.empty());
  expect_error(ErrorKind::kUsage, "no node has the name \"nobody\"; look at the list of nodes",
               [&] { engine->lock_out("nobody"); });
}

TEST(GrpcEngine, AnswersWaitForTheirTurnWhereTheyTakeTooMuchMemory) {
  const auto engine = make_grpc_engine({.names = node_names(8), .limits = {.most_receiving = 1}});
  engine->announce({.run = "run"});
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(8), .workers = 2}, rough_answer);
  const auto one_process = make_in_process_engine(8, programs(rough_answer), {.workers = 2});
  Request request = kRequest;
  request.weights.assign(200'000, 1.0F);
  AnswerTerms terms = kTerms;
  terms.weights = request.weights.size();
  expect_same(engine->run(request, first(8), terms, kBounded), one_process->run(request, first(8), terms));
}

TEST(GrpcEngine, RefusesSettingsThatCannotBe) {
  expect_error(ErrorKind::kUsage,
               "0.0.0.0:0 can be reached by others, but there are no certificates; give some, or listen on a loopback "
               "address such as 127.0.0.1:0",
               [] { make_grpc_engine({.listen = "0.0.0.0:0", .names = node_names(1)}); });
  expect_error(ErrorKind::kUsage, "two nodes have the name \"a\"; give each its own", [] {
    make_grpc_engine({.names = {"a", "a"}});
  });
  expect_error(ErrorKind::kUsage, "the address \"nowhere\" is none, expected HOST:PORT, such as 127.0.0.1:5051",
               [] { make_grpc_engine({.listen = "nowhere", .names = node_names(1)}); });
  const auto engine = plain_engine(1);
  expect_error(ErrorKind::kSystem,
               fmt::format("nobody can listen on {}; does another program, or is it no address of this machine?",
                           engine->address()),
               [&] { make_grpc_engine({.listen = engine->address(), .names = node_names(1)}); });
  const auto quiet = make_grpc_engine({.names = node_names(1)});
  expect_error(ErrorKind::kUsage, "no run was announced to the nodes; announce it first",
               [&] { quiet->run(kRequest, first(1), kTerms); });
}

// ---- certificates

class GrpcTls : public testing::Test {
 protected:
  GrpcTls()
      : engine_(make_grpc_engine({.tls = authority_.coordinator(), .names = {"north", "south"}, .log = lines_.log()})) {
    engine_->announce({.run = "run"});
  }
  static std::shared_ptr<grpc::ChannelCredentials> credentials(const TlsIdentity& identity) {
    return grpc::SslCredentials({identity.authority, identity.key, identity.certificate});
  }
  void expect_refused(const TlsIdentity& identity, const std::string& line, const std::string& name = "north") {
    RawNode node(engine_->address(), credentials(identity));
    node.hello(name);
    EXPECT_FALSE(node.finish().ok());
    lines_.await_line(line);
    EXPECT_FALSE(connected(*engine_, 0));
  }
  TestAuthority authority_;
  Lines lines_;
  std::unique_ptr<GrpcEngine> engine_;
};

TEST_F(GrpcTls, RefusesCertificatesThatAreNotToBeBelieved) {
  TlsIdentity nobody = authority_.node("north");
  nobody.certificate = nobody.key = "";
  expect_refused(nobody, "refused a connection: its certificate is missing");
  TlsIdentity forged = TestAuthority().node("north");
  forged.authority = authority_.node("north").authority;
  expect_refused(
      forged,
      "refused a connection that calls itself \"north\": its certificate is not signed by the authority that "
      "is believed here");
  expect_refused(authority_.identity("north", {.from = -7200, .until = -3600}), "its certificate has expired");
  expect_refused(authority_.identity("north", {.from = 3600, .until = 7200}), "its certificate is not valid yet");
  expect_refused(authority_.node("east"), "the name \"east\" is not on the list of nodes", "east");
  expect_refused(authority_.node("south"), "it calls itself \"north\", but its certificate is for \"south\"");
  RawNode plain(engine_->address());
  plain.hello("north");
  EXPECT_FALSE(plain.finish().ok());
  EXPECT_FALSE(connected(*engine_, 0));
  RawNode good(engine_->address(), credentials(authority_.node("north")));
  good.hello("north");
  await([&] { return connected(*engine_, 0); }, "a good one joined");
  RawNode twin(engine_->address(), credentials(authority_.node("north")));
  twin.session.fill(std::byte{1});
  twin.hello("north");
  EXPECT_EQ(twin.finish().error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(GrpcTls, ANodeRefusesACoordinatorThatIsNotToBeBelieved) {
  const auto expect_trouble = [&](const TlsIdentity& coordinator, const std::string& host, const std::string& why) {
    const auto engine = make_grpc_engine({.tls = coordinator, .names = {"north"}});
    std::string address = engine->address();
    address.replace(0, address.find(':'), host);
    const ServedNodes node({.connect = address, .seats = {{.tls = authority_.node("north")}}}, rough_answer);
    node.lines.await_line(why);
    EXPECT_FALSE(connected(*engine, 0));
  };
  expect_trouble(TestAuthority().coordinator(), "127.0.0.1",
                 "the coordinator's certificate has expired or is not signed");
  expect_trouble(authority_.identity("coordinator", {.alternatives = "DNS:elsewhere.example"}), "127.0.0.1",
                 "the coordinator's certificate is not for the host that was dialled");
  expect_trouble(authority_.identity("coordinator", {.alternatives = "IP:127.0.0.1"}), "localhost",
                 "the coordinator's certificate is not for the host that was dialled");
}

TEST_F(GrpcTls, OwnCertificatesAreLookedAtFirst) {
  TlsIdentity mixed = authority_.node("north");
  mixed.key = authority_.node("north").key;
  const auto serve = [&](const TlsIdentity& identity, const std::string& name = "") {
    serve_grpc({.connect = engine_->address(), .seats = {{.name = name, .tls = identity}}},
               [](const RunCard&) { return programs(rough_answer); });
  };
  expect_error(ErrorKind::kInput, "the key does not belong to the certificate; give both of the same pair",
               [&] { serve(mixed); });
  expect_error(ErrorKind::kInput, "the certificate has expired; have a new one made",
               [&] { serve(authority_.identity("north", {.from = -7200, .until = -3600})); });
  expect_error(ErrorKind::kInput, "the certificate is for \"north\", but the node is \"south\"; give the node its own",
               [&] { serve(authority_.node("north"), "south"); });
  expect_error(ErrorKind::kInput, "the certificate cannot be read, expected one in PEM format", [&] {
    serve({authority_.node("north").authority, "x", "y"});
  });
  expect_error(
      ErrorKind::kUsage,
      "192.0.2.1:5 is another machine, but the node has no certificate; give it one, or use a loopback address", [] {
        serve_grpc({.connect = "192.0.2.1:5", .seats = {{.name = "north"}}},
                   [](const RunCard&) { return programs(rough_answer); });
      });
}

}  // namespace
}  // namespace labelshift
