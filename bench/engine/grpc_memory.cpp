// grpc_memory [WEIGHTS] [ROUNDS]   prints how much memory a coordinator of many nodes takes over gRPC: the most that
// its process has had (VmHWM) once nodes are connected and after 1, 10 and 100 rounds, without TLS and with it. The
// nodes are all in one other process, and send back the weights that they get. docs/performance.md has what it found.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "labelshift/engine/grpc/grpc_engine.hpp"
#include "labelshift/engine/grpc/grpc_node.hpp"
#include "tests/engine/grpc/certificates.hpp"

namespace {

using namespace labelshift;

struct Case {
  Index nodes;
  bool tls;
  std::size_t weights;
  int rounds;
};

class Echo : public NodeProgram {
 public:
  Answer run(const NodeCall& call) override { return {.numbers = {1.0}, .weights = call.request.weights}; }
};

std::string name_of(Index node) {
  return fmt::format("node-{}", node);
}

/// Texts from one process to another.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) throw std::runtime_error("no pipe");
  }
  void say(const std::string& text) const {
    const std::uint64_t size = text.size();
    if (::write(ends_[1], &size, sizeof size) != sizeof size ||
        ::write(ends_[1], text.data(), size) != static_cast<ssize_t>(size))
      throw std::runtime_error("nobody listens");
  }
  std::string hear() const {
    std::uint64_t size = 0;
    if (::read(ends_[0], &size, sizeof size) != sizeof size) throw std::runtime_error("nobody speaks");
    std::string text(size, '\0');
    for (std::size_t at = 0; at < size;) {
      const ssize_t got = ::read(ends_[0], text.data() + at, size - at);
      if (got <= 0) throw std::runtime_error("nobody speaks");
      at += static_cast<std::size_t>(got);
    }
    return text;
  }

 private:
  int ends_[2];
};

/// Runs `work` in a process of its own.
template <typename Work>
pid_t fork_for(const Work& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child > 0) return child;
  int status = 0;
  try {
    work();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    status = 1;
  }
  std::fflush(stdout);
  ::_exit(status);
}

void await_child(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) throw std::runtime_error("a process failed");
}

double most_mebibytes() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024.0;
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

/// All nodes. Certificates are made here, so that the coordinator's memory has its own alone.
void serve(const Case& one, const Pipe& to_coordinator, const Pipe& to_nodes) {
  GrpcNodeSettings settings;
  const TestAuthority authority;
  for (Index node = 0; node < one.nodes; ++node) {
    settings.seats.push_back({.name = name_of(node)});
    if (one.tls) settings.seats.back().tls = authority.node(name_of(node));
  }
  const TlsIdentity identity = authority.coordinator();
  for (const std::string* text : {&identity.authority, &identity.certificate, &identity.key}) to_coordinator.say(*text);
  settings.connect = to_nodes.hear();
  serve_grpc(settings, [](const RunCard&) { return NodeProgramFactory([] { return std::make_unique<Echo>(); }); });
}

void coordinate(const Case& one, const Pipe& to_coordinator, const Pipe& to_nodes) {
  TlsIdentity identity;
  for (std::string* text : {&identity.authority, &identity.certificate, &identity.key}) *text = to_coordinator.hear();
  GrpcSettings settings;
  if (one.tls) settings.tls = identity;
  for (Index node = 0; node < one.nodes; ++node) settings.names.push_back(name_of(node));
  const auto engine = make_grpc_engine(std::move(settings));
  engine->announce({.run = "memory"});
  to_nodes.say(engine->address());
  std::vector<Addressee> cohort;
  for (Index node = 0; node < one.nodes; ++node) cohort.push_back({.node = node});
  const auto round = [&](std::size_t weights) {
    const CohortOutcome outcome = engine->run({.weights = std::vector<float>(weights, 0.5F)}, cohort,
                                              {.numbers = 1, .weights = weights}, {.give_up = std::chrono::minutes(5)});
    if (!outcome.failed.empty()) throw std::runtime_error(outcome.failed.front().sentence);
    if (outcome.sums.numbers[0] != static_cast<double>(one.nodes)) throw std::runtime_error("a wrong sum");
  };
  round(0);
  fmt::print("| {:5} | {:3} | {:9.0f} |", one.nodes, one.tls ? "yes" : "no", most_mebibytes());
  for (int done = 1; done <= one.rounds; ++done) {
    round(one.weights);
    if (done == 1 || done == 10 || done == 100) fmt::print(" {:7.0f} |", most_mebibytes());
  }
  fmt::print("\n");
  engine->finish();
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t weights = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 7850;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  fmt::print("{} weights, MiB\n| nodes | TLS | connected | 1 round | 10      | 100     |\n", weights);
  for (const bool tls : {false, true})
    for (const Index nodes : {250, 500, 1000}) {
      std::fflush(stdout);
      const Case one{nodes, tls, weights, rounds};
      await_child(fork_for([&] {
        const Pipe to_coordinator, to_nodes;
        const pid_t served = fork_for([&] { serve(one, to_coordinator, to_nodes); });
        coordinate(one, to_coordinator, to_nodes);
        await_child(served);
      }));
    }
}
