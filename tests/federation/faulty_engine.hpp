#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/engine.hpp"
#include "labelshift/engine/tasks.hpp"

namespace labelshift {

/// How often something goes wrong, from 0 to 1: to each node of each call, or once in a call.
struct FaultRates {
  // An answer is lost:
  double drop = 0.0;         // after the node did its work
  double late = 0.0;         // the same, and a moment after; beyond a deadline, see with_late_nodes()
  double unreachable = 0.0;  // the node was never asked
  double corrupt = 0.0;      // it is no answer any more
  // Nothing is lost:
  double repeat = 0.0;            // the node is asked twice, and its first answer is lost
  double delay = 0.0;             // the answer comes later than those of others
  double restart_nodes = 0.0;     // all programs of nodes are started anew, before a call
  double kill_coordinator = 0.0;  // before or after a call
};

/// Thrown out of a call by a coordinator that is killed.
struct CoordinatorKilled {};

/// Any engine, on a network that loses, repeats, delays, reorders and corrupts messages, by a seeded schedule.
class FaultyEngine : public Engine {
 public:
  using MakeEngine = std::function<std::unique_ptr<Engine>()>;

  FaultyEngine(MakeEngine make, const FaultRates& rates, std::uint64_t seed)
      : make_(std::move(make)), rates_(rates), rng_(seed), inner_(make_()) {}

  Index nodes() const override { return inner_->nodes(); }

  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    if (chance(rates_.restart_nodes)) {
      inner_.reset();
      inner_ = make_();
    }
    if (chance(0.5 * rates_.kill_coordinator)) throw CoordinatorKilled{};
    std::map<Index, Fate> fates;
    std::vector<Addressee> reached, repeated;
    std::vector<NodeFailure> lost;
    for (const Addressee& to : cohort) {
      const Fate fate = draw();
      fates[to.node] = fate;
      if (fate == Fate::kUnreachable)
        lost.push_back({to.node, ErrorKind::kPeer, "it could not be reached"});
      else
        reached.push_back(to);
      if (fate == Fate::kRepeat) repeated.push_back(to);
    }
    AnswerTerms deaf = terms;
    deaf.accept = [](Index, Answer&) { throw Error(ErrorKind::kPeer, "lost"); };
    if (!repeated.empty()) inner_->run(request, repeated, deaf, {.quorum = 1}, observer);
    AnswerTerms noisy = terms;
    noisy.accept = [&](Index node, Answer& answer) {
      switch (fates.at(node)) {
        case Fate::kDrop:
          throw Error(ErrorKind::kPeer, "its answer was lost");
        case Fate::kLate:
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          throw Error(ErrorKind::kPeer, "its answer came too late");
        case Fate::kCorrupt:
          corrupt(node, answer);
          break;
        case Fate::kDelay:
          std::this_thread::sleep_for(std::chrono::microseconds(300));
          break;
        default:
          break;
      }
      if (terms.accept) terms.accept(node, answer);
    };
    CohortOutcome outcome = inner_->run(request, reached, noisy, patience, observer);
    outcome.failed.insert(outcome.failed.end(), lost.begin(), lost.end());
    std::sort(outcome.failed.begin(), outcome.failed.end(),
              [](const NodeFailure& a, const NodeFailure& b) { return a.node < b.node; });
    if (chance(0.5 * rates_.kill_coordinator)) throw CoordinatorKilled{};
    return outcome;
  }

 private:
  enum class Fate { kWell, kDrop, kLate, kUnreachable, kCorrupt, kRepeat, kDelay };

  bool chance(double rate) { return rng_.uniform() < rate; }
  Fate draw() {
    double u = rng_.uniform();
    const std::pair<Fate, double> fates[] = {
        {Fate::kDrop, rates_.drop},       {Fate::kLate, rates_.late},     {Fate::kUnreachable, rates_.unreachable},
        {Fate::kCorrupt, rates_.corrupt}, {Fate::kRepeat, rates_.repeat}, {Fate::kDelay, rates_.delay}};
    for (const auto& [fate, rate] : fates) {
      if (u < rate) return fate;
      u -= rate;
    }
    return Fate::kWell;
  }
  /// In a way that must be noticed, whatever the task is.
  static void corrupt(Index node, Answer& answer) {
    switch (node % 3) {
      case 0:
        answer.numbers.push_back(1.0);
        break;
      case 1:
        answer.report.push_back(std::byte{1});
        break;
      default:
        answer.weights.push_back(std::numeric_limits<float>::quiet_NaN());
    }
  }

  const MakeEngine make_;
  const FaultRates rates_;
  Rng rng_;
  std::unique_ptr<Engine> inner_;
};

/// Programs of nodes of which some are late in rounds of training: they do their work, and then say nothing until
/// nobody waits for them any more, or for this long.
inline NodeProgramFactory with_late_nodes(NodeProgramFactory make,
                                          std::function<bool(Index node, std::uint64_t round)> is_late,
                                          std::chrono::milliseconds how_late) {
  struct Program : NodeProgram {
    std::unique_ptr<NodeProgram> inner;
    std::function<bool(Index node, std::uint64_t round)> is_late;
    std::chrono::milliseconds how_late;

    Answer run(const NodeCall& call) override {
      if (static_cast<TaskKind>(call.request.task) != TaskKind::kTrain || !is_late(call.to.node, call.request.round))
        return inner->run(call);
      const std::atomic<bool> never = false;
      Answer answer = inner->run({call.to, call.request, call.serial, never});
      const auto end = std::chrono::steady_clock::now() + how_late;
      while (std::chrono::steady_clock::now() < end) {
        if (call.cancelled) throw Stopped{};
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return answer;
    }
  };
  return [make = std::move(make), is_late = std::move(is_late), how_late] {
    auto program = std::make_unique<Program>();
    program->inner = make();
    program->is_late = is_late;
    program->how_late = how_late;
    return program;
  };
}

/// An engine on which some nodes are absent from some rounds of training, and nothing else goes wrong.
class AbsentNodes : public Engine {
 public:
  AbsentNodes(Engine& inner, std::map<std::uint64_t, std::set<Index>> present)
      : inner_(inner), present_(std::move(present)) {}
  Index nodes() const override { return inner_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    if (static_cast<TaskKind>(request.task) != TaskKind::kTrain)
      return inner_.run(request, cohort, terms, patience, observer);
    std::vector<Addressee> here;
    CohortOutcome absent;
    for (const Addressee& to : cohort)
      if (present_.at(request.round).contains(to.node))
        here.push_back(to);
      else
        absent.failed.push_back({to.node, ErrorKind::kPeer, "it is absent"});
    CohortOutcome outcome = inner_.run(request, here, terms, patience, observer);
    outcome.failed = absent.failed;
    return outcome;
  }

 private:
  Engine& inner_;
  const std::map<std::uint64_t, std::set<Index>> present_;
};

}  // namespace labelshift
