#include "labelshift/experiments/ratio_study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

/// A study that takes a second: logistic regression on the small data set of the repository.
RatioFigure small_figure() {
  const PredictorRecipe recipe{
      .data = LABELSHIFT_EXAMPLES "/small-fashion-mnist", .net = "logistic", .held_out = 0.25, .epochs = 3};
  const std::vector<std::string> methods{"vrls", "mlls", "bbse"};
  return {.name = "small",
          .title = "Small",
          .panels = {{.title = "alpha", .recipe = recipe, .size = 300, .methods = methods, .predictors = 2},
                     {.title = "size", .recipe = recipe, .sweep = Sweep::kSize, .methods = methods, .predictors = 2}}};
}

class RatioStudy : public Scratch {
 protected:
  StudySettings settings(const std::string& folder, unsigned workers) const {
    return {.scale = {.trials = 3, .alphas = 3, .sizes = 3}, .output = path(folder), .workers = workers};
  }
};

TEST_F(RatioStudy, GivesTheSameBitsForAnyNumberOfWorkersAndAfterAnyStop) {
  const RatioFigure figure = small_figure();
  const StudyResult whole = run_ratio_study(figure, settings("whole", 1), {});
  const StudyResult parallel = run_ratio_study(figure, settings("parallel", 2), {});
  int stops = 0;
  const auto stopping = [&] {  // every call gets a little further: what it has done stays
    int calls = 0;
    return run_ratio_study(figure, settings("stopped", 1), [&](std::string_view, double) { return ++calls < 25; });
  };
  std::optional<StudyResult> stopped;
  while (!stopped && stops < 100) {
    try {
      stopped = stopping();
    } catch (const Stopped&) {
      ++stops;
    }
  }
  ASSERT_TRUE(stopped);
  EXPECT_GT(stops, 3);
  for (const StudyResult* other : std::initializer_list<const StudyResult*>{&parallel, &*stopped}) {
    EXPECT_EQ(bytes_of(other->trials), bytes_of(whole.trials));
    EXPECT_EQ(bytes_of(other->summary), bytes_of(whole.summary));
    EXPECT_EQ(bytes_of(other->figure), bytes_of(whole.figure));
  }
  const std::string trials = bytes_of(whole.trials);
  EXPECT_THAT(trials, testing::StartsWith("figure,panel,data,net,examples,held_out,epochs,learning_rate,weight_decay,"
                                          "shift,method,zeta,calibration,estimator,predictor,alpha,size,trial,seed,mse,"
                                          "version\nsmall,alpha,"));
  EXPECT_THAT(trials, HasSubstr(",logistic,0,0.25,3,0.001,1e-06,strict,vrls,1,bcts,mlls-sqp,0,0.1,300,0,0,"));
  // A header, and 3 methods x 2 predictors x 3 trials at 3 points of 2 panels.
  EXPECT_EQ(std::count(trials.begin(), trials.end(), '\n'), 1 + 3 * 2 * 3 * 3 * 2);
  const auto summary = nlohmann::json::parse(bytes_of(whole.summary));
  EXPECT_EQ(summary["panels"].size(), 2u);
  EXPECT_EQ(summary["panels"][1]["results"][0]["rmse_slope"].size(), 3u);
  EXPECT_THAT(bytes_of(whole.figure), HasSubstr("<svg"));
}

TEST_F(RatioStudy, RefusesAFolderWithOtherSettings) {
  const RatioFigure figure = small_figure();
  StudySettings other = settings("folder", 1);
  run_ratio_study(figure, other, {});
  other.scale.trials = 4;
  try {
    run_ratio_study(figure, other, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("was started with other settings"));
  }
}

TEST_F(RatioStudy, MakesWhatIsDamagedAgain) {
  const RatioFigure figure = small_figure();
  const StudySettings own = settings("folder", 1);
  const StudyResult whole = run_ratio_study(figure, own, {});
  const std::string trials = bytes_of(whole.trials), summary = bytes_of(whole.summary);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(own.output))
    if (entry.path().string().find("/parts/") != std::string::npos || entry.path().extension() == ".safetensors")
      files.push_back(entry.path());
  ASSERT_GT(files.size(), 10u);
  for (const std::string& damaged : files) {
    std::string bytes = bytes_of(damaged);
    char& byte = bytes[bytes.size() - 70];  // of a part that is its last number
    byte = static_cast<char>(byte ^ 1);
    std::ofstream(damaged, std::ios::binary) << bytes;
  }
  run_ratio_study(figure, own, {});
  EXPECT_EQ(bytes_of(whole.trials), trials);
  EXPECT_EQ(bytes_of(whole.summary), summary);
}

TEST_F(RatioStudy, RefusesAPartThatIsNotItsOwn) {
  const RatioFigure figure = small_figure();
  const StudySettings own = settings("folder", 1);
  run_ratio_study(figure, own, {});
  const std::string part = "method,predictor,trial,mse\n9,0,0,0.5\n";
  std::ofstream(own.output + "/small/parts/0-00.csv") << part << "sha256," << sha256_of(part) << "\n";
  try {
    run_ratio_study(figure, own, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("0-00.csv is not a part of this study; remove it"));
  }
}

TEST_F(RatioStudy, SaysWhichVersionStartedAFolder) {
  const RatioFigure figure = small_figure();
  const StudySettings own = settings("folder", 1);
  run_ratio_study(figure, own, {});
  const std::string path = own.output + "/small/settings.json";
  auto json = nlohmann::ordered_json::parse(bytes_of(path));
  json["version"] = "0.0.1";
  std::ofstream(path) << json.dump(2) << '\n';
  try {
    run_ratio_study(figure, own, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("was started by labelshift \"0.0.1\", and this is "));
  }
}

TEST_F(RatioStudy, AFolderWhereAFileShouldBeIsAnErrorThatSaysSo) {
  const RatioFigure figure = small_figure();
  const StudySettings own = settings("folder", 1);
  run_ratio_study(figure, own, {});
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(own.output))
    if (entry.is_regular_file()) files.push_back(entry.path());
  for (const std::string& name : files) {
    std::filesystem::rename(name, name + ".aside");
    std::filesystem::create_directories(name + "/x");
    EXPECT_THROW(run_ratio_study(figure, own, {}), Error) << name;
    std::filesystem::remove_all(name);
    std::filesystem::rename(name + ".aside", name);
  }
  run_ratio_study(figure, own, {});
}

}  // namespace
}  // namespace labelshift
