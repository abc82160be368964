#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

class ReportCommand : public CommandTest {
 protected:
  void run_small(const std::string& output, const std::string& options = "") const {
    const CommandResult run = labelshift(
        "run examples/federation.toml --rounds 4 --set run.evaluate-every=2 --output " + output + " " + options);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("Report:  " + output + "/federation/report.html\n"));
  }
};

TEST_F(ReportCommand, MakesTheReportThatTheRunHasLeftOnceMore) {
  run_small("r");
  const std::string folder = path("r/federation");
  const std::string left = bytes_of(folder + "/report.html");
  EXPECT_THAT(left, HasSubstr("<dt>Command</dt><dd>labelshift run examples/federation.toml --rounds 4"));
  std::filesystem::remove(folder + "/report.html");
  const CommandResult made = labelshift("report r/federation");
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.out, "Report: r/federation/report.html\n");
  EXPECT_EQ(bytes_of(folder + "/report.html"), left);
  EXPECT_TRUE(std::filesystem::exists(folder + "/iw-erm-seed-0/report.html"));
}

TEST_F(ReportCommand, PutsSeveralRunsNextToEachOther) {
  run_small("a");
  run_small("b", "--set training.batch=3");
  const CommandResult made = labelshift("report a/federation/ b/federation/iw-erm-seed-0 --output both.html");
  EXPECT_EQ(made.status, 0) << made.err;
  const std::string report = bytes_of(path("both.html"));
  EXPECT_THAT(report, HasSubstr("IW-ERM (b/federation/iw-erm-seed-0)"));
  EXPECT_THAT(report, HasSubstr("<td>training.batch</td>"));
  expect_failure("report a/federation b/federation", kUsage,
                 "a report on several folders belongs in none of them; say where with --output FILE.html");
}

TEST_F(ReportCommand, RefusesWhatIsNoRun) {
  expect_failure(
      "report nowhere", kInput,
      "nowhere has neither experiment.toml nor summary.json: expected the folder of a run, or of a comparison");
  shell("mkdir half; printf 'data.set = \"fashion-mnist\"\\ndata.partition = \"paper-5\"\\n' > half/experiment.toml");
  expect_failure("report half", kInput, "half has no whole run; let it end, or name the folder of one that has ended");
  expect_failure("report", kUsage, "folders is required");
  shell(R"(mkdir none; echo '{"name": "none", "title": "", "seeds": [], "rows": []}' > none/summary.json)");
  expect_failure("report none", kInput, "none has no run that has ended; run the comparison again");
}

TEST_F(ReportCommand, WaitingForTheReaderOfAPipeCanBeStopped) {
  run_small("r");
  const CommandResult stopped = shell(
      "mkfifo pipe.html; timeout --preserve-status -k 20 -s INT 1 labelshift report r/federation --output pipe.html; "
      "echo $?");
  EXPECT_EQ(stopped.out, "130\n");
}

TEST_F(ReportCommand, WritesOverNothingOfARun) {
  run_small("r");
  const std::string summary = bytes_of(path("r/federation/summary.json"));
  expect_failure("report r/federation --output r/federation/summary.json", kUsage,
                 "--output: cannot write r/federation/summary.json, reports are HTML only; use .html");
  EXPECT_EQ(bytes_of(path("r/federation/summary.json")), summary);
}

}  // namespace
}  // namespace labelshift
