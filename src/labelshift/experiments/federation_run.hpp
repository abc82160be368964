#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/provenance.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/experiments/run_nodes.hpp"
#include "labelshift/federation/federation.hpp"

namespace labelshift {

struct RunOptions {
  bool resume = false;                   // whether to go on where the folder has a run that was stopped
  unsigned workers = 0;                  // threads; 0: one a core. Results do not depend on it
  std::function<void()> prepare_thread;  // called on each thread before it computes anything
  OpenNodes open_nodes;                  // empty: nodes are threads of this process
};

/// What came of a run. `state` has no weights: those are in the folder.
struct RunResult {
  std::string folder;
  std::uint64_t seed = 0;
  FederationState state;
  std::vector<std::string> notes;             // about its data, to be said next to every figure
  std::vector<std::string> node_names = {};   // (K) empty: nodes are called by their numbers
  bool was_there = false;                     // and nothing was run
  std::vector<std::string> class_names = {};  // (m) empty where an older version made the run
  std::vector<NodeMix> mixes = {};            // (K) of a simulation; empty where an older version made the run
  Provenance provenance = {};                 // of the process that made the run, or the last part of it

  /// What people call a node: its name, or "node 3".
  std::string name_of(Index node) const;
  /// What people call a class: its name, or else its number from 0, as in a file of labels.
  std::string class_name(Index c) const;
  /// (K) The evaluations of the last round.
  std::vector<NodeEvaluation> last() const;
};

/// Runs a federation and keeps everything in its folder: experiment.toml with all settings, rounds.csv,
/// model.safetensors, SHA256SUMS of them all, summary.json, which makes the run whole, and report.html, which can be
/// made of the others again. While it runs there are checkpoints. A folder with a whole run of the same settings is
/// read and nothing is done; one whose files are not what SHA256SUMS says is run again, with a warning.
///
/// Throws what check_folder() throws, and Error{kUsage} if the folder is in use. Throws Stopped if the observer says
/// so, after this round, or at once if that would take long; then what could be saved is.
RunResult run_in_folder(const RunTask& task, const RunOptions& options, const Observer& observer = {});

/// Reads the whole run in a folder; nothing is run, and its data are not looked at. Throws Error{kInput} if there is
/// none, or if it is damaged.
RunResult read_run(const RunTask& task);

/// Whether the folder has a whole run, nothing of which is missing or damaged.
bool is_finished(const RunTask& task);

/// Throws Error{kUsage} if the folder has a run with other settings, or one that was stopped and is not to be resumed;
/// Error{kInput} if it has a whole run without SHA256SUMS, as an older version left it.
void check_folder(const RunTask& task, bool resume);

}  // namespace labelshift
