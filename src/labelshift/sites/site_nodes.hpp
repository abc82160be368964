#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "labelshift/engine/grpc/grpc_engine.hpp"
#include "labelshift/experiments/run_nodes.hpp"
#include "labelshift/sites/site_status.hpp"

namespace labelshift {

inline constexpr Index kFewestMasked = 3;  // nodes: of a sum of two, each would know the other's part

struct SiteNodesOptions {
  bool masked = true;  // sums of phases 1 and 2 are taken under masks; nodes must do the same
  std::chrono::milliseconds give_up_after{std::chrono::hours(1)};  // where the run itself does not say
  std::chrono::milliseconds between_statuses{1000};                // at least
  SiteStatusSink status;                                           // told how far it is; empty: nobody
  GrpcLog log;                                                     // told whom it waits for; empty: nobody
  std::string invitation;  // what to type where a node is that is not connected; empty: nothing is said of it
  /// Called several times a second while nodes are awaited, with how many nodes there must be; empty: nothing.
  std::function<void(Index fewest)> tick;
  /// Called before a run is announced, under the name that nodes will hear; empty: nothing.
  std::function<void(const std::string& run, const RunTask& task)> announcing;
};

/// The nodes of a run that dial in to an engine, which serves one run after another. They keep what they remember
/// themselves. What a node fails by is Error{kPeer} here, whatever it is there, and says its name.
///
/// Error{kUsage} if the list has another number of nodes than the experiment, or, under masks, fewer than 3: of a sum
/// of two, each would know the other's part.
///
/// Where the settings say what the data of sites are like, nobody here reads any; otherwise they are read for what all
/// nodes have in common, and forgotten.
std::unique_ptr<RunNodes> open_site_nodes(GrpcEngine& engine, const RunTask& task, SiteNodesOptions options);

}  // namespace labelshift
