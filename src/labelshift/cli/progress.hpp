#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/observer.hpp"

namespace labelshift::cli {

/// One line on standard error that says what is being done, how much of it, and how long the rest will take; only if
/// standard error is a terminal, and only after a second. It is drawn by a thread of its own, so that work which
/// reports nothing (reading a large file) shows too, and is gone when this object is.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  ~Progress();

  /// From now on `stage` is being done, of which `done`, from 0 to 1, is behind; 0 also where that is not known.
  void show(std::string_view stage, double done = 0.0);
  /// What else there is to say of it, which may change while the stage stays.
  void add(std::string_view detail);

 private:
  using Clock = std::chrono::steady_clock;
  void redraw();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::string stage_;
  std::string detail_;
  double done_ = 0.0;
  Clock::time_point stage_start_;
  std::thread drawer_;
};

/// Shows what it is told.
Observer showing(Progress& progress);
/// The same, and stops the work as soon as a signal waits.
Observer showing(Progress& progress, const DeferInterrupt& interrupt);

}  // namespace labelshift::cli
