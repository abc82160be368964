// A process of grpc_process_test.cpp: grpc_scenario node ADDRESS FOLDER NAME BEHAVIOUR, or grpc_scenario coordinator
// ADDRESS FOLDER NODES. The folder has certificates. Prints what is wrong to standard error and ends with status 1.

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

#include "labelshift/engine/grpc/grpc_engine.hpp"
#include "labelshift/engine/grpc/grpc_node.hpp"
#include "tests/engine/programs.hpp"

namespace labelshift {
namespace {

using namespace std::chrono_literals;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + " is missing");
  return {std::istreambuf_iterator<char>(in), {}};
}

TlsIdentity identity(const std::string& folder, const std::string& name) {
  return {text_of(folder + "/authority.pem"), text_of(folder + "/" + name + ".pem"),
          text_of(folder + "/" + name + ".key")};
}

int serve(const std::string& address, const std::string& folder, const std::string& name,
          const std::string& behaviour) {
  const GrpcNodeSettings settings{.connect = address,
                                  .seats = {{.name = name, .tls = identity(folder, name)}},
                                  .sent_log = folder + "/" + name + ".log",
                                  .first_pause = 20ms,
                                  .longest_pause = 200ms,
                                  .give_up_after = 60s,
                                  .keepalive = 2s,
                                  .keepalive_timeout = 2s};
  serve_grpc(settings, [&](const RunCard&) {
    return programs([&](const NodeCall& call) {
      if (call.request.round == 7) {
        if (behaviour == "dies") std::raise(SIGKILL);
        if (behaviour == "sleeps") std::raise(SIGSTOP);
      }
      return rough_answer(call);
    });
  });
  return 0;
}

/// Asks for ever, once somebody has answered says so.
int coordinate(const std::string& address, const std::string& folder, int nodes) {
  std::vector<std::string> names;
  for (int node = 0; node < nodes; ++node) names.push_back("node-" + std::to_string(node));
  const auto engine = make_grpc_engine({.listen = address, .tls = identity(folder, "coordinator"), .names = names});
  fmt::print("{}\n", engine->address());
  std::fflush(stdout);
  engine->announce({.run = "run"});
  for (int round = 1;; ++round) {
    Request request = kRequest;
    request.round = static_cast<std::uint64_t>(round);
    const auto outcome = engine->run(request, first(nodes), kTerms, {.give_up = 30s});
    if (!outcome.failed.empty()) outcome.failed[0].raise();
    if (round == 20) {
      fmt::print("answered\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace labelshift

int main(int, char** argv) {
  using namespace labelshift;
  try {
    if (std::string_view(argv[1]) == "node") return serve(argv[2], argv[3], argv[4], argv[5]);
    return coordinate(argv[2], argv[3], std::stoi(argv[4]));
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "wrong: {}\n", wrong.what());
    return 1;
  }
}
