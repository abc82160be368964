#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/files/matrix_file.hpp"
#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

const std::string kData = " --data examples/small-fashion-mnist ";

class PredictCommand : public CommandTest {
 protected:
  PredictCommand() {
    const CommandResult result =
        labelshift("train --zeta 1 --model logistic --epochs 20 --calibration-fraction 0.25 --output p" + kData);
    EXPECT_EQ(result.status, 0) << result.err;
  }
  /// Writes `name` and reads it back.
  RowMajorMatrix<double> predict(const std::string& name, const std::string& arguments) const {
    const CommandResult result = labelshift("predict --predictor p --output " + name + kData + arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    const MatrixFile matrix = read_matrix(path(name));
    RowMajorMatrix<double> values(matrix.view().rows(), matrix.view().cols());
    for (Index i = 0; i < values.rows(); ++i)
      for (Index c = 0; c < values.cols(); ++c) values(i, c) = matrix.view()(i, c);
    return values;
  }
};

TEST_F(PredictCommand, WritesCalibratedProbabilitiesRawOnesOrLogits) {
  const auto calibrated = predict("calibrated.npy", "");
  const auto raw = predict("raw.npy", "--raw");
  const auto logits = predict("logits.npy", "--logits");
  ASSERT_EQ(raw.rows(), logits.rows());
  EXPECT_EQ(raw.cols(), 10);
  EXPECT_NO_THROW(Probabilities(calibrated, "calibrated"));
  RowMajorMatrix<double> softmax = logits.array().exp();
  softmax.array().colwise() /= softmax.rowwise().sum().array().eval();
  EXPECT_LT((softmax - raw).cwiseAbs().maxCoeff(), 1e-5);
  EXPECT_GT((calibrated - raw).cwiseAbs().maxCoeff(), 0.05);  // zeta = 1 is under-confident
  EXPECT_THAT(bytes_of(path("raw.npy")), testing::HasSubstr("'<f4'"));
  EXPECT_EQ(predict("raw.csv", "--raw").cast<float>(), raw.cast<float>());
}

TEST_F(PredictCommand, NamesAnExampleThatTheNetGivesNoNumber) {
  std::ofstream(path("train.csv")) << "x,y,label\n0,1,a\n1,0,b\n0,1,a\n1,0,b\n0,2,a\n2,0,b\n";
  std::ofstream(path("new.csv")) << "x,y,label\n0,1,a\n3e38,-3e38,b\n";
  const CommandResult trained = labelshift(
      "train --data train.csv --label-column label --model logistic --zeta 0 --epochs 50 --calibration none --output "
      "q");
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const char* what : {"", " --logits"}) {
    const CommandResult result =
        labelshift(std::string("predict --predictor q --data new.csv --label-column label --output out.npy") + what);
    EXPECT_EQ(result.status, 3);
    EXPECT_THAT(result.err,
                testing::HasSubstr("new.csv, example 2: the net gives it a score that is not finite; look"));
    EXPECT_FALSE(std::filesystem::exists(path("out.npy")));
  }
}

TEST_F(PredictCommand, FeedsEstimate) {
  const CommandResult result = shell(R"(set -e
    predict() { labelshift predict --predictor p --data examples/small-fashion-mnist "$@"; }
    predict --part calibration --output source.npy --labels-output source.csv
    predict --output target.npy --labels-output target.csv
    labelshift estimate --source-probs source.npy --source-labels source.csv --target-probs target.npy \
      --classes examples/small-fashion-mnist/classes.txt --format json --output estimate.json)");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(bytes_of(path("estimate.json")));
  EXPECT_EQ(json["classes"].size(), 10U);
  EXPECT_GT(json["shift_test"]["p_value"], 1e-3);  // train and test have the same mix
}

/// Rows "x,y,CLASS" of a table, whose classes lie 3 apart on x.
std::string rows_of(const std::vector<std::string>& classes, int rows) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    const auto c = static_cast<std::size_t>(i) % classes.size();
    text += fmt::format("{},{},{}\n", 3.0 * static_cast<double>(c) + 0.001 * i, i % 7, classes[c]);
  }
  return text;
}

/// Predictors of tables.
class PredictTable : public CommandTest {
 protected:
  void train(const std::string& table) const {
    file("table.csv", table);
    const CommandResult result =
        labelshift("train --data table.csv --model logistic --learning-rate 0.05 --epochs 20 --output p");
    ASSERT_EQ(result.status, 0) << result.err;
  }
};

TEST_F(PredictTable, FeedsEstimateAndAdaptAsTextWhereClassesAreNumbers) {
  file("classes.txt", "1\n2\n3\n");  // where labels do not count from 0, nothing else names the columns
  for (const auto& [classes, named] : {std::pair{std::vector<std::string>{"0", "1"}, ""},
                                       {std::vector<std::string>{"1", "2", "3"}, "--classes classes.txt"}}) {
    SCOPED_TRACE(named);
    train("x,y,label\n" + rows_of(classes, 300));
    const CommandResult result = shell(R"(set -e
      predict() { labelshift predict --predictor p --data table.csv "$@"; }
      predict --part calibration --output source.csv --labels-output labels.csv
      predict --output target.csv
      source="--source-probs source.csv --source-labels labels.csv )" +
                                       std::string(named) + R"("
      labelshift adapt $source --target-probs target.csv --output-probs adapted.csv
      labelshift estimate $source --target-probs target.csv --format json --output target.json
      labelshift estimate $source --target-probs adapted.csv --format json --output adapted.json)");
    ASSERT_EQ(result.status, 0) << result.err;
    for (const std::string name : {"target", "adapted"}) {
      EXPECT_EQ(read_matrix(path(name + ".csv")).view().rows(), 300) << name;
      const auto json = nlohmann::json::parse(bytes_of(path(name + ".json")));
      EXPECT_EQ(json["classes"].size(), classes.size()) << name;
    }
  }
}

TEST_F(PredictTable, CorrectsForAnotherMixOfClasses) {
  // Three of four examples are of class a. The columns say nothing, so that no probability is near 0 or 1.
  std::string table = "x,y,label\n";
  for (int i = 0; i < 400; ++i) table += fmt::format("{},{},{}\n", i % 7, i % 5, i % 4 == 0 ? "b" : "a");
  train(table);
  const auto predict = [&](const std::string& options) {
    const CommandResult result = labelshift("predict --predictor p --data table.csv --output q.csv " + options);
    EXPECT_EQ(result.status, 0) << result.err;
    const MatrixFile file = read_matrix(path("q.csv"));
    RowMajorMatrix<double> values(file.view().rows(), file.view().cols());
    for (Index i = 0; i < values.rows(); ++i)
      for (Index c = 0; c < values.cols(); ++c) values(i, c) = file.view()(i, c);
    return values;
  };
  const auto plain = predict("");
  EXPECT_LT((predict("--prior 0.75,0.25") - plain).cwiseAbs().maxCoeff(), 1e-6);  // the mix of training
  // From 3:1 to 1:4 the odds of b against a grow 12 times.
  const auto corrected = predict("--prior 0.2,0.8");
  file("mix.json", R"({"classes": ["b", "a"], "target_prior": [0.8, 0.2]})");
  EXPECT_EQ(predict("--prior mix.json"), corrected);
  for (Index i = 0; i < 5; ++i) {
    EXPECT_NEAR(corrected(i, 1) / corrected(i, 0), 12.0 * plain(i, 1) / plain(i, 0), 1e-4);
    EXPECT_NEAR(corrected.row(i).sum(), 1.0, 1e-6);
  }
  // From 1:1 it is 4 times, if training is said to have been on that.
  const auto balanced = predict("--prior 0.2,0.8 --source-prior 0.5,0.5 --raw");
  const auto raw = predict("--raw");
  EXPECT_NEAR(balanced(0, 1) / balanced(0, 0), 4.0 * raw(0, 1) / raw(0, 0), 1e-4);
  EXPECT_EQ(predict("--prior 0,1").col(1).minCoeff(), 1.0);
}

TEST_F(PredictTable, RefusesAMixThatItCannotCorrectFor) {
  train("x,y,label\n" + rows_of({"a", "b"}, 40));
  const std::string predict = "predict --predictor p --data table.csv --output q.csv ";
  expect_failure(predict + "--prior 0.2,0.7", kInput,
                 "the mix \"0.2,0.7\": the shares sum to 0.9, expected 1 within 0.001; divide each by the sum of all");
  expect_failure(
      predict + "--prior 0.2,0.8 --source-prior 1,0", kInput,
      "p was trained without examples of \"b\", to which 0.2,0.8 gives the share 0.8; no correction makes it "
      "see them, so train on some, or give the class 0");
  EXPECT_EQ(labelshift(predict + "--prior 1,0 --source-prior 1,0").status, 0);
  expect_failure(predict + "--prior 0.2,0.8 --logits", kUsage,
                 "--prior corrects probabilities, and --logits writes none; leave one of the two out");
  EXPECT_EQ(labelshift(predict + "--source-prior 0.2,0.8").status, kUsage);
  file("mix.csv", "a,0.2\nb,0.8\n");
  expect_failure("predict --predictor p --data table.csv --prior mix.csv --output mix.csv", kUsage,
                 "--output would write over the file that --prior reads; give it another name");
}

TEST_F(PredictTable, RefusesColumnsInAnotherOrder) {
  train("x,y,label\n" + rows_of({"a", "b"}, 40));
  const auto predict = [](const std::string& data) { return "predict --predictor p --output q.csv --data " + data; };
  file("swapped.csv", "y,x,label\n1,2,a\n");
  expect_failure(predict("swapped.csv"), kInput,
                 "swapped.csv: found the column \"y\" where p was trained on \"x\"; expected the same columns in the "
                 "same order");
  EXPECT_FALSE(std::filesystem::exists(path("q.csv")));
  file("labels_first.csv", "label,x,y\na,1,2\n");  // the column of labels is no input
  EXPECT_EQ(labelshift(predict("labels_first.csv")).status, 0);
  file("nameless.csv", "1,2\n");
  EXPECT_EQ(labelshift(predict("nameless.csv")).status, 0);
}

TEST_F(PredictTable, LeavesBothFilesOrNone) {
  train("x,y,label\n" + rows_of({"a", "b"}, 40));
  const CommandResult result =
      labelshift("predict --predictor p --data table.csv --output q.csv --labels-output /dev/full");
  EXPECT_EQ(result.status, kSystem);
  EXPECT_THAT(result.err, testing::StartsWith("error: cannot write /dev/full: no space left on device"));
  EXPECT_FALSE(std::filesystem::exists(path("q.csv")));
}

TEST_F(PredictTable, AnInterruptLeavesNothingAndPromisesNothing) {
  train("x,y,label\n" + rows_of({"a", "b"}, 40));
  // 40,000 rows are several blocks, and more text than a pipe holds: the command waits for the reader, who takes a
  // line, interrupts it and takes the rest. The shell makes what runs in its background ignore the signal, which env
  // takes back.
  file("many.csv", "x,y,label\n" + rows_of({"a", "b"}, 40'000));
  const CommandResult result = shell(R"(mkfifo pipe
    env --default-signal=INT labelshift predict --predictor p --data many.csv --output pipe --labels-output y.csv &
    predict=$!
    { read line; kill -INT $predict; cat > rest; } < pipe
    wait $predict)");
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.out, "");
  EXPECT_FALSE(std::filesystem::exists(path("y.csv")));
  const std::string rest = bytes_of(path("rest"));
  EXPECT_LT(std::count(rest.begin(), rest.end(), '\n'), 40'000);
}

TEST_F(PredictTable, CanBeInterruptedWhileItReads) {
  train("x,y,label\n" + rows_of({"a", "b"}, 40));
  // Opening the pipe waits for the command to read it, and nothing ever comes.
  const CommandResult result = shell(R"(mkfifo pipe
    env --default-signal=INT labelshift predict --predictor p --data pipe --output q.csv & predict=$!
    exec 3> pipe
    kill -INT $predict; await eval '! kill -0 $predict'; wait $predict)");
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(shell("ls q.csv*").out, "");
}

TEST_F(PredictCommand, AcceptsDataWithoutAnExampleOfEveryClass) {
  // The test images of three of the ten classes, as IDX files that name no class.
  const CommandResult made = shell(R"(/usr/bin/python3 - <<'END'
import gzip, struct
part = "examples/small-fashion-mnist/t10k"
images = gzip.open(part + "-images-idx3-ubyte.gz").read()
labels = gzip.open(part + "-labels-idx1-ubyte.gz").read()
few = [i for i in range(200) if labels[8 + i] < 3]
open("images", "wb").write(struct.pack(">4i", 2051, len(few), 28, 28) + b"".join(images[16 + 784 * i:][:784] for i in few))
open("labels", "wb").write(struct.pack(">2i", 2049, len(few)) + bytes(labels[8 + i] for i in few))
END
)");
  ASSERT_EQ(made.status, 0) << made.err;
  const CommandResult result =
      labelshift("predict --predictor p --data images --labels labels --output few.npy --labels-output few.csv");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read_matrix(path("few.npy")).view().rows(), 60);
  EXPECT_THAT(bytes_of(path("few.csv")), testing::HasSubstr("\nPullover\n"));
}

TEST_F(PredictCommand, FindsTheExamplesThatWereHeldOut) {
  const auto all = predict("train.npy", "--part train");
  const auto held_out = predict("held_out.npy", "--part calibration");
  EXPECT_EQ(4 * held_out.rows(), all.rows());
  file("other.csv", "x,y,label\n1,2,Bag\n3,4,Coat\n");
  expect_failure(
      "predict --predictor p --output x.npy --part calibration --data other.csv", kInput,
      "other.csv is not the data that p was trained on, so it cannot be told which of its rows were held out; "
      "expected the same examples in the same order");
  shell("labelshift train --zeta 1 --model logistic --epochs 1 --calibration none --calibration-fraction 0 --output q" +
        kData);
  expect_failure("predict --predictor q --output x.npy --part calibration" + kData, kUsage,
                 "q was trained with nothing held out; --part calibration has no rows");
}

TEST_F(PredictCommand, RefusesWhatDoesNotFit) {
  file("other.csv", "x,y,label\n1,2,Bag\n3,4,Coat\n");
  file("unlabelled.csv", "x,y\n1,2\n3,4\n");
  const auto refused = [&](const std::string& arguments, int status, const std::string& message) {
    expect_failure("predict --output x.npy " + arguments, status, message);
    EXPECT_FALSE(std::filesystem::exists(path("x.npy")));
  };
  file("strange.csv", "x,y,label\n1,2,Bag\n3,4,Bat\n");
  refused("--predictor p --data strange.csv", kInput,
          "strange.csv, line 3, column 3: unknown label \"Bat\"; did you mean \"Bag\"? (known: T-shirt/top, Trouser, "
          "Pullover, Dress, Coat, "
          "Sandal, Shirt, Sneaker, Bag, Ankle boot)");
  refused("--predictor p --part test --data other.csv", kUsage, "other.csv has one part only; leave --part out");
  refused("--predictor p --data unlabelled.csv --labels-output y.csv", kUsage,
          "unlabelled.csv has no labels for --labels-output");
  refused("--predictor other.csv" + kData, kInput,
          "other.csv: the first 8 bytes announce a header of 7305508662778866808 bytes, expected at most 19; it is no "
          "safetensors file or not all of one");
  refused("--predictor p --labels-output x.npy" + kData, kUsage,
          "--output and --labels-output are the same file; give each its own");
  const CommandResult result = labelshift("predict --output x.npy --predictor p --data unlabelled.csv");
  EXPECT_EQ(result.status, kInput);
  EXPECT_FALSE(std::filesystem::exists(path("x.npy")));
}

}  // namespace
}  // namespace labelshift
