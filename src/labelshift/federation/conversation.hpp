#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/engine/tasks.hpp"
#include "labelshift/federation/acceptance.hpp"
#include "labelshift/federation/federation.hpp"

namespace labelshift {

template <typename Task>
Request request_for(const typename Task::Request& body, std::uint64_t round = 0, std::vector<float> weights = {}) {
  return {.task = static_cast<std::uint32_t>(Task::kTask),
          .round = round,
          .body = to_bytes(body),
          .weights = std::move(weights)};
}

/// The coordinator's side of every exchange with the nodes: addresses messages, counts their cost, tells the observer.
class Conversation {
 public:
  Conversation(Engine& engine, const AnswerFacts& facts, const FederationHooks& hooks, FederationState& state)
      : engine_(engine), facts_(facts), hooks_(hooks), state_(state) {
    leave_out({});
    state_.counted.resize(all_.size());
    saved_ = state_.counted;
    durable_ = hooks.may_go_back_twice ? std::vector<std::uint64_t>(all_.size()) : saved_;
  }

  /// K, with those that are left out.
  Index nodes() const { return engine_.nodes(); }
  /// The nodes that take part.
  std::span<const Index> all() const { return all_; }
  /// All others, in ascending order.
  const std::vector<Index>& left_out() const { return left_out_; }
  void leave_out(std::vector<Index> nodes) {
    left_out_ = std::move(nodes);
    all_.clear();
    for (Index node = 0; node < engine_.nodes(); ++node)
      if (!std::binary_search(left_out_.begin(), left_out_.end(), node)) all_.push_back(node);
  }
  const AnswerFacts& facts() const { return facts_; }
  const FederationHooks& hooks() const { return hooks_; }
  /// What the exchanges of a phase have cost so far.
  PhaseCost& cost_of(const char* name) {
    for (PhaseCost& cost : state_.phases)
      if (cost.name == name) return cost;
    return state_.phases.emplace_back(PhaseCost{.name = name});
  }
  /// How long everybody is waited for from now on; nothing: as long as the engine does.
  void wait_for_everybody(std::optional<Patience::Duration> most) { for_everybody_ = most; }

  /// What an exchange is part of, and how far that is before it and by it.
  struct Place {
    const char* phase;
    double done = 0.0;
    double share = 1.0;
  };

  /// What is asked for, and of whom.
  template <typename Task>
  struct Ask {
    const Request& request;
    std::span<const Index> nodes;
    typename Task::template Sums<double> sums;  // of the sizes that are expected
    std::size_t report = 1 << 16;               // bytes of a report, at most
    std::function<typename Task::Own(Index node)> own = {};
    CheckSums<Task> check = {};
  };

  template <typename Task>
  TaskOutcome<Task> ask(const Place& place, Ask<Task> what, const Patience& patience) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Addressee> cohort;
    cohort.reserve(what.nodes.size());
    for (const Index node : what.nodes) {
      cohort.push_back({.node = node, .counted = state_.counted[node], .durable = durable_[node]});
      if (what.own) cohort.back().own = to_bytes(what.own(node));
    }
    TaskOutcome<Task> outcome = run_task<Task>(
        engine_, what.request, cohort, std::move(what.sums), what.check,
        {.report = what.report, .accept = [&](Index, Answer& answer) { accept_answer(facts_, what.request, answer); }},
        patience, [&](std::string_view, double part) {
          return !hooks_.progress || hooks_.progress(place.phase, place.done + place.share * part);
        });
    if constexpr (requires(const typename Task::Report& report) { report.details; })
      for (const TaskReport<Task>& one : outcome.contributed)  // which a site would not send
        if (one.report.details) outcome.traffic.up -= to_bytes(*one.report.details).size();
    PhaseCost& cost = cost_of(place.phase);
    cost.rounds += 1;
    cost.traffic += outcome.traffic;
    cost.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  }

  /// The same where everybody is needed: throws what the lowest node did wrong.
  template <typename Task>
  TaskOutcome<Task> ask_everybody(const Place& place, Ask<Task> what) {
    TaskOutcome<Task> outcome = ask<Task>(place, std::move(what), {.give_up = for_everybody_});
    if (!outcome.failed.empty()) outcome.failed.front().raise();
    return outcome;
  }

  /// The answers of these nodes in a round of training count.
  template <typename Task>
  void count(const std::vector<TaskReport<Task>>& contributed, int round) {
    for (const TaskReport<Task>& one : contributed) state_.counted[one.node] = static_cast<std::uint64_t>(round);
  }
  /// Nodes may forget what came before.
  void make_durable() {
    durable_ = hooks_.may_go_back_twice ? saved_ : state_.counted;
    saved_ = state_.counted;
  }

 private:
  Engine& engine_;
  const AnswerFacts facts_;
  const FederationHooks& hooks_;
  FederationState& state_;
  std::vector<Index> all_, left_out_;
  std::optional<Patience::Duration> for_everybody_;
  std::vector<std::uint64_t> saved_;    // (K) state_.counted when it was last saved
  std::vector<std::uint64_t> durable_;  // (K) of state_.counted, what is safe
};

}  // namespace labelshift
