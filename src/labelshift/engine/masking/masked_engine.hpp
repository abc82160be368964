#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "labelshift/engine/engine.hpp"
#include "labelshift/engine/masking/node_identity.hpp"

// Masks over any engine: what is asked for words becomes two requests, one for the nodes' keys and one that hands all
// keys to everybody. Whoever runs the engine sees words of single nodes under masks alone.

namespace labelshift {

struct MaskingSettings {
  std::string run;                 // the nodes' name for it
  std::vector<std::string> names;  // by node
  int attempts = 3;                // with fresh keys each, where a node lost its own, or its connection
};

/// An engine whose nodes have with_masks() too; it must outlive this one. Requests without words are handed on as they
/// are. Where words are asked for and a node fails, all have failed: nothing can be read without it. Their terms'
/// `check_words` is not called.
std::unique_ptr<Engine> with_masks(Engine& engine, MaskingSettings settings);

/// The most bytes by which masks of so many nodes make a request longer: what the others offer comes with it.
std::uint64_t most_masking_bytes(Index nodes);

/// Who a node of this process is.
using IdentityOf = std::function<const NodeIdentity&(Index node)>;

/// Programs whose words leave under masks, or not at all: Error{kPeer} for a request for words without masks, or for
/// masks of another run. The identities must outlive the programs.
NodeProgramFactory with_masks(NodeProgramFactory make_program, IdentityOf identity_of, std::string run);

}  // namespace labelshift
