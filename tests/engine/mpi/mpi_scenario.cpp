// One rank of a job that mpi_engine_test.cpp starts by mpirun: mpi_scenario NAME. Rank 0 asks and judges, the others
// serve. Prints what is wrong to standard error and ends the job with status 1; or ends it as the scenario wants.

#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/mpi/mpi_engine.hpp"
#include "tests/engine/programs.hpp"

namespace labelshift {
namespace {

using namespace std::chrono_literals;

constexpr Index kNodes = 13;

void need(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

const std::vector<Index> kAll{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

void need_same(const CohortOutcome& found, const CohortOutcome& expected) {
  need(found.sums == expected.sums, "the sums differ from those in one process");
  need(found.traffic == expected.traffic, "the traffic differs");
  need(found.contributed.size() == expected.contributed.size(), "others contributed");
  for (std::size_t i = 0; i < found.contributed.size(); ++i)
    need(found.contributed[i].node == expected.contributed[i].node &&
             found.contributed[i].report == expected.contributed[i].report,
         "a report differs");
  need(found.failed.size() == expected.failed.size(), "others failed");
  for (std::size_t i = 0; i < found.failed.size(); ++i)
    need(found.failed[i].node == expected.failed[i].node && found.failed[i].kind == expected.failed[i].kind &&
             found.failed[i].sentence == expected.failed[i].sentence &&
             found.failed[i].remedy == expected.failed[i].remedy,
         "a failure differs: " + found.failed[i].sentence);
}

struct Scenario {
  Work work = rough_answer;
  std::function<void(Engine& engine)> ask;
  MpiSettings settings{.deadline = 20s};
  AcceptAnswer accept = {};
};

/// Works until it is told to stop.
Answer endless(const NodeCall& call) {
  while (!call.cancelled) std::this_thread::sleep_for(1ms);
  throw Stopped{};
}

Scenario scenario(const std::string& name) {
  if (name == "same-bits")
    return {.ask = [](Engine& engine) {
      const auto one_process = make_in_process_engine(kNodes, programs(rough_answer), {.workers = 2});
      for (const auto& nodes : std::vector<std::vector<Index>>{kAll, {0}, {12}, {5, 6}, {0, 3, 4, 7, 11, 12}, {}}) {
        Request request = kRequest;
        for (const std::uint64_t round : {1, 2, 3}) {
          request.round = round;
          const auto cohort = cohort_of(nodes);
          need_same(engine.run(request, cohort, kTerms), one_process->run(request, cohort, kTerms));
        }
      }
    }};
  if (name == "failures") {
    const Work work = [](const NodeCall& call) {
      if (call.to.node == 4) throw Error(ErrorKind::kInput, "its data are bad", Remedy::kCpu);
      if (call.to.node == 11) throw std::logic_error("a bug");
      Answer answer = rough_answer(call);
      if (call.to.node == 7) answer.weights[3] = NAN;
      if (call.to.node == 9) answer.weights.pop_back();
      return answer;
    };
    return {.work = work, .ask = [work](Engine& engine) {
              const auto one_process = make_in_process_engine(kNodes, programs(work), {.workers = 1});
              for (const Index bad : {4, 7, 9, 11}) {
                const auto cohort = cohort_of({0, 1, 2, 3, bad, 12});
                const CohortOutcome found = engine.run(kRequest, cohort, kTerms);
                need(!found.failed.empty(), "a failure was lost");
                const NodeFailure& failure = found.failed.front();
                const NodeFailure expected = one_process->run(kRequest, cohort, kTerms).failed.front();
                need(failure.node == bad && failure.kind == expected.kind && failure.sentence == expected.sentence &&
                         failure.remedy == expected.remedy,
                     "a failure differs: " + failure.sentence);
              }
              need(engine.run(kRequest, cohort_of({0, 1, 12}), kTerms).failed.empty(), "the engine is not used again");
            }};
  }
  if (name == "accept")
    return {.ask =
                [](Engine& engine) {
                  AnswerTerms picky = kTerms;
                  const auto refuse = [](Index node) {
                    if (node == 12) throw Error(ErrorKind::kPeer, "refused");
                  };
                  picky.accept = [&](Index node, Answer&) { refuse(node); };
                  const auto found = engine.run(kRequest, cohort_of(kAll), picky);
                  need(found.failed.size() == 1 && found.failed[0].node == 12 && found.failed[0].sentence == "refused",
                       "an answer was accepted");
                },
            .accept =
                [](const Request& request, Index node, Answer&) {
                  if (request.task == 3 && node == 12) throw Error(ErrorKind::kPeer, "refused");
                }};
  if (name == "stop")
    return {.work = [](const NodeCall& call) { return call.request.round == 1 ? endless(call) : rough_answer(call); },
            .ask =
                [](Engine& engine) {
                  const auto one_process = make_in_process_engine(kNodes, programs(rough_answer), {.workers = 2});
                  Request request = kRequest;
                  for (int time = 0; time < 3; ++time) {
                    request.round = 1;
                    int looks = 0;
                    try {
                      engine.run(request, cohort_of(kAll), kTerms, {},
                                 [&](std::string_view, double) { return ++looks < 3; });
                      need(false, "it was not stopped");
                    } catch (const Stopped&) {
                    }
                    request.round = 2;
                    need_same(engine.run(request, cohort_of(kAll), kTerms),
                              one_process->run(request, cohort_of(kAll), kTerms));
                  }
                }};
  if (name == "observer-throws")
    return {.work = [](const NodeCall& call) { return call.request.round == 1 ? endless(call) : rough_answer(call); },
            .ask =
                [](Engine& engine) {
                  Request request = kRequest;
                  request.round = 1;
                  bool thrown = false;
                  try {
                    engine.run(request, cohort_of(kAll), kTerms, {},
                               [](std::string_view, double) -> bool { throw std::runtime_error("no more"); });
                  } catch (const std::runtime_error&) {
                    thrown = true;
                  }
                  need(thrown, "what the observer threw was lost");
                }};
  if (name == "slow")  // longer than the deadline, but alive
    return {.work =
                [](const NodeCall& call) {
                  if (call.to.node == 12) std::this_thread::sleep_for(7s);
                  return rough_answer(call);
                },
            .ask = [](Engine& engine) { need(engine.run(kRequest, cohort_of(kAll), kTerms).failed.empty(), "slow"); },
            .settings = {.deadline = 4s}};
  if (name == "silent")
    return {.work =
                [](const NodeCall& call) {
                  if (call.to.node == 12) std::raise(SIGSTOP);
                  return rough_answer(call);
                },
            .ask = [](Engine& engine) { engine.run(kRequest, cohort_of(kAll), kTerms); },
            .settings = {.deadline = 5s}};
  if (name == "killed")
    return {.work =
                [](const NodeCall& call) {
                  if (call.to.node == 12) std::raise(SIGKILL);
                  return rough_answer(call);
                },
            .ask = [](Engine& engine) { engine.run(kRequest, cohort_of(kAll), kTerms); }};
  if (name == "quorum")
    return {.ask = [](Engine& engine) {
      try {
        engine.run(kRequest, cohort_of(kAll), kTerms, {.quorum = 3});
        need(false, "a quorum was accepted");
      } catch (const Error& error) {
        need(error.kind() == ErrorKind::kUsage, error.what());
      }
      need(engine.run(kRequest, cohort_of(kAll), kTerms).failed.empty(), "the engine is not used again");
    }};
  throw std::runtime_error("there is no scenario " + name);
}

}  // namespace
}  // namespace labelshift

int main(int argc, char** argv) {
  using namespace labelshift;
  MpiContext mpi;
  try {
    const Scenario chosen = scenario(argc > 1 ? argv[1] : "");
    if (mpi.rank() == 0)
      chosen.ask(*make_mpi_engine(mpi, kNodes, programs(chosen.work), chosen.settings));
    else
      serve_mpi(mpi, kNodes, programs(chosen.work), chosen.accept, chosen.settings);
    mpi.finish(chosen.settings.deadline);
    if (mpi.rank() == 0) fmt::print("done\n");
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    std::fflush(stderr);
    mpi.abort(4);
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "wrong: {}\n", wrong.what());
    std::fflush(stderr);
    mpi.abort(1);
  }
}
