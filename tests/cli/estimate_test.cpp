#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "labelshift/core/base/version.hpp"
#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class Estimate : public CommandTest {
 protected:
  json estimate(const std::string& arguments) const {
    const CommandResult result = labelshift("estimate --format json " + arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }
};

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& item : object.items()) keys.insert(item.key());
  return keys;
}

const std::set<std::string> kKeys = {"estimator",
                                     "calibration",
                                     "classes",
                                     "source_evidence",
                                     "source_is_weighted",
                                     "source_prior",
                                     "target_prior",
                                     "ratio",
                                     "level",
                                     "mean_log_likelihood",
                                     "target_prior_low",
                                     "target_prior_high",
                                     "ratio_low",
                                     "ratio_high",
                                     "gap",
                                     "iterations",
                                     "stopped_by",
                                     "calibration_fit",
                                     "calibration_choice",
                                     "shift_test",
                                     "fit_test",
                                     "verdict",
                                     "verdict_text",
                                     "target_rows",
                                     "seed",
                                     "version"};

TEST_F(Estimate, RefusesNamesThatTheHeaderGivesToOtherColumns) {
  // The header is Pullover,Coat,Shirt.
  const std::string target = "estimate --target-probs examples/tiny/target_probs.csv ";
  shell(
      "printf 'Coat\\nPullover\\nShirt\\n' > swapped.txt; printf 'jumper\\ncoat\\nshirt\\n' > other-words.txt; "
      "printf 'Shirt,Coat,Pullover\\n0.5,0.3,0.2\\n' > prior.csv");
  const CommandResult swapped = labelshift(target + "--source-prior 0.2,0.3,0.5 --classes swapped.txt");
  EXPECT_EQ(swapped.status, 3);
  EXPECT_THAT(swapped.err,
              HasSubstr("swapped.txt, line 1: found \"Coat\", but the header of "
                        "examples/tiny/target_probs.csv calls that column \"Pullover\"; give --classes in"));
  const CommandResult renamed = labelshift(target + "--source-prior 0.2,0.3,0.5 --classes other-words.txt");
  EXPECT_EQ(renamed.status, 0) << renamed.err;
  EXPECT_THAT(renamed.out, HasSubstr("jumper"));
  const CommandResult prior = labelshift(target + "--source-prior prior.csv");
  EXPECT_EQ(prior.status, 3);
  EXPECT_THAT(prior.err, HasSubstr("prior.csv, column 1: found the name \"Shirt\", expected \"Pullover\""));
}

TEST_F(Estimate, WarnsOfProbabilitiesThatAreCalledLogits) {
  const CommandResult result = labelshift(
      "estimate --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv "
      "--target-probs examples/tiny/target_probs.csv --logits");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("these look like probabilities; if they are, drop --logits"));
}

TEST_F(Estimate, WarnsOfAFirstLineThatLooksLikeNames) {
  file("counting.csv", "1,2,3\n2,1,0\n0,3,1\n1,1,2\n");
  for (const char* reading : {"--logits", "--renormalise"}) {
    const CommandResult result =
        labelshift(std::string("estimate --target-probs counting.csv --source-prior 0.2,0.3,0.5 ") + reading);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("the first line of counting.csv counts 1, 2, 3 and was read as scores; if these "
                                      "are the names of its columns, write names such as c1,c2,c3 there and give "
                                      "--classes, or remove the line"));
  }
}

TEST_F(Estimate, RefusesNamesThatAreNotUtf8) {
  file("latin.csv", "caf\xe9,bar\n0.5,0.5\n0.2,0.8\n");
  expect_failure("estimate --target-probs latin.csv --source-prior 0.5,0.5", kInput,
                 "latin.csv, line 1, column 1: found a name that is not in UTF-8; save the file in UTF-8");
  file("plain.csv", "0.5,0.5\n0.2,0.8\n");
  file("names.txt", "bar\ncaf\xe9\n");
  expect_failure("estimate --target-probs plain.csv --source-prior 0.5,0.5 --classes names.txt", kInput,
                 "names.txt, line 2: found a name that is not in UTF-8; save the file in UTF-8");
}

TEST_F(Estimate, WarnsOfLabelsThatAreOfOtherRows) {
  shell(
      "(head -1 examples/tiny/source_labels.csv; tail -n +2 examples/tiny/source_labels.csv | shuf "
      "--random-source=examples/tiny/target_probs.csv) "
      "> shuffled.csv");
  const auto warned = [&](const std::string& labels) {
    return labelshift("estimate --source-probs examples/tiny/source_probs.csv --source-labels " + labels +
                      " --target-probs examples/tiny/target_probs.csv");
  };
  const CommandResult right = warned("examples/tiny/source_labels.csv");
  EXPECT_THAT(right.err, testing::Not(testing::HasSubstr("source labels")));
  EXPECT_THAT(right.out, testing::ContainsRegex("The classifier is right on [0-9.]+ % of the source\\."));
  const CommandResult wrong = warned("shuffled.csv");
  EXPECT_THAT(wrong.err, testing::HasSubstr("warning: the probabilities do not clearly say more of the source labels "
                                            "than the label mix does (their NLL after calibration is "));
  EXPECT_THAT(wrong.out, testing::HasSubstr("Verdict: nothing can be said of the label mix, since the probabilities do "
                                            "not clearly predict the source labels.\n"));
  const CommandResult watched = labelshift(
      "watch --source-probs examples/tiny/source_probs.csv --source-labels shuffled.csv < "
      "examples/tiny/target_probs.csv");
  EXPECT_THAT(watched.err, testing::HasSubstr("warning: the probabilities do not clearly say more"));
  EXPECT_THAT(watched.out, testing::HasSubstr("No alarm: nothing can be said of the label mix, since"));
  const CommandResult adapted = labelshift(
      "adapt --if-fits --output-probs left.csv --source-probs examples/tiny/source_probs.csv --source-labels "
      "shuffled.csv --target-probs examples/tiny/target_probs.csv");
  EXPECT_EQ(adapted.status, 0);
  EXPECT_THAT(adapted.err, testing::HasSubstr("the source tells nothing, so the predictions were left alone"));
  EXPECT_THAT(adapted.out, testing::HasSubstr("Left 200 rows as the classifier gave them, not calibrated either."));
  const CommandResult anyway = labelshift(
      "adapt --output-probs all.csv --source-probs examples/tiny/source_probs.csv --source-labels shuffled.csv "
      "--target-probs examples/tiny/target_probs.csv");
  EXPECT_THAT(anyway.err, testing::HasSubstr("the source tells nothing, so the corrected predictions are likely worse "
                                             "than the classifier's own; --if-fits leaves them alone then"));
}

TEST_F(Estimate, SaysThatTheSourceIsWeightedToAnotherMix) {
  const std::string arguments =
      "--source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv --source-prior "
      "0.1,0.2,0.7 ";
  EXPECT_THAT(
      labelshift("estimate " + arguments + "--target-probs examples/tiny/target_probs.csv").out,
      testing::HasSubstr(
          "The source examples have another mix than the source prior that was given, so they are weighted to have "
          "it.\n"));
  const auto share = [&](const std::string& command) {
    return json::parse(labelshift(command).out)["target_prior"][2].get<double>();
  };
  // The stream has the same weights: it finds the same mix, but for the calibration that it is not told to choose.
  EXPECT_NEAR(
      share("watch --calibration bcts --format json --every 200 " + arguments + "< examples/tiny/target_probs.csv"),
      share("estimate --calibration bcts --format json " + arguments + "--target-probs examples/tiny/target_probs.csv"),
      1e-6);
}

TEST_F(Estimate, WarnsOfColumnsInAnotherOrderThanTheLabels) {
  shell(
      "for f in source target; do awk -F, -v OFS=, 'NR == 1 {print; next} {print $2, $1, $3}' "
      "examples/tiny/${f}_probs.csv > $f.csv; done");
  const json swapped = json::parse(labelshift("estimate --format json --source-probs source.csv --source-labels "
                                              "examples/tiny/source_labels.csv --target-probs target.csv")
                                       .out);
  EXPECT_EQ(swapped["verdict"], "wrong-source");
  EXPECT_THAT(
      swapped["warnings"].dump(),
      testing::HasSubstr("columns look permuted: where the probabilities say Pullover, the source label is mostly "
                         "Coat"));
}

TEST_F(Estimate, SaysThatALabelShiftDoesNotFitAlsoBesideCsv) {
  const CommandResult result = labelshift(
      "estimate --format csv --source-probs examples/fashion-mnist/source_probs.npy --source-labels "
      "examples/fashion-mnist/source_labels.csv --classes examples/fashion-mnist/classes.txt --target-probs "
      "examples/fashion-mnist/target_blurred_probs.npy");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, testing::StartsWith("warning: the label-shift assumption does NOT fit"));
}

TEST_F(Estimate, JsonHasExactlyTheDocumentedKeys) {
  const json result = estimate(kTiny + "--calibration bcts --seed 7");
  EXPECT_EQ(keys_of(result), kKeys);
  EXPECT_EQ(keys_of(result["calibration_fit"]),
            (std::set<std::string>{"nll_before", "nll_after", "ece_before", "ece_after"}));
  EXPECT_EQ(keys_of(result["shift_test"]), (std::set<std::string>{"statistic", "p_value"}));
  EXPECT_EQ(keys_of(result["fit_test"]), (std::set<std::string>{"statistic", "p_value"}));
  EXPECT_EQ(result["estimator"], "mlls-sqp");
  EXPECT_EQ(result["calibration"], "bcts");
  EXPECT_EQ(result["classes"], (json{"Pullover", "Coat", "Shirt"}));
  EXPECT_EQ(result["level"], 0.95);
  EXPECT_EQ(result["stopped_by"], "tolerance");
  EXPECT_LE(result["gap"].get<double>(), 1e-9);
  EXPECT_EQ(result["seed"], 7);
  EXPECT_EQ(result["version"], version());
}

TEST_F(Estimate, FindsTheMixOfTheTinyExample) {
  const json result = estimate(kTiny + "--calibration bcts");
  const double truth[] = {0.3, 0.6, 0.1};  // examples/README.md
  double sum = 0.0;
  for (std::size_t c = 0; c < 3; ++c) {
    const double q = result["target_prior"][c];
    sum += q;
    EXPECT_LE(result["target_prior_low"][c].get<double>(), q);
    EXPECT_GE(result["target_prior_high"][c].get<double>(), q);
    // Three times the half-width of a 95 % interval is six standard errors.
    const double half =
        0.5 * (result["target_prior_high"][c].get<double>() - result["target_prior_low"][c].get<double>());
    EXPECT_NEAR(q, truth[c], 3.0 * half);
    EXPECT_NEAR(q, result["source_prior"][c].get<double>() * result["ratio"][c].get<double>(), 1e-12);
  }
  EXPECT_NEAR(sum, 1.0, 1e-12);
  EXPECT_LT(result["shift_test"]["p_value"], 0.001);
}

TEST_F(Estimate, FindsTheWinterWardrobe) {
  const json result = estimate(kFashion + "--calibration bcts");
  const double truth[] = {0.04, 0.08, 0.23, 0.03, 0.25, 0.0, 0.08, 0.05, 0.06, 0.18};
  for (std::size_t c = 0; c < 10; ++c) EXPECT_NEAR(result["target_prior"][c].get<double>(), truth[c], 0.04) << c;
  EXPECT_EQ(result["classes"][9], "Ankle boot");
  EXPECT_LT(result["calibration_fit"]["nll_after"], result["calibration_fit"]["nll_before"]);
}

TEST_F(Estimate, TellsALabelShiftFromNoneAndFromAChangeOfTheImages) {
  const std::string target = kFashionSource + "--target-probs examples/fashion-mnist/";
  const json same = estimate(target + "target_same_probs.npy");
  EXPECT_GT(same["shift_test"]["p_value"], 0.01);
  EXPECT_GT(same["fit_test"]["p_value"], 0.01);
  EXPECT_LT(estimate(target + "target_blurred_probs.npy")["fit_test"]["p_value"], 1e-6);
}

TEST_F(Estimate, TheTableShowsEveryClassAndSaysWhatItMeans) {
  const CommandResult result = labelshift("estimate --calibration bcts" + kFashion);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("class        source  target     low    high  ratio    low   high\nT-shirt/top "));
  for (const char* part : {"\nAnkle boot ", "Found by mlls-sqp in ", " of the best likelihood.",
                           "Calibration bcts took the source's NLL from ", "Verdict: the label mix has moved (p ",
                           "and nothing speaks against a label shift (fit p ", "95 % intervals"})
    EXPECT_THAT(result.out, HasSubstr(part));
  const CommandResult blurred =
      labelshift("estimate" + kFashionSource + "--target-probs examples/fashion-mnist/target_blurred_probs.npy");
  EXPECT_THAT(blurred.out, HasSubstr("Verdict: the label-shift assumption does NOT fit (p "));
  EXPECT_THAT(blurred.out,
              HasSubstr("or the classifier was trained on the source rows; do not trust the estimated mix"));
  const CommandResult same =
      labelshift("estimate" + kFashionSource + "--target-probs examples/fashion-mnist/target_same_probs.npy");
  EXPECT_THAT(same.out, HasSubstr("Verdict: there is no evidence that the label mix has moved (p "));
  EXPECT_THAT(same.out, HasSubstr(") or anything else (fit p "));
}

TEST_F(Estimate, AMixThatDoesNotFitIsTheOnlyVerdict) {
  const json blurred = estimate(kFashionSource + "--target-probs examples/fashion-mnist/target_blurred_probs.npy");
  EXPECT_EQ(blurred["verdict"], "does-not-fit");
  EXPECT_THAT(blurred["verdict_text"].get<std::string>(), testing::Not(HasSubstr("moved")));
  const json same = estimate(kFashionSource + "--target-probs examples/fashion-mnist/target_same_probs.npy");
  EXPECT_EQ(same["verdict"], "not-moved");
  EXPECT_EQ(estimate(kFashion)["verdict"], "moved");
}

TEST_F(Estimate, SaysThatASourceWithoutAClassCannotTestTheFit) {
  shell("sed s/Shirt/Coat/ examples/tiny/source_labels.csv > y.csv");
  const json result = estimate(
      "--source-probs examples/tiny/source_probs.csv --source-labels y.csv --source-prior 0.36,0.33,0.31 "
      "--target-probs examples/tiny/target_probs.csv --calibration none");
  EXPECT_TRUE(result["fit_test"].is_null());
  EXPECT_THAT(result["verdict_text"].get<std::string>(),
              testing::EndsWith("could not be tested, since the source has no example of class Shirt"));
}

TEST_F(Estimate, WarnsOfATargetThatIsTooSmall) {
  file("one.csv", "Pullover,Coat,Shirt\n0.2,0.7,0.1\n");
  const CommandResult result = labelshift(
      "estimate --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv "
      "--target-probs one.csv");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err,
            "warning: the target has 1 row, too few to tell its class mix: what is estimated from them, or corrected "
            "by them, says little\n");
}

TEST_F(Estimate, LeavesOutColumnsThatAreNoClasses) {
  const json plain = estimate(kTiny);
  // An id in front, an index as pandas writes it, and the classes in another order.
  shell("paste -d, <(echo id; seq 5001 5200 | sed s/^/x/) examples/tiny/target_probs.csv > id.csv");
  shell("paste -d, <(echo; seq 0 199) examples/tiny/target_probs.csv > index.csv");
  shell(
      "paste -d, <(cut -d, -f3 examples/tiny/target_probs.csv) <(cut -d, -f1,2 examples/tiny/target_probs.csv) "
      "> order.csv");
  const std::string source =
      "--source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv ";
  EXPECT_EQ(estimate(source + "--target-probs id.csv --columns Pullover,Coat,Shirt"), plain);
  EXPECT_EQ(estimate(source + "--target-probs index.csv --columns Pullover,Coat,Shirt"), plain);
  EXPECT_EQ(estimate(source + "--target-probs order.csv --columns Pullover,Coat,Shirt"), plain);
  // Ids in both files: left out by name and by number.
  shell("paste -d, <(echo id; seq 1 300 | sed s/^/s/) examples/tiny/source_probs.csv > source_id.csv");
  const std::string both =
      "--source-probs source_id.csv --source-labels examples/tiny/source_labels.csv --target-probs id.csv ";
  EXPECT_EQ(estimate(both + "--ignore-columns id"), plain);
  EXPECT_EQ(estimate(both + "--ignore-columns 0"), plain);
  expect_failure("estimate " + both, kInput,
                 "source_id.csv, line 2, column 1: found \"s1\", expected a number; leave a column that is no class "
                 "out with --ignore-columns, by its name or its number from 0; an entry that is both a name and a "
                 "number is taken as the name");
  expect_failure("estimate " + source + "--target-probs index.csv", kInput,
                 "index.csv, line 1, column 1: found no name, expected one for every column; here it is called "
                 "\"Unnamed: 0\", as in pandas; leave a column that is no class out with --ignore-columns, by its name "
                 "or its number from 0; an entry that is both a name and a "
                 "number is taken as the name");
  EXPECT_EQ(estimate(source + "--target-probs id.csv --ignore-columns id"), plain);
  EXPECT_EQ(estimate(source + "--target-probs index.csv --ignore-columns 'Unnamed: 0'"), plain);
  expect_failure("estimate " + both + "--columns Pullover,Coat,Skirt", kUsage,
                 "source_id.csv: unknown column \"Skirt\"; did you mean \"Shirt\"? (known: id, Pullover, Coat, Shirt)");
  expect_failure("estimate " + both + "--ignore-columns id --columns 1", kUsage, "--columns excludes --ignore-columns");
}

TEST_F(Estimate, LeavesOutNoColumnThatNoFileHas) {
  shell("paste -d, <(echo id; seq 1 200 | sed s/^/t/) examples/tiny/target_probs.csv > id.csv");
  const std::string arguments =
      "estimate --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv "
      "--target-probs ";
  EXPECT_EQ(labelshift(arguments + "id.csv --ignore-columns id").status, 0);  // the source has none
  expect_failure(arguments + "examples/tiny/target_probs.csv --ignore-columns Skirt", kUsage,
                 "unknown column to leave out \"Skirt\"; did you mean \"Shirt\"? (known: Pullover, Coat, Shirt)");
  expect_failure(arguments + "examples/tiny/target_probs.csv --ignore-columns 3", kUsage,
                 "there is no column 3 to leave out, expected 0 to 2");
}

TEST_F(Estimate, ReadsWhatPandasWritesAsItsMessageSays) {
  shell("paste -d, <(echo; seq 0 199) <(echo 0,1,2; tail -n +2 examples/tiny/target_probs.csv) > p.csv");
  shell("sed 's/Pullover/0/; s/Coat/1/; s/Shirt/2/' examples/tiny/source_labels.csv > y.csv");
  const std::string arguments = "estimate --source-probs s.csv --source-labels y.csv --target-probs p.csv ";
  shell("(echo 0,1,2; tail -n +2 examples/tiny/source_probs.csv) > s.csv");
  for (const std::string tried : {"", "--ignore-columns 0"})  // which is the class called 0
    EXPECT_THAT(labelshift(arguments + tried).err,
                HasSubstr(tried.empty() ? "here it is called \"Unnamed: 0\"" : "error: "));
  const CommandResult read = labelshift(arguments + "--ignore-columns \"Unnamed: 0\"");
  EXPECT_EQ(read.status, 0) << read.err;
  const CommandResult turned = labelshift(arguments + "--columns 2,1,0");
  EXPECT_EQ(turned.status, 0) << turned.err;
  EXPECT_THAT(labelshift("estimate --help").out, HasSubstr("is taken as the name"));
}

TEST_F(Estimate, NoticesNumbersThatAreNoScores) {
  file("y.csv", "0\n1\n0\n1\n");
  file("id.csv", "17,0.25,0.75\n18,0.5,0.5\n19,0.75,0.25\n20,0.25,0.75\n");
  const std::string arguments = "estimate --source-labels y.csv --source-probs id.csv --target-probs id.csv ";
  expect_failure(arguments, kInput,
                 "id.csv, row 1, column 1: found 17, expected a probability; use --logits for raw scores, or leave a "
                 "column that is no class out with --ignore-columns");
  EXPECT_EQ(labelshift(arguments + "--ignore-columns 0").status, 0);
  // As logits an index would pass for a class.
  file("id.csv", "0,0.25,0.75\n1,0.5,0.5\n2,0.75,0.25\n3,0.25,0.75\n");
  expect_failure(
      arguments + "--logits", kInput,
      "id.csv, column 1: found the numbers of the rows, expected scores of a class; leave a column that is "
      "no class out with --ignore-columns, by its name or its number from 0; an entry that is both a name and a "
      "number is taken as the name");
}

TEST_F(Estimate, ADashIsStandardInputOrOutput) {
  const std::string source =
      " --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv ";
  const std::string plain = labelshift("estimate --format csv" + kTiny).out;
  EXPECT_EQ(
      shell("cat examples/tiny/target_probs.csv | labelshift estimate --format csv --target-probs -" + source).out,
      plain);
  EXPECT_EQ(labelshift("estimate --format csv --target-probs=-" + source + "< examples/tiny/target_probs.csv").out,
            plain);
  EXPECT_EQ(labelshift("estimate --format csv --output -" + kTiny).out, plain);
  EXPECT_THAT(labelshift("estimate --output x.txt --plot -" + kTiny).out, StartsWith("<svg "));
  // Before and after it others write to the same file.
  shell("{ echo before; labelshift estimate --format csv --output -" + kTiny + "; echo after; } > all.txt");
  EXPECT_EQ(bytes_of(path("all.txt")), "before\n" + plain + "after\n");
  EXPECT_FALSE(std::filesystem::exists(path("-")));
  expect_failure("estimate --plot -" + kTiny, kUsage,
                 "--plot is standard output, where the result goes too; give --output a file");
  expect_failure("estimate --target-probs - --source-labels - --source-probs x.csv", kUsage,
                 "--source-labels and --target-probs are both standard input; give one of them a file");
}

TEST_F(Estimate, CsvHasARowAClass) {
  const CommandResult result = labelshift("estimate --format csv" + kFashion);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("class,source_prior,target_prior,target_prior_low,target_prior_high,ratio,"
                                     "ratio_low,ratio_high\nT-shirt/top,"));
  EXPECT_THAT(result.out, HasSubstr("\n\"Ankle boot\","));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 11);
}

TEST_F(Estimate, WorksWithTheSourcePriorAlone) {
  const json result = estimate("--source-prior 0.4,0.3,0.3 --target-probs examples/tiny/target_probs.csv");
  EXPECT_EQ(keys_of(result), kKeys);
  EXPECT_EQ(result["classes"], (json{"Pullover", "Coat", "Shirt"}));
  EXPECT_EQ(result["source_prior"], (json{0.4, 0.3, 0.3}));
  EXPECT_TRUE(result["calibration_fit"].is_null());
  EXPECT_TRUE(result["fit_test"].is_null());
  expect_failure("estimate --estimator bbse --source-prior 0.4,0.3,0.3 --target-probs examples/tiny/target_probs.csv",
                 kUsage,
                 "estimator \"bbse\" needs source probabilities and labels; with the source prior alone use an mlls "
                 "estimator");
}

TEST_F(Estimate, AClosedFormHasNoGap) {
  const json result = estimate(kTiny + "--estimator bbse");
  EXPECT_TRUE(result["gap"].is_null());
  EXPECT_EQ(result["stopped_by"], "closed-form");
  EXPECT_THAT(labelshift("estimate --estimator bbse" + kTiny).out, HasSubstr("\nFound by bbse in closed form.\n"));
  EXPECT_THAT(labelshift("estimate --estimator rlls" + kTiny).out, HasSubstr("\nFound by rlls in 46 iterations.\n"));
}

TEST_F(Estimate, BootstrapIsRepeatableAndSeeded) {
  const std::string arguments = kTiny + "--bootstrap 100 --seed ";
  const json one = estimate(arguments + "1");
  EXPECT_EQ(one["bootstrap"], 100);
  EXPECT_EQ(estimate(kTiny + "--bootstrap 0"), estimate(kTiny));
  EXPECT_EQ(estimate(kTiny + "--seed 010")["seed"], 10);  // not octal
  EXPECT_EQ(estimate(kTiny + "--seed 18446744073709551615")["seed"], 18446744073709551615U);
  EXPECT_EQ(one, estimate(arguments + "1"));
  EXPECT_NE(one["target_prior_low"], estimate(arguments + "2")["target_prior_low"]);
  EXPECT_NE(estimate(kTiny + "--estimator mlls-sgd --seed 1 2> /dev/null")["target_prior"],
            estimate(kTiny + "--estimator mlls-sgd --seed 2 2> /dev/null")["target_prior"]);
}

TEST_F(Estimate, OptionsReachTheEstimator) {
  const json narrow = estimate(kTiny + "--level 0.5");
  EXPECT_GT(narrow["target_prior_low"][0], estimate(kTiny)["target_prior_low"][0]);
  EXPECT_LT(estimate(kTiny + "--estimator mlls-em --tolerance 0.1")["iterations"],
            estimate(kTiny + "--estimator mlls-em --tolerance 1e-6")["iterations"]);
  // The gradient of Eq. (3) at r = 1 is at most about 1, so that of 100 |r - 1|^2 balances it where |r - 1| < 0.01.
  const json pulled = estimate(kTiny + "--estimator mlls-l2 --set lambda=100");
  for (const json& ratio : pulled["ratio"]) EXPECT_NEAR(ratio.get<double>(), 1.0, 0.02);
  const json smoothed = estimate(kTiny + "--smoothing 1000000");
  EXPECT_NEAR(smoothed["source_prior"][0].get<double>(), 1.0 / 3.0, 1e-3);
}

TEST_F(Estimate, LogitsGiveWhatTheirSoftmaxGives) {
  file("p.csv", "0.25,0.75\n0.5,0.5\n0.75,0.25\n0.6,0.4\n");
  file("z.csv", "0,1.0986122886681098\n2,2\n1.0986122886681098,0\n1.4054651081081644,1\n");
  file("y.csv", "1\n0\n0\n1\n");
  const json probs = estimate("--source-probs p.csv --source-labels y.csv --target-probs p.csv 2> /dev/null");
  const json logits = estimate("--logits --source-probs z.csv --source-labels y.csv --target-probs z.csv 2> /dev/null");
  for (std::size_t c = 0; c < 2; ++c)
    EXPECT_NEAR(logits["target_prior"][c].get<double>(), probs["target_prior"][c].get<double>(), 1e-9);
  EXPECT_EQ(probs["classes"], (json{"0", "1"}));
}

TEST_F(Estimate, WeightsCountRows) {
  file("p.csv", "0.25,0.75\n0.5,0.5\n0.75,0.25\n0.6,0.4\n");
  file("y.csv", "1\n0\n0\n1\n");
  file("w.csv", "2\n1\n1\n1\n");
  file("p2.csv", "0.25,0.75\n0.25,0.75\n0.5,0.5\n0.75,0.25\n0.6,0.4\n");
  file("y2.csv", "1\n1\n0\n0\n1\n");
  const json weighted = estimate(
      "--source-probs p.csv --source-labels y.csv --source-weights w.csv "
      "--target-probs p.csv --target-weights w.csv 2> /dev/null");
  const json repeated = estimate("--source-probs p2.csv --source-labels y2.csv --target-probs p2.csv 2> /dev/null");
  EXPECT_EQ(weighted["source_prior"], repeated["source_prior"]);
  EXPECT_NEAR(weighted["target_prior"][0].get<double>(), repeated["target_prior"][0].get<double>(), 1e-6);
}

TEST_F(Estimate, RenormaliseForgivesRoundedRows) {
  file("p.csv", "0.2,0.7\n0.5,0.5\n0.8,0.3\n");
  file("y.csv", "1\n0\n0\n");
  const std::string arguments = "--source-probs p.csv --source-labels y.csv --target-probs p.csv";
  expect_failure("estimate " + arguments, kInput,
                 "p.csv, row 1: probabilities sum to 0.9, not 1 within 0.001; use --logits for raw scores or "
                 "--renormalise for rounded ones");
  EXPECT_EQ(estimate(arguments + " --renormalise 2> /dev/null")["classes"].size(), 2U);
  expect_failure("estimate --renormalise --logits " + arguments, kUsage,
                 "--renormalise is for probabilities; drop it or --logits");
}

TEST_F(Estimate, BoundPrintsTheTermsOfTheTheorem) {
  const json terms = estimate(kTiny + "--bound")["bound_terms"];
  EXPECT_EQ(keys_of(terms), (std::set<std::string>{"mu", "p_min", "scale", "strict_scale", "sampling_term", "delta"}));
  EXPECT_THAT(labelshift("estimate --bound" + kTiny).out, HasSubstr("Thm. 5.1: mu "));
}

TEST_F(Estimate, WritesTheResultAndThePictureToFiles) {
  const CommandResult result = labelshift("estimate --output result.csv --format csv --plot mix.svg" + kTiny);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(bytes_of(path("result.csv")), labelshift("estimate --format csv" + kTiny).out);
  const std::string picture = bytes_of(path("mix.svg"));
  EXPECT_THAT(picture, HasSubstr("<svg "));
  EXPECT_THAT(picture, HasSubstr("Pullover"));
  EXPECT_THAT(picture, HasSubstr("Verdict: the label mix has moved (p "));
}

TEST_F(Estimate, PrintsWhatTheReadmeShows) {
  const std::string readme = bytes_of(LABELSHIFT_EXAMPLES "/../README.md");
  const CommandResult result = labelshift(
      "estimate --source-probs examples/fashion-mnist/source_probs.npy --source-labels "
      "examples/fashion-mnist/source_labels.csv --target-probs examples/fashion-mnist/target_probs.npy --classes "
      "examples/fashion-mnist/classes.txt");
  std::istringstream lines(result.out);
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("Found by")) continue;  // how far rounding lets it come differs
    EXPECT_THAT(readme, HasSubstr("\n    " + line + "\n"));
    ++found;
  }
  EXPECT_EQ(found, 15);
}

TEST_F(Estimate, WritesInTheFormatOfTheEnding) {
  EXPECT_EQ(labelshift("estimate --output result.json" + kTiny).status, 0);
  EXPECT_EQ(bytes_of(path("result.json")), labelshift("estimate --format json" + kTiny).out);
  EXPECT_EQ(labelshift("estimate --output result.json --format table" + kTiny).status, 0);
  EXPECT_EQ(bytes_of(path("result.json")), labelshift("estimate" + kTiny).out);
}

TEST_F(Estimate, NeverWritesOverWhatItReads) {
  shell("cp examples/tiny/target_probs.csv target.csv; ln target.csv link.csv");
  const std::string from =
      " --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv --target-probs "
      "target.csv";
  const std::string why = " would write over the file that --target-probs reads; give it another name";
  expect_failure("estimate --output ./target.csv" + from, kUsage, "--output" + why);
  expect_failure("estimate --output link.csv" + from, kUsage, "--output" + why);
  expect_failure("adapt --output-probs target.csv" + from, kUsage, "--output-probs" + why);
  EXPECT_EQ(bytes_of(path("target.csv")), bytes_of(path("examples/tiny/target_probs.csv")));
}

TEST_F(Estimate, RefusesTwoResultsInOneFile) {
  expect_failure("estimate" + kTiny + "--output x.svg --plot ./x.svg", kUsage,
                 "--output and --plot are the same file; give each its own");
}

TEST_F(Estimate, SaysThatRoundingStoppedIt) {
  const CommandResult result = labelshift("estimate" + kTiny + "--tolerance 0");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, testing::HasSubstr("could not reach its tolerance: rounding keeps it within"));
}

TEST_F(Estimate, SaysWhatToDoWhenItDidNotConverge) {
  const CommandResult result =
      labelshift("estimate --estimator mlls-em --set max-iterations=2 --tolerance 1e-12" + kTiny + "--format json");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, testing::MatchesRegex("warning: mlls-em stopped at its limit of 2 iterations, .*raise the "
                                                "limit, or ask for a larger tolerance \\(--set "
                                                "max-iterations=N or --tolerance\\)\n"));
  const json report = json::parse(result.out);
  EXPECT_EQ(report["stopped_by"], "iteration-limit");
  EXPECT_EQ(report["warnings"].size(), 1U);
}

TEST_F(Estimate, GuessesTheOrderOfTheColumnsWithAWarningUnlessTheDataRefuteIt) {
  file("p.csv", "0.25,0.75\n0.5,0.5\n0.75,0.25\n");
  file("y.csv", "dog\ncat\ncat\n");
  const CommandResult result =
      labelshift("estimate --format csv --source-probs p.csv --source-labels y.csv --target-probs p.csv");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(
      result.err,
      StartsWith(
          "warning: nothing names the columns of p.csv, so they were taken to be the labels in sorted order: cat, "
          "dog; if they are not, name them with --classes\n"));
  file("y.csv", "cat\ndog\ndog\n");
  expect_failure("estimate --source-probs p.csv --source-labels y.csv --target-probs p.csv", kInput,
                 "p.csv: nothing names the columns, and in sorted order (cat, dog) they do not predict y.csv; name "
                 "them with --classes or in a header");
}

TEST_F(Estimate, WritesAReportThatBeginsWithTheVerdict) {
  const CommandResult result = labelshift("estimate --report out.html" + kFashion);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Verdict: the label mix has moved"));  // what it prints stays
  const std::string report = bytes_of(path("out.html"));
  EXPECT_THAT(report, StartsWith("<!DOCTYPE html>"));
  EXPECT_LT(report.find("The label mix has moved (p = "), report.find("<h2"));
  EXPECT_THAT(report, HasSubstr("The classes that moved most, "));
  EXPECT_THAT(report,
              HasSubstr("<li>Coat rose from 10 % to 26 %, 2.6 times as common (95 % interval 23 % to 29 %).</li>"));
  EXPECT_THAT(report, HasSubstr("Calibration auto chose matrix"));
  EXPECT_THAT(report, HasSubstr("Reliability on the source"));
  EXPECT_THAT(report, HasSubstr("Can a change of the mix alone explain the target?"));
  EXPECT_THAT(report, HasSubstr("<dd>labelshift estimate --report out.html --source-probs"));
  ASSERT_EQ(labelshift("estimate --report blurred.html" + kFashionSource +
                       "--target-probs examples/fashion-mnist/target_blurred_probs.npy")
                .status,
            0);
  EXPECT_THAT(bytes_of(path("blurred.html")),
              HasSubstr("If only the mix had changed, these classes would have moved most, "));
}

TEST_F(Estimate, WritesAReportWithoutASourceToo) {
  const CommandResult result =
      labelshift("estimate --report out.html --source-prior 0.2,0.3,0.5 --target-probs examples/tiny/target_probs.csv");
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string report = bytes_of(path("out.html"));
  EXPECT_THAT(report, HasSubstr("There are no source examples to calibrate the classifier on"));
  EXPECT_THAT(report, HasSubstr("The second could not be tested, since there are no source probabilities and labels."));
}

TEST_F(Estimate, RefusesAReportThatIsNoPage) {
  expect_failure("estimate --report out.pdf" + kTiny, kUsage,
                 "--report: cannot write out.pdf, reports are HTML only; use .html");
  expect_failure("estimate --report out.html --output ./out.html" + kTiny, kUsage,
                 "--output and --report are the same file; give each its own");
}

}  // namespace
}  // namespace labelshift
