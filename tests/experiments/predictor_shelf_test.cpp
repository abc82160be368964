#include "labelshift/experiments/predictor_shelf.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "labelshift/experiments/federation_run.hpp"
#include "labelshift/federation/federated_data.hpp"
#include "labelshift/learning/training_threads.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

class SharedPredictors : public Scratch {
 protected:
  static void SetUpTestSuite() { use_one_torch_thread(); }

  static RunSettings settings() {
    RunSettings settings{
        .data = {
            .set = LABELSHIFT_EXAMPLES "/small-fashion-mnist", .partition = "dirichlet", .nodes = 5, .alpha = 5.0}};
    FederationSettings& federation = settings.federation;
    federation.model = {"logistic", {}};
    federation.rounds = 3;
    federation.sampled = 2;
    federation.local = {.batch = 8};
    federation.ratio.method = "mlls-bct";
    federation.ratio.net = {"logistic", {}};
    federation.ratio.predictor = PredictorScope::kFederated;
    federation.ratio.rounds = 20;
    return settings;
  }

  RunResult run(const std::string& folder, const RunSettings& settings, const std::string& predictors) const {
    Experiment experiment{.name = "test", .title = "test"};
    return run_in_folder(
        {path(folder), write_experiment(experiment, {.name = "run", .settings = settings}, 0), settings, predictors},
        {});
  }
  std::vector<std::string> shelf() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path("shelf"))) files.push_back(entry.path());
    return files;
  }
  /// Changes the weights of the one predictor that is kept, so that a run which takes it shows.
  void halve(const RunSettings& settings) const {
    const PredictorShelf kept = shelf_of(settings);
    TrainedTogether trained = kept.find(0.0).value();
    for (float& weight : trained.weights) weight *= 0.5F;
    kept.keep(0.0, trained);
  }
  PredictorShelf shelf_of(const RunSettings& settings) const {
    return {path("shelf"), settings, make_federated_data(settings.data, 0).fingerprint};
  }
};

const PhaseCost& predictor_cost(const RunResult& result) {
  for (const PhaseCost& cost : result.state.phases)
    if (cost.name == phase::kPredictor) return cost;
  throw std::logic_error("no predictor was trained");
}

TEST_F(SharedPredictors, GiveTheBitsOfARunThatTrainedItsOwn) {
  RunSettings other = settings();
  other.federation.ratio.method = "mlls-ts";
  other.federation.rounds = 4;
  run("first", settings(), path("shelf"));
  ASSERT_EQ(shelf().size(), 1u);
  const RunResult shared = run("shared", other, path("shelf"));
  EXPECT_EQ(shelf().size(), 1u);
  const RunResult own = run("own", other, "");
  for (const char* name : {"/model.safetensors", "/rounds.csv"})
    EXPECT_EQ(bytes_of(path(std::string("shared") + name)), bytes_of(path(std::string("own") + name))) << name;
  EXPECT_EQ(predictor_cost(shared).rounds, predictor_cost(own).rounds);
  EXPECT_EQ(predictor_cost(shared).traffic.up, predictor_cost(own).traffic.up);
  EXPECT_EQ(predictor_cost(shared).traffic.down, predictor_cost(own).traffic.down);
}

TEST_F(SharedPredictors, AreTakenAndNotTrainedAgain) {
  const RunResult first = run("first", settings(), path("shelf"));
  halve(settings());
  const RunResult second = run("second", settings(), path("shelf"));
  EXPECT_GT((first.state.target_sum - second.state.target_sum).norm(), 1e-6);
}

TEST_F(SharedPredictors, OfADamagedFileAreTrainedAgain) {
  const RunResult first = run("first", settings(), path("shelf"));
  file("shelf/" + fs::path(shelf().at(0)).filename().string(), "damaged");
  const RunResult second = run("second", settings(), path("shelf"));
  EXPECT_EQ(first.state.target_sum, second.state.target_sum);
  EXPECT_TRUE(shelf_of(settings()).find(0.0).has_value());
}

TEST_F(SharedPredictors, AreNotAskedForWhereNoneIsTrained) {
  for (const char* method : {"none", "true"}) {
    RunSettings none = settings();
    none.federation.ratio.method = method;
    run(method, none, path("shelf"));
  }
  RunSettings local = settings();
  local.federation.ratio.predictor = PredictorScope::kLocal;
  run("local", local, path("shelf"));
  EXPECT_FALSE(fs::exists(path("shelf")));
}

struct Change {
  const char* name;
  void (*make)(RunSettings& settings);
};
void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

constexpr Change kChanges[] = {
    {"Seed", [](RunSettings& s) { s.federation.seed = 1; }},
    {"Method", [](RunSettings& s) { s.federation.ratio.method = "mlls"; }},  // which needs nothing held out
    {"HeldOut", [](RunSettings& s) { s.federation.ratio.held_out = 0.3; }},
    {"Fraction", [](RunSettings& s) { s.federation.ratio.fraction = 0.5; }},
    {"Rounds", [](RunSettings& s) { s.federation.ratio.rounds = 19; }},
    {"LearningRate", [](RunSettings& s) { s.federation.ratio.learning_rate = 1e-2; }},
    {"WeightDecay", [](RunSettings& s) { s.federation.ratio.weight_decay = 1e-2; }},
    {"Net",
     [](RunSettings& s) {
       s.federation.ratio.net = {"mlp", {}};
     }},
    {"NetSettings",
     [](RunSettings& s) {
       s.federation.ratio.net = {"mlp", {{"dropout", "0.5"}}};
     }},
    {"Sampled", [](RunSettings& s) { s.federation.sampled = 3; }},
    {"Batch", [](RunSettings& s) { s.federation.local.batch = 4; }},
    {"SourceHoldout", [](RunSettings& s) { s.federation.source_holdout = 0.2; }},
    {"Data", [](RunSettings& s) { s.data.alpha = 1.0; }},
};

class WhatAPredictorDependsOn : public SharedPredictors, public testing::WithParamInterface<Change> {};

TEST_P(WhatAPredictorDependsOn, IsTrainedAnew) {
  RunSettings changed = settings();
  GetParam().make(changed);
  EXPECT_NE(shelf_of(changed).path(0.0), shelf_of(settings()).path(0.0));
}
INSTANTIATE_TEST_SUITE_P(Changes, WhatAPredictorDependsOn, testing::ValuesIn(kChanges),
                         [](const auto& change) { return std::string(change.param.name); });

TEST_F(SharedPredictors, DependOnZetaAndNotOnWhatComesAfterThem) {
  EXPECT_NE(shelf_of(settings()).path(0.0), shelf_of(settings()).path(1.0));
  RunSettings changed = settings();
  FederationSettings& federation = changed.federation;
  federation.model = {"mlp", {}};
  federation.server.learning_rate = 0.1;
  federation.rounds = 7;
  federation.algorithm = "iw-erm";
  federation.ratio.method = "mlls-confusion";
  federation.ratio.shared_prior = true;
  EXPECT_EQ(shelf_of(changed).path(0.0), shelf_of(settings()).path(0.0));
  federation.ratio.method = "mlls";  // which holds nothing out itself
  federation.ratio.refresh = 1;
  EXPECT_EQ(shelf_of(changed).path(0.0), shelf_of(settings()).path(0.0));
}

}  // namespace
}  // namespace labelshift
