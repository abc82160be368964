#pragma once

#include <optional>
#include <span>
#include <string>

#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/node_store.hpp"

namespace labelshift {

// The checkpoints of a run are folders in its own, checkpoint-ROUND, each with the state of the coordinator and what
// the nodes remember. A folder of this name is whole: it is written under another name, and taken away under another.

/// Writes a checkpoint of this moment, then takes others away, but for the one before it: a disk may damage what it
/// keeps. Throws Error{kSystem} if it cannot be written, and
/// then the older one is intact.
void save_federation(const std::string& folder, const FederationState& state, const NodeStore& store);

/// The newest checkpoint in a run's folder; empty if there is none.
std::string newest_checkpoint(const std::string& folder);

/// Gives the nodes their memory of a checkpoint, and returns the state. Throws Error{kInput} if it is damaged, or of a
/// version that cannot be read.
FederationState load_federation(const std::string& checkpoint, NodeStore& store);

/// What was saved last, and can be read.
struct SavedFederation {
  FederationState state;
  std::string checkpoint;
  std::optional<std::string> damage;  // of a newer one
};
/// Loads the newest checkpoint of a run's folder that has some, or, if that is damaged, the one before it. Throws what
/// is wrong with the newest if neither can be read.
SavedFederation load_last_federation(const std::string& folder, NodeStore& store);

/// Whether these are evaluations as a federation makes them: all nodes in order, in rounds that ascend.
bool is_history(std::span<const NodeEvaluation> history);

/// Takes checkpoints away, and all that a process which was killed left half-done. Nobody else may use the folder.
void remove_checkpoints(const std::string& folder);
void remove_leftovers(const std::string& folder);

/// All of a state that is neither a weight nor in the history, as JSON; unknown numbers are null.
std::string describe_state(const FederationState& state);
/// Reads it back. Throws Error{kInput} if it is damaged.
FederationState described_state(const std::string& json);

}  // namespace labelshift
