#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace labelshift {

struct ChildOptions {
  std::string directory;                              // where it runs
  std::string output;                                 // the file that its standard output and error go to
  std::chrono::seconds deadline{300};                 // after which it is ended, and what it started too
  std::function<bool()> stop = [] { return false; };  // asked several times a second: whether to end it
};

enum class ChildOutcome { kExited, kNotFound, kTooLate, kStopped };

struct ChildResult {
  ChildOutcome outcome = ChildOutcome::kExited;
  int status = 0;  // if it exited: as a shell sees it, 128 + n after signal n
};

/// Runs a program, found as a shell finds it but without one, and waits for it. It reads nothing. Throws Error{kSystem}
/// if it cannot be started for another reason than that it is not there.
ChildResult run_program(const std::vector<std::string>& arguments, const ChildOptions& options);

}  // namespace labelshift
