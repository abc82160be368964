#include <gmock/gmock.h>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

/// Each case replaces one of three good files of `estimate`.
class BadInput : public CommandTest {
 protected:
  BadInput() {
    file("A.csv", "a,b\n0.25,0.75\n0.5,0.5\n0.75,0.25\n");
    file("y.csv", "b\na\na\n");
    file("B.csv", "a,b\n0.25,0.75\n0.5,0.5\n");
  }
  void expect_error(const std::string& message, const std::string& more = "") const {
    expect_failure("estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv " + more, kInput, message);
  }
};

TEST_F(BadInput, TheGoodFilesAreGood) {
  const CommandResult result = labelshift("estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv");
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(BadInput, NumbersThatAreNoProbabilities) {
  file("B.csv", "a,b\n0.25,0.75\nnan,0.5\n");
  expect_error("B.csv, row 2, column 1: found nan, expected a probability; remove the row or repair it");
  file("B.csv", "a,b\n0.25,inf\n");
  expect_error("B.csv, row 1, column 2: found inf, expected a probability; remove the row or repair it");
  file("B.csv", "a,b\n-0.25,1.25\n");
  expect_error("B.csv, row 1, column 1: found -0.25, expected a probability; use --logits for raw scores");
  file("B.csv", "a,b\n0.25,0.75\n0.25,0.72\n");
  expect_error(
      "B.csv, row 2: probabilities sum to 0.97, not 1 within 0.001; use --logits for raw scores or --renormalise for "
      "rounded ones");
  file("B.csv", "a,b\n0,0\n");
  expect_error("B.csv, row 1: the row sums to 0, expected a positive finite sum to divide it by", "--renormalise");
  file("B.csv", "a,b\nnan,0\n");
  expect_error(
      "B.csv, row 1, column 1: found nan, expected a finite number that is not negative; remove the row or repair it",
      "--renormalise");
}

TEST_F(BadInput, ALogitThatIsNotFinite) {
  file("B.csv", "a,b\n0.25,inf\n");
  const std::string found = "B.csv, row 1, column 2: found ";
  expect_error(
      found + "inf, expected a finite logit; compute logits that overflow in a wider type, or leave the row out",
      "--logits");
  file("B.csv", "a,b\n0.25,-inf\n");
  expect_error(found + "-inf, expected a finite logit; write -1000 for a class that is ruled out", "--logits");
  file("B.csv", "a,b\n0.25,nan\n");
  expect_error(found + "nan, expected a finite logit; remove the row or repair it", "--logits");
}

TEST_F(BadInput, AnotherNumberOfColumns) {
  file("B.csv", "a,b,c\n0.25,0.5,0.25\n");
  expect_error("B.csv has 3 columns, A.csv has 2; both need one for each class");
}

TEST_F(BadInput, ARaggedRow) {
  file("B.csv", "a,b\n0.25,0.75\n0.5\n");
  expect_error("B.csv, line 3 has 1 column, expected 2 as in line 1");
}

TEST_F(BadInput, TheClassesInAnotherOrder) {
  file("B.csv", "b,a\n0.25,0.75\n");
  expect_error(
      "B.csv, column 1: found \"b\", expected \"a\" as in A.csv; the columns of both must be the same classes in the "
      "same order; --columns NAME,NAME,... reads both in one order");
  EXPECT_EQ(labelshift("estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv --columns b,a").status,
            0);
}

TEST_F(BadInput, LabelsThatAreNoClasses) {
  file("y.csv", "0\n2\n1\n");
  expect_error("y.csv, row 2: found label 2, expected 0 to 1");
  file("y.csv", "-1\n0\n1\n");
  expect_error("y.csv, row 1: found label -1, expected 0 to 1");
  file("y.csv", "a\na\nc\n");
  expect_error("y.csv, row 3: unknown label \"c\" (known: a, b)");
}

TEST_F(BadInput, LengthsThatDoNotMatch) {
  file("y.csv", "a\nb\n");
  expect_error("y.csv has 2 labels for 3 rows; check that both are of the same rows");
  file("y.csv", "b\na\na\n");
  file("w.csv", "1\n1\n");
  expect_error("w.csv has 2 weights for 3 rows; check that both are of the same rows", "--source-weights w.csv");
  file("w.csv", "1\n");
  expect_error("w.csv has 1 weights for 2 rows; check that both are of the same rows", "--target-weights w.csv");
  expect_error("the prior \"0.2,0.3,0.5\" has 3 numbers, expected 2, one for each class", "--source-prior 0.2,0.3,0.5");
}

TEST_F(BadInput, AClassWithoutSourceExamples) {
  file("y.csv", "a\na\na\n");
  const std::string message =
      "there is no source example of class b, so its share in what the classifier was trained on is unknown; give the "
      "class mix it was trained on with --source-prior. Only if it was never trained on the class, leave its column "
      "out "
      "instead with --ignore-columns and --renormalise (labels that are numbers then count the columns that are left)";
  expect_error(message);
  expect_error(message, "--smoothing 1");
  expect_error(message, "--smoothing 1 --calibration bcts");
  expect_error("calibration \"bcts\" needs source examples of every class, and there is none of class b; use \"none\"",
               "--source-prior 0.7,0.3 --calibration bcts");
  expect_error(
      "estimator \"bbse\" needs source examples of every class, and there is none of class b; use an mlls "
      "estimator",
      "--source-prior 0.7,0.3 --estimator bbse");
  const CommandResult known =
      labelshift("estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv --source-prior 0.7,0.3");
  EXPECT_EQ(known.status, 0) << known.err;
  EXPECT_THAT(known.out, testing::HasSubstr("\nNot calibrated, since the source has no example of class b; NLL "));
  EXPECT_THAT(known.out, testing::Not(testing::HasSubstr("--calibration auto")));
}

TEST_F(BadInput, FilesWithNothingInThem) {
  file("B.csv", "");
  expect_error("B.csv: found an empty file, expected at least one row of numbers");
  file("B.csv", "a,b\n0.5,0.5\n");
  file("y.csv", "");
  expect_error("y.csv: found no labels, expected one a row");
}

TEST_F(BadInput, ACellThatIsNoNumber) {
  file("B.csv", "a,b\n0.25,0.75\n0.5,half\n");
  expect_error("B.csv, line 3, column 2: found \"half\", expected a number");
}

TEST_F(BadInput, AnArrayWhoseHeaderLies) {
  const std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n";
  file("B.csv", npy_bytes(header, raw({0.5, 0.5, 0.5})));
  const CommandResult cut = labelshift("estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv");
  EXPECT_EQ(cut.status, kInput);
  EXPECT_THAT(cut.err, testing::StartsWith("error: B.csv"));
  EXPECT_THAT(cut.err, testing::HasSubstr("expected"));
  file("B.csv", npy_bytes("{'descr': '<f8'", ""));
  const CommandResult broken = labelshift("estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv");
  EXPECT_EQ(broken.status, kInput);
  EXPECT_THAT(broken.err, testing::StartsWith("error: B.csv"));
}

TEST_F(BadInput, AFileThatIsNotThere) {
  expect_failure("estimate --source-probs A.csv --source-labels y.csv --target-probs C.csv", kInput,
                 "cannot read C.csv: no such file or directory; check the path");
}

TEST_F(BadInput, ClassNamesThatDoNotFit) {
  file("names.txt", "a\nb\nc\n");
  expect_error("names.txt has 3 names, expected 2, one for each column of probabilities", "--classes names.txt");
  file("names.txt", "a\na\n");
  expect_error("names.txt, line 2: found the class \"a\" a second time, expected every class once",
               "--classes names.txt");
}

TEST_F(BadInput, AnOutputThatCannotBeWrittenIsFoundBeforeTheWork) {
  const std::string arguments = "estimate --source-probs A.csv --source-labels y.csv --target-probs missing.csv ";
  for (const std::string name : {"no/result", "no/mix.svg"}) {
    expect_failure(arguments + (name == "no/result" ? "--output " : "--plot ") + name, kSystem,
                   "cannot write " + name + ": no such directory; create it or choose another place");
  }
}

TEST_F(BadInput, AFullDiskIsNoSuccess) {
  const CommandResult result =
      shell("labelshift estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv > /dev/full");
  EXPECT_EQ(result.status, kSystem);
  EXPECT_THAT(result.err, testing::EndsWith("error: standard output: no space left on device\n"));
}

TEST_F(BadInput, AFailureLeavesTheOldOutputAndNothingElse) {
  file("result.json", "old");
  file("B.csv", "a,b\n0.25,0.7\n");
  const CommandResult result = labelshift(
      "estimate --source-probs A.csv --source-labels y.csv --target-probs B.csv --output result.json --plot mix.svg");
  EXPECT_EQ(result.status, kInput);
  EXPECT_EQ(bytes_of(path("result.json")), "old");
  EXPECT_EQ(shell("ls").out, "A.csv\nB.csv\nexamples\nresult.json\nscript\nstderr\nstdout\ny.csv\n");
}

}  // namespace
}  // namespace labelshift
