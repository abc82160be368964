#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/message.hpp"
#include "labelshift/engine/tree_sum.hpp"

namespace labelshift {

/// Bytes of messages as they were encoded.
struct Traffic {
  std::uint64_t down = 0;  // coordinator to nodes
  std::uint64_t up = 0;    // nodes to coordinator

  Traffic& operator+=(const Traffic& other) {
    down += other.down;
    up += other.up;
    return *this;
  }
  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.down, self.up);
  }
  bool operator==(const Traffic&) const = default;
};

/// A node whose answer is in the sums, and what it disclosed about itself.
struct Contribution {
  Index node = 0;
  Bytes report;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.node, self.report);
  }
};

/// A node whose answer is not in the sums.
struct NodeFailure {
  Index node = 0;
  std::optional<ErrorKind> kind;  // nothing: a bug of ours
  std::string sentence;           // without the node's name
  Remedy remedy = Remedy::kNone;
  bool bystander = false;  // it failed only because others had
  std::string name = {};   // what people call the node, where that is known; it does not travel

  /// Throws it, as of this node.
  [[noreturn]] void raise() const;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.node, self.kind, self.sentence, self.remedy, self.bystander);
  }
};

constexpr ErrorKind last_of(ErrorKind) {
  return ErrorKind::kSystem;
}
constexpr Remedy last_of(Remedy) {
  return Remedy::kCorrectAnyway;
}

/// What came of a request. Every node of the cohort is in one of the two lists, each in node order.
struct CohortOutcome {
  CohortSums sums;  // by TreeSum, so with the same bits for every engine and any number of workers
  std::vector<Contribution> contributed;
  std::vector<NodeFailure> failed;
  Traffic traffic;
};

/// What every answer must be. An answer that is not is refused: its node has failed, and the sums know nothing of it.
struct AnswerTerms {
  std::size_t words = 0;
  std::size_t numbers = 0;  // all finite
  std::size_t weights = 0;  // all finite, after `accept`
  std::size_t report = 0;   // bytes, at most
  /// Unpacks what is packed and throws Error{kPeer} for what the shape does not tell. Called on threads of the engine,
  /// on several at once, before the answer is looked at in any other way.
  std::function<void(Index node, Answer& answer)> accept;
  /// Throws Error{kPeer} for words that one node cannot have. Called as `accept` is, once the shape is known to be
  /// right; not by an engine whose nodes mask their words, nor by one that is told the sums of several.
  std::function<void(std::span<const std::uint64_t> words)> check_words;
};

/// How long a request may take.
struct Patience {
  using Duration = std::chrono::steady_clock::duration;
  Index quorum = 0;                  // answers without which a request is in vain; 0: those of the whole cohort
  std::optional<Duration> deadline;  // once a quorum has answered, nobody is waited for beyond it
  std::optional<Duration> give_up;   // nor is a quorum, beyond this
};

/// What a node is asked, as it sees it.
struct NodeCall {
  const Addressee& to;
  const Request& request;
  std::uint64_t serial;  // of the call of Engine::run(); two calls with one serial have the same request
  const std::atomic<bool>& cancelled;
};

/// What nodes do when they are asked. An engine makes one for each of its workers, not for each node, so it may hold a
/// model; it is never used by two threads at once.
class NodeProgram {
 public:
  virtual ~NodeProgram() = default;
  /// Long work looks at `cancelled` now and then, and throws Stopped if it is set.
  virtual Answer run(const NodeCall& call) = 0;
};

using NodeProgramFactory = std::function<std::unique_ptr<NodeProgram>()>;

/// Runs a request on a cohort of nodes and adds up their answers, no more.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Index nodes() const = 0;

  /// `cohort` has no node twice and is in ascending order; Error{kUsage} otherwise. The observer is told how much of
  /// the cohort has answered, several times a second also while nothing changes, and once at the end. It is called on
  /// the thread that runs the cohort; the engine has no name for the stage. Throws Stopped if the observer says
  /// so, and what the observer throws. What a node does wrong is an outcome: it has failed. Nodes that are not needed
  /// any more, because a quorum cannot be reached, may not be asked; they have failed too, behind the one that made it
  /// so. The engine can be used again after any of these.
  virtual CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                            const Patience& patience = {}, const Observer& observer = {}) = 0;
};

/// Throws Error{kPeer} unless the answer keeps the terms; `accept` is called first, and `check_words` last.
void check_answer(Index node, Answer& answer, const AnswerTerms& terms);

/// Throws Error{kUsage} unless the cohort is of nodes 0, ..., nodes - 1 in ascending order.
void check_cohort(std::span<const Addressee> cohort, Index nodes);

/// What a node threw, in the words of an outcome; to be called while the exception is handled.
NodeFailure failure_of_current_exception(Index node) noexcept;

}  // namespace labelshift
