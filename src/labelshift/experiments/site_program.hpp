#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "labelshift/engine/engine.hpp"
#include "labelshift/experiments/experiment.hpp"
#include "labelshift/federation/site_data.hpp"

namespace labelshift {

/// What the owner of a site allows.
struct SiteTerms {
  std::string name;        // of the node, which its memory is for
  std::string memory;      // a folder, in which each run has one of its own
  std::string model;       // a TorchScript file, the only one that is loaded; empty: none
  Index min_examples = 0;  // with fewer training examples of any class, the site keeps its label mix to itself
  bool details = false;    // the coordinator may know numbers of examples, missing classes and the largest weight
};

/// Gives the data of a site for a run whose settings were read and checked.
using SiteDataSource = std::function<SiteNode(const std::string& run, const RunSettings& settings)>;

/// Programs of a run, and the most bytes that an honest coordinator asks of them at a time, without masks.
struct SitePrograms {
  NodeProgramFactory make;
  std::uint64_t most_request_bytes;
  Index nodes;  // K
};

/// For an engine's node: programs that do the work of one node of a run, as the coordinator announced it. Data stay in
/// this process: what leaves is what engine/tasks.hpp lists.
///
/// A site that keeps its label mix to itself answers phase 1 as one without test examples does, and says so when it
/// joins.
///
/// Throws Error{kPeer} for a run or settings that cannot be, or are not those that the site remembers of this run; what
/// `data` throws.
SitePrograms make_site_programs(const std::string& run, const std::string& settings, const SiteDataSource& data,
                                const SiteTerms& terms);

}  // namespace labelshift
