#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/experiments/federation_run.hpp"

namespace labelshift {

/// What came of a task, or why nothing did.
struct TaskResult {
  RunResult result;
  std::optional<Error> failure;
};

/// Throws what check_folder() says of the command for any task. What it says of files a run says in its turn.
void check_folders(std::span<const RunTask> tasks, bool resume);

/// Runs tasks side by side with one thread each; what is left over where threads do not divide the tasks shares all
/// threads. Where the options say which nodes to use, tasks come one after another. A task that fails does not keep the
/// others from being run. The observer is told how much of all is done, under the name `stage` and the number of tasks
/// where there are several.
///
/// Throws as check_folders(), before anything is run; Stopped as run_in_folder() does.
std::vector<TaskResult> run_tasks(std::span<const RunTask> tasks, const RunOptions& options, const std::string& stage,
                                  const Observer& observer);

}  // namespace labelshift
