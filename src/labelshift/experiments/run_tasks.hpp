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

/// Runs tasks side by side with one thread each; what is left over where threads do not divide the tasks shares all
/// threads. Where the options say which nodes to use, tasks come one after another. A task that fails does not keep the
/// others from being run. The observer is told how much of all is done, under the name `stage` and the number of tasks
/// where there are several.
///
/// Throws Error{kUsage} for what check_folder() says of any task, before anything is run; Stopped as run_in_folder()
/// does.
std::vector<TaskResult> run_tasks(std::span<const RunTask> tasks, const RunOptions& options, const std::string& stage,
                                  const Observer& observer);

}  // namespace labelshift
