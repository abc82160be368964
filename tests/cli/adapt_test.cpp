#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "labelshift/data/files/label_file.hpp"
#include "labelshift/data/files/matrix_file.hpp"
#include "labelshift/data/files/matrix_writer.hpp"
#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using RowMajorMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class Adapt : public CommandTest {
 protected:
  /// How many of the 3,000 labels are right.
  int correct(const std::vector<int>& labels) const {
    const Labels truth = read_labels(path("examples/fashion-mnist/target_labels.csv"), class_names(), 10);
    EXPECT_EQ(labels.size(), truth.labels.size());
    int count = 0;
    for (std::size_t j = 0; j < labels.size(); ++j) count += labels[j] == truth.labels[j];
    return count;
  }
  static int arg_max(const MatrixView& probs, Index row) {
    int best = 0;
    for (int c = 1; c < probs.cols(); ++c)
      if (probs(row, c) > probs(row, best)) best = c;
    return best;
  }
  std::vector<std::string> class_names() const {
    std::vector<std::string> names;
    std::ifstream in(path("examples/fashion-mnist/classes.txt"));
    for (std::string line; std::getline(in, line);) names.push_back(line);
    return names;
  }
};

TEST_F(Adapt, WarnsOfClassNamesThatNoHeaderCanHold) {
  const auto adapted = [&](const std::string& names) {
    shell("printf '" + names + "' > names.txt; tail -n +2 examples/tiny/target_probs.csv > target.csv");
    const CommandResult result = labelshift(
        "adapt --target-probs target.csv --source-prior 0.2,0.3,0.5 --classes names.txt --output-probs o.csv");
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(adapted("2\\n1\\n0\\n"),
              testing::HasSubstr("so o.csv has no header: its columns are 2, 1, 0, in this order"));
  for (const char* names : {"0\\n1\\n2\\n", "two\\n1\\n0\\n"})
    EXPECT_THAT(adapted(names), testing::Not(testing::HasSubstr("has no header"))) << names;
}

TEST_F(Adapt, CorrectsProbabilitiesAndPredictsBetter) {
  const CommandResult result =
      labelshift("adapt --calibration bcts --output-probs p.npy --output-labels y.csv" + kFashion);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Corrected 3000 rows for the class mix found by mlls-sqp; "));
  const MatrixFile before = read_matrix(path("examples/fashion-mnist/target_probs.npy"));
  const MatrixFile after = read_matrix(path("p.npy"));
  ASSERT_EQ(after.view().rows(), 3000);
  EXPECT_TRUE(after.view().visit([](const auto* data, Index, Index) { return sizeof *data == 4; }));  // as the input
  const std::vector<int> labels = read_labels(path("y.csv"), class_names(), 10).labels;
  std::vector<int> raw_labels;
  for (Index j = 0; j < 3000; ++j) {
    double sum = 0.0;
    for (Index c = 0; c < 10; ++c) sum += after.view()(j, c);
    ASSERT_NEAR(sum, 1.0, 1e-6);
    raw_labels.push_back(arg_max(before.view(), j));
    ASSERT_EQ(labels[static_cast<std::size_t>(j)], arg_max(after.view(), j));
  }
  // 249 predictions change, so chance alone would move the number of right ones by about sqrt(249) = 16.
  EXPECT_GT(correct(labels), correct(raw_labels) + 32);
  EXPECT_THAT(bytes_of(path("y.csv")), testing::StartsWith("label\n"));
}

TEST_F(Adapt, IsBayesRuleByHand) {
  // Two classes, p_tr = (1/2, 1/2). The target's rows are certain, three of four of class b, so r = (1/2, 3/2).
  file("B.csv", "a,b\n1,0\n0,1\n0,1\n0,1\n");
  const CommandResult result =
      labelshift("adapt --source-prior 0.5,0.5 --target-probs B.csv --output-probs out.csv --output-labels out.npy");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(bytes_of(path("out.csv")), "a,b\n1,0\n0,1\n0,1\n0,1\n");
  EXPECT_EQ(read_labels(path("out.npy"), {}, 2).labels, (std::vector<int>{0, 1, 1, 1}));
}

TEST_F(Adapt, WarnsWhereALabelShiftDoesNotFitAndLeavesPredictionsAloneOnRequest) {
  const std::string arguments = "adapt --output-probs p.npy --report r.json" + kFashionSource +
                                "--target-probs examples/fashion-mnist/target_blurred_probs.npy ";
  const CommandResult corrected = labelshift(arguments);
  EXPECT_EQ(corrected.status, 0);
  EXPECT_THAT(corrected.err, testing::MatchesRegex("warning: the label-shift assumption does NOT fit .p = .*, so the "
                                                   "corrected predictions may be worse than the classifier's own; "
                                                   "--if-fits leaves them alone then\n"));
  EXPECT_THAT(corrected.out, HasSubstr("\nVerdict: the label-shift assumption does NOT fit (p = "));
  json report = json::parse(bytes_of(path("r.json")));
  EXPECT_EQ(report["verdict"], "does-not-fit");
  EXPECT_EQ(report["adaptation"]["corrected"], true);
  EXPECT_EQ(report["adaptation"]["rows"], 2000);
  EXPECT_GT(report["adaptation"]["changed"], 0);
  EXPECT_GT(report["adaptation"]["changed_by_calibration"], 0);
  EXPECT_LT(report["adaptation"]["changed_by_calibration"], report["adaptation"]["changed"]);
  EXPECT_EQ(report["warnings"].size(), 1U);
  EXPECT_EQ(report["target_prior"].size(), 10U);

  const CommandResult alone = labelshift(arguments + "--if-fits --output-labels y.csv");
  EXPECT_EQ(alone.status, 0);
  EXPECT_EQ(alone.err, "warning: the label-shift assumption does NOT fit, so the predictions were left alone\n");
  EXPECT_THAT(alone.out, testing::StartsWith("Left 2000 rows as the classifier gave them, not calibrated either.\n"));
  report = json::parse(bytes_of(path("r.json")));
  EXPECT_EQ(report["adaptation"]["corrected"], false);
  EXPECT_EQ(report["adaptation"]["changed"], 0);
  EXPECT_EQ(report["adaptation"]["changed_by_calibration"], 0);
  const MatrixFile before = read_matrix(path("examples/fashion-mnist/target_blurred_probs.npy"));
  const MatrixFile after = read_matrix(path("p.npy"));
  const std::vector<int> labels = read_labels(path("y.csv"), class_names(), 10).labels;
  for (Index j = 0; j < 2000; ++j) {
    for (Index c = 0; c < 10; ++c) ASSERT_EQ(after.view()(j, c), before.view()(j, c));
    ASSERT_EQ(labels[static_cast<std::size_t>(j)], arg_max(before.view(), j));
  }
}

TEST_F(Adapt, CorrectsWhatFitsAsIfNotAsked) {
  labelshift("adapt --calibration bcts --output-probs plain.npy" + kFashion);
  const CommandResult result = labelshift("adapt --calibration bcts --if-fits --output-probs p.npy" + kFashion);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(bytes_of(path("p.npy")), bytes_of(path("plain.npy")));
}

TEST_F(Adapt, NeedsATestToKnowThatItFits) {
  expect_failure(
      "adapt --if-fits --source-prior 0.4,0.3,0.3 --target-probs examples/tiny/target_probs.csv "
      "--output-labels y.csv",
      kUsage, "--if-fits needs a test of the fit; give --source-probs and --source-labels too");
  // Of one row nothing can be tested.
  file("one.csv", "Pullover,Coat,Shirt\n0.2,0.7,0.1\n");
  const CommandResult result = labelshift(
      "adapt --if-fits --output-probs - --source-probs examples/tiny/source_probs.csv "
      "--source-labels examples/tiny/source_labels.csv --target-probs one.csv");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "Pullover,Coat,Shirt\n0.2,0.7,0.1\n");
  EXPECT_THAT(result.err, HasSubstr("warning: the target has 1 row, too few to tell its class mix"));
  EXPECT_THAT(result.err, HasSubstr("warning: the label-shift assumption could not be tested, so the predictions were "
                                    "left alone; drop --if-fits to have them corrected anyway\n"));
}

TEST_F(Adapt, WritesRowsAloneToStandardOutput) {
  const CommandResult result = labelshift("adapt --output-labels -" + kTiny);
  EXPECT_EQ(labelshift("adapt --output-labels /dev/stdout" + kTiny).out, result.out);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::StartsWith("label\n"));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 201);
}

TEST_F(Adapt, AnInterruptLeavesNoHalfWrittenFile) {
  constexpr Index kRows = 400'000;  // seconds of compressing, so that the signal comes in the middle
  MatrixWriter writer(path("B.npy"), {.rows = kRows, .cols = 2, .float32 = true});
  for (Index j = 0; j < kRows; ++j) {
    const double p = static_cast<double>(j) / static_cast<double>(kRows);
    const RowMajorMatrix row = (RowMajorMatrix(1, 2) << p, 1.0 - p).finished();
    writer.append(row);
  }
  writer.commit();
  file("out.csv.gz", "old");
  const CommandResult result = shell(R"sh(
    env --default-signal=INT labelshift adapt --source-prior 0.5,0.5 --target-probs B.npy --output-probs out.csv.gz & adapter=$!
    await eval '[ -n "$(find . -name "*.tmp" -size +0)" ]'
    kill -INT $adapter; wait $adapter)sh");
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.err + result.out, "");
  EXPECT_EQ(bytes_of(path("out.csv.gz")), "old");
  EXPECT_EQ(shell("ls").out, "B.npy\nexamples\nout.csv.gz\nscript\nstderr\nstdout\n");
}

TEST_F(Adapt, WritesBothFilesOrNeither) {
  for (const char* outputs : {"--output-probs p.csv --output-labels /dev/full",
                              "--output-probs /dev/full "
                              "--output-labels y.csv"})
    expect_failure(std::string("adapt ") + outputs + kTiny, kSystem,
                   "cannot write /dev/full: no space left on device; free some or choose another place");
  EXPECT_EQ(shell("ls").out, "examples\nscript\nstderr\nstdout\n");
}

TEST_F(Adapt, AsksForSomethingToWriteThatCanBeWritten) {
  expect_failure("adapt" + kTiny, kUsage, "nothing to write; give --output-probs, --output-labels or both");
  expect_failure("adapt --output-probs x.csv --output-labels x.csv" + kTiny, kUsage,
                 "--output-probs and --output-labels are the same file; give each its own");
  expect_failure("adapt --output-probs x.csv --report ./x.csv" + kTiny, kUsage,
                 "--output-probs and --report are the same file; give each its own");
  expect_failure("adapt --output-probs x.csv --report r.html" + kTiny, kUsage,
                 "--report: adapt writes JSON, and r.html is the name of a page; use .json, and labelshift estimate "
                 "--report for a page");
  expect_failure("adapt --output-probs x.pdf" + kTiny, kUsage,
                 "cannot tell the format of x.pdf; expected a name that ends in .npy, .csv, .tsv, .csv.gz or .tsv.gz");
  EXPECT_EQ(labelshift("adapt --output-probs no/x.csv" + kTiny).status, kSystem);
}

}  // namespace
}  // namespace labelshift
