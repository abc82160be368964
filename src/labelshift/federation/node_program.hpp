#pragma once

#include <memory>
#include <mutex>

#include "labelshift/engine/engine.hpp"
#include "labelshift/federation/federated_data.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/federation/node_store.hpp"

namespace labelshift {

/// What the programs of all workers share: the nodes' data and memory. It must outlive the engine.
struct NodeSide {
  const FederationSettings& settings;
  const FederatedData& data;
  NodeStore& store;
};

/// For an engine: programs that answer what run_federation() asks.
NodeProgramFactory make_node_programs(const NodeSide& side);

/// Gives a model the batch norms that fedbn keeps at this node. Returns false if the node has none: the model has no
/// batch norm, or the node never trained.
bool take_batch_norms(Net& model, const NodeStore& store, Index node);

}  // namespace labelshift
