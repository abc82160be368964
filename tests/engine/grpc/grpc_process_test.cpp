#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "tests/data/scratch.hpp"
#include "tests/engine/grpc/federation.hpp"

// Nodes that are processes of their own, under mutual TLS.

namespace labelshift {
namespace {

using namespace std::chrono_literals;

constexpr Patience kBounded{.give_up = 30s};

/// A process of grpc_scenario.cpp. It is killed at the end, if it still runs.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), LABELSHIFT_GRPC_SCENARIO);
    std::vector<char*> texts;
    for (std::string& one : arguments) texts.push_back(one.data());
    texts.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (::posix_spawn(&id_, texts[0], &actions, nullptr, texts.data(), environ) != 0)
      throw std::runtime_error("no process");
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ::fdopen(ends[0], "r");
  }
  Process(const Process&) = delete;
  ~Process() {
    signal(SIGKILL);
    if (id_ > 0) ::waitpid(id_, nullptr, 0);
    std::fclose(output_);
  }
  void signal(int number) const {
    if (id_ > 0) ::kill(id_, number);
  }
  /// Waits for its end: its exit status, or 128 and the signal that killed it.
  int wait() {
    int status = 0;
    await([&] { return ::waitpid(id_, &status, WNOHANG) == id_; }, "a process ended");
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  bool is_stopped() const {
    std::ifstream in(fmt::format("/proc/{}/stat", id_));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t end = text.rfind(')');
    return end != std::string::npos && text.substr(end, 3) == ") T";
  }
  std::string line() const {
    char text[200] = "";
    if (!std::fgets(text, sizeof text, output_)) throw std::runtime_error("it printed nothing");
    return {text, std::strlen(text) - 1};
  }

 private:
  pid_t id_ = -1;
  FILE* output_ = nullptr;
};

class GrpcProcesses : public Scratch {
 protected:
  GrpcProcesses() {
    const TlsIdentity own = authority_.coordinator();
    file("authority.pem", own.authority);
    file("coordinator.pem", own.certificate);
    file("coordinator.key", own.key);
    for (const std::string& name : node_names(5)) {
      const TlsIdentity node = authority_.node(name);
      file(name + ".pem", node.certificate);
      file(name + ".key", node.key);
    }
  }
  std::unique_ptr<GrpcEngine> engine(Index nodes, const std::string& listen = "127.0.0.1:0") {
    auto made = make_grpc_engine({.listen = listen,
                                  .tls = authority_.coordinator(),
                                  .names = node_names(nodes),
                                  .limits = {.keepalive = 2s, .keepalive_timeout = 2s},
                                  .log = lines_.log()});
    made->announce({.run = "run"});
    return made;
  }
  std::unique_ptr<Process> node(const std::string& address, Index number, const std::string& behaviour = "answers") {
    return std::make_unique<Process>(std::vector<std::string>{
        "node", address, path("."), node_names(5)[static_cast<std::size_t>(number)], behaviour});
  }
  TestAuthority authority_;
  Lines lines_;
};

class GrpcNodeCounts : public GrpcProcesses, public testing::WithParamInterface<Index> {};

TEST_P(GrpcNodeCounts, SumsHaveTheBitsOfOneProcessAndAllThatLeavesANodeIsLogged) {
  const Index count = GetParam();
  const auto coordinator = engine(count);
  std::vector<std::unique_ptr<Process>> nodes;
  for (Index k = 0; k < count; ++k) nodes.push_back(node(coordinator->address(), k));
  const auto one_process = make_in_process_engine(count, programs(rough_answer), {.workers = 2});
  for (const std::uint64_t round : {1, 2}) {
    Request request = kRequest;
    request.round = round;
    expect_same(coordinator->run(request, first(count), kTerms, kBounded),
                one_process->run(request, first(count), kTerms));
    expect_same(coordinator->run(request, cohort_of({count - 1}), kTerms, kBounded),
                one_process->run(request, cohort_of({count - 1}), kTerms));
  }
  coordinator->finish();
  for (const auto& one : nodes) EXPECT_EQ(one->wait(), 0);

  std::istringstream log(bytes_of(path("node-0.log")));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), count == 1 ? 5U : 3U);
  EXPECT_EQ(lines[0]["kind"], "hello");
  EXPECT_EQ(lines[1]["kind"], "answer");
  EXPECT_EQ(lines[1]["run"], "run");
  EXPECT_EQ(lines[1]["round"], 1);
  EXPECT_EQ(lines[1]["task"], "target");
  EXPECT_EQ(lines[1]["numbers"], 20);
  EXPECT_EQ(lines[1]["weights"], 300);
  EXPECT_EQ(lines[1]["bytes"], 40 + 80 + 160 + 1200);
  EXPECT_EQ(lines[1]["sha256"].get<std::string>().size(), 64U);
}

INSTANTIATE_TEST_SUITE_P(Engine, GrpcNodeCounts, testing::Values(1, 2, 3, 5),
                         [](const auto& nodes) { return fmt::format("{}Nodes", nodes.param); });

TEST_F(GrpcProcesses, AKilledNodeIsAnOutcomeAndItsSuccessorTakesItsPlace) {
  const auto coordinator = engine(3);
  std::vector<std::unique_ptr<Process>> nodes;
  for (Index k = 0; k < 3; ++k) nodes.push_back(node(coordinator->address(), k, k == 1 ? "dies" : "answers"));
  EXPECT_TRUE(coordinator->run(kRequest, first(3), kTerms, kBounded).failed.empty());
  Request request = kRequest;
  request.round = 7;
  const auto outcome = coordinator->run(request, first(3), kTerms, {.quorum = 2, .deadline = 3s, .give_up = 30s});
  ASSERT_EQ(outcome.failed.size(), 1U);
  EXPECT_EQ(outcome.failed[0].node, 1);
  EXPECT_EQ(outcome.failed[0].kind, ErrorKind::kPeer);
  EXPECT_EQ(outcome.failed[0].sentence, "it is not connected: it sent nothing for 3 s");
  EXPECT_EQ(nodes[1]->wait(), 128 + SIGKILL);
  nodes[1] = node(coordinator->address(), 1);
  const auto one_process = make_in_process_engine(3, programs(rough_answer), {.workers = 1});
  expect_same(coordinator->run(request, first(3), kTerms, kBounded), one_process->run(request, first(3), kTerms));
}

TEST_F(GrpcProcesses, AStoppedNodeMissesItsDeadlineAndComesBack) {
  const auto coordinator = engine(2);
  const auto awake = node(coordinator->address(), 0), sleeper = node(coordinator->address(), 1, "sleeps");
  EXPECT_TRUE(coordinator->run(kRequest, first(2), kTerms, kBounded).failed.empty());
  Request request = kRequest;
  request.round = 7;
  const auto outcome = coordinator->run(request, first(2), kTerms, {.quorum = 1, .deadline = 300ms, .give_up = 30s});
  ASSERT_EQ(outcome.failed.size(), 1U);
  EXPECT_EQ(outcome.failed[0].node, 1);
  EXPECT_THAT(outcome.failed[0].sentence, testing::HasSubstr("it sent nothing for 300ms"));
  await([&] { return sleeper->is_stopped(); }, "the node stopped");
  sleeper->signal(SIGCONT);
  request.round = 8;
  const auto one_process = make_in_process_engine(2, programs(rough_answer), {.workers = 1});
  expect_same(coordinator->run(request, first(2), kTerms, kBounded), one_process->run(request, first(2), kTerms));
}

TEST_F(GrpcProcesses, NodesFindACoordinatorAgainThatWasKilledAndStartedAgain) {
  std::string address;
  std::vector<std::unique_ptr<Process>> nodes;
  {
    Process coordinator({"coordinator", "127.0.0.1:0", path("."), "2"});
    address = coordinator.line();
    for (Index k = 0; k < 2; ++k) nodes.push_back(node(address, k));
    EXPECT_EQ(coordinator.line(), "answered");
    coordinator.signal(SIGKILL);  // while it asks
    EXPECT_EQ(coordinator.wait(), 128 + SIGKILL);
  }
  const auto coordinator = engine(2, address);
  EXPECT_EQ(coordinator->address(), address);
  const auto one_process = make_in_process_engine(2, programs(rough_answer), {.workers = 1});
  expect_same(coordinator->run(kRequest, first(2), kTerms, kBounded), one_process->run(kRequest, first(2), kTerms));
  coordinator->finish();
  for (const auto& one : nodes) EXPECT_EQ(one->wait(), 0);
}

}  // namespace
}  // namespace labelshift
