#pragma once

#include <functional>
#include <memory>

#include "labelshift/engine/engine.hpp"
#include "labelshift/federation/federated_data.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/federation/node_memory.hpp"
#include "labelshift/federation/node_store.hpp"

namespace labelshift {

/// Where a program finds the node that it is asked for: its data and its memory, and nobody else's.
struct NodeHome {
  const NodeData& data;
  std::unique_ptr<NodeMemory> memory;
};
using NodeLookup = std::function<NodeHome(Index node)>;

/// For an engine: programs that answer what run_federation() asks of the nodes that `lookup` knows. The settings must
/// outlive the engine. Several threads may call `lookup` at once, for different nodes.
NodeProgramFactory make_node_programs(const FederationSettings& settings, NodeLookup lookup);

/// The same for all nodes of a simulation. Data and store must outlive the engine.
NodeProgramFactory make_node_programs(const FederationSettings& settings, const FederatedData& data, NodeStore& store);

}  // namespace labelshift
