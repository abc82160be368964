#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/algorithms/fedavg.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/faulty_engine.hpp"
#include "tests/federation/gaussian_federation.hpp"

// Federations on networks where everything goes wrong that can: 200 random schedules for each algorithm.

namespace labelshift {
namespace {

constexpr int kSchedules = 200;
constexpr int kMostRestarts = 5000;  // of a coordinator; more is a hang

/// An algorithm that needs everybody and what came of a round: nodes push each other apart by how far they ended from
/// the mean.
class Tracking : public FedAvg {
 public:
  explicit Tracking(const AlgorithmSetup& setup) : FedAvg(setup) {}
  bool has_memory() const override { return true; }
  MissingNodes when_missing() const override { return MissingNodes::kRepeat; }
  void node_settle(NodeRound& round) const override {
    const std::span<const float> mean = request_parts().of(round.request, "parameters");
    std::vector<float>& offset = round.memory.at("offset");
    for (std::size_t i = 0; i < offset.size(); ++i) offset[i] += 0.1F * (mean[i] - round.memory.at("end")[i]);
  }
  TaskAnswer<Train> node_update(NodeRound& round) const override {
    std::vector<float>& offset = round.memory["offset"];
    offset.resize(static_cast<std::size_t>(shared().parameters()));
    TaskAnswer<Train> answer = answer_of(round, train_locally(round, offset));
    const std::span<const float> end = round.model.net().parameters();
    round.memory["end"].assign(end.begin(), end.end());
    return answer;
  }
};

constexpr AlgorithmEntry kTracking{
    .name = "tracking", .summary = "for tests", .make = make_one<Tracking>, .check = check_several_steps};

std::vector<AlgorithmEntry> algorithms_under_test() {
  std::vector<AlgorithmEntry> all(algorithms().begin(), algorithms().end());
  all.push_back(kTracking);
  return all;
}

FederatedData four_nodes() {
  return gaussian_federation(
      {{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}, {{3, 3, 12}, {9, 3, 3}}, {{6, 6, 6}, {5, 5, 5}}});
}

FederationSettings settings_for(const std::string& algorithm, std::uint64_t schedule) {
  FederationSettings settings = quick_settings();
  settings.algorithm = algorithm;
  settings.rounds = 6;
  settings.evaluate_every = 3;
  settings.seed = schedule;
  settings.patience.quorum = 1;
  settings.server = {.optimiser = schedule % 2 == 0 ? "sgd" : "adam", .learning_rate = 0.5, .weight_decay = 0.0};
  settings.local = {.steps = 3, .batch = 8, .learning_rate = 0.1};
  if (schedule % 3 == 0) settings.sampled = 3;
  if (algorithm == kTracking.name) {
    settings.own_algorithm = &kTracking;
    settings.sampled = 0;
  }
  suit_algorithm(settings);
  if (algorithm == "fedbn") settings.model = {LABELSHIFT_FEDERATION_REFERENCE "/normed.pt", {}};
  if (algorithm == "iw-erm" || schedule % 4 == 1) settings.ratio.method = "true";
  return settings;
}

/// What a coordinator wrote on its disk last.
struct Disk {
  FederationState state;
  std::map<std::uint64_t, std::set<Index>> present;  // by round, whose answers counted when it was last run
  int stated = 0;                                    // failures that ended a run
};

/// Runs a federation to its end, however often its coordinator is killed or gives up, saving every second round.
FederationState run_to_the_end(const FederationSettings& settings, const FederationTask& task, Engine& engine,
                               Disk& disk) {
  for (int restarts = 0; restarts < kMostRestarts; ++restarts) {
    try {
      return run_federation(settings, task, engine,
                            {.checkpoint =
                                 [&](const FederationMoment& moment) {
                                   const FederationState& state = moment.state();
                                   auto& present = disk.present[static_cast<std::uint64_t>(state.round)];
                                   present.clear();
                                   for (std::size_t node = 0; node < state.counted.size(); ++node)
                                     if (state.counted[node] == static_cast<std::uint64_t>(state.round))
                                       present.insert(static_cast<Index>(node));
                                   if (state.round % 2 == 1) return false;
                                   disk.state = state;
                                   return true;
                                 }},
                            disk.state);
    } catch (const CoordinatorKilled&) {
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer) << error.what();  // it cannot do without somebody
      ++disk.stated;
    }
  }
  ADD_FAILURE() << "it never ended";
  return {};
}

void expect_same(const FederationState& a, const FederationState& b) {
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.buffers, b.buffers);
  EXPECT_EQ(a.algorithm.parts, b.algorithm.parts);
  EXPECT_EQ(a.counted, b.counted);
  ASSERT_EQ(a.history.size(), b.history.size());
  for (std::size_t i = 0; i < a.history.size(); ++i) {
    if (std::isnan(a.history[i].loss) || std::isnan(b.history[i].loss)) continue;  // lost on its way
    EXPECT_EQ(a.history[i].loss, b.history[i].loss) << i;
  }
}

class EveryAlgorithmUnderFaults : public testing::TestWithParam<AlgorithmEntry> {
 protected:
  using MakeHomes = std::function<NodeLookup(const FederatedData& data)>;

  FaultyEngine::MakeEngine maker(const FederationSettings& settings, NodeLookup lookup) const {
    return
        [&settings, lookup] { return make_in_process_engine(4, make_node_programs(settings, lookup), {.workers = 2}); };
  }
  NodeLookup in(NodeStore& store) const {
    return [this, &store](Index node) { return NodeHome{data_.nodes[static_cast<std::size_t>(node)], store.of(node)}; };
  }
  FederationTask task() const { return {.shape = data_.shape, .class_names = data_.class_names}; }

  const FederatedData data_ = four_nodes();
};

TEST_P(EveryAlgorithmUnderFaults, GivesTheSameBitsWhereNothingIsLost) {
  for (std::uint64_t schedule = 0; schedule < kSchedules / 2; ++schedule) {
    SCOPED_TRACE(schedule);
    const FederationSettings settings = settings_for(GetParam().name, schedule);
    const FederationState plain = LocalFederation(settings, data_).run();
    NodeStore store({.folder = testing::TempDir() + "labelshift-nodes"});
    FaultyEngine engine(maker(settings, in(store)),
                        {.repeat = 0.2, .delay = 0.1, .restart_nodes = 0.1, .kill_coordinator = 0.15}, schedule);
    Disk disk;
    expect_same(run_to_the_end(settings, task(), engine, disk), plain);
    if (HasFailure()) return;
  }
}

TEST_P(EveryAlgorithmUnderFaults, IsAsIfTheNodesThatWereLostHadBeenAbsent) {
  for (std::uint64_t schedule = 0; schedule < kSchedules / 2; ++schedule) {
    SCOPED_TRACE(schedule);
    const FederationSettings settings = settings_for(GetParam().name, schedule);
    NodeStore store({.folder = testing::TempDir() + "labelshift-nodes"});
    FaultyEngine engine(maker(settings, in(store)),
                        {.drop = 0.04,
                         .late = 0.02,
                         .unreachable = 0.04,
                         .corrupt = 0.04,
                         .repeat = 0.1,
                         .delay = 0.05,
                         .restart_nodes = 0.1,
                         .kill_coordinator = 0.1},
                        1000 + schedule);
    Disk disk;
    const FederationState end = run_to_the_end(settings, task(), engine, disk);
    for (const float weight : end.parameters) ASSERT_TRUE(std::isfinite(weight));
    LocalFederation reliable(settings, data_);
    const auto net = global_model(settings, reliable.task(), end);
    if (make_algorithm({settings, *net, 4})->when_missing() == MissingNodes::kRepeat) {
      for (const auto& [round, nodes] : disk.present) EXPECT_EQ(nodes.size(), 4U) << round;  // not without somebody
    }
    AbsentNodes absent(reliable.engine(), disk.present);
    expect_same(run_federation(settings, task(), absent), end);
    // SCAFFOLD's c is the mean of the c_k that count; both are float32.
    if (const auto control = end.algorithm.parts.find("control"); control != end.algorithm.parts.end()) {
      std::vector<double> mean(control->second.size());
      for (Index node = 0; node < 4; ++node) {
        NamedParts kept = recall_round(*store.of(node), end.counted[static_cast<std::size_t>(node)]);
        for (std::size_t i = 0; i < kept["control"].size(); ++i) mean[i] += kept["control"][i] / 4.0;
      }
      for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(control->second[i], mean[i], 1e-5) << i;
    }
    if (HasFailure()) return;
  }
}

class RefreshUnderFaults : public testing::Test {
 protected:
  /// Every other schedule trains the predictor together, which takes many more calls before the first round.
  static FederationSettings refreshed(std::uint64_t schedule) {
    FederationSettings settings = settings_for("iw-erm", schedule);
    settings.ratio.method = "vrls";
    settings.ratio.epochs = 2;
    settings.ratio.rounds = 3;
    settings.ratio.refresh = 1 + static_cast<int>(schedule % 3);
    if (schedule % 2 == 1) settings.ratio.predictor = PredictorScope::kFederated;
    settings.patience.quorum = 0;
    return settings;
  }
  /// Runs a schedule to its end, whatever is lost, and compares it with one in which nothing is.
  FederationState expect_the_bits_of_a_plain_run(const FaultRates& rates, std::uint64_t schedule) {
    const FederationSettings settings = refreshed(schedule);
    const FederationState plain = LocalFederation(settings, data_).run();
    NodeStore store({.folder = testing::TempDir() + "labelshift-nodes"});
    FaultyEngine engine(
        [&] { return make_in_process_engine(4, make_node_programs(settings, data_, store), {.workers = 2}); }, rates,
        schedule);
    Disk disk;
    const FederationState end =
        run_to_the_end(settings, {.shape = data_.shape, .class_names = data_.class_names}, engine, disk);
    stated_ += disk.stated;
    expect_same(end, plain);
    EXPECT_EQ(end.target_sum, plain.target_sum);
    EXPECT_EQ(end.target_error, plain.target_error);
    EXPECT_EQ(end.weighings.size(), plain.weighings.size());
    for (const Weighing& weighing : end.weighings) EXPECT_EQ(weighing.skipped, "");
    return end;
  }

  const FederatedData data_ = four_nodes();
  int stated_ = 0;  // failures, in all schedules
};

TEST_F(RefreshUnderFaults, GivesTheSameBitsWhereNothingIsLost) {
  for (std::uint64_t schedule = 0; schedule < 25; ++schedule) {
    SCOPED_TRACE(schedule);
    expect_the_bits_of_a_plain_run({.repeat = 0.2, .delay = 0.1, .restart_nodes = 0.1, .kill_coordinator = 0.02},
                                   schedule);
    if (HasFailure()) return;
  }
  EXPECT_EQ(stated_, 0);
}

TEST_F(RefreshUnderFaults, GivesTheSameBitsWhereEveryLossEndsInAStatedFailure) {
  // Everybody is needed in every call, so that whoever is lost ends the run; it goes on from its last checkpoint. Of
  // some 100 calls to 4 nodes about one loses somebody.
  for (std::uint64_t schedule = 0; schedule < 10; ++schedule) {
    SCOPED_TRACE(schedule);
    expect_the_bits_of_a_plain_run({.drop = 0.001,
                                    .late = 0.0005,
                                    .unreachable = 0.001,
                                    .corrupt = 0.001,
                                    .repeat = 0.1,
                                    .restart_nodes = 0.05,
                                    .kill_coordinator = 0.005},
                                   2000 + schedule);
    if (HasFailure()) return;
  }
  EXPECT_GT(stated_, 5);
}

class LateUnderADeadline : public testing::TestWithParam<const char*> {};

TEST_P(LateUnderADeadline, IsAbsentWhereOthersAreAveragedAndWaitedForWhereAllAreNeeded) {
  const FederatedData data = four_nodes();
  for (std::uint64_t schedule = 0; schedule < 2; ++schedule) {
    SCOPED_TRACE(schedule);
    FederationSettings settings = settings_for(GetParam(), 1 + schedule);  // with every node in every round
    settings.patience.deadline = std::chrono::milliseconds(1);
    // Two of four at most, so that a quorum of one is there without them.
    const auto is_late = [&](Index node, std::uint64_t round) {
      return node % 2 == static_cast<Index>(schedule) && (round + static_cast<std::uint64_t>(node)) % 3 != 0;
    };
    LocalFederation reliable(settings, data);
    const FederationState plain = reliable.run();
    const bool everybody =
        make_algorithm({settings, *global_model(settings, reliable.task(), plain), 4})->when_missing() ==
        MissingNodes::kRepeat;
    // Those who are not waited for hear of it; the others are late by some deadlines.
    const std::chrono::milliseconds how_late = everybody ? std::chrono::milliseconds(20) : std::chrono::seconds(20);
    NodeStore store({.folder = testing::TempDir() + "labelshift-nodes"});
    FaultyEngine engine(
        [&] {
          return make_in_process_engine(
              4, with_late_nodes(make_node_programs(settings, data, store), is_late, how_late), {.workers = 4});
        },
        {.restart_nodes = 0.1, .kill_coordinator = 0.1}, schedule);
    Disk disk;
    const FederationState end =
        run_to_the_end(settings, {.shape = data.shape, .class_names = data.class_names}, engine, disk);
    EXPECT_EQ(disk.stated, 0);
    EXPECT_EQ(end.round, settings.rounds);
    if (everybody) {
      expect_same(end, plain);
      continue;
    }
    for (const auto& [round, nodes] : disk.present)
      for (Index node = 0; node < 4; ++node)
        if (round > 0 && is_late(node, round)) {
          EXPECT_FALSE(nodes.contains(node)) << round << " " << node;
        }
    LocalFederation other(settings, data);
    AbsentNodes absent(other.engine(), disk.present);
    settings.patience.deadline.reset();
    expect_same(run_federation(settings, other.task(), absent), end);
  }
}

INSTANTIATE_TEST_SUITE_P(Federation, LateUnderADeadline,
                         testing::Values("fedavg", "scaffold", "fedcomgate", "proxskip", "tracking"),
                         [](const auto& row) { return std::string(row.param); });

class FoldersUnderFaults : public Scratch {};

TEST_F(FoldersUnderFaults, KeepWhatANodeNeedsToGoOn) {
  const FederatedData data = four_nodes();
  for (std::uint64_t schedule = 0; schedule < 4; ++schedule) {
    const FederationSettings settings = settings_for("scaffold", schedule);
    const FederationState plain = LocalFederation(settings, data).run();
    FaultyEngine engine(
        [&] {
          return make_in_process_engine(
              4,
              make_node_programs(settings,
                                 [&](Index node) {
                                   return NodeHome{data.nodes[static_cast<std::size_t>(node)],
                                                   std::make_unique<FolderMemory>(
                                                       path(std::to_string(schedule) + "-" + std::to_string(node)))};
                                 }),
              {.workers = 2});
        },
        {.repeat = 0.2, .restart_nodes = 0.2, .kill_coordinator = 0.15}, schedule);
    Disk disk;
    expect_same(run_to_the_end(settings, {.shape = data.shape, .class_names = data.class_names}, engine, disk), plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Federation, EveryAlgorithmUnderFaults, testing::ValuesIn(algorithms_under_test()),
                         [](const auto& row) {
                           std::string name = row.param.name;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

}  // namespace
}  // namespace labelshift
