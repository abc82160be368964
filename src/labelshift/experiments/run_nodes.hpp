#pragma once

#include <functional>
#include <memory>
#include <string>

#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/experiments/experiment.hpp"
#include "labelshift/federation/node_store.hpp"

namespace labelshift {

/// One federation of an experiment, and where it is kept.
struct RunTask {
  std::string folder;
  std::string settings_file;  // what write_experiment() says of it
  RunSettings settings;
  std::string predictors = {};  // folder of those that runs share (predictor_shelf.hpp); empty: none is shared
};

/// The nodes of one run, wherever they are. They have read their data.
class RunNodes {
 public:
  virtual ~RunNodes() = default;

  /// What is known of their data here.
  virtual const FederatedData& data() const = 0;

  /// Lets them work. They begin with what `store` remembers of them, where memory_is_here(). Settings and store must
  /// outlive the engine, which must not outlive this.
  virtual std::unique_ptr<Engine> start(const FederationSettings& settings, NodeStore& store) = 0;

  /// Whether the store has what nodes remember, after collect(); if not, they keep it themselves.
  virtual bool memory_is_here() const { return true; }
  /// The nodes that the operator leaves out now, in ascending order.
  virtual std::vector<Index> left_out() { return {}; }
  /// Brings into the store what nodes elsewhere remember. To be called between two requests.
  virtual void collect(Engine& /*engine*/, NodeStore& /*store*/) {}
};

/// Throws what is wrong with the data of a run.
using OpenNodes = std::function<std::unique_ptr<RunNodes>(const RunTask& task)>;

/// Nodes that are threads of this process.
std::unique_ptr<RunNodes> open_local_nodes(const RunTask& task, const InProcessSettings& threads);

}  // namespace labelshift
