#include <fmt/format.h>
#include <gmock/gmock.h>

#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "tests/engine/grpc/faulty_proxy.hpp"
#include "tests/engine/grpc/federation.hpp"

// What networks, strangers and gRPC itself do to a federation, under mutual TLS.

namespace labelshift {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr Patience kBounded{.give_up = 30s};

/// Node 0 is connected as it should be; nodes 1 and 2 are behind the proxy.
class GrpcUnderFaults : public testing::Test {
 protected:
  static constexpr Index kNodes = 3;

  explicit GrpcUnderFaults(std::chrono::milliseconds keepalive = 1s) : keepalive_(keepalive) {
    engine_->announce({.run = "run"});
    request_.weights.assign(100'000, 0.25F);
    terms_.weights = request_.weights.size();
  }
  /// Ends a cut so long after it began, and not before `noticed`.
  std::jthread mended(
      std::chrono::milliseconds after, std::function<bool()> noticed = [] { return true; }) {
    return std::jthread([this, after, noticed = std::move(noticed)] {
      try {
        await([&] { return proxy_.cut.load(); }, "the connections were cut");
        const Clock::time_point begin = Clock::now();
        await(noticed, "everybody noticed");
        std::this_thread::sleep_until(begin + after);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      proxy_.cut = false;
    });
  }
  std::unique_ptr<ServedNodes> node(Index k, const Work& work) {
    return std::make_unique<ServedNodes>(
        GrpcNodeSettings{.connect = k == 0 ? engine_->address() : proxy_.address(),
                         .seats = {{.tls = authority_.node(node_names(kNodes)[static_cast<std::size_t>(k)])}},
                         .keepalive = keepalive_,
                         .keepalive_timeout = keepalive_},
        work);
  }
  void start(const Work& work = rough_answer) {
    for (Index k = 0; k < kNodes; ++k) nodes_.push_back(node(k, work));
    await(
        [&] {
          for (Index k = 0; k < kNodes; ++k)
            if (!connected(*engine_, k)) return false;
          return true;
        },
        "all joined");
  }
  /// Rounds of all nodes, none of which is lost.
  void expect_bits_of_one_process(std::uint64_t rounds) {
    const auto one_process = make_in_process_engine(kNodes, programs(rough_answer), {.workers = 2});
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      request_.round = round;
      expect_same(engine_->run(request_, first(kNodes), terms_, kBounded),
                  one_process->run(request_, first(kNodes), terms_));
    }
  }

  const std::chrono::milliseconds keepalive_;
  TestAuthority authority_;
  Lines lines_;
  std::unique_ptr<GrpcEngine> engine_ =
      make_grpc_engine({.tls = authority_.coordinator(),
                        .names = node_names(kNodes),
                        .limits = {.keepalive = keepalive_, .keepalive_timeout = keepalive_},
                        .log = lines_.log()});
  FaultyProxy proxy_{engine_->address()};
  std::vector<std::unique_ptr<ServedNodes>> nodes_;
  Request request_ = kRequest;
  AnswerTerms terms_ = kTerms;
};

TEST_F(GrpcUnderFaults, DelayedBytesGiveTheSameBits) {
  proxy_.delay_ms = 10;
  start();
  expect_bits_of_one_process(2);
  EXPECT_EQ(proxy_.connections, 2);
}

/// Where a probe may wait behind the bytes of a message.
class GrpcThrottled : public GrpcUnderFaults {
 protected:
  GrpcThrottled() : GrpcUnderFaults(20s) {}
};

TEST_F(GrpcThrottled, AConnectionGivesTheSameBits) {
  start();
  proxy_.bytes_a_second = 1'000'000;
  expect_bits_of_one_process(2);
  EXPECT_EQ(proxy_.connections, 2);
}

TEST_F(GrpcUnderFaults, ResetsInTheMiddleOfAMessageGiveTheSameBits) {
  start();
  proxy_.reset_after = 100'000;  // an answer has four times as many
  proxy_.resets = 4;
  expect_bits_of_one_process(3);
  EXPECT_EQ(proxy_.were_reset, 4);
  EXPECT_EQ(proxy_.connections, 6);
}

TEST_F(GrpcUnderFaults, AStallIsSatOut) {
  start([&](const NodeCall& call) {
    if (call.to.node == 1 && call.request.round == 2) proxy_.cut = true;
    return rough_answer(call);
  });
  const std::jthread mending = mended(700ms);
  expect_bits_of_one_process(3);
  EXPECT_EQ(proxy_.connections, 2);  // those that there were
}

TEST_F(GrpcUnderFaults, NodesCutOffForLongerThanTheKeepaliveComeBackAndNothingIsLost) {
  // Beyond the 2 s of these keepalives, so that both ends notice; those of the command, 40 s, would take a minute.
  start([&](const NodeCall& call) {
    if (call.to.node == 1 && call.request.round == 2 && proxy_.connections == 2) proxy_.cut = true;
    return rough_answer(call);
  });
  const std::jthread mending = mended(10s, [&] {
    return lines_.count(") left") == 2 && nodes_[1]->lines.count(": lost ") == 1 &&
           nodes_[2]->lines.count(": lost ") == 1;
  });
  const Clock::time_point begin = Clock::now();
  expect_bits_of_one_process(3);
  EXPECT_GT(Clock::now() - begin, 10s);
  EXPECT_GT(proxy_.connections, 2);
  EXPECT_EQ(lines_.count(") left"), 2) << lines_.all();
  EXPECT_EQ(nodes_[0]->lines.count(": lost "), 0) << nodes_[0]->lines.all();
}

TEST_F(GrpcUnderFaults, NodesCutOffBeyondADeadlineAreDoneWithoutAndComeBack) {
  start();
  expect_bits_of_one_process(1);
  proxy_.cut = true;
  request_.round = 2;
  const Clock::time_point begin = Clock::now();
  const CohortOutcome outcome =
      engine_->run(request_, first(kNodes), terms_, {.quorum = 1, .deadline = 300ms, .give_up = 30s});
  EXPECT_LT(Clock::now() - begin, 5s);
  ASSERT_EQ(outcome.failed.size(), 2U);
  EXPECT_EQ(outcome.failed[0].sentence, "it sent nothing for 300ms");
  const auto one_process = make_in_process_engine(kNodes, programs(rough_answer), {.workers = 1});
  EXPECT_EQ(outcome.sums, one_process->run(request_, first(1), terms_).sums);
  await([&] { return !connected(*engine_, 1) && !connected(*engine_, 2); }, "the coordinator has given them up");
  proxy_.cut = false;
  expect_bits_of_one_process(2);
}

TEST_F(GrpcUnderFaults, AnswersThatComeInTheOppositeOrderGiveTheSameBits) {
  start([&](const NodeCall& call) {
    const std::size_t next = static_cast<std::size_t>(call.to.node) + 1;
    if (next < static_cast<std::size_t>(kNodes))
      await([&] { return !engine_->status().nodes[next].awaited; }, "the answer of the next node is there");
    return rough_answer(call);
  });
  expect_bits_of_one_process(3);
}

/// TCP connections that say nothing.
class Strangers {
 public:
  Strangers(const std::string& address, int count) {
    for (int i = 0; i < count; ++i) {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(one, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) throw std::runtime_error("refused");
      sockets_.push_back(one);
    }
  }
  ~Strangers() {
    for (const int one : sockets_) ::close(one);
  }
  /// How many of them the other end has not closed.
  long open() const {
    return std::count_if(sockets_.begin(), sockets_.end(), [](int one) {
      char byte = 0;
      return ::recv(one, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    });
  }

 private:
  std::vector<int> sockets_;
};

TEST_F(GrpcUnderFaults, StrangersTakeNoMoreConnectionsThanThereMayBeAndNobodysPlace) {
  engine_.reset();
  engine_ = make_grpc_engine({.tls = authority_.coordinator(),
                              .names = node_names(kNodes),
                              .limits = {.most_connections = 20},
                              .log = lines_.log()});
  engine_->announce({.run = "run"});
  const Strangers first_there(engine_->address(), 300);
  for (Index k = 0; k < kNodes; ++k)
    nodes_.push_back(std::make_unique<ServedNodes>(
        GrpcNodeSettings{.connect = engine_->address(),
                         .seats = {{.tls = authority_.node(node_names(kNodes)[static_cast<std::size_t>(k)])}}},
        rough_answer));
  expect_bits_of_one_process(1);
  const Strangers then(engine_->address(), 300);
  expect_bits_of_one_process(2);
  await([&] { return first_there.open() + then.open() <= 20 - kNodes; }, "strangers were closed");
  EXPECT_EQ(first_there.open(), 0);            // the oldest go first
  EXPECT_GE(engine_->status().refused, 300U);  // others gRPC has ended, whose handshake took too long
  lines_.await_line("connections that had not said who they are, since there were too many");
  EXPECT_EQ(lines_.count("joined"), kNodes);
  EXPECT_EQ(lines_.count(") left"), 0) << lines_.all();
}

// ---- the end

/// A log that hangs until it may go on.
struct HangingLog {
  std::shared_ptr<std::atomic<bool>> may_go_on = std::make_shared<std::atomic<bool>>(false);
  GrpcLog log() const {
    return
        [may_go_on = may_go_on](const std::string&) { await([&] { return may_go_on->load(); }, "the log may go on"); };
  }
  ~HangingLog() { *may_go_on = true; }
};

TEST(GrpcFarewell, AnEngineWhoseLogHangsIsLeftToItself) {
  const HangingLog hanging;
  auto engine = make_grpc_engine({.names = node_names(1), .limits = {.farewell = 300ms}, .log = hanging.log()});
  const ServedNodes node({.connect = engine->address(), .seats = plain_seats(1)}, rough_answer);
  await([&] { return connected(*engine, 0); }, "the node joined");
  const Clock::time_point begin = Clock::now();
  engine.reset();
  EXPECT_GT(Clock::now() - begin, 300ms);
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(GrpcFarewell, ANodeWhoseLogHangsIsLeftToItself) {
  const HangingLog hanging;
  const auto engine = make_grpc_engine({.names = node_names(1)});
  const Clock::time_point begin = Clock::now();
  const GrpcEnd end = serve_grpc(
      {.connect = engine->address(), .seats = plain_seats(1), .farewell = 300ms, .log = hanging.log()},
      [](const RunCard&) { return programs(rough_answer); }, [&] { return connected(*engine, 0); });
  EXPECT_EQ(end, GrpcEnd::kStopped);
  EXPECT_GT(Clock::now() - begin, 300ms);
  EXPECT_LT(Clock::now() - begin, 5s);
}

}  // namespace
}  // namespace labelshift
