#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "labelshift/data/files/matrix_file.hpp"
#include "labelshift/data/files/matrix_writer.hpp"
#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kTinySource =
    " --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv ";

class Watch : public CommandTest {
 protected:
  static std::vector<json> objects(const std::string& text) {
    std::vector<json> result;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) result.push_back(json::parse(line));
    return result;
  }
};

TEST_F(Watch, EndsWhereEstimateDoes) {
  const CommandResult watched = labelshift("watch --format json --every 80" + kTinySource +
                                           "--calibration bcts < examples/tiny/target_probs.csv");
  ASSERT_EQ(watched.status, 0) << watched.err;
  const std::vector<json> looks = objects(watched.out);
  ASSERT_EQ(looks.size(), 3U);  // after 80, 160 and all 200 rows
  EXPECT_EQ(looks[0]["rows"], 80);
  EXPECT_EQ(looks[2]["rows"], 200);
  const json batch = json::parse(labelshift("estimate --format json --calibration bcts" + kTiny).out);
  EXPECT_EQ(looks[2]["classes"], batch["classes"]);
  for (std::size_t c = 0; c < 3; ++c)
    EXPECT_NEAR(looks[2]["target_prior"][c].get<double>(), batch["target_prior"][c].get<double>(), 1e-6);
  EXPECT_NEAR(looks[2]["shift_test"]["p_value"].get<double>(), batch["shift_test"]["p_value"].get<double>(), 1e-9);
  EXPECT_EQ(looks[2]["alarm"], true);
  EXPECT_NEAR(looks[2]["fit_test"]["p_value"].get<double>(), batch["fit_test"]["p_value"].get<double>(), 1e-9);
  EXPECT_EQ(looks[2]["verdict"], batch["verdict"]);
}

TEST_F(Watch, RaisesAnAlarmWhenALabelShiftDoesNotFit) {
  const MatrixFile blurred = read_matrix(path("examples/fashion-mnist/target_blurred_probs.npy"));
  MatrixWriter writer(path("blurred.csv"), {.rows = 2000, .cols = 10});
  writer.append(blurred.view());
  writer.commit();
  const CommandResult table = labelshift("watch --every 2000" + kFashionSource + "< blurred.csv");
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("\nALARM: the label-shift assumption does NOT fit (p = "));
  EXPECT_THAT(table.out, testing::Not(HasSubstr("moved")));
  const json last =
      objects(labelshift("watch --format json --every 2000" + kFashionSource + "< blurred.csv").out).back();
  EXPECT_EQ(last["verdict"], "does-not-fit");
  EXPECT_EQ(last["alarm"], true);
  EXPECT_LT(last["fit_test"]["p_value"], 1e-6);
  EXPECT_THAT(labelshift("watch --format csv --every 2000" + kFashionSource + "< blurred.csv").out,
              HasSubstr(",does-not-fit,true,0\n"));
}

TEST_F(Watch, LeavesOutColumnsOfTheStream) {
  shell("paste -d, <(echo id; seq 200 | sed s/^/x/) examples/tiny/target_probs.csv > id.csv");
  const std::string plain = labelshift("watch" + kTinySource + "< examples/tiny/target_probs.csv").out;
  EXPECT_EQ(labelshift("watch --columns Pullover,Coat,Shirt" + kTinySource + "< id.csv").out, plain);
}

TEST_F(Watch, RaisesAnAlarmWhenTheMixHasMovedAndNotBefore) {
  const MatrixFile same = read_matrix(path("examples/fashion-mnist/target_same_probs.npy"));
  MatrixWriter writer(path("same.csv"), {.rows = 2000, .cols = 10});
  writer.append(same.view());
  writer.commit();
  const CommandResult quiet = labelshift("watch" + kFashionSource + "< same.csv");
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_THAT(quiet.out, StartsWith("After 1000 rows\nclass "));
  EXPECT_THAT(quiet.out, HasSubstr("After 2000 rows"));
  EXPECT_THAT(quiet.out, HasSubstr("No alarm: there is no evidence that the label mix has moved (p = "));
  EXPECT_THAT(quiet.out, testing::Not(HasSubstr("ALARM")));
  const CommandResult loud = labelshift("watch" + kTinySource + "< examples/tiny/target_probs.csv");
  EXPECT_THAT(loud.out, HasSubstr("ALARM: the label mix has moved (p = "));
  EXPECT_THAT(labelshift("watch --alarm 1e-200" + kTinySource + "< examples/tiny/target_probs.csv").out,
              testing::Not(HasSubstr("ALARM")));
}

TEST_F(Watch, AnswersWhileTheStreamIsOpen) {
  // The writer sends 100 rows and waits for the answer to them before it ends.
  const CommandResult result = shell(R"(mkfifo rows
    labelshift watch --format csv --every 100 --source-probs examples/tiny/source_probs.csv \
      --source-labels examples/tiny/source_labels.csv < rows > answer & watcher=$!
    exec 3> rows
    head -n 101 examples/tiny/target_probs.csv >&3
    await [ -s answer ]
    grep -c ^100, answer
    exec 3>&-
    wait $watcher)");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "3\n");
}

TEST_F(Watch, SaysThatStandardInputIsClosed) {
  const CommandResult result = labelshift("watch" + kTinySource + "<&-");
  EXPECT_EQ(result.status, 5);
  EXPECT_EQ(result.err, "error: cannot read standard input: bad file descriptor\n");
}

TEST_F(Watch, ForgetsWhatIsLongAgo) {
  std::string rows;
  for (int j = 0; j < 400; ++j) rows += "0.98,0.01,0.01\n";
  for (int j = 0; j < 400; ++j) rows += "0.01,0.98,0.01\n";
  file("rows.csv", rows);
  const auto coats = [&](const std::string& options) {
    const CommandResult result = labelshift("watch --format json " + options + kTinySource + "< rows.csv");
    return objects(result.out).back()["target_prior"][1].get<double>();
  };
  EXPECT_LT(coats(""), 0.7);
  EXPECT_GT(coats("--half-life 20"), 0.9);
}

TEST_F(Watch, ABadRowIsNamedAfterWhatWasKnown) {
  file("rows.csv", "0.5,0.25,0.25\n0.5,0.5,0.25\n");
  const CommandResult result = labelshift("watch" + kTinySource + "< rows.csv");
  EXPECT_EQ(result.status, kInput);
  EXPECT_THAT(result.out, StartsWith("After 1 row\n"));
  EXPECT_EQ(result.err,
            "error: standard input, line 2: probabilities sum to 1.25, not 1 within 0.001 (--skip-bad-lines goes on "
            "without such lines); use --logits for raw scores or --renormalise for rounded ones\n");
  EXPECT_EQ(labelshift("watch --renormalise" + kTinySource + "< rows.csv").status, 0);
  file("rows.csv", "0.5,0.25,0.25\n0.5,0.5\n");
  EXPECT_THAT(labelshift("watch" + kTinySource + "< rows.csv").err, StartsWith("error: standard input, line 2"));
  file("rows.csv", "Coat,Pullover,Shirt\n0.5,0.25,0.25\n");
  expect_failure("watch" + kTinySource + "< rows.csv", kInput,
                 "standard input, column 1: found \"Coat\", expected \"Pullover\" as in "
                 "examples/tiny/source_probs.csv; the columns of both must be the same classes in the same order; "
                 "--columns NAME,NAME,... reads both in one order");
  expect_failure("watch" + kTinySource + "< /dev/null", kInput,
                 "standard input: found no rows, expected one row of probabilities a line");
}

TEST_F(Watch, SaysHowToLeaveOutAnIndex) {
  file("rows.csv", "0,0.5,0.25,0.25\n1,0.25,0.25,0.5\n");
  expect_failure("watch" + kTinySource + "< rows.csv", kInput,
                 "standard input, line 1 has 4 columns, expected 3; leave a column that is no class out with "
                 "--ignore-columns, by its name or its number from 0; an entry that is both a name and a "
                 "number is taken as the name");
  EXPECT_EQ(labelshift("watch --ignore-columns 3" + kTinySource + "< examples/tiny/target_probs.csv").err,
            "error: there is no column 3 to leave out, expected 0 to 2\n");
  file("rows.csv", ",Pullover,Coat,Shirt\n0,0.5,0.25,0.25\n");
  expect_failure("watch" + kTinySource + "< rows.csv", kInput,
                 "standard input, line 1, column 1: found no name, expected one for every column; here it is called "
                 "\"Unnamed: 0\", as in pandas; leave a column that is no class out with --ignore-columns, by its name "
                 "or its number from 0; an entry that is both a name and a "
                 "number is taken as the name");
  EXPECT_EQ(labelshift("watch --ignore-columns 'Unnamed: 0'" + kTinySource + "< rows.csv").status, 0);
  expect_failure("watch --ignore-columns Unnamed" + kTinySource + "< examples/tiny/target_probs.csv", kUsage,
                 "unknown column to leave out \"Unnamed\" (known: Pullover, Coat, Shirt)");
}

TEST_F(Watch, SaysHowToSendWhatIsNoText) {
  expect_failure("watch" + kFashionSource + "< examples/fashion-mnist/target_probs.npy", kInput,
                 "standard input: found a .npy array, which cannot be read here; give the path of its file, not "
                 "packed, or send CSV");
  const CommandResult packed = shell("gzip -c examples/tiny/target_probs.csv | labelshift watch" + kTinySource);
  EXPECT_EQ(packed.status, kInput);
  EXPECT_EQ(packed.err, "error: standard input: found gzip data, expected text; unpack it first: gunzip -c FILE |\n");
  expect_failure("watch --target-probs rows.csv" + kTinySource, kUsage,
                 "unknown option \"--target-probs\"; the rows come on standard input: < FILE");
}

TEST_F(Watch, SkipsBadLinesOnRequestAndCountsThem) {
  file("rows.csv", "a log\n0.5,0.25,0.25\n\n0.5,0.5\n0.25,0.25,0.5\nnan,0,1\n0.5,0.25,0.26\n0.25,0.5,0.25\n");
  const std::string warning =
      "warning: skipped 5 bad lines; the first: standard input, line 1 has 2 columns, expected 3\n";
  const CommandResult table = labelshift("watch --skip-bad-lines" + kTinySource + "< rows.csv");
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out, StartsWith("After 3 rows, bad lines skipped: 5\n"));
  EXPECT_EQ(table.err, warning);
  const CommandResult lines = labelshift("watch --skip-bad-lines --every 1 --format json" + kTinySource + "< rows.csv");
  const std::vector<json> looks = objects(lines.out);
  ASSERT_EQ(looks.size(), 3U);
  EXPECT_EQ(looks[0]["skipped_lines"], 1);
  EXPECT_EQ(looks[2]["skipped_lines"], 5);
  EXPECT_EQ(looks[2]["rows"], 3);
  // The same as without them.
  file("good.csv", "0.5,0.25,0.25\n0.25,0.25,0.5\n0.25,0.5,0.25\n");
  const CommandResult good = labelshift("watch --every 1 --format json" + kTinySource + "< good.csv");
  EXPECT_EQ(objects(good.out)[2]["target_prior"], looks[2]["target_prior"]);
  EXPECT_EQ(objects(good.out)[2]["skipped_lines"], 0);
  // A header that names other classes is no bad line.
  file("rows.csv", "Coat,Pullover,Shirt\n0.5,0.25,0.25\n");
  EXPECT_EQ(labelshift("watch --skip-bad-lines" + kTinySource + "< rows.csv").status, kInput);
  file("rows.csv", "x\ny\n");
  const CommandResult nothing = labelshift("watch --skip-bad-lines" + kTinySource + "< rows.csv");
  EXPECT_EQ(nothing.status, kInput);
  EXPECT_THAT(nothing.err, HasSubstr("skipped 2 bad lines"));
  EXPECT_THAT(nothing.err, HasSubstr("error: standard input: found no good rows, "));
}

TEST_F(Watch, LimitsTheLengthOfALine) {
  const std::string message =
      "standard input, line 2: found more than 65536 bytes without a line end, expected one after every row";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::string limit;  // a sanitizer reserves more than any machine has
#else
  const std::string limit = "ulimit -v 4000000; ";
#endif
  const CommandResult endless =  // also in time: it need not see the end of what has none
      shell("(echo 0.5,0.25,0.25; tr '\\0' 1 < /dev/zero) | (" + limit + "labelshift watch" + kTinySource + ")");
  EXPECT_EQ(endless.status, kInput);
  EXPECT_EQ(endless.err, "error: " + message + " (--skip-bad-lines goes on without such lines)\n");
  EXPECT_THAT(endless.out, StartsWith("After 1 row\n"));
  file("rows.csv", "0.5,0.25,0.25\n" + std::string(10'000'000, '1') + "\n0.25,0.25,0.5\n");
  const CommandResult skipped = labelshift("watch --skip-bad-lines" + kTinySource + "< rows.csv");
  EXPECT_EQ(skipped.status, 0);
  EXPECT_THAT(skipped.out, StartsWith("After 2 rows, bad lines skipped: 1\n"));
  EXPECT_EQ(skipped.err, "warning: skipped 1 bad line; the first: " + message + "\n");
}

TEST_F(Watch, SaysAllItKnowsWhenItIsInterrupted) {
  // 45 rows and the beginning of another arrive in one piece: when 40 are reported, watch has read them all.
  const CommandResult result = shell(R"(mkfifo rows
    (for i in $(seq 45); do echo 0.5,0.25,0.25; done; printf 0.5,0.25,0) > piece
    env --default-signal=INT labelshift watch --format csv --every 40 --source-probs examples/tiny/source_probs.csv \
      --source-labels examples/tiny/source_labels.csv < rows > answer & watcher=$!
    exec 3> rows
    cat piece >&3
    await grep -q ^40, answer
    kill -INT $watcher; wait $watcher; status=$?
    grep -c ^45, answer; wc -l < answer; exit $status)");
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.out, "3\n7\n");  // a line for each class, and the header
  EXPECT_EQ(result.err, "");
}

TEST_F(Watch, OffersOnlyEstimatorsThatDifferOnAStream) {
  EXPECT_THAT(labelshift("watch --help").out, HasSubstr("{mlls-sqp,bbse,bbse-soft,mlls-confusion,rlls}"));
  expect_failure("watch --estimator mlls-em" + kTinySource + "< examples/tiny/target_probs.csv", kUsage,
                 "mlls-em cannot be fed row by row: it differs from mlls-sqp only in how it searches; use mlls-sqp");
  EXPECT_EQ(labelshift("watch --estimator bbse-soft" + kTinySource + "< examples/tiny/target_probs.csv").status, 0);
}

TEST_F(Watch, ChecksItsOptions) {
  expect_failure("watch", kUsage, "--source-probs is required");
  expect_failure("watch --every 0" + kTinySource, kUsage,
                 "--every: found \"0\", expected a whole number from 1 to 1000000000000");
  expect_failure("watch --smoothing 1 --source-prior 0.4,0.3,0.3" + kTinySource, kUsage,
                 "--smoothing is for a class mix counted on the source examples; drop it or --source-prior");
  expect_failure("watch --alarm 2" + kTinySource, kUsage,
                 "--alarm: found \"2\", expected a number that is between 0 and 1");
}

}  // namespace
}  // namespace labelshift
