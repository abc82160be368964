#include "labelshift/data/files/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"

namespace labelshift {
namespace {

using Clock = std::chrono::steady_clock;

/// Whether there is such a program to run, as posix_spawnp() looks for it. Not every system tells that of a process
/// that was spawned: under qemu it is one that ended with status 127.
bool is_there(const std::string& name) {
  if (name.find('/') != name.npos) return ::access(name.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access(((folder.empty() ? "." : folder) + "/" + name).c_str(), X_OK) == 0) return true;
  return false;
}

/// What is set up for the child: its directory and files, a process group of its own, and no signal blocked, whatever
/// this thread has blocked.
class Preparation {
 public:
  explicit Preparation(const ChildOptions& options) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, options.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&actions, options.directory.c_str());
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  Preparation(const Preparation&) = delete;
  ~Preparation() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

/// For as long as it lives, a child that ended is kept until it is waited for, also in a process that was started with
/// SIGCHLD ignored, as some supervisors do.
class KeepEndedChildren {
 public:
  KeepEndedChildren() {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, &before_);
  }
  KeepEndedChildren(const KeepEndedChildren&) = delete;
  ~KeepEndedChildren() { ::sigaction(SIGCHLD, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

std::vector<char*> argv_of(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

int shell_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Where a spawned process is not waited for until it is what it will be, as under qemu, it may not have its group yet.
void kill_group(pid_t process) {
  if (::kill(-process, SIGKILL) != 0) ::kill(process, SIGKILL);
}

}  // namespace

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& arguments, const ChildOptions& options) {
  if (!is_there(arguments[0]))
    throw Error(ErrorKind::kSystem, fmt::format("cannot run {}: {}", arguments[0], errno_text(errno)));
  std::vector<char*> argv = argv_of(arguments);
  const Preparation preparation(options);
  ::signal(SIGCHLD, SIG_DFL);  // else a process started with it ignored could not tell how a child ended
  const int error =
      ::posix_spawn(&process_, argv[0], &preparation.actions, &preparation.attributes, argv.data(), environ);
  if (error != 0) throw Error(ErrorKind::kSystem, fmt::format("cannot run {}: {}", arguments[0], errno_text(error)));
}

BackgroundProgram::~BackgroundProgram() {
  if (status()) return;
  kill_group(process_);
  int ignored = 0;
  while (::waitpid(process_, &ignored, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> BackgroundProgram::status() {
  int found = 0;
  if (!status_ && ::waitpid(process_, &found, WNOHANG) == process_) status_ = shell_status(found);
  return status_;
}

ChildResult run_program(const std::vector<std::string>& arguments, const ChildOptions& options) {
  if (!is_there(arguments[0])) return {.outcome = ChildOutcome::kNotFound};
  std::vector<char*> argv = argv_of(arguments);
  const Preparation preparation(options);
  const KeepEndedChildren keep;
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, argv[0], &preparation.actions, &preparation.attributes, argv.data(), environ);
  if (error == ENOENT) return {.outcome = ChildOutcome::kNotFound};
  if (error != 0) throw Error(ErrorKind::kSystem, fmt::format("cannot run {}: {}", arguments[0], errno_text(error)));

  const auto deadline = Clock::now() + options.deadline;
  ChildResult result;
  int status = 0;
  for (pid_t ended; (ended = ::waitpid(child, &status, WNOHANG)) != child;) {
    if (ended < 0)
      throw Error(ErrorKind::kSystem, fmt::format("cannot wait for {}: {}", arguments[0], errno_text(errno)));
    if (options.stop())
      result.outcome = ChildOutcome::kStopped;
    else if (Clock::now() >= deadline)
      result.outcome = ChildOutcome::kTooLate;
    if (result.outcome != ChildOutcome::kExited) {
      // It has nothing to tidy up: what it wrote is in a directory that will be removed.
      kill_group(child);
      ::waitpid(child, &status, 0);
      return result;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  result.status = shell_status(status);
  return result;
}

}  // namespace labelshift
