#include "labelshift/experiments/run_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "labelshift/core/base/parallel.hpp"

namespace labelshift {
namespace {

/// What a task weighs against the others, in stochastic gradients of a node.
double weight_of(const RunTask& task) {
  return static_cast<double>(iterations(task.settings.federation, task.settings.federation.rounds));
}

class TaskRunner {
 public:
  TaskRunner(std::span<const RunTask> tasks, const RunOptions& options, const Observer& observer)
      : tasks_(tasks), options_(options), observer_(observer), results_(tasks.size()), done_(tasks.size()) {}

  std::vector<TaskResult> run(const std::string& stage) {
    check_folders(tasks_, options_.resume);
    std::vector<std::size_t> todo;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (is_finished(tasks_[i])) {
        run_one(i, /*workers=*/1, {});
        continue;
      }
      todo.push_back(i);
      whole_ += weight_of(tasks_[i]);
    }
    stage_ = todo.size() > 1 ? fmt::format("{} {} runs", stage, todo.size()) : "";
    // The longest first, so that the shortest are left over.
    std::stable_sort(todo.begin(), todo.end(),
                     [&](std::size_t a, std::size_t b) { return weight_of(tasks_[a]) > weight_of(tasks_[b]); });
    if (options_.open_nodes) {  // which are one engine's for all tasks
      run_some(todo, /*at_once=*/1, options_.workers);
      return std::move(results_);
    }
    const std::size_t workers =
        options_.workers > 0 ? options_.workers : std::max(1u, std::thread::hardware_concurrency());
    const std::size_t left_over = todo.size() % workers;
    run_some(std::span(todo).first(todo.size() - left_over), options_.workers, 1);
    if (left_over > 0)
      run_some(std::span(todo).last(left_over), options_.workers, static_cast<unsigned>(workers / left_over));
    return std::move(results_);
  }

 private:
  void run_one(std::size_t number, unsigned workers, const Observer& observer) {
    RunOptions options = options_;
    options.workers = workers;
    try {
      results_[number].result = run_in_folder(tasks_[number], options, observer);
    } catch (const Error& error) {
      results_[number].failure = error;
    }
  }

  void run_some(std::span<const std::size_t> todo, unsigned at_once, unsigned workers_each) {
    run_in_parallel(std::ssize(todo), at_once, [&](Index which) {
      const std::size_t number = todo[static_cast<std::size_t>(which)];
      try {
        run_one(number, workers_each, [&](std::string_view stage, double done) { return report(number, stage, done); });
        report(number, phase::kTraining, 1.0);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        throw;
      }
    });
  }

  bool report(std::size_t number, std::string_view stage, double done) {
    const std::lock_guard lock(mutex_);
    if (!stage_.empty()) {
      if (stage != phase::kTraining) done = done_[number];  // what comes before takes little of the time
      total_ += (done - done_[number]) * weight_of(tasks_[number]) / whole_;
      done_[number] = done;
      stage = stage_;
      done = total_;
    }
    return !stopped_ && (!observer_ || observer_(stage, done));
  }

  const std::span<const RunTask> tasks_;
  const RunOptions& options_;
  const Observer& observer_;
  std::string stage_;  // of several; empty: that of the one task
  std::vector<TaskResult> results_;
  double whole_ = 0.0;
  std::mutex mutex_;
  std::vector<double> done_;
  double total_ = 0.0;
  bool stopped_ = false;
};

}  // namespace

void check_folders(std::span<const RunTask> tasks, bool resume) {
  for (const RunTask& task : tasks) {
    try {
      check_folder(task, resume);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUsage) throw;
    }
  }
}

std::vector<TaskResult> run_tasks(std::span<const RunTask> tasks, const RunOptions& options, const std::string& stage,
                                  const Observer& observer) {
  return TaskRunner(tasks, options, observer).run(stage);
}

}  // namespace labelshift
