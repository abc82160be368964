#include <fmt/format.h>
#include <gmock/gmock.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/resource.h>

#include <filesystem>
#include <new>
#include <stdexcept>

#include "tests/engine/grpc/faulty_proxy.hpp"
#include "tests/engine/grpc/federation.hpp"
#include "tests/engine/grpc/raw_peers.hpp"

// Who is refused before anything is believed, and that the side that refuses says so once; and what is thrown in a
// coordinator, which ends nothing but what it was thrown in.

namespace labelshift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr Patience kBounded{.give_up = 30s};

std::shared_ptr<grpc::ChannelCredentials> credentials(const TlsIdentity& identity) {
  return grpc::SslCredentials({identity.authority, identity.key, identity.certificate});
}

// ---- what a coordinator refuses

/// Who comes to a coordinator of "north" and "south", and what its log says.
struct Refused {
  const char* name;
  std::function<TlsIdentity(const TestAuthority& authority)> identity;
  const char* calls_itself;
  const char* line;

  friend void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }
};

std::vector<Refused> refused_nodes() {
  return {
      {"NoCertificate",
       [](const TestAuthority& authority) {
         return TlsIdentity{.authority = authority.node("north").authority, .certificate = "", .key = ""};
       },
       "north", "refused a connection: its certificate is missing"},
      {"AnotherAuthority",
       [](const TestAuthority& authority) {
         TlsIdentity forged = TestAuthority().node("north");
         forged.authority = authority.node("north").authority;
         return forged;
       },
       "north",
       "refused a connection that calls itself \"north\": its certificate is not signed by the authority that is "
       "believed here"},
      {"Expired",
       [](const TestAuthority& authority) { return authority.identity("north", {.from = -7200, .until = -3600}); },
       "north", "refused a connection that calls itself \"north\": its certificate has expired"},
      {"NotYetValid",
       [](const TestAuthority& authority) { return authority.identity("north", {.from = 3600, .until = 7200}); },
       "north", "refused a connection that calls itself \"north\": its certificate is not valid yet"},
      {"NotOnTheList", [](const TestAuthority& authority) { return authority.node("east"); }, "east",
       "the name \"east\" is not on the list of nodes; ask who runs the coordinator to add it"},
      {"TheNameOfAnother", [](const TestAuthority& authority) { return authority.node("south"); }, "north",
       "it calls itself \"north\", but its certificate is for \"south\""},
  };
}

class ANodeThatIsNotToBeBelieved : public testing::TestWithParam<Refused> {};

TEST_P(ANodeThatIsNotToBeBelieved, IsRefusedWithOneLine) {
  const TestAuthority authority;
  Lines lines;
  auto engine = make_grpc_engine({.tls = authority.coordinator(), .names = {"north", "south"}, .log = lines.log()});
  {
    RawNode node(engine->address(), credentials(GetParam().identity(authority)));
    node.hello(GetParam().calls_itself);
    const grpc::Status status = node.finish();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  for (Index k = 0; k < 2; ++k) EXPECT_FALSE(connected(*engine, k));
  engine.reset();  // by now all lines are written
  EXPECT_EQ(lines.count(GetParam().line), 1) << lines.all();
  EXPECT_EQ(lines.count(""), 1) << lines.all();
}

INSTANTIATE_TEST_SUITE_P(Engine, ANodeThatIsNotToBeBelieved, testing::ValuesIn(refused_nodes()),
                         [](const auto& refused) { return std::string(refused.param.name); });

/// A node that tries once, and says how that went.
class OneTry {
 public:
  OneTry(const std::string& address, const GrpcSeat& seat) {
    serve_grpc(
        {.connect = address, .seats = {seat}, .first_pause = 1h, .longest_pause = 1h, .log = lines.log()},
        [](const RunCard&) { return programs(rough_answer); },
        [this, deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience)] {
          return lines.count("") > 0 || std::chrono::steady_clock::now() > deadline;
        });
  }
  Lines lines;
};

TEST(GrpcTwins, TheSecondNodeOfANameIsRefusedWithOneLineAtBothEnds) {
  const TestAuthority authority;
  Lines lines;
  auto engine = make_grpc_engine({.tls = authority.coordinator(), .names = {"north"}, .log = lines.log()});
  RawNode good(engine->address(), credentials(authority.node("north")));
  good.session.fill(std::byte{1});
  good.hello("north");
  await([&] { return connected(*engine, 0); }, "the first joined");
  const OneTry twin(engine->address(), {.tls = authority.node("north")});
  const char* const why = "a node with the name \"north\" is connected already";
  EXPECT_EQ(twin.lines.count(why), 1) << twin.lines.all();
  EXPECT_EQ(twin.lines.count(""), 1) << twin.lines.all();
  EXPECT_TRUE(connected(*engine, 0));
  good.leave();
  engine.reset();
  EXPECT_EQ(lines.count(why), 1) << lines.all();
  EXPECT_EQ(lines.count("refused"), 1) << lines.all();
}

TEST(GrpcNodeOffTheList, IsToldWhyWithOneLineAtBothEnds) {
  const TestAuthority authority;
  Lines lines;
  auto engine = make_grpc_engine({.tls = authority.coordinator(), .names = {"north"}, .log = lines.log()});
  const OneTry node(engine->address(), {.tls = authority.node("east")});
  engine.reset();
  const char* const why = "the name \"east\" is not on the list of nodes";
  EXPECT_EQ(lines.count(why), 1) << lines.all();
  EXPECT_EQ(lines.count(""), 1) << lines.all();
  EXPECT_EQ(node.lines.count(why), 1) << node.lines.all();
  EXPECT_EQ(node.lines.count(""), 1) << node.lines.all();
}

// ---- what a node refuses

/// A coordinator that is not ours: gRPC with any certificate, or none.
class AnyServer {
 public:
  explicit AnyServer(const std::optional<TlsIdentity>& identity) {
    grpc::ServerBuilder builder;
    auto shown = grpc::InsecureServerCredentials();
    if (identity) {
      grpc::SslServerCredentialsOptions options;
      options.pem_key_cert_pairs.push_back({identity->key, identity->certificate});
      shown = grpc::SslServerCredentials(options);
    }
    builder.AddListeningPort("127.0.0.1:0", shown, &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~AnyServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string port() const { return std::to_string(port_); }

 private:
  wire::v1::Federation::Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

/// A coordinator that no node believes, the host that the node dials, and what its log says.
struct Doubted {
  const char* name;
  std::function<std::optional<TlsIdentity>(const TestAuthority& authority)> coordinator;
  const char* host;
  const char* why;

  friend void PrintTo(const Doubted& doubted, std::ostream* out) { *out << doubted.name; }
};

std::vector<Doubted> doubted_coordinators() {
  constexpr const char* kUnsigned =
      "the coordinator's certificate has expired or is not signed by the authority that is believed here";
  constexpr const char* kOtherHost = "the coordinator's certificate is not for the host that was dialled";
  return {
      {"AnotherAuthority", [](const TestAuthority&) { return TestAuthority().coordinator(); }, "127.0.0.1", kUnsigned},
      {"Expired",
       [](const TestAuthority& authority) {
         return authority.identity("coordinator", {.from = -7200, .until = -3600, .alternatives = "IP:127.0.0.1"});
       },
       "127.0.0.1", kUnsigned},
      {"NotYetValid",
       [](const TestAuthority& authority) {
         return authority.identity("coordinator", {.from = 3600, .until = 7200, .alternatives = "IP:127.0.0.1"});
       },
       "127.0.0.1", kUnsigned},
      {"AnotherHost",
       [](const TestAuthority& authority) {
         return authority.identity("coordinator", {.alternatives = "DNS:elsewhere.example"});
       },
       "127.0.0.1", kOtherHost},
      {"AnotherNameOfTheHost", [](const TestAuthority& authority) { return authority.coordinator(); }, "localhost",
       kOtherHost},
      {"NotEncrypted", [](const TestAuthority&) { return std::nullopt; }, "127.0.0.1", "or it speaks no TLS"},
  };
}

class ACoordinatorThatIsNotToBeBelieved : public testing::TestWithParam<Doubted> {};

TEST_P(ACoordinatorThatIsNotToBeBelieved, IsRefusedWithOneLine) {
  const TestAuthority authority;
  const AnyServer server(GetParam().coordinator(authority));
  const OneTry node(GetParam().host + (":" + server.port()), {.tls = authority.node("north")});
  EXPECT_EQ(node.lines.count(GetParam().why), 1) << node.lines.all();
  EXPECT_EQ(node.lines.count(""), 1) << node.lines.all();
}

INSTANTIATE_TEST_SUITE_P(Engine, ACoordinatorThatIsNotToBeBelieved, testing::ValuesIn(doubted_coordinators()),
                         [](const auto& doubted) { return std::string(doubted.param.name); });

// ---- who speaks another language

/// Shakes hands with at most this version of TLS, and returns what went wrong, 0 if nothing did.
int handshake_failure(const RawConnection& connection, int version) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), version);
  SSL_CTX_set_cipher_list(context.get(), "DEFAULT@SECLEVEL=0");  // without which OpenSSL itself offers no such version
  const unsigned char http2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), http2, sizeof http2);
  const std::unique_ptr<SSL, decltype(&SSL_free)> session(SSL_new(context.get()), SSL_free);
  SSL_set_fd(session.get(), connection.descriptor());
  ERR_clear_error();
  if (SSL_connect(session.get()) == 1) return 0;
  return ERR_GET_REASON(ERR_peek_error());
}

class GrpcStrangers : public testing::Test {
 protected:
  /// Whether a node is still served.
  void expect_service() {
    engine_->announce({.run = "run"});
    const ServedNodes node({.connect = engine_->address(), .seats = {{.tls = authority_.node("north")}}}, rough_answer);
    EXPECT_TRUE(engine_->run(kRequest, first(1), kTerms, kBounded).failed.empty());
  }
  const TestAuthority authority_;
  Lines lines_;
  std::unique_ptr<GrpcEngine> engine_ =
      make_grpc_engine({.tls = authority_.coordinator(), .names = {"north"}, .log = lines_.log()});
};

TEST_F(GrpcStrangers, WhoSpeakAnOldTlsAreRefusedBeforeAnyCertificateIsLookedAt) {
  for (const int old : {TLS1_VERSION, TLS1_1_VERSION}) {
    const RawConnection stranger(engine_->address());
    EXPECT_NE(handshake_failure(stranger, old), 0);
    EXPECT_TRUE(stranger.is_closed());
  }
  EXPECT_EQ(engine_->status().refused, 2U);
  lines_.await_line("refused ipv4:127.0.0.1:");
  EXPECT_EQ(lines_.count("its certificate"), 0);
  const RawConnection stranger(engine_->address());
  EXPECT_EQ(handshake_failure(stranger, TLS1_2_VERSION), 0);  // so it was the version
  EXPECT_TRUE(stranger.is_closed());
  lines_.await_line("refused a connection: its certificate is missing");
  EXPECT_EQ(lines_.count("it speaks no newer TLS than 1.1, expected 1.2 or newer"), 2);
  EXPECT_EQ(lines_.count("refused"), 3) << lines_.all();
  expect_service();
}

TEST_F(GrpcStrangers, WhoSpeakNoTlsAreRefusedWithOneLineEach) {
  constexpr std::string_view kWords[] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nHost: north\r\n\r\n",
                                         "\x16\x03\x01\xff\xff\x01 not what it says, and long enough to be looked at"};
  for (const std::string_view words : kWords) {
    const RawConnection stranger(engine_->address());
    stranger.send(words);
    EXPECT_TRUE(stranger.is_closed()) << words;
  }
  await([&] { return lines_.count("it speaks no TLS; if it is a node, give it its certificate") == 3; },
        "each was logged");
  EXPECT_EQ(lines_.count(""), 3) << lines_.all();
  EXPECT_EQ(engine_->status().refused, 3U);
  EXPECT_FALSE(connected(*engine_, 0));
  expect_service();
}

TEST_F(GrpcStrangers, WhoSayNothingAreClosedInTimeWithOneLineAndHinderNobody) {
  engine_.reset();
  engine_ = make_grpc_engine(
      {.tls = authority_.coordinator(), .names = {"north"}, .limits = {.handshake = 500ms}, .log = lines_.log()});
  const RawConnection stranger(engine_->address());
  expect_service();
  EXPECT_TRUE(stranger.is_closed());
  lines_.await_line("it did not begin to speak TLS within 500ms");
  EXPECT_EQ(lines_.count("refused"), 1) << lines_.all();
}

// ---- what is thrown

TEST(GrpcEngineInTrouble, WhateverIsThrownByThoseWhoCheckAnAnswerIsAFailureOfItsNode) {
  Lines lines;
  const auto engine = make_grpc_engine({.names = node_names(2), .log = lines.log()});
  engine->announce({.run = "run"});
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(2)}, rough_answer);
  const std::vector<std::pair<std::function<void()>, std::string>> thrown = {
      {[] { throw Error(ErrorKind::kPeer, "not to be believed"); }, "not to be believed"},
      {[] { throw std::bad_alloc(); }, "out of memory"},
      {[] { throw std::length_error("too long"); }, "too long"},
      {[] { throw 7; }, "something was thrown that is no exception"}};
  for (const auto& [act, sentence] : thrown)
    for (const bool in_words : {false, true}) {
      AnswerTerms terms = kTerms;
      if (in_words)
        terms.check_words = [&act = act, words = 0](std::span<const std::uint64_t>) mutable {
          if (++words == 1) act();
        };
      else
        terms.accept = [&act = act](Index node, Answer&) {
          if (node == 1) act();
        };
      const CohortOutcome outcome = engine->run(kRequest, first(2), terms, {.quorum = 1, .give_up = 30s});
      ASSERT_EQ(outcome.failed.size(), 1U) << sentence;
      EXPECT_THAT(outcome.failed[0].sentence, HasSubstr(sentence));
      EXPECT_EQ(outcome.contributed.size(), 1U);
    }
  EXPECT_TRUE(engine->run(kRequest, first(2), kTerms, kBounded).failed.empty());
}

TEST(GrpcEngineInTrouble, WhateverProgramsOfNodesThrowIsAFailureAndTheyServeOn) {
  const auto engine = make_grpc_engine({.names = node_names(1)});
  engine->announce({.run = "run"});
  const ServedNodes node({.connect = engine->address(), .seats = plain_seats(1)}, [](const NodeCall& call) -> Answer {
    switch (call.request.task) {
      case 10:
        throw std::bad_alloc();
      case 11:
        throw std::length_error("too long");
      case 12:
        throw 7;
      default:
        return rough_answer(call);
    }
  });
  const char* const sentences[] = {"out of memory", "too long", "something was thrown that is no exception"};
  for (std::uint32_t i = 0; i < 3; ++i) {
    Request request = kRequest;
    request.task = 10 + i;
    const CohortOutcome outcome = engine->run(request, first(1), kTerms, kBounded);
    ASSERT_EQ(outcome.failed.size(), 1U);
    EXPECT_THAT(outcome.failed[0].sentence, HasSubstr(sentences[i]));
  }
  EXPECT_TRUE(engine->run(kRequest, first(1), kTerms, kBounded).failed.empty());
}

TEST(GrpcEngineInTrouble, ServesOnWhereNoLineCanBeWritten) {
  std::atomic<int> lines = 0;
  const auto engine = make_grpc_engine({.names = node_names(1), .log = [&](const std::string&) {
                                          ++lines;
                                          throw std::runtime_error("the terminal has gone");
                                        }});
  engine->announce({.run = "run"});
  const ServedNodes node({.connect = engine->address(), .seats = plain_seats(1)}, rough_answer);
  for (int i = 0; i < 3; ++i) {
    RawNode stranger(engine->address());
    stranger.hello("nobody");
    EXPECT_EQ(stranger.finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  EXPECT_TRUE(engine->run(kRequest, first(1), kTerms, kBounded).failed.empty());
  await([&] { return lines == 4; }, "every line was handed over");
}

/// For as long as it lives, this process may open no file more.
class NoFileLeft {
 public:
  NoFileLeft() {
    ::getrlimit(RLIMIT_NOFILE, &was_);
    const int lowest = ::dup(STDERR_FILENO);  // that is free
    ::close(lowest);
    rlimit now = was_;
    now.rlim_cur = static_cast<rlim_t>(lowest);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~NoFileLeft() { ::setrlimit(RLIMIT_NOFILE, &was_); }

 private:
  rlimit was_{};
};

TEST_F(GrpcStrangers, AreClosedWhereTheProcessMayOpenNoFileMoreAndNodesAreServedOn) {
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = files();
  const RawConnection early(engine_->address());
  await([&] { return files() == before + 2; }, "both ends of a connection were open");
  {
    // Their own ends are open before there is no file left.
    std::vector<int> sockets;
    for (int i = 0; i < 5; ++i) sockets.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const NoFileLeft none;
    sockaddr_in to{};
    socklen_t size = sizeof to;
    ::getpeername(early.descriptor(), reinterpret_cast<sockaddr*>(&to), &size);
    for (const int one : sockets) EXPECT_EQ(::connect(one, reinterpret_cast<const sockaddr*>(&to), size), 0);
    EXPECT_TRUE(early.is_closed());  // to make room for who came later
    for (const int one : sockets) ::close(one);
  }
  lines_.await_line("connections that had not said who they are, since there were too many");
  expect_service();
}

}  // namespace
}  // namespace labelshift
