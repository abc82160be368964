#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "labelshift/core/matrix_view.hpp"
#include "labelshift/engine/message.hpp"

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
  bool operator==(const Traffic&) const = default;
};

/// What a node disclosed about itself.
struct NodeReport {
  Index node = 0;
  std::vector<double> values;
};

/// The answers of a cohort: sums in node order, so that they have the same bits for every engine and any number of
/// workers.
struct CohortAnswer {
  std::vector<double> numbers;
  std::vector<double> weights;
  std::vector<NodeReport> reports;  // in node order
  Traffic traffic;
};

/// What nodes do when they are asked. An engine makes one for each of its workers, not for each node, so it may hold a
/// model; it is never used by two threads at once.
class NodeProgram {
 public:
  virtual ~NodeProgram() = default;
  /// Long work looks at `cancelled` now and then, and throws Stopped if it is set.
  virtual Update run(Index node, const Request& request, const std::atomic<bool>& cancelled) = 0;
};

using NodeProgramFactory = std::function<std::unique_ptr<NodeProgram>()>;

/// Told how much of the cohort has answered, from 0 to 1, several times a second also while nothing changes, and once
/// at the end; false stops the work. It is called on the thread that runs the cohort.
using CohortObserver = std::function<bool(double done)>;

/// Runs a request on a cohort of nodes and adds up their updates in node order, no more.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Index nodes() const = 0;

  /// `cohort` has no node twice and is in ascending order; Error{kUsage} otherwise. Throws Stopped if the observer says
  /// so, and what a node threw, of several the one of the lowest node. Throws Error{kPeer} if the updates of two nodes
  /// differ in length. The engine can be used again after any of these.
  virtual CohortAnswer run(const Request& request, std::span<const Index> cohort,
                           const CohortObserver& observer = {}) = 0;
};

}  // namespace labelshift
