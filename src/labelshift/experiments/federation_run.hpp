#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/federation/federation.hpp"

namespace labelshift {

/// One federation of an experiment, and where it is kept.
struct RunTask {
  std::string folder;
  std::string settings_file;  // what write_experiment() says of it
  RunSettings settings;
};

struct RunOptions {
  bool resume = false;                   // whether to go on where the folder has a run that was stopped
  unsigned workers = 0;                  // threads; 0: one a core. Results do not depend on it
  std::function<void()> prepare_thread;  // called on each thread before it computes anything
};

/// Told what is being done and how much of it, from 0 to 1; false stops the run after this round, or at once if that
/// would take long.
using RunObserver = std::function<bool(std::string_view stage, double done)>;

/// What came of a run. `state` has no weights: those are in the folder.
struct RunResult {
  std::string folder;
  FederationState state;
  std::vector<std::string> notes;  // about its data, to be said next to every figure
  bool was_there = false;          // and nothing was run

  /// (K) The evaluations of the last round.
  std::vector<NodeEvaluation> last() const;
};

/// Runs a federation and keeps everything in its folder: experiment.toml with all settings, rounds.csv,
/// model.safetensors and summary.json, which is written last. While it runs there are checkpoints. A folder with a
/// whole run of the same settings is read and nothing is done.
///
/// Throws Error{kUsage} if the folder is in use, has a run with other settings, or one that was stopped and is not to
/// be resumed; Stopped if the observer says so, and then what could be saved is.
RunResult run_in_folder(const RunTask& task, const RunOptions& options, const RunObserver& observer = {});

/// Whether the folder has a whole run.
bool is_finished(const RunTask& task);

}  // namespace labelshift
