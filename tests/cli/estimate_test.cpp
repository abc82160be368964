#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "labelshift/core/version.hpp"
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
                                     "shift_test",
                                     "fit_test",
                                     "seed",
                                     "version"};

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
  for (const char* part :
       {"\nAnkle boot ", "Found by mlls-sqp in ", " of the best likelihood.",
        "Calibration bcts took the source's NLL from ", "The label mix has moved (p ", "95 % intervals"})
    EXPECT_THAT(result.out, HasSubstr(part));
  const CommandResult blurred =
      labelshift("estimate" + kFashionSource + "--target-probs examples/fashion-mnist/target_blurred_probs.npy");
  EXPECT_THAT(blurred.out, HasSubstr("The label-shift assumption does NOT fit (p "));
  const CommandResult same =
      labelshift("estimate" + kFashionSource + "--target-probs examples/fashion-mnist/target_same_probs.npy");
  EXPECT_THAT(same.out, HasSubstr("There is no evidence that the label mix has moved (p "));
  EXPECT_THAT(same.out, HasSubstr("The label-shift assumption fits (p "));
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
  const json probs = estimate("--source-probs p.csv --source-labels y.csv --target-probs p.csv");
  const json logits = estimate("--logits --source-probs z.csv --source-labels y.csv --target-probs z.csv");
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
      "--target-probs p.csv --target-weights w.csv");
  const json repeated = estimate("--source-probs p2.csv --source-labels y2.csv --target-probs p2.csv");
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
  EXPECT_EQ(estimate(arguments + " --renormalise")["classes"].size(), 2U);
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
  EXPECT_THAT(picture, HasSubstr("The label mix has moved (p "));
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
                                                "limit with --set max-iterations=N, or ask for less with "
                                                "--tolerance\n"));
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
  EXPECT_EQ(result.err,
            "warning: nothing names the columns of p.csv, so they were taken to be the labels in sorted order: cat, "
            "dog; if they are not, name them with --classes\n");
  file("y.csv", "cat\ndog\ndog\n");
  expect_failure("estimate --source-probs p.csv --source-labels y.csv --target-probs p.csv", kInput,
                 "p.csv: nothing names the columns, and in sorted order (cat, dog) they do not predict y.csv; name "
                 "them with --classes or in a header");
}

}  // namespace
}  // namespace labelshift
