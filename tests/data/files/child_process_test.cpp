#include "labelshift/data/files/child_process.hpp"

#include <sys/wait.h>

#include <csignal>

#include "tests/await.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

class ChildProcess : public Scratch {
 protected:
  ChildResult run(const std::vector<std::string>& arguments, ChildOptions options = {}) const {
    options.directory = path("");
    options.output = path("output");
    return run_program(arguments, options);
  }
};

TEST_F(ChildProcess, RunsInItsDirectoryAndKeepsWhatItSays) {
  const ChildResult result = run({"sh", "-c", "cat; echo 'two  words' > made; echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.outcome, ChildOutcome::kExited);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(bytes_of(path("made")), "two  words\n");
  EXPECT_EQ(bytes_of(path("output")), "out\nerr\n");
}

TEST_F(ChildProcess, RunsBesideThisOneAndSaysHowItEnded) {
  BackgroundProgram program({"/bin/sh", "-c", "echo done; exit 3"}, {.directory = path(""), .output = path("output")});
  await([&] { return program.status().has_value(); }, "the program ended");
  EXPECT_EQ(program.status(), 3);
  EXPECT_EQ(bytes_of(path("output")), "done\n");
  expect_error(ErrorKind::kSystem, "cannot run /no/such/program: no such file or directory",
               [&] { BackgroundProgram({"/no/such/program"}, {.directory = path(""), .output = path("output")}); });
}

TEST_F(ChildProcess, EndsWithAllItStartedWhenNobodyHoldsItAnyMore) {
  pid_t started = 0;
  {
    BackgroundProgram program({"/bin/sh", "-c", "sleep 1000 & echo $!; wait"},
                              {.directory = path(""), .output = path("output")});
    await([&] { return std::filesystem::exists(path("output")) && !bytes_of(path("output")).empty(); }, "it began");
    started = std::stoi(bytes_of(path("output")));
    EXPECT_EQ(program.status(), std::nullopt);
    EXPECT_EQ(::kill(started, 0), 0);
  }
  await(
      [&] {
        return ::kill(started, 0) != 0 ||
               bytes_of("/proc/" + std::to_string(started) + "/stat").find(") Z ") != std::string::npos;
      },
      "what it started ended");
}

TEST_F(ChildProcess, GivesArgumentsAsTheyAre) {
  EXPECT_EQ(run({"printf", "%s|", "a b", "$HOME", "*"}).status, 0);
  EXPECT_EQ(bytes_of(path("output")), "a b|$HOME|*|");
}

TEST_F(ChildProcess, SaysIfThereIsNoSuchProgram) {
  EXPECT_EQ(run({"labelshift-no-such-program"}).outcome, ChildOutcome::kNotFound);
}

TEST_F(ChildProcess, ReportsASignalAsAShellDoes) {
  EXPECT_EQ(run({"sh", "-c", "kill -9 $$"}).status, 137);
}

TEST_F(ChildProcess, KnowsHowAProgramEndedWhereEndedChildrenAreIgnored) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run({"sh", "-c", "exit 3"}).status, 3);
  EXPECT_EQ(::signal(SIGCHLD, before), SIG_IGN);  // as it was
}

TEST_F(ChildProcess, SaysIfSomebodyElseWaitedForIt) {
  // Asked while the program runs, this takes its end away.
  expect_error(ErrorKind::kSystem, "cannot wait for sleep: no child processes", [&] {
    run({"sleep", "0.2"}, {.stop = [] { return ::wait(nullptr) < 0; }});
  });
}

TEST_F(ChildProcess, EndsAProgramThatIsTooLateWithWhatItStarted) {
  const ChildResult result =
      run({"sh", "-c", "sleep 1000 & echo $! > sleeper; wait"}, {.deadline = std::chrono::seconds(1)});
  EXPECT_EQ(result.outcome, ChildOutcome::kTooLate);
  // What was killed is gone soon, or a zombie that waits for init; nothing else ends this sleep so soon.
  const std::string stat = "/proc/" + std::to_string(std::stoi(bytes_of(path("sleeper")))) + "/stat";
  std::string pid, name, state = "S";
  await(
      [&] {
        std::ifstream in(stat);
        return !(in >> pid >> name >> state) || state == "Z";
      },
      "what the program started is gone");
}

TEST_F(ChildProcess, EndsAProgramWhenAsked) {
  EXPECT_EQ(run({"sleep", "1000"}, {.stop = [] { return true; }}).outcome, ChildOutcome::kStopped);
}

}  // namespace
}  // namespace labelshift
