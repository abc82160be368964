#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ReproduceCommand : public CommandTest {};

TEST_F(ReproduceCommand, ListsTheFiguresOfADataSetWithTheirCost) {
  const CommandResult result = labelshift("reproduce --data fashion-mnist");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nfigure-5 "));
  EXPECT_THAT(result.out, testing::ContainsRegex(" [0-9.]+ (s|min|h) +[0-9.]+ (s|min|h)\n"));
  EXPECT_THAT(result.out, testing::Not(HasSubstr("\nfigure-1 ")));
}

TEST_F(ReproduceCommand, ListsTheTablesWithTheirCost) {
  const CommandResult result = labelshift("reproduce");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("\ntable-2 .* [0-9.]+ (min|h) *\n"));
  for (const char* name : {"table-1", "table-3", "table-4", "table-6", "table-7", "figure-6", "figure-7", "mnist-lenet",
                           "compression", "node-mixes", "table-4-mixed"})
    EXPECT_THAT(result.out, HasSubstr(std::string("\n") + name + " "));
  EXPECT_THAT(result.out, testing::ContainsRegex("\nconvergence .* [0-9.]+ (min|h) *\n"));
}

TEST_F(ReproduceCommand, GoesOnAfterAnInterruptAndMakesAFigure) {
  const std::string small = "reproduce figure-5 --trials 2 --alphas 2 --sizes 3 --predictors 1 --epochs 1 --output r";
  const CommandResult stopped = shell("labelshift " + small + " & await [ -d r/predictors ]; kill $!; wait $!");
  EXPECT_EQ(stopped.status, 128 + SIGTERM) << stopped.out << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped; the same command goes on from here"));
  const CommandResult result = labelshift(small);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("Fashion-MNIST\n"));
  EXPECT_THAT(result.out, HasSubstr("Figure:  r/figure-5/figure.svg"));
  EXPECT_THAT(bytes_of(path("r/figure-5/figure.svg")), HasSubstr("<svg"));
  EXPECT_THAT(result.out, HasSubstr("Report:  r/figure-5/report.html"));
  const std::string report = bytes_of(path("r/figure-5/report.html"));
  EXPECT_THAT(report, HasSubstr("The paper claims that VRLS has a lower MSE"));
  EXPECT_THAT(report, HasSubstr("<dt>Command</dt><dd>labelshift reproduce figure-5 --trials 2"));
  const auto summary = nlohmann::json::parse(bytes_of(path("r/figure-5/summary.json")));
  EXPECT_EQ(summary["panels"].size(), 3u);
  expect_failure(small + " --trials 3", kUsage, "--trials is there 2 times; give it once");
}

TEST_F(ReproduceCommand, SaysWhatItCannotMake) {
  const CommandResult unknown = labelshift("reproduce figure-9");
  EXPECT_EQ(unknown.status, kUsage);
  EXPECT_THAT(unknown.err, StartsWith("error: unknown table or figure \"figure-9\"; did you mean \"figure-"));
  expect_failure("reproduce figure-5 --data mnist", kUsage,
                 "figure-5 has no panel on the data asked for; see `labelshift reproduce`");
  expect_failure("reproduce table-2 --trials 5", kUsage,
                 "--trials is no option of table-2; for other settings copy its file and use labelshift run");
  expect_failure("reproduce figure-5 --rounds 5", kUsage, "--rounds is for federations, and figure-5 has none");
  expect_failure("reproduce convergence --predictors 5", kUsage, "--predictors is no option of convergence");
  expect_failure("reproduce convergence --rounds 5", kUsage, "--rounds is no option of convergence");
  expect_failure("reproduce convergence --device cpu", kUsage, "--device is no option of convergence");
  const CommandResult absent = shell("LABELSHIFT_DATA=/nowhere XDG_DATA_HOME=/nowhere labelshift reproduce figure-4");
  EXPECT_EQ(absent.status, kInput);
  EXPECT_THAT(absent.err, HasSubstr("; \"labelshift data\" says how to get it"));
  EXPECT_FALSE(std::filesystem::exists(path("results/figure-4")));
  const CommandResult no_data = shell("LABELSHIFT_DATA=/nowhere XDG_DATA_HOME=/nowhere labelshift reproduce table-3");
  EXPECT_EQ(no_data.status, kInput);
  EXPECT_THAT(no_data.err, HasSubstr("; \"labelshift data\" says how to get it"));
}

}  // namespace
}  // namespace labelshift
