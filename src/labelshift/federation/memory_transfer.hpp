#pragma once

#include "labelshift/engine/engine.hpp"
#include "labelshift/federation/node_store.hpp"

// What nodes of a simulation remember goes to the process that writes checkpoints, and back from there. These are no
// tasks of the protocol: a node that is a program of its own hands out nothing of its memory.

namespace labelshift {

/// Programs of nodes whose memories are in `store`, which must outlive them, that also hand these out and take them.
NodeProgramFactory with_memory_transfer(NodeProgramFactory make_program, NodeStore& store);

/// Brings into `store` what all nodes of the engine remember, in place of what it has of them. Throws what a node did
/// wrong.
void collect_memories(Engine& engine, NodeStore& store);

/// Gives the nodes what `store` remembers of them.
void give_memories(Engine& engine, NodeStore& store);

}  // namespace labelshift
