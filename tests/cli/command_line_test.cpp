#include <gmock/gmock.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/version.hpp"
#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> kCommands = {
    "estimate",    "adapt",   "watch",     "estimators", "completion", "data", "certs",
#ifdef LABELSHIFT_WITH_TORCH
    "train",       "predict", "reproduce",
#endif
#ifdef LABELSHIFT_WITH_SITES
    "coordinator", "node",
#endif
};

class CommandLine : public CommandTest {};

TEST_F(CommandLine, WithoutArgumentsShowsTheCommands) {
  const CommandResult result = labelshift("");
  EXPECT_EQ(result.status, kUsage);
  for (const std::string& command : kCommands) EXPECT_THAT(result.out, HasSubstr("\n  " + command + " "));
  EXPECT_EQ(labelshift("--help").out, result.out);
}

TEST_F(CommandLine, KnowsItsVersion) {
  const CommandResult result = labelshift("--version");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out,
              testing::StartsWith(std::string("labelshift ") + version() + "\nInstructions: " + to_string(cpu())));
}

#ifdef __x86_64__
TEST_F(CommandLine, UsesNoMoreThanTheInstructionsAskedFor) {
  const auto instructions = [&](const std::string& variables) {
    const std::string out = shell("unset OPENBLAS_CORETYPE; " + variables + " labelshift --version").out;
    return out.substr(out.find('\n') + 1);
  };
  // OpenBLAS has chosen before main() starts, so this also sees that the program was started again.
  EXPECT_THAT(instructions("LABELSHIFT_CPU=baseline"),
              testing::MatchesRegex("Instructions: baseline.*OpenBLAS: Prescott\n"));
  EXPECT_THAT(instructions("LABELSHIFT_CPU=baseline OPENBLAS_CORETYPE=Nehalem"),
              testing::HasSubstr("OpenBLAS: Nehalem"));
  EXPECT_EQ(instructions("LABELSHIFT_CPU=avx512"), instructions("env -u LABELSHIFT_CPU"));
  // OpenBLAS takes a processor that it does not know for a Prescott.
  if (native_cpu() > Cpu::kBaseline) {
    EXPECT_THAT(instructions("env -u LABELSHIFT_CPU"), testing::Not(testing::HasSubstr("Prescott")));
    EXPECT_THAT(instructions("env -u LABELSHIFT_CPU OPENBLAS_CORETYPE=Prescott"), testing::HasSubstr("Prescott"));
  }
}
#endif

TEST_F(CommandLine, RefusesInstructionsThatItDoesNotKnow) {
  const CommandResult result = shell("LABELSHIFT_CPU=sse9 labelshift --version");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, testing::HasSubstr("LABELSHIFT_CPU is \"sse9\", expected avx512, avx2 or baseline"));
}

TEST_F(CommandLine, TheExampleOfEveryHelpWorks) {
  for (const std::string& command : kCommands) {
    if (command == "coordinator" || command == "node") continue;  // which need one another, see sites_test.cpp
    const CommandResult help = labelshift(command + " --help");
    EXPECT_EQ(help.status, 0);
    const std::string heading = "Example:\n";
    const std::size_t at = help.out.find(heading);
    ASSERT_NE(at, std::string::npos) << help.out;
    const CommandResult example = shell(help.out.substr(at + heading.size()));
    EXPECT_EQ(example.status, 0) << example.err;
    EXPECT_EQ(example.err, "");
  }
  for (const char* made : {"mix.svg", "corrected.csv", "labels.csv", "labelshift-completion.bash"})
    EXPECT_GT(std::filesystem::file_size(path(made)), 0U) << made;
}

TEST_F(CommandLine, SuggestsWhatWasMeant) {
  EXPECT_THAT(labelshift("estimat").err,
              StartsWith("error: unknown command \"estimat\"; did you mean \"estimate\"? (known: estimate, adapt, "));
  expect_failure("help", kUsage, "unknown command \"help\"; see labelshift --help");
  for (const char* asked : {"estimat --help", "estimat -h", "--help estimat", "estimat --version"}) {
    const CommandResult slip = labelshift(asked);
    EXPECT_EQ(slip.status, kUsage) << asked;
    EXPECT_EQ(slip.out, "") << asked;
    EXPECT_THAT(slip.err, StartsWith("error: unknown command \"estimat\"; did you mean \"estimate\"?")) << asked;
  }
  EXPECT_EQ(labelshift("estimate --help").status, 0);
  EXPECT_THAT(labelshift("estimate --target-prbs B.csv").err,
              StartsWith("error: unknown option \"--target-prbs\"; did you mean \"--target-probs\"? (known: "));
  EXPECT_THAT(labelshift("estimate --estimator mlls_em" + kTiny).err,
              StartsWith("error: unknown estimator \"mlls_em\"; did you mean \"mlls-em\"? (known: mlls-sqp, "));
  EXPECT_THAT(labelshift("estimate --estimator MLLS-EM" + kTiny).err,
              StartsWith("error: unknown estimator \"MLLS-EM\"; did you mean \"mlls-em\"? (known: mlls-sqp, "));
  EXPECT_THAT(labelshift("estimate --calibration bct" + kTiny).err,
              StartsWith("error: unknown calibration \"bct\"; did you mean \"bcts\"? (known: auto, none, "));
  expect_failure("estimate --format jsn" + kTiny, kUsage,
                 "unknown format \"jsn\"; did you mean \"json\"? (known: table, json, csv)");
  expect_failure("estimate --estimator mlls-l2 --set lamda=1" + kTiny, kUsage,
                 "unknown setting of mlls-l2 \"lamda\"; did you mean \"lambda\"? (known: tolerance, max-iterations, "
                 "lambda)");
}

TEST_F(CommandLine, EveryUsageErrorIsOneSentence) {
  expect_failure("estimate", kUsage, "--target-probs is required");
  expect_failure("estimate --target-probs", kUsage, "--target-probs has no value; write --target-probs FILE");
  expect_failure("estimate --level high" + kTiny, kUsage,
                 "--level: found \"high\", expected a number that is between 0 and 1");
  expect_failure("estimate --level 1.5" + kTiny, kUsage,
                 "--level: found \"1.5\", expected a number that is between 0 and 1");
  expect_failure("estimate --smoothing -1" + kTiny, kUsage,
                 "--smoothing: found \"-1\", expected a number that is finite and not negative");
  expect_failure("estimate --seed -1" + kTiny, kUsage,
                 "--seed: found \"-1\", expected a whole number from 0 to 18446744073709551615");
  expect_failure("estimate --seed 18446744073709551616" + kTiny, kUsage,
                 "--seed: found \"18446744073709551616\", expected a whole number from 0 to 18446744073709551615");
  for (const std::string count : {"2", "99", "1e3", "-100", "1000001"})
    expect_failure("estimate --bootstrap " + count + kTiny, kUsage,
                   "--bootstrap: found \"" + count + "\", expected 0 or a whole number from 100 to 1000000");
  expect_failure("estimate --level 0.9 --level 0.95" + kTiny, kUsage, "--level is there 2 times; give it once");
  expect_failure("estimate --logits=yes" + kTiny, kUsage, "--logits takes no value; write --logits alone");
  expect_failure("estimate --plot x.png" + kTiny, kUsage, "--plot: cannot draw x.png, pictures are SVG only; use .svg");
  for (const std::string command : {"estimate", "adapt --output-labels y.csv"})
    expect_failure(command + " --smoothing 1 --source-prior 0.4,0.3,0.3" + kTiny, kUsage,
                   "--smoothing is for a class mix counted on the source examples; drop it or --source-prior");
  expect_failure("estimate --tolerance -1" + kTiny, kUsage, "tolerance is \"-1\", not a number from 0 to 1");
  expect_failure("estimate --estimator bbse --tolerance 0.1" + kTiny, kUsage,
                 "bbse has no settings, so \"tolerance\" cannot be set");
  expect_failure("estimate --set lambda" + kTiny, kUsage, "--set: found \"lambda\", expected NAME=VALUE");
  expect_failure("estimate B.csv" + kTiny, kUsage,
                 "unexpected \"B.csv\"; every value follows its option, see labelshift estimate --help");
  expect_failure("estimate --target-probs examples/tiny/target_probs.csv", kUsage,
                 "nothing is known of the source; give --source-probs and --source-labels, or --source-prior");
  expect_failure("estimate --source-probs A.csv --target-probs B.csv", kUsage, "--source-probs needs --source-labels");
  expect_failure("estimate --source-prior 0.5,0.5 --source-weights w --target-probs B.csv", kUsage,
                 "--source-weights needs --source-probs and --source-labels");
}

TEST_F(CommandLine, AnEmptyValueOfAnyOptionIsAUsageError) {
  // Help shows an option with a value as "  --name TYPE", a flag as "  --name" and two spaces or more.
  const std::regex with_value("\n  (?:-., ?)?(--[a-z-]+) [^ ]");
  int walked = 0;
  std::vector<std::string> commands = kCommands;
#ifdef LABELSHIFT_WITH_TORCH
  commands.emplace_back("run");
#endif
  for (const std::string& command : commands) {
    const std::string help = labelshift(command + " --help").out;
    for (std::sregex_iterator at(help.begin(), help.end(), with_value), end; at != end; ++at, ++walked) {
      const std::string option = (*at)[1];
      for (const std::string& spelling : {option + " ''", option + "="}) {
        const CommandResult result = labelshift(command + " " + spelling);
        EXPECT_EQ(result.status, kUsage) << command << " " << spelling;
        EXPECT_THAT(result.err, StartsWith("error: " + option + " is empty; write " + option + " ")) << command;
        EXPECT_EQ(result.out, "");
      }
    }
  }
  EXPECT_GT(walked, 40);
  expect_failure("data ''", kUsage, "action is empty, expected {get}");
  expect_failure("estimate --source-prior ''" + kTiny, kUsage, "--source-prior is empty; write --source-prior FILE");
}

TEST_F(CommandLine, RefusesASlowBlas) {
  const CommandResult result =
      shell("ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=" LABELSHIFT_SLOW_BLAS " labelshift --version");
  EXPECT_EQ(result.status, kSystem);
  EXPECT_THAT(result.err,
              testing::HasSubstr("not to OpenBLAS, and would be many times slower; install libopenblas0-openmp"));
}

TEST_F(CommandLine, ListsEstimatorsAndCalibrations) {
  const CommandResult table = labelshift("estimators");
  EXPECT_EQ(table.status, 0);
  const auto list = nlohmann::json::parse(labelshift("estimators --format json").out);
  std::vector<std::string> names;
  for (const char* kind : {"estimators", "calibrations"}) {
    for (const auto& entry : list[kind]) {
      names.push_back(entry["name"]);
      EXPECT_THAT(table.out, HasSubstr("\n" + names.back() + " "));
      EXPECT_THAT(table.out, HasSubstr("  " + entry["summary"].get<std::string>() + "\n"));
    }
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("mlls-em", "mlls-sqp", "mlls-l1", "mlls-l2", "mlls-cg", "mlls-sgd",
                                                   "bbse", "bbse-soft", "mlls-confusion", "rlls", "auto", "none", "ts",
                                                   "bcts", "vs", "matrix"));
  // Columns begin where they do in the first line, whatever the longest name is.
  EXPECT_THAT(table.out, StartsWith("Estimators (--estimator)\nname            default  what it does\n"));
  EXPECT_THAT(table.out, HasSubstr("\nmlls-confusion           "));
  EXPECT_THAT(table.out, HasSubstr("\nmlls-sqp        yes      "));
}

TEST_F(CommandLine, IsTestedInAnEmptyHomeOfItsOwn) {
  const CommandResult result = shell(R"(ls -A "$HOME"; echo "$HOME"
    for name in XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR; do
      case ${!name} in "$HOME"/*) ;; *) echo "$name is ${!name}" ;; esac
    done
    [ -z "${LABELSHIFT_DATA+set}" ] || echo LABELSHIFT_DATA is set)");
  EXPECT_THAT(result.out, testing::MatchesRegex(testing::TempDir() + "labelshift-home-[A-Za-z0-9]+\n"));
}

TEST_F(CommandLine, AReaderThatGoesAwayIsNoError) {
  const CommandResult result =
      shell("trap '' PIPE; labelshift watch" + kFashionSource +
            "--every 1 < <(while echo 1,0,0,0,0,0,0,0,0,0; do :; done 2> /dev/null) | head -n 1; echo "
            "${PIPESTATUS[0]}");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, testing::EndsWith("\n141\n"));  // 128 + SIGPIPE
}

TEST_F(CommandLine, AnInterruptEndsItQuietlyAndLeavesNoFile) {
  // Reading a pipe that never ends, so that the signal certainly meets it at work. The shell makes what runs in its
  // background ignore the signal, which env takes back.
  const CommandResult result = shell(R"(mkfifo pipe; sleep 60 > pipe & sleeper=$!
    env --default-signal=INT labelshift watch --source-probs examples/tiny/source_probs.csv \
      --source-labels examples/tiny/source_labels.csv < pipe & watcher=$!
    sleep 0.5; kill -INT $watcher; await eval '! kill -0 $watcher'; wait $watcher; status=$?; kill $sleeper; exit $status)");
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(shell("ls").out, "examples\npipe\nscript\nstderr\nstdout\n");
}

/// What a line of shell writes to a terminal, up to its end or, where `until` appears, to an interrupt.
std::string on_terminal(const std::string& command, const std::string& until = "") {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(terminal, buffer, sizeof buffer)) > 0;) {  // fails with EIO when the child is gone
    text.append(buffer, static_cast<std::size_t>(got));
    if (!until.empty() && text.find(until) != std::string::npos) ::kill(child, SIGINT);
  }
  ::close(terminal);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(until.empty() ? WEXITSTATUS(status) : WTERMSIG(status), until.empty() ? 0 : SIGINT) << text;
  return text;
}

TEST_F(CommandLine, NeverPrintsWhatATerminalWouldObey) {
  // Clears the screen; the one-byte form of the same as UTF-8; rings the bell.
  const std::string red = "\x1b[2Jred",
                    csi =
                        "\xc2\x9b"
                        "2Jblue",
                    bell = "2Jb\xc3\xbcro\a\x7f\u202e";
  file("A.csv", "0.25,0.5,0.25\n0.5,0.25,0.25\n0.75,0.125,0.125\n0.25,0.25,0.5\n");
  file("y.csv", bell + "\n" + red + "\n" + red + "\n" + csi + "\n");
  const std::string files = " --source-probs A.csv --source-labels y.csv --target-probs A.csv ";
  const auto is_plain = [](const std::string& text) {
    return text.find_first_of("\x1b\x9b\a\x7f") == std::string::npos && text.find("\u202e") == std::string::npos;
  };
  file("classes.txt", red + "\n" + csi + "\n" + bell + "\n");
  const CommandResult table = labelshift("estimate --classes classes.txt" + files);
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_TRUE(is_plain(table.out + table.err)) << table.out;
  EXPECT_THAT(table.out, HasSubstr("\n\\x1b[2Jred        "));
  EXPECT_THAT(table.out, HasSubstr("\n\\xc2\\x9b2Jblue   "));
  EXPECT_THAT(table.out, HasSubstr("\n2Jb\xc3\xbcro\\x07\\x7f\\xe2\\x80\\xae "));
  const CommandResult guessed = labelshift("estimate" + files);  // a warning lists the names
  EXPECT_THAT(guessed.err, HasSubstr("warning: nothing names the columns"));
  EXPECT_TRUE(is_plain(guessed.err)) << guessed.err;
  for (const std::string command :
       {"estimate --source-prior 0.5,0.5 --target-probs $'no\\e[2J\\nthing'", "estimate $'--\\e[2J'", "$'\\e[2J'",
        "estimate --format $'\\e[2J' --target-probs A.csv"}) {
    const CommandResult result = labelshift(command);
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.err, HasSubstr("\\x1b[2J"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  // Programs get the names themselves, a terminal never does.
  const std::string csv = "estimate --format csv --classes classes.txt" + files;
  EXPECT_THAT(labelshift(csv).out, testing::AllOf(HasSubstr(red), HasSubstr(csi), HasSubstr(bell)));
  const auto list = nlohmann::json::parse(labelshift("estimate --format json --classes classes.txt" + files).out);
  EXPECT_EQ(list["classes"][0], red);
  for (const std::string format : {"table", "csv", "json"}) {
    const std::string shown = on_terminal("cd '" + path("") + "'; '" LABELSHIFT_COMMAND "' estimate --format " +
                                          format + " --classes classes.txt" + files);
    EXPECT_THAT(shown, HasSubstr("red"));
    EXPECT_TRUE(is_plain(shown)) << shown;
    if (format == "json") {  // still says the same; the warnings before it are not of it
      const auto parsed = nlohmann::json::parse(shown.substr(shown.find("\n{") + 1), nullptr, false);
      ASSERT_TRUE(parsed.is_object()) << shown;
      EXPECT_EQ(parsed["classes"], list["classes"]);
    }
  }
  const std::string adapted = on_terminal(
      "cd '" + path("") +
      "'; '" LABELSHIFT_COMMAND "' adapt --classes classes.txt --output-probs - --output-labels new.csv" + files);
  EXPECT_THAT(adapted, HasSubstr("red"));
  EXPECT_TRUE(is_plain(adapted)) << adapted;
  EXPECT_THAT(shell("cat new.csv").out, HasSubstr(red));
  const std::string progress = on_terminal(
      "cd '" + path("") +
      "'; f=$(printf 'a\\033[2Jb'); mkfifo \"$f\"; (sleep 1.5; cat examples/tiny/target_probs.csv) > "
      "\"$f\" & '" LABELSHIFT_COMMAND "' estimate --source-prior 0.4,0.3,0.3 --target-probs \"$f\" > result");
  EXPECT_THAT(progress, HasSubstr("reading a\\x1b[2Jb: "));
  EXPECT_THAT(progress, testing::Not(HasSubstr("\x1b[2J")));
}

TEST_F(CommandLine, ShowsProgressOnATerminalAfterASecondAndTakesItAway) {
  const std::string prepare =
      "cd '" + path("") + "' && mkfifo slow; (sleep 1.5; cat examples/tiny/target_probs.csv) > ";
  const std::string estimate =
      "slow & '" LABELSHIFT_COMMAND "' estimate --source-prior 0.4,0.3,0.3 --target-probs slow > result";
  const std::string shown = on_terminal(prepare + estimate);
  EXPECT_THAT(shown, StartsWith("\r\033[Kreading slow: 1 s"));
  EXPECT_THAT(shown, testing::EndsWith("\r\033[K"));
  const std::string narrow = on_terminal("cd '" + path("") + "'; rm slow; stty cols 12; " + prepare + estimate);
  EXPECT_THAT(narrow, StartsWith("\r\033[Kreading slo\r\033[K"));  // on a second line it would stay
  EXPECT_EQ(on_terminal("cd '" + path("") + "'; rm slow; " + prepare + estimate + " 2> errors"), "");
  EXPECT_EQ(bytes_of(path("errors")), "");
  EXPECT_EQ(on_terminal("'" LABELSHIFT_COMMAND "' estimators > /dev/null"), "");  // over in less than a second
}

TEST_F(CommandLine, ShowsHowMuchIsDoneAndHowLongTheRestTakes) {
  const std::string shown = on_terminal(
      "cd '" + path("") + "' && exec env --default-signal=INT '" LABELSHIFT_COMMAND "' estimate --bootstrap 1000000" +
          kFashion,
      " left");
  EXPECT_THAT(shown, testing::ContainsRegex("bootstrap: [0-9]+ %, [0-9]+ (min [0-9]+ )?s left"));
}

}  // namespace
}  // namespace labelshift
