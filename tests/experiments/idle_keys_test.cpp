#include "labelshift/experiments/idle_keys.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "labelshift/experiments/comparison.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/experiments/shipped_experiments.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Given {
  std::string key, value;
};

/// What a federation comes to: its model.
std::vector<float> model_of(const RunSettings& settings) {
  const FederatedData data = gaussian_federation({{{40, 20, 20}, {20, 40, 20}}, {{20, 40, 20}, {20, 20, 40}}});
  check_settings(settings.federation, 2);
  FederationState state = LocalFederation(settings.federation, data, 1).run();
  return state.parameters;
}

RunSettings settings_of(std::initializer_list<Given> given) {
  RunSettings settings;
  settings.federation = quick_settings();
  settings.federation.rounds = 6;
  settings.federation.ratio.epochs = 12;
  settings.federation.ratio.rounds = 10;
  for (const Given& one : given) change_setting(settings, one.key, one.value, "test");
  return settings;
}

/// Values that no settings below have, and that change what they are about.
const Given kChanges[] = {{"training.local-learning-rate", "0.03"},
                          {"training.local-weight-decay", "0.2"},
                          {"training.learning-rate", "0.02"},
                          {"training.beta1", "0.5"},
                          {"training.beta2", "0.6"},
                          {"training.epsilon", "0.01"},
                          {"training.compression-levels", "2"},
                          {"training.compression-kept", "0.9"},
                          {"training.regulariser-strength", "0.2"},
                          {"training.regulariser-bound", "0.01"},
                          {"training.round-probability", "0.9"},
                          {"training.fedlc-tau", "3.0"},
                          {"training.fedpals-lambda", "50.0"},
                          {"training.smoothness", "7.0"},
                          {"training.noise", "90.0"},
                          {"ratio.net-settings", "{hidden = \"3\"}"},
                          {"ratio.fraction", "0.5"},
                          {"ratio.held-out", "0.4"},
                          {"ratio.epochs", "9"},
                          {"ratio.stop-below", "5.0"},
                          {"ratio.rounds", "3"},
                          {"ratio.learning-rate", "0.2"},
                          {"ratio.weight-decay", "0.3"},
                          {"ratio.max-ratio", "0.4"},
                          {"ratio.calibrate-on-test", "true"},
                          {"ratio.floor", "0.6"}};

TEST(IdleKey, IsOneThatChangesNothing) {
  const Given sgd{"training.server", "sgd"}, plain{"training.weight-decay", "0.0"},
      whole{"training.learning-rate", "1.0"}, theorem{"training.step", "theorem"}, steps{"training.local-steps", "2"};
  const auto algorithm = [](const char* name) { return Given{"training.algorithm", name}; };
  const auto method = [](const char* name) { return Given{"ratio.method", name}; };
  const RunSettings all[] = {
      settings_of({}),
      settings_of({sgd, steps}),
      settings_of({algorithm("fafed"), plain, {"training.local-learning-rate", "0.1"}}),
      settings_of({algorithm("fafed"), plain, sgd}),
      settings_of({algorithm("proxskip"), sgd, plain, whole, {"training.regulariser", "l1"}}),
      settings_of({algorithm("fedlc"), {"training.compression", "qsgd"}}),
      settings_of({algorithm("fedpals"), method("true")}),
      settings_of({algorithm("fedcom"),
                   sgd,
                   plain,
                   {"training.learning-rate", "2.0"},
                   steps,
                   theorem,
                   {"training.compression", "random-k"}}),
      settings_of({sgd, theorem, {"training.noise", "1.0"}, {"training.regulariser", "box"}}),
      settings_of({algorithm("iw-erm"), method("mlls")}),
      settings_of({algorithm("iw-erm"), method("vrls"), {"ratio.net", "mlp"}, {"ratio.refresh", "3"}}),
      settings_of({algorithm("iw-erm"), method("mlls-bct"), {"ratio.predictor", "federated"}}),
      settings_of({algorithm("iw-erm"), method("mlls"), {"ratio.goal-node", "1"}, {"ratio.goal-shift", "false"}}),
  };
  int idle = 0, used = 0, hidden = 0;
  for (const RunSettings& settings : all) {
    const std::vector<float> before = model_of(settings);
    for (const auto& [key, value] : kChanges) {
      SCOPED_TRACE(fmt::format("{} of {}", key, settings_json(settings)));
      const std::string why = why_idle(key, settings);
      RunSettings changed = settings;
      try {
        change_setting(changed, key, value, "test");
        const bool same = model_of(changed) == before;
        EXPECT_TRUE(same || why.empty()) << why;
        ++(!why.empty() ? idle : same ? hidden : used);
      } catch (const Error&) {  // it does not go with the others, which is said
      }
    }
  }
  // Without batch norms fedbn is fedavg, which is nothing that settings tell.
  EXPECT_EQ(why_idle("training.local-learning-rate", settings_of({algorithm("fedbn")})), "");
  // An estimate in a corner of the simplex stays there with other epochs and another weight decay of its predictor.
  EXPECT_LE(hidden, 2);
  EXPECT_GT(idle, 100);
  EXPECT_GT(used, 50);
}

constexpr const char* kStart = R"([data]
set = "fashion-mnist"
partition = "paper-5"
alpha = 0.3
)";

std::vector<std::string> notes_of(const std::string& rest) {
  return idle_key_notes(parse_experiment(kStart + rest, "e.toml", "/"));
}

TEST(IdleKeys, AreSaidOnceWithTheirLineAndTheReason) {
  EXPECT_THAT(notes_of("[training]\nnoise = 1.0\nlearning-rate = 0.1\n[ratio]\nepochs = 3\n"),
              ElementsAre("e.toml, line 4: data.alpha has no effect, since the partition is not dirichlet.",
                          "e.toml, line 6: training.noise has no effect, since step is not \"theorem\".",
                          "e.toml, line 9: ratio.epochs has no effect, since [ratio] estimates nothing."));
}

TEST(IdleKeys, AreNoneThatAnyRowUses) {
  const std::string rows =
      "[training]\nround-probability = 0.5\nlocal-weight-decay = 0.1\n[[compare]]\nname = \"a\"\n[[compare]]\nname = "
      "\"b\"\n"
      "data.partition = \"dirichlet\"\ndata.nodes = 3\n";
  EXPECT_THAT(notes_of(rows + "training.algorithm = \"fedbn\"\n"),
              ElementsAre("e.toml, line 6: training.round-probability has no effect, since the algorithm is not "
                          "proxskip."));
  EXPECT_THAT(notes_of(rows + "tune = {\"training.algorithm\" = [\"fedavg\", \"proxskip\"]}\n"), IsEmpty());
  // What a row says itself is for that row.
  EXPECT_THAT(notes_of(rows + "training.algorithm = \"proxskip\"\n[[compare]]\nname = \"c\"\ndata.alpha = 1.0\n"),
              ElementsAre("e.toml, line 17: data.alpha has no effect, since the partition is not dirichlet."));
}

TEST(IdleKeys, AreNotSaidOfWhatAProgramWrote) {
  const Experiment said = parse_experiment(kStart, "e.toml", "/");
  const std::string written = write_experiment(said, said.runs[0], 0);
  EXPECT_THAT(idle_key_notes(parse_experiment(written, "again.toml", "/")), IsEmpty());
  EXPECT_EQ(idle_key_notes(said).size(), 1u);
}

TEST(IdleKeys, AreInNoFileThatComesAlong) {
  for (const ShippedExperiment& shipped : shipped_experiments())
    EXPECT_THAT(idle_key_notes(shipped_experiment(shipped.name)), IsEmpty()) << shipped.name;
  for (const char* name : {"federation", "federation-sizes", "sites"})
    EXPECT_THAT(idle_key_notes(read_experiment(fmt::format("{}/{}.toml", LABELSHIFT_EXAMPLES, name))), IsEmpty())
        << name;
}

}  // namespace
}  // namespace labelshift
