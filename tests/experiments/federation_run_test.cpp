#include "labelshift/experiments/federation_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/experiments/federation_checkpoint.hpp"
#include "labelshift/federation/node_context.hpp"
#include "labelshift/learning/predictor.hpp"
#include "labelshift/learning/training_threads.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kSmall = LABELSHIFT_EXAMPLES "/small-fashion-mnist";

class FederationRun : public Scratch {
 protected:
  static void SetUpTestSuite() { use_one_torch_thread(); }

  /// Nodes that remember things, and weights.
  static RunSettings small_settings() {
    RunSettings settings{.data = {.set = kSmall, .partition = "dirichlet", .nodes = 5, .alpha = 0.5},
                         .checkpoint_every = 3};
    FederationSettings& federation = settings.federation;
    federation.algorithm = "scaffold";
    federation.model = {"logistic", {}};
    federation.rounds = 12;
    federation.local = {.steps = 2, .batch = 8};
    federation.server = {.optimiser = "adam"};
    federation.ratio.method = "mlls";
    federation.ratio.net = {"logistic", {}};
    federation.ratio.epochs = 1;
    federation.evaluate_every = 5;
    return settings;
  }
  RunTask task(const std::string& folder, const RunSettings& settings = small_settings()) const {
    Experiment experiment{.name = "test", .title = "test"};
    return {path(folder), write_experiment(experiment, {.name = "run", .settings = settings}, 0), settings};
  }
  /// As if the files of a whole run had been written as they are now.
  void write_sums(const std::string& folder) const {
    std::string sums;
    for (const char* name : {"experiment.toml", "model.safetensors", "rounds.csv", "summary.json"})
      sums += sum_line(bytes_of(path(folder + "/" + name)), name);
    file(folder + "/SHA256SUMS", sums);
  }
  void expect_same_results(const std::string& folder, const std::string& expected) const {
    for (const char* name : {"/model.safetensors", "/rounds.csv", "/experiment.toml"})
      EXPECT_EQ(bytes_of(path(folder + name)), bytes_of(path(expected + name))) << name;
  }
};

TEST_F(FederationRun, GivesTheSameBitsForAnyNumberOfWorkers) {
  run_in_folder(task("one"), {.workers = 1});
  run_in_folder(task("two"), {.workers = 2});
  run_in_folder(task("four"), {.workers = 4});
  expect_same_results("two", "one");
  expect_same_results("four", "one");
}

TEST_F(FederationRun, LeavesASummaryAModelAReportAndNothingElse) {
  const RunResult result = run_in_folder(task("run"), {});
  EXPECT_EQ(result.state.round, 12);
  EXPECT_EQ(result.last().size(), 5u);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path("run"))) names.insert(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("SHA256SUMS", "experiment.toml", "lock", "model.safetensors", "report.html",
                                          "rounds.csv", "summary.json"));
  EXPECT_EQ(std::system(("cd '" + path("run") + "' && sha256sum --quiet -c SHA256SUMS").c_str()), 0);
  const auto summary = nlohmann::json::parse(bytes_of(path("run/summary.json")));
  EXPECT_EQ(summary["average_accuracy"], average_accuracy(result.state.history));
  EXPECT_EQ(summary["nodes"].size(), 5u);
  EXPECT_EQ(summary["nodes"][4]["node"], 5);
  EXPECT_GT(summary["largest_weight"], 0.0);
  EXPECT_EQ(summary["settings"]["training"]["rounds"], 12);
  EXPECT_EQ(summary["settings"]["training"]["algorithm"], "scaffold");
  EXPECT_EQ(summary["seed"], 0);
  EXPECT_EQ(load_predictor(path("run/model.safetensors")).class_names.size(), 10u);
  EXPECT_THAT(bytes_of(path("run/rounds.csv")), HasSubstr("\n12,5,"));
}

TEST_F(FederationRun, WritesTheBatchNormsOfEveryNodeThatTrained) {
  RunSettings settings = small_settings();
  settings.federation.algorithm = "fedbn";
  settings.federation.model = {"resnet18", {{"width", "1"}}};
  settings.federation.rounds = 2;
  settings.federation.sampled = 1;
  settings.federation.ratio.method = "none";
  run_in_folder(task("run", settings), {});
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path("run/batch-norms"))) files.push_back(entry.path());
  ASSERT_GE(files.size(), 1u);
  ASSERT_LE(files.size(), 2u);  // one node a round
  const Predictor model = load_predictor(path("run/model.safetensors"));
  const SafetensorsFile own(files[0]);
  std::vector<std::string> expected;
  for (const TensorPlace& place : model.net->tensors())
    if (place.batch_norm) expected.push_back(place.name);
  std::vector<std::string> names;
  for (const NamedTensor& tensor : own.tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(expected));
  const std::span<const float> scale = own.tensor("bn1.running_mean", {1});
  EXPECT_NE(scale[0], 0.0F);  // what it starts with
}

TEST_F(FederationRun, GoesOnFromWhereItWasStopped) {
  run_in_folder(task("whole"), {});
  int calls = 0;
  EXPECT_THROW(run_in_folder(task("stopped"), {}, [&](std::string_view, double) { return ++calls < 12; }), Stopped);
  EXPECT_NE(newest_checkpoint(path("stopped")), "");
  expect_error(ErrorKind::kUsage,
               "DIR/stopped has a run that was stopped after " +
                   fs::path(newest_checkpoint(path("stopped"))).filename().string() +
                   "; go on with it, or choose another folder",
               [&] { run_in_folder(task("stopped"), {}); });
  const int other = ::open(path("stopped/lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);  // as a process that still runs it
  expect_error(ErrorKind::kUsage,
               "DIR/stopped is in use by another process; wait until it ends, or choose another folder",
               [&] { run_in_folder(task("stopped"), {}); });
  ::close(other);
  fs::create_directories(path("stopped/checkpoint.tmp-9/nodes"));  // of a process that was killed while it saved
  const RunResult result = run_in_folder(task("stopped"), {.resume = true});
  expect_same_results("stopped", "whole");
  EXPECT_EQ(result.state.round, 12);
  EXPECT_FALSE(fs::exists(path("stopped/checkpoint.tmp-9")));
}

TEST_F(FederationRun, StartsAgainWhereNothingWasSaved) {
  EXPECT_THROW(
      run_in_folder(task("stopped"), {}, [](std::string_view stage, double) { return stage == "reading data"; }),
      Stopped);
  EXPECT_EQ(newest_checkpoint(path("stopped")), "");
  file("stopped/experiment.toml", "of a run with other settings");
  run_in_folder(task("stopped"), {.resume = true});
  run_in_folder(task("whole"), {});
  expect_same_results("stopped", "whole");
}

TEST_F(FederationRun, KeepsWhatNodesEstimatedBeforeItWasStopped) {
  RunSettings settings = small_settings();
  run_in_folder(task("whole", settings), {});
  const auto stop_amid_phase_1 = [&](const std::string& folder) {
    EXPECT_THROW(
        run_in_folder(task(folder, settings), {.workers = 1},
                      [](std::string_view stage, double done) { return stage != "estimating ratios" || done < 0.3; }),
        Stopped);
  };
  stop_amid_phase_1("stopped");
  EXPECT_EQ(newest_checkpoint(path("stopped")), path("stopped/checkpoint-0"));
  run_in_folder(task("stopped", settings), {.resume = true});
  expect_same_results("stopped", "whole");

  stop_amid_phase_1("changed");
  NodeStore store({.folder = path("store")});
  FederationState state = load_federation(path("changed/checkpoint-0"), store);
  auto kept = recall<ClassNumbers>(*store.of(0), "estimate");
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->values.size(), 10);
  std::rotate(kept->values.begin(), kept->values.begin() + 1, kept->values.end());
  remember(*store.of(0), "estimate", *kept);
  save_federation(path("changed"), state, store);
  run_in_folder(task("changed", settings), {.resume = true});
  EXPECT_NE(bytes_of(path("changed/model.safetensors")), bytes_of(path("whole/model.safetensors")));  // it was used
}

TEST_F(FederationRun, DoesNotRepeatAWholeRun) {
  const RunResult first = run_in_folder(task("run"), {});
  file("run/mine", "");
  const RunResult second = run_in_folder(task("run"), {}, [](std::string_view, double) -> bool { throw Stopped{}; });
  EXPECT_TRUE(fs::exists(path("run/mine")));
  EXPECT_TRUE(second.was_there);
  EXPECT_FALSE(first.was_there);
  EXPECT_EQ(second.state.history.size(), first.state.history.size());
  EXPECT_EQ(average_accuracy(second.state.history), average_accuracy(first.state.history));
}

TEST_F(FederationRun, RunsAgainWhatIsMissingOrDamaged) {
  run_in_folder(task("whole"), {});
  for (const std::string name : {"model.safetensors", "rounds.csv", "summary.json"}) {
    for (const bool missing : {true, false}) {
      if (missing && name == "summary.json") continue;  // then it is not a whole run
      fs::remove_all(path("run"));
      fs::copy(path("whole"), path("run"));
      std::string bytes = bytes_of(path("run/" + name));
      for (const std::size_t from_end : {3, 40}) {
        char& byte = bytes[bytes.size() - from_end];
        byte = static_cast<char>(byte ^ 1);
      }
      file("run/" + name, bytes);
      if (missing) fs::remove(path("run/" + name));
      EXPECT_FALSE(is_finished(task("run"))) << name;
      const RunResult again = run_in_folder(task("run"), {});
      EXPECT_FALSE(again.was_there);
      ASSERT_FALSE(again.state.warnings.empty()) << name;
      EXPECT_THAT(again.state.warnings.back(), HasSubstr(path("run/" + name)));
      EXPECT_THAT(again.state.warnings.back(), testing::EndsWith(", so the run was made again"));
      expect_same_results("run", "whole");
      EXPECT_TRUE(is_finished(task("run")));
      EXPECT_TRUE(run_in_folder(task("run"), {}).was_there);
    }
  }
}

TEST_F(FederationRun, RefusesAWholeRunThatNothingVouchesFor) {
  run_in_folder(task("run"), {});
  fs::remove(path("run/SHA256SUMS"));
  EXPECT_FALSE(is_finished(task("run")));
  expect_error(
      ErrorKind::kInput,
      "DIR/run has no SHA256SUMS, so damage to its files would go unseen: labelshift 0.3.0 or older made it, or "
      "the file was lost; remove the folder to run it again, or choose another",
      [&] { run_in_folder(task("run"), {}); });
}

TEST_F(FederationRun, RefusesAFormatItCannotReadByName) {
  run_in_folder(task("run"), {});
  auto summary = nlohmann::ordered_json::parse(bytes_of(path("run/summary.json")));
  summary["format"] = 7;
  summary["version"] = "9.1";
  file("run/summary.json", summary.dump());
  write_sums("run");
  expect_error(ErrorKind::kInput,
               std::string("DIR/run/summary.json: found version 7 of its format, which labelshift 9.1 wrote, expected "
                           "version 1, which this labelshift ") +
                   version() + " reads; use the other labelshift, or make it again",
               [&] { run_in_folder(task("run"), {}); });
}

TEST_F(FederationRun, AFolderWhereAFileShouldBeIsAnErrorThatSaysSo) {
  int calls = 0;
  EXPECT_THROW(run_in_folder(task("stopped"), {}, [&](std::string_view, double) { return ++calls < 12; }), Stopped);
  run_in_folder(task("whole"), {});
  for (const std::string start : {"stopped", "whole", "none"})
    for (const std::string name : {"experiment.toml", "rounds.csv", "summary.json", "model.safetensors", "SHA256SUMS",
                                   "lock", "nodes", "batch-norms"}) {
      fs::remove_all(path("run"));
      if (start != "none") fs::copy(path(start), path("run"), fs::copy_options::recursive);
      fs::remove_all(path("run/" + name));
      fs::create_directories(path("run/" + name + "/x"));
      try {
        run_in_folder(task("run"), {.resume = true});
        EXPECT_TRUE(name == "nodes" || name == "batch-norms" || (name == "lock" && start == "whole")) << start << name;
      } catch (const Error& error) {  // and nothing else
        EXPECT_THAT(error.what(), HasSubstr("run")) << start << " " << name;
      }
    }
  fs::remove_all(path("run"));
  file("run", "");
  EXPECT_THROW(run_in_folder(task("run"), {}), Error);
  fs::remove(path("run"));
  fs::copy(path("stopped"), path("run"));
  file("run/" + fs::path(newest_checkpoint(path("stopped"))).filename().string(), "");
  EXPECT_THROW(run_in_folder(task("run"), {.resume = true}), Error);
}

TEST_F(FederationRun, RefusesAFolderOfOtherSettings) {
  run_in_folder(task("run"), {});
  RunSettings other = small_settings();
  other.federation.rounds = 13;
  expect_error(ErrorKind::kUsage,
               "DIR/run has a run with other settings: there it is \"rounds = 12\", here \"rounds = 13\"; remove the "
               "folder, or choose another",
               [&] { run_in_folder(task("run", other), {}); });
}

TEST_F(FederationRun, TellsDamagedSettingsFromOtherSettings) {
  run_in_folder(task("run"), {});
  std::string text = bytes_of(path("run/experiment.toml"));
  const std::size_t at = text.find("rounds = 12");
  ASSERT_NE(at, std::string::npos);
  text[at + 10] ^= 1;  // one bit: rounds = 13
  file("run/experiment.toml", text);
  expect_error(ErrorKind::kInput,
               "DIR/run/experiment.toml is damaged: it is not what SHA256SUMS says was written, so nothing tells which "
               "run this is; remove the folder to run it again, or choose another",
               [&] { run_in_folder(task("run"), {}); });
}

TEST_F(FederationRun, SaysWhichFileOfARunIsGoneOrEmpty) {
  run_in_folder(task("run"), {});
  file("run/SHA256SUMS", "");
  expect_error(
      ErrorKind::kInput,
      "DIR/run/SHA256SUMS is empty, so damage to the files of the run would go unseen; remove the folder to run "
      "it again, or choose another",
      [&] { run_in_folder(task("run"), {}); });
  std::filesystem::remove(path("run/experiment.toml"));
  expect_error(
      ErrorKind::kInput,
      "DIR/run/experiment.toml is gone, so nothing tells which run left what is in DIR/run; put it back, remove "
      "the folder to run it again, or choose another",
      [&] { run_in_folder(task("run"), {.resume = true}); });
}

TEST_F(FederationRun, SaysThatAnotherVersionMadeTheRun) {
  run_in_folder(task("run"), {});
  std::string text = bytes_of(path("run/experiment.toml"));
  const std::size_t at = text.find("version = \"") + 11;
  text.replace(at, text.find('"', at) - at, "0.0.1");
  file("run/experiment.toml", text);
  write_sums("run");
  const RunResult result = run_in_folder(task("run"), {});
  ASSERT_FALSE(result.state.warnings.empty());
  EXPECT_THAT(result.state.warnings.back(),
              HasSubstr("was begun by another version of labelshift (version = \"0.0.1\""));
}

TEST_F(FederationRun, WaitsForNoPipeInAFolder) {
  for (const std::string name : {"model.safetensors", "rounds.csv", "lock"}) {
    const std::string folder = "run-" + name;
    run_in_folder(task(folder), {});
    fs::remove(path(folder + "/" + name));
    ASSERT_EQ(::mkfifo(path(folder + "/" + name).c_str(), 0600), 0);
    expect_error(ErrorKind::kInput,
                 "DIR/" + folder + "/" + name + " is a pipe or a device, expected a regular file; remove it",
                 [&] { run_in_folder(task(folder), {}); });
  }
}

TEST_F(FederationRun, RefusesToSaveEveryZeroRounds) {
  RunTask never = task("run");
  never.settings.checkpoint_every = 0;
  expect_error(ErrorKind::kUsage, "run.checkpoint-every is 0, expected a whole number from 1 to 1000000000",
               [&] { run_in_folder(never, {}); });
}

TEST_F(FederationRun, RefusesAFolderInUse) {
  fs::create_directories(path("run"));
  const int other = ::open(file("run/lock", "").c_str(), O_RDWR);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  expect_error(ErrorKind::kUsage, "DIR/run is in use by another process; wait until it ends, or choose another folder",
               [&] { run_in_folder(task("run"), {}); });
  ::close(other);
  run_in_folder(task("run"), {});
}

TEST_F(FederationRun, LeavesNothingBehindIfItCannotStart) {
  RunSettings settings = small_settings();
  settings.data.set = "/nowhere/at/all";
  EXPECT_THROW(run_in_folder(task("run", settings), {}), Error);
  EXPECT_FALSE(fs::exists(path("run")));
  settings = small_settings();
  settings.federation.ratio.net = {"mlp", {{"hiden", "3"}}};
  EXPECT_THROW(run_in_folder(task("run", settings), {}), Error);
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(FederationRun, JudgesUnlabelledTestsByReweightedSourceData) {
  RunSettings settings;
  for (const char* node : {"a", "b"}) {
    std::string train = "x,y,label\n", test = "x,y\n";
    for (int i = 0; i < 60; ++i) {
      train += fmt::format("{},{},{}\n", i % 3 + 0.1 * i, i % 7, i % 3 == 0 ? "cat" : "dog");
      test += fmt::format("{},{}\n", i % 2 + 0.1 * i, i % 5);
    }
    settings.data.folders.push_back(
        {file(std::string(node) + ".csv", train), file(std::string(node) + "-test.csv", test)});
  }
  settings.federation.model = settings.federation.ratio.net = {"logistic", {}};
  settings.federation.algorithm = "iw-erm";
  settings.federation.ratio.method = "mlls";
  settings.federation.ratio.epochs = 2;
  settings.federation.rounds = 5;
  const RunResult result = run_in_folder(task("run", settings), {});
  EXPECT_THAT(result.notes,
              testing::ElementsAre("test data have no labels, so 20 % of each node's training examples are "
                                   "held out to judge by"));
  for (const NodeEvaluation& node : result.last()) {
    EXPECT_TRUE(std::isnan(node.accuracy));
    EXPECT_GE(node.reweighted_accuracy, 0.0);
    EXPECT_LE(node.reweighted_accuracy, 1.0);
    EXPECT_GT(node.reweighted_examples, 0.0);
  }
  const auto summary = nlohmann::json::parse(bytes_of(path("run/summary.json")));
  EXPECT_EQ(summary["settings"]["data"]["folders"][1]["test"], path("b-test.csv"));
  EXPECT_EQ(summary["settings"]["run"]["source-holdout"], 0.2);
  EXPECT_TRUE(summary["average_accuracy"].is_null());
  EXPECT_TRUE(summary["nodes"][0]["accuracy"].is_null());
  EXPECT_TRUE(summary["nodes"][0]["reweighted_source_accuracy"].is_number());
}

TEST_F(FederationRun, DoesNotGoOnWithOtherData) {
  RunSettings settings = small_settings();
  settings.data = {};
  std::string table = "x,label\n";
  for (int i = 0; i < 40; ++i) table += fmt::format("{},{}\n", i % 7, i % 2);
  settings.data.folders = {{file("train.csv", table), file("test.csv", table)}};
  int calls = 0;
  EXPECT_THROW(run_in_folder(task("run", settings), {}, [&](std::string_view, double) { return ++calls < 12; }),
               Stopped);
  file("test.csv", table + "3,1\n");
  expect_error(ErrorKind::kUsage,
               "DIR/run/" + fs::path(newest_checkpoint(path("run"))).filename().string() +
                   " is of a run on other data: they have changed since; bring them back, or choose another folder",
               [&] { run_in_folder(task("run", settings), {.resume = true}); });
  file("test.csv", table);
  run_in_folder(task("run", settings), {.resume = true});

  // Nor is what came of it shown as what would come of these data.
  EXPECT_TRUE(run_in_folder(task("run", settings), {}).was_there);
  file("test.csv", table + "3,1\n");
  expect_error(
      ErrorKind::kUsage,
      "DIR/run has a run on other data: they have changed since; bring them back, remove the folder, or choose "
      "another",
      [&] { run_in_folder(task("run", settings), {}); });
  fs::remove(path("test.csv"));
  EXPECT_THAT(run_in_folder(task("run", settings), {}).state.warnings.back(),
              testing::HasSubstr("cannot be read any more, so whether they are still the same is unknown"));
}

TEST_F(FederationRun, DoesNotGoOnFromACheckpointOfOtherSettings) {
  RunSettings other = small_settings();
  other.federation.server.learning_rate *= 2.0;
  for (const RunSettings& settings : {small_settings(), other}) {
    int calls = 0;
    EXPECT_THROW(
        run_in_folder(
            task(settings.federation.server.learning_rate == other.federation.server.learning_rate ? "other" : "run",
                 settings),
            {}, [&](std::string_view, double) { return ++calls < 12; }),
        Stopped);
  }
  const std::string mine = newest_checkpoint(path("run"));
  fs::remove_all(mine);
  fs::copy(newest_checkpoint(path("other")), mine, fs::copy_options::recursive);
  expect_error(ErrorKind::kInput,
               "DIR/run/" + fs::path(mine).filename().string() +
                   " is of a run with other settings; remove the folder of the run and start again",
               [&] { run_in_folder(task("run"), {.resume = true}); });
}

TEST_F(FederationRun, RefusesDamagedResults) {  // also if their sums are right
  run_in_folder(task("run"), {});
  const std::string rounds = bytes_of(path("run/rounds.csv"));
  for (const char* node : {"3000000000", "-7", "1e300", "nan", "2", "0", "6", "1.5", ""}) {
    std::string damaged = rounds;
    damaged.replace(damaged.find("\n10,1,") + 4, 1, node);
    file("run/rounds.csv", damaged);
    write_sums("run");
    EXPECT_THROW(run_in_folder(task("run"), {}), Error) << node;
  }
  file("run/rounds.csv", rounds.substr(0, rounds.find('\n') + 1));
  write_sums("run");
  EXPECT_THROW(run_in_folder(task("run"), {}), Error);
  file("run/rounds.csv", rounds);
  write_sums("run");
  run_in_folder(task("run"), {});
  file("run/summary.json", R"({"format": 1, "version": "", "federation": {"ready": 3}, "notes": []})");
  write_sums("run");
  expect_error(ErrorKind::kInput, "DIR/run/summary.json is damaged; remove the folder DIR/run and run it again",
               [&] { run_in_folder(task("run"), {}); });
}

TEST(IsHistory, AsksForAllNodesInRoundsThatAscend) {
  const auto history = [](std::initializer_list<std::pair<int, Index>> rows) {
    std::vector<NodeEvaluation> result;
    for (const auto& [round, node] : rows) result.push_back({.round = round, .node = node});
    return result;
  };
  EXPECT_TRUE(is_history({}));
  EXPECT_TRUE(is_history(history({{5, 0}, {5, 1}, {10, 0}, {10, 1}})));
  EXPECT_FALSE(is_history(history({{5, 0}, {5, 1}, {10, 0}})));
  EXPECT_FALSE(is_history(history({{5, 0}, {5, 1}, {10, 0}, {11, 1}})));
  EXPECT_FALSE(is_history(history({{5, 0}, {5, 1}, {5, 0}, {5, 1}})));
  EXPECT_FALSE(is_history(history({{5, 0}, {5, 1}, {4, 0}, {4, 1}})));
  EXPECT_FALSE(is_history(history({{5, 0}, {5, -1}})));
  EXPECT_FALSE(is_history(history({{-1, 0}})));
}

TEST_F(FederationRun, SavesAndLoadsAStateToTheBit) {
  FederationState state;
  state.data = "d";
  state.round = 41;
  state.ready = true;
  state.normalisation = {{0.1f, -0.0f}, {1.0f, 3.0f}};
  state.parameters = {1.0f / 3.0f, -1e-38f, 5.0f};
  state.algorithm = {.parts = {{"server/mean", {0.5f}}, {"control", {1.0f, -2.0f}}}, .counts = {{"server/steps", 7}}};
  state.counted = {41, 0, 7};
  state.target_sum = Eigen::Vector3d(1.0 / 3.0, 0.1, 1e-300);
  state.target_error = 0.1 + 0.2;
  state.ratios = {{.node = 3, .largest = 2.0 / 3.0, .examples = 10, .effective_examples = 9.9, .seconds = 0.1}};
  state.phases = {{.name = "training", .rounds = 41, .traffic = {.down = 1ull << 60, .up = 3}, .seconds = 1.5}};
  state.history = {{.round = 5, .node = 0, .examples = 9, .accuracy = 1.0 / 7.0, .loss = kUnknown}};
  NodeEvaluation& adapted = state.history[0];
  adapted.adapted = 0.5, adapted.adapted_low = 0.4, adapted.adapted_high = 0.6;
  adapted.majority = 0.3, adapted.majority_low = 0.2, adapted.majority_high = 0.35;
  state.trained_mix = Eigen::Vector3d(1.0 / 7.0, 6.0 / 7.0, 0.0);
  state.left_out = {1, 3};
  state.absences = {{.node = 2, .rounds = 5, .why = "it is locked out"}};
  state.weighings = {{.target_error = 0.1 + 0.2}, {.round = 20, .target_error = 1.0 / 3.0, .doubtful = 2}};
  state.weighings.push_back({.round = 40, .skipped = "node 2: it is \"away\""});
  state.memory_at_nodes = true;
  state.warnings = {"a \"b\" \n c"};
  NodeStore store({.folder = path("store")}), loaded_store({.folder = path("other")});
  remember_round(*store.of(4), 7, {{"control", {1.0f, 2.0f}}});
  fs::create_directories(path("run"));
  save_federation(path("run"), {.round = 40}, store);
  save_federation(path("run"), state, store);
  EXPECT_EQ(newest_checkpoint(path("run")), path("run/checkpoint-41"));
  EXPECT_TRUE(fs::exists(path("run/checkpoint-40")));  // should the other be damaged
  const FederationState loaded = load_federation(path("run/checkpoint-41"), loaded_store);
  EXPECT_EQ(loaded.data, "d");
  EXPECT_EQ(loaded.round, 41);
  EXPECT_TRUE(loaded.ready);
  EXPECT_EQ(loaded.normalisation, state.normalisation);
  EXPECT_EQ(loaded.parameters, state.parameters);
  EXPECT_EQ(loaded.algorithm.parts, state.algorithm.parts);
  EXPECT_EQ(loaded.algorithm.counts, state.algorithm.counts);
  EXPECT_EQ(loaded.counted, state.counted);
  EXPECT_EQ(loaded.target_sum, state.target_sum);
  EXPECT_EQ(loaded.target_error, state.target_error);
  EXPECT_EQ(loaded.ratios[0].largest, state.ratios[0].largest);
  EXPECT_TRUE(std::isnan(loaded.ratios[0].prior_error));
  EXPECT_EQ(loaded.phases[0].traffic, state.phases[0].traffic);
  EXPECT_EQ(loaded.history[0].accuracy, 1.0 / 7.0);
  EXPECT_TRUE(std::isnan(loaded.history[0].loss));
  for (double NodeEvaluation::*number :
       {&NodeEvaluation::adapted, &NodeEvaluation::adapted_low, &NodeEvaluation::adapted_high,
        &NodeEvaluation::majority, &NodeEvaluation::majority_low, &NodeEvaluation::majority_high})
    EXPECT_EQ(loaded.history[0].*number, adapted.*number);
  EXPECT_EQ(loaded.trained_mix, state.trained_mix);
  EXPECT_EQ(loaded.left_out, state.left_out);
  ASSERT_EQ(loaded.absences.size(), 1u);
  EXPECT_EQ(loaded.absences[0].node, 2);
  EXPECT_EQ(loaded.absences[0].rounds, 5);
  EXPECT_EQ(loaded.absences[0].why, "it is locked out");
  ASSERT_EQ(loaded.weighings.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(loaded.weighings[i].round, state.weighings[i].round);
    EXPECT_EQ(loaded.weighings[i].doubtful, state.weighings[i].doubtful);
    EXPECT_EQ(loaded.weighings[i].skipped, state.weighings[i].skipped);
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(loaded.weighings[i].target_error, state.weighings[i].target_error);
  EXPECT_TRUE(std::isnan(loaded.weighings[2].target_error));
  EXPECT_EQ(weighed_round(loaded), 20u);  // the third was skipped
  EXPECT_TRUE(loaded.memory_at_nodes);
  EXPECT_EQ(loaded.warnings, state.warnings);
  EXPECT_EQ(recall_round(*loaded_store.of(4), 7).at("control"), (std::vector<float>{1.0f, 2.0f}));
}

TEST_F(FederationRun, GoesOnFromTheCheckpointBeforeADamagedOne) {
  NodeStore store({.folder = path("store")});
  for (const int round : {1, 2, 3}) {
    remember_round(*store.of(0), static_cast<std::uint64_t>(round), {{"control", {1.0f}}});
    save_federation(path(""), {.round = round, .parameters = {1.0f}}, store);
  }
  EXPECT_FALSE(fs::exists(path("checkpoint-1")));
  EXPECT_EQ(load_last_federation(path(""), store).damage, std::nullopt);
  for (const char* part : {"checkpoint-3/server.safetensors", "checkpoint-3/nodes/nodes.bin"}) {
    SCOPED_TRACE(part);
    std::string bytes = bytes_of(path(part));
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
    const std::string good = bytes_of(path(part));
    file(part, bytes);
    const SavedFederation saved = load_last_federation(path(""), store);
    EXPECT_EQ(saved.state.round, 2);
    EXPECT_EQ(saved.checkpoint, path("checkpoint-2"));
    EXPECT_EQ(saved.damage, path("checkpoint-3") + " is damaged, so the run went on from checkpoint-2");
    file(part, good);
  }
  for (const char* part : {"checkpoint-2/server.safetensors", "checkpoint-3/server.safetensors"}) file(part, "");
  EXPECT_THROW(load_last_federation(path(""), store), Error);
}

TEST_F(FederationRun, RefusesADamagedCheckpoint) {
  NodeStore store({.folder = path("store")});
  save_federation(path(""), {.round = 1, .parameters = {1.0f}}, store);
  std::string bytes = bytes_of(path("checkpoint-1/server.safetensors"));
  file("checkpoint-1/server.safetensors", bytes.substr(0, bytes.size() - 2));
  EXPECT_THROW(load_federation(path("checkpoint-1"), store), Error);
  bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 0x40);  // 1.0 to 0.0078, as good a weight
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 0x01);
  file("checkpoint-1/server.safetensors", bytes);
  expect_error(ErrorKind::kInput,
               "DIR/checkpoint-1/server.safetensors: its bytes are not those it was written with, by its SHA-256; copy "
               "it again, or make it again; remove the folder of the run and start again",
               [&] { load_federation(path("checkpoint-1"), store); });
  save_federation(path(""), {.round = -5, .parameters = {1.0f}}, store);
  expect_error(ErrorKind::kInput,
               "DIR/checkpoint--5: its rounds are damaged; remove the folder of the run and start again",
               [&] { load_federation(path("checkpoint--5"), store); });
}

class StartModel : public FederationRun {
 protected:
  static RunSettings settings(int rounds) {
    RunSettings settings = small_settings();
    FederationSettings& federation = settings.federation;
    federation.algorithm = "fedavg";
    federation.ratio.method = "none";
    federation.rounds = rounds;
    federation.evaluate_every = rounds;
    federation.local = {.steps = 1, .batch = 1000};  // whole nodes: no round draws anything
    federation.server = {.optimiser = "sgd", .learning_rate = 0.01, .weight_decay = 0.0};
    return settings;
  }
};

TEST_F(StartModel, IsWhereTrainingGoesOn) {
  run_in_folder(task("first", settings(3)), {});
  RunSettings more = settings(4);
  more.federation.start = path("first/model.safetensors");
  run_in_folder(task("more", more), {});
  run_in_folder(task("whole", settings(7)), {});
  const Predictor found = load_predictor(path("more/model.safetensors"));
  const Predictor expected = load_predictor(path("whole/model.safetensors"));
  ASSERT_EQ(found.net->parameters().size(), expected.net->parameters().size());
  // A batch of a whole node is added up in another order in another round, which changes last bits.
  for (std::size_t i = 0; i < expected.net->parameters().size(); ++i)
    EXPECT_NEAR(found.net->parameters()[i], expected.net->parameters()[i], 1e-6) << i;
  const Predictor before = load_predictor(path("first/model.safetensors"));
  EXPECT_GT(std::abs(found.net->parameters()[0] - before.net->parameters()[0]), 1e-5);
}

TEST_F(StartModel, BringsItsNormalisation) {
  Predictor predictor = [&] {
    run_in_folder(task("first", settings(1)), {});
    return load_predictor(path("first/model.safetensors"));
  }();
  NetSpec other = predictor.net->spec();
  other.normalisation.mean[0] += 20.0F;
  Predictor moved{.net = make_net(other, 3), .class_names = predictor.class_names};
  save_predictor(path("moved.safetensors"), moved);
  RunSettings more = settings(1);
  more.federation.start = path("moved.safetensors");
  run_in_folder(task("more", more), {});
  EXPECT_EQ(load_predictor(path("more/model.safetensors")).net->spec().normalisation, other.normalisation);
}

TEST_F(StartModel, IsPartOfWhatARunWasMadeFrom) {
  run_in_folder(task("first", settings(2)), {});
  RunSettings more = settings(1);
  more.federation.start = path("first/model.safetensors");
  run_in_folder(task("more", more), {});
  EXPECT_TRUE(run_in_folder(task("more", more), {}).was_there);
  run_in_folder(task("other", settings(3)), {});
  file("first/model.safetensors", bytes_of(path("other/model.safetensors")));
  try {
    run_in_folder(task("more", more), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has a run on other data or from another model.start: they have changed"));
  }
}

TEST_F(StartModel, IsRefusedWhereItIsNotOfThisRun) {
  run_in_folder(task("first", settings(1)), {});
  const auto refused = [&](const std::string& part, const auto& change) {
    RunSettings more = settings(1);
    more.federation.start = path("first/model.safetensors");
    change(more);
    try {
      run_in_folder(task("refused", more), {});
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kInput));
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  };
  refused("no such file", [&](auto& s) { s.federation.start = path("nothing.safetensors"); });
  refused("is a model of the net logistic, whose weights are not those of mlp as [model] describes it", [](auto& s) {
    s.federation.model = {"mlp", {}};
  });
  Predictor predictor = load_predictor(path("first/model.safetensors"));
  predictor.class_names[0] = "another";
  save_predictor(path("classes.safetensors"), predictor);
  refused("is a model of other classes than the data",
          [&](auto& s) { s.federation.start = path("classes.safetensors"); });
  NetSpec spec = predictor.net->spec();
  spec.shape = {1, 14, 56};
  Predictor shaped{.net = make_net(spec, 0),
                   .class_names = load_predictor(path("first/model.safetensors")).class_names};
  save_predictor(path("shape.safetensors"), shaped);
  refused("is a model of examples of 1 x 14 x 56, and the data have 1 x 28 x 28",
          [&](auto& s) { s.federation.start = path("shape.safetensors"); });
}

TEST_F(StartModel, HasTheColumnsOfTheDataInTheirOrder) {
  std::string rows = "a,b,label\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{},{}\n", i % 2 + 0.01 * i, 0.02 * i, i % 2 == 0 ? "x" : "y");
  RunSettings table = settings(1);
  table.data = {
      .folders = {{file("one.csv", rows), file("two.csv", rows)}, {file("three.csv", rows), file("four.csv", rows)}}};
  run_in_folder(task("first", table), {});
  table.federation.start = path("first/model.safetensors");
  run_in_folder(task("same", table), {});
  Predictor swapped = load_predictor(path("first/model.safetensors"));
  ASSERT_EQ(swapped.column_names, (std::vector<std::string>{"a", "b"}));
  swapped.column_names = {"b", "a"};
  save_predictor(path("swapped.safetensors"), swapped);
  table.federation.start = path("swapped.safetensors");
  try {
    run_in_folder(task("swapped", table), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("is a model of other columns than the data, or in another order: b, a, expected a, b"));
  }
}

TEST_F(StartModel, OfTorchScriptIsOfTheSameFile) {
  const std::string plain = LABELSHIFT_EXAMPLES "/../tests/federation/reference/plain.pt";
  std::string rows = "a,b,label\n";
  for (int i = 0; i < 60; ++i) rows += fmt::format("{},{},{}\n", i % 3 + 0.01 * i, 0.02 * i, i % 3);
  RunSettings table = settings(1);
  table.data = {
      .folders = {{file("one.csv", rows), file("two.csv", rows)}, {file("three.csv", rows), file("four.csv", rows)}}};
  table.federation.model = {file("net.pt", bytes_of(plain)), {}};
  run_in_folder(task("first", table), {});
  table.federation.start = path("first/model.safetensors");
  run_in_folder(task("same", table), {});
  table.federation.model = {LABELSHIFT_EXAMPLES "/../tests/federation/reference/normed.pt", {}};
  EXPECT_THROW(run_in_folder(task("other", table), {}), Error);
}

}  // namespace
}  // namespace labelshift
