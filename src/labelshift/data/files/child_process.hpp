#pragma once

#include <chrono>
#include <functional>
#include <optional>
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

/// A program that runs beside this one. It reads nothing, gets the environment of this process, and is ended with all
/// it started when this object goes.
class BackgroundProgram {
 public:
  /// `arguments` begin with the path of the program. Throws Error{kSystem} if it cannot be started. Of the options
  /// `deadline` and `stop` say nothing here.
  BackgroundProgram(const std::vector<std::string>& arguments, const ChildOptions& options);
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;
  ~BackgroundProgram();

  /// Its status as a shell sees it, once it has ended.
  std::optional<int> status();

 private:
  int process_ = 0;
  std::optional<int> status_;
};

/// Runs a program, found as a shell finds it but without one, and waits for it. It reads nothing. Throws Error{kSystem}
/// if it cannot be started for another reason than that it is not there.
ChildResult run_program(const std::vector<std::string>& arguments, const ChildOptions& options);

}  // namespace labelshift
