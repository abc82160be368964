#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/gaussian_federation.hpp"

// What a run tells, and what it does with answers, memories and beginnings of its own.

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kNormed = LABELSHIFT_FEDERATION_REFERENCE "/normed.pt";

FederatedData two_nodes() {
  return gaussian_federation({{{20, 5, 5}, {5, 20, 5}}, {{5, 5, 20}, {10, 10, 10}}});
}

std::string error_of(ErrorKind kind, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

/// Changes answers on their way to the coordinator, as a node that lies would.
class Tampering : public Engine {
 public:
  using Change = std::function<void(Index node, TaskKind task, Answer& answer)>;
  Tampering(Engine& engine, Change change) : engine_(engine), change_(std::move(change)) {}
  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    AnswerTerms tampered = terms;
    tampered.accept = [&](Index node, Answer& answer) {
      change_(node, static_cast<TaskKind>(request.task), answer);
      if (terms.accept) terms.accept(node, answer);
    };
    return engine_.run(request, cohort, tampered, patience, observer);
  }

 private:
  Engine& engine_;
  Change change_;
};

TEST(Coordinator, RefusesAnswersOfAnotherShape) {
  const FederatedData data = two_nodes();
  const FederationSettings settings = quick_settings();
  using Change = std::function<void(Answer&)>;
  const std::vector<Change> changes = {
      [](Answer& answer) { answer.words.push_back(0); },
      [](Answer& answer) { answer.numbers.push_back(0.0); },
      [](Answer& answer) { answer.weights.push_back(0.0F); },
      [](Answer& answer) { answer.report.resize(answer.report.size() + 1); },
      [](Answer& answer) { answer.report.resize(1 << 20); },
  };
  const Change fewer_words = [](Answer& answer) { answer.words.pop_back(); };
  const Change fewer_numbers = [](Answer& answer) { answer.numbers.pop_back(); };
  const Change packed = [](Answer& answer) { answer.packed.resize(1); };
  const Change not_finite = [](Answer& answer) { answer.numbers.back() = std::nan(""); };
  std::map<TaskKind, std::vector<Change>> of_task = {{TaskKind::kJoin, {fewer_words}},
                                                     {TaskKind::kTrain, {fewer_numbers, packed, not_finite}}};
  for (auto& [where, all] : of_task) {
    all.insert(all.end(), changes.begin(), changes.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      LocalFederation federation(settings, data);
      Tampering engine(federation.engine(), [&](Index node, TaskKind task, Answer& answer) {
        if (task == where && node == 1) all[i](answer);
      });
      EXPECT_THAT(error_of(ErrorKind::kPeer, [&] { run_federation(settings, federation.task(), engine); }),
                  testing::StartsWith("node 2: "))
          << i;
    }
  }
}

TEST(Coordinator, RefusesAClassThatThereIsNot) {
  const FederatedData data = two_nodes();
  const FederationSettings settings = quick_settings();
  LocalFederation federation(settings, data);
  Tampering engine(federation.engine(), [](Index node, TaskKind task, Answer& answer) {
    if (task == TaskKind::kJoin && node == 0)
      answer.report = to_bytes(Join::Report{.details = Join::Details{.missing = {3}}});
  });
  EXPECT_THAT(error_of(ErrorKind::kPeer, [&] { run_federation(settings, federation.task(), engine); }),
              HasSubstr("node 1: it lacks a class 3 of 3"));
}

TEST(Coordinator, RefusesAnswersThatWeighNothing) {
  const FederatedData data = two_nodes();
  FederationSettings together = weighted_settings("mlls");  // of a predictor, first of all
  together.ratio.predictor = PredictorScope::kFederated;
  for (const FederationSettings& settings : {quick_settings(), together})
    for (const double weight : {0.0, -1.0}) {
      LocalFederation federation(settings, data);
      Tampering engine(federation.engine(), [=](Index node, TaskKind task, Answer& answer) {
        if (node == 0 && (task == TaskKind::kTrain || task == TaskKind::kTrainPredictor)) answer.numbers[0] = weight;
      });
      EXPECT_THAT(error_of(ErrorKind::kPeer, [&] { run_federation(settings, federation.task(), engine); }),
                  HasSubstr("node 1: its answer weighs nothing"));
    }
}

/// Runs a federation in which node 1 answers one task with what `lie` makes of its answer, and returns the error.
std::string error_of_lie(const FederationSettings& settings, TaskKind about, const std::function<void(Answer&)>& lie) {
  const FederatedData data = two_nodes();
  LocalFederation federation(settings, data);
  Tampering engine(federation.engine(), [&](Index node, TaskKind task, Answer& answer) {
    if (task == about && node == 0) lie(answer);
  });
  return error_of(ErrorKind::kPeer, [&] { run_federation(settings, federation.task(), engine); });
}

/// The answer but for its report, of which `change` changes a field.
template <typename Report, typename Change>
auto with_report(Change change) {
  return [change](Answer& answer) {
    auto report = from_bytes<Report>(answer.report);
    change(report);
    answer.report = to_bytes(report);
  };
}

TEST(Coordinator, NoticesWeightsThatAreNotFinite) {
  FederationSettings settings = quick_settings();
  settings.server = {.optimiser = "sgd", .learning_rate = 1e6, .weight_decay = 1e6};
  const FederatedData data = two_nodes();
  LocalFederation federation(settings, data);
  EXPECT_THAT(error_of(ErrorKind::kInput, [&] { federation.run(); }),
              testing::ContainsRegex("after round [0-9]+ the model has weights that are not finite; use smaller"));
}

TEST(Coordinator, WarnsOfAServerThatHardlyMoves) {
  FederationSettings settings = quick_settings();
  settings.rounds = 1;
  settings.local.steps = 2;
  settings.server = {.optimiser = "sgd", .learning_rate = 1e-3};
  const FederatedData data = two_nodes();
  EXPECT_THAT(LocalFederation(settings, data).run().warnings,
              testing::ElementsAre("the server goes 0.001 of the way that nodes have gone, which is very little; "
                                   "learning-rate = 1 is their mean"));
  settings.server.learning_rate = 1.0;
  EXPECT_THAT(LocalFederation(settings, data).run().warnings, testing::IsEmpty());
}

TEST(Coordinator, RefusesExamplesOfANegativeSize) {
  FederationSettings settings = quick_settings();
  settings.server = {.optimiser = "sgd"};
  settings.step.rule = StepRule::kTheorem;
  settings.step.noise = 1.0;
  EXPECT_THAT(error_of_lie(settings, TaskKind::kAgree,
                           [](Answer& answer) { answer.report = to_bytes(Agree::Report{.largest_square = -1.0}); }),
              HasSubstr("node 1: the largest square of its examples is -1, expected 0 or more"));
}

TEST(Coordinator, RefusesToCountANodeMoreThanOnceOrExamplesBelowZero) {
  const auto lie_at = [](std::size_t place, double value) {
    return error_of_lie(quick_settings(), TaskKind::kJoin,
                        [&](Answer& answer) { answer.words.at(place) = to_fixed(value, 1); });
  };
  EXPECT_EQ(lie_at(2, 7.0),
            "node 1: it says that the number of nodes that hold a class is 7, expected a count of 1 at most; does it "
            "run this version?");
  EXPECT_THAT(lie_at(3, 0.5), HasSubstr("the number of nodes that test a class is 0.5, expected a count of 1 at most"));
  EXPECT_EQ(
      lie_at(8, -1.0 / Join::kCountUnit),
      "node 1: it says that the number of examples of a class is -1, expected a count; does it run this version?");
  EXPECT_THAT(lie_at(6, 2.5 / Join::kCountUnit), HasSubstr("the number of examples of a class is 2.5"));
  // Three times three classes, then sums of two columns of 8 digits and sums of squares of 15.
  for (const std::size_t place : {9 + 2 * 8 + 14, 9 + 2 * 8 + 2 * 15 - 1})
    EXPECT_THAT(lie_at(place, -0.5), HasSubstr("node 1: it says that a sum of squares of values is -")) << place;
  EXPECT_THAT(lie_at(0, 5e6), HasSubstr("node 1: it adds 5e+06 to a sum, and each of 2 nodes can add 4.1943e+06 at "
                                        "most; does it run this version?"));
}

/// Data of this shape at three nodes, of 20, 50 and 4 examples, half of them of each class.
FederatedData values_at_nodes(ExampleShape shape, const std::function<void(Dataset& data, Index examples)>& fill) {
  FederatedData data{.shape = shape, .class_names = {"a", "b"}};
  for (const Index examples : {20, 50, 4}) {
    auto set = std::make_unique<Dataset>(Dataset{.shape = shape, .class_names = {"a", "b"}});
    for (Index i = 0; i < examples; ++i) set->labels.push_back(static_cast<int>(i % 2));
    fill(*set, examples);
    data.nodes.push_back({set.get(), all_rows(examples), set.get(), all_rows(examples)});
    data.sets.push_back(std::move(set));
  }
  return data;
}

TEST(Coordinator, AddsUpValuesOfAnyUnitAsExactlyAsDoublesDo) {
  Rng rng(5);
  const std::vector<double> units = {1e-30, 1e-8, 1e-3, 1.0, 1e4, 1e9, 1e30};
  const ExampleShape row{.width = std::ssize(units)};
  const FederatedData table = values_at_nodes(row, [&](Dataset& data, Index examples) {
    std::vector<float> values;
    for (Index i = 0; i < examples; ++i)  // every column has a mean that is far from 0 and one value that is far out
      for (const double unit : units)
        values.push_back(static_cast<float>(unit * (5.0 + rng.normal() + 1e4 * (i == 0))));
    data.values = std::move(values);
  });
  const FederatedData images = values_at_nodes({.channels = 3, .height = 4, .width = 5}, [&](Dataset& data, Index n) {
    std::vector<std::uint8_t> values;
    for (Index i = 0; i < n * data.shape.size(); ++i) values.push_back(static_cast<std::uint8_t>(rng.below(256)));
    data.values = std::move(values);
  });
  for (const FederatedData* data : {&table, &images}) {
    ValueSums plain;
    for (const NodeData& node : data->nodes) {
      const ValueSums one = value_sums(*node.train, node.train_rows);
      plain.count += one.count;
      plain.sum.resize(one.sum.size());
      plain.squares.resize(one.sum.size());
      for (std::size_t i = 0; i < one.sum.size(); ++i) {
        plain.sum[i] += one.sum[i];
        plain.squares[i] += one.squares[i];
      }
    }
    FederationSettings settings = quick_settings();
    settings.rounds = 1;
    LocalFederation federation(settings, *data);
    std::mutex mutex;
    std::vector<std::uint64_t> words;
    Tampering looking(federation.engine(), [&](Index, TaskKind task, Answer& answer) {
      if (task != TaskKind::kJoin) return;
      const std::lock_guard lock(mutex);
      words.resize(answer.words.size());
      for (std::size_t i = 0; i < words.size(); ++i) words[i] += answer.words[i];
    });
    const FederationState end = run_federation(settings, federation.task(), looking);
    EXPECT_EQ(end.normalisation, normalisation_of(plain));
    const std::vector<double> all = from_fixed(words);
    const Index parts = std::ssize(plain.sum);
    const Eigen::Map<const Eigen::VectorXd> numbers(all.data(), std::ssize(all));
    const std::vector<double> sums = from_digits(numbers.segment(6, 8 * parts), kValueDigits);
    const std::vector<double> squares = from_digits(numbers.tail(15 * parts), kSquareDigits);
    for (std::size_t i = 0; i < plain.sum.size(); ++i) {
      EXPECT_NEAR(sums[i] / plain.sum[i], 1.0, 1e-14) << i;
      EXPECT_NEAR(squares[i] / plain.squares[i], 1.0, 1e-14) << i;
    }
  }
}

TEST(Coordinator, NeedsTrainingExamplesSomewhere) {
  const FederatedData data = two_nodes();
  const FederationSettings settings = quick_settings();
  LocalFederation federation(settings, data);
  Tampering engine(federation.engine(), [](Index, TaskKind task, Answer& answer) {
    if (task == TaskKind::kJoin) std::fill(answer.words.begin(), answer.words.end(), 0);
  });
  EXPECT_EQ(error_of(ErrorKind::kInput, [&] { run_federation(settings, federation.task(), engine); }),
            "no node has a training example; give the nodes some");
}

TEST(Coordinator, RefusesTargetsThatAreNoShares) {
  FederationSettings together = weighted_settings("mlls");
  together.ratio.predictor = PredictorScope::kFederated;
  together.ratio.rounds = 2;
  FederationSettings pairwise = weighted_settings("mlls");
  pairwise.ratio.exchange = RatioExchange::kPairwise;
  struct Way {
    FederationSettings settings;
    TaskKind task;
  };
  for (const Way& way :
       {Way{weighted_settings("mlls"), TaskKind::kTarget}, Way{weighted_settings("true"), TaskKind::kTarget},
        Way{together, TaskKind::kTargetTogether}, Way{pairwise, TaskKind::kAssess}}) {
    EXPECT_EQ(error_of_lie(way.settings, way.task,
                           [](Answer& answer) {
                             const auto shares = to_fixed(std::vector{-0.5, 0.5, 1.0}, 1);
                             std::copy(shares.begin(), shares.end(), answer.words.begin());
                           }),
              "node 1: it says that the share of a class in the target is -0.5, expected 0 to 1; does it run this "
              "version?");
    EXPECT_EQ(error_of_lie(way.settings, way.task,
                           [](Answer& answer) {
                             const auto shares = to_fixed(std::vector{0.5, 0.5, 1.0}, 1);
                             std::copy(shares.begin(), shares.end(), answer.words.begin());
                           }),
              "node 1: it says that the sum of the shares in the target is 2, expected 0 to 1; does it run this "
              "version?");
    EXPECT_THAT(error_of_lie(way.settings, way.task,
                             with_report<EstimateReport>([](EstimateReport& report) { report.prior_error = 3.0; })),
                HasSubstr("node 1: it says that the error of its estimate is 3, expected 0 to 2"));
    EXPECT_THAT(error_of_lie(way.settings, way.task,
                             with_report<EstimateReport>([](EstimateReport& report) { report.seconds = -1.0; })),
                HasSubstr("node 1: it says that the time that it took is -1, expected 0 or more"));
    const auto details = [&](const std::function<void(EstimateReport::Details&)>& change) {
      return error_of_lie(way.settings, way.task,
                          with_report<EstimateReport>([&](EstimateReport& report) { change(*report.details); }));
    };
    if (way.task == TaskKind::kAssess) continue;  // where one node's own predictor alone has details
    EXPECT_THAT(details([](auto& one) { one.estimate.conservativeResize(2); }),
                HasSubstr("node 1: it sent an estimate of 2 classes, expected 3"));
    EXPECT_THAT(details([](auto& one) { one.low = Eigen::Vector2d(0, 1); }), HasSubstr("sent 2 shares, expected 3"));
    EXPECT_THAT(details([](auto& one) { one.truth = Eigen::Vector3d(0, 0, 2); }),
                HasSubstr("a share of its target is 2, expected 0 to 1"));
    EXPECT_THAT(details([](auto& one) { one.p_value = -1.0; }), HasSubstr("a p-value is -1, expected 0 to 1"));
  }
}

TEST(Coordinator, RefusesAPredictorThatIsNone) {
  FederationSettings settings = weighted_settings("mlls");
  settings.ratio.exchange = RatioExchange::kPairwise;
  const auto error = [&](const std::function<void(Share::Report&)>& change) {
    return error_of_lie(settings, TaskKind::kShare, with_report<Share::Report>(change));
  };
  EXPECT_THAT(error([](Share::Report& report) { report.weights.pop_back(); }),
              HasSubstr("node 1: it sent a predictor of 8 weights and 3 classes, expected 9 and 3"));
  EXPECT_THAT(error([](Share::Report& report) { report.predictor.bias.conservativeResize(2); }),
              HasSubstr("node 1: it sent a predictor of 9 weights"));
  EXPECT_THAT(error([](Share::Report& report) { report.predictor.prior << -0.5, 0.5, 1.0; }),
              HasSubstr("node 1: it says that the share of a class in its source is -0.5, expected 0 to 1"));
  EXPECT_THAT(error([](Share::Report& report) { report.predictor.prior.setZero(); }),
              HasSubstr("node 1: it says that the sum of the shares in its source is 0, expected 1;"));
  // The node that lies is named, not those that the predictor is handed on to.
  EXPECT_EQ(error([](Share::Report& report) { report.predictor.scale[1] = 2e100; }),
            "node 1: a message has a calibration with a scale or bias beyond 1e+100");
  EXPECT_EQ(error([](Share::Report& report) { report.predictor.bias[2] = -2e100; }),
            "node 1: a message has a calibration with a scale or bias beyond 1e+100");
}

TEST(Coordinator, RefusesHeldOutExamplesAndLossesThatCannotBe) {
  FederationSettings settings = weighted_settings("vrls");
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.ratio.rounds = 2;
  const auto error = [&](TaskKind task, std::size_t place, double value) {
    return error_of_lie(settings, task, [&](Answer& answer) { answer.words.at(place) = to_fixed(value, 2); });
  };
  const double unit = 1.0 / Join::kCountUnit;
  EXPECT_EQ(error(TaskKind::kHeldOut, 0, -3.0 * unit),
            "node 1: it says that a number of held-out examples is -3, expected a count; does it run this version?");
  EXPECT_THAT(error(TaskKind::kHeldOut, 15, 2.5 * unit), HasSubstr("a number of held-out examples is 2.5"));
  EXPECT_THAT(error(TaskKind::kHeldOut, 15, 900.0 * unit),
              HasSubstr("node 1: it says that the number of held-out examples by predicted label is 9"));
  EXPECT_THAT(error(TaskKind::kHeldOut, 24, 900.0 * unit),
              HasSubstr("node 1: it says that the sum of all probabilities of held-out examples is 9"));
  EXPECT_EQ(error(TaskKind::kCalibrate, 0, -1.0),
            "node 1: it says that a loss on held-out examples is -0.999999, expected 0 or more; does it run this "
            "version?");
}

FederationSettings mixture_settings() {
  FederationSettings settings = weighted_settings("true");
  settings.algorithm = "fedpals";
  return settings;
}

TEST(Coordinator, RefusesWeightsOfNodesThatCannotBe) {
  const auto error = [&](std::size_t place, double value) {
    return error_of_lie(mixture_settings(), TaskKind::kMixture,
                        [&](Answer& answer) { answer.words.at(place) = to_fixed(value, 2); });
  };
  // alpha_k, its (3) mix; the share of the examples, its (3) mix and (3 x 3) square.
  EXPECT_EQ(error(0, -0.5),
            "node 1: it says that a weight of nodes is -0.5, expected 0 to 2; does it run this version?");
  EXPECT_THAT(error(0, 2.5), HasSubstr("a weight of nodes is 2.5"));
  EXPECT_THAT(error(0, 2.0),
              HasSubstr("node 1: it says that the sum of the shares in a mix of nodes is 0.5, expected 2"));
  EXPECT_THAT(error(4, 1.5), HasSubstr("the share of the examples whose nodes' weights move is 1.5, expected 0 to 1"));
  EXPECT_THAT(error(4, 1.0), HasSubstr("the sum of the shares in a mix of nodes is 0.5, expected 1"));
  for (const std::size_t place : {1, 6, 9})
    EXPECT_THAT(error(place, -0.5), HasSubstr("node 1: it says that the share of a class in a mix of nodes is -0.49"));
  EXPECT_THAT(error(16, 1.0), HasSubstr("the sum of the shares in a mix of nodes is 1."));
}

/// An engine that sees of a node's words no more than random ones, of which those of all nodes add up to 0.
class Masked : public Engine {
 public:
  explicit Masked(Engine& engine, Tampering::Change change = {}) : engine_(engine), change_(std::move(change)) {}
  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    AnswerTerms blind = terms;
    blind.check_words = {};
    ++calls_;
    blind.accept = [&](Index node, Answer& answer) {
      if (change_) change_(node, static_cast<TaskKind>(request.task), answer);
      for (const Addressee& other : cohort) {
        const auto [low, high] = std::minmax(node, other.node);
        Rng stream(calls_, static_cast<std::uint64_t>(low * nodes() + high));
        if (other.node != node)
          for (std::uint64_t& word : answer.words) word += node < other.node ? stream() : -stream();
      }
      if (terms.accept) terms.accept(node, answer);
    };
    return engine_.run(request, cohort, blind, patience, observer);
  }

 private:
  Engine& engine_;
  Tampering::Change change_;
  std::uint64_t calls_ = 0;
};

FederatedData three_nodes() {
  return gaussian_federation({{{20, 5, 5}, {5, 20, 5}}, {{5, 9, 5}, {9, 9, 9}}, {{5, 5, 20}, {9, 9, 9}}});
}

TEST(Coordinator, NeedsTheSumsOfPhasesOneAndTwoAloneAndGetsTheSameBitsUnderMasks) {
  const FederatedData data = three_nodes();
  FederationSettings local = weighted_settings("mlls"), together = weighted_settings("vrls"), pairwise = local;
  together.ratio.predictor = PredictorScope::kFederated;
  together.ratio.rounds = 2;
  pairwise.ratio.exchange = RatioExchange::kPairwise;
  FederationSettings refreshed = local;
  refreshed.ratio.refresh = 1;
  for (FederationSettings settings : {local, together, pairwise, refreshed, mixture_settings()}) {
    settings.rounds = 2;
    const FederationState plain = LocalFederation(settings, data).run();
    LocalFederation federation(settings, data);
    Masked engine(federation.engine());
    const FederationState masked = run_federation(settings, federation.task(), engine);
    EXPECT_EQ(masked.normalisation, plain.normalisation);
    EXPECT_EQ(masked.target_sum, plain.target_sum);
    EXPECT_EQ(masked.parameters, plain.parameters);
  }
}

TEST(Coordinator, RefusesSumsThatCannotBeAndBlamesNobodyUnderMasks) {
  const FederatedData data = three_nodes();
  FederationSettings settings = weighted_settings("vrls");
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.ratio.rounds = 2;
  const auto error_of_word = [&](TaskKind about, std::size_t place, double added) {
    LocalFederation federation(settings, data);
    Masked engine(federation.engine(), [&](Index node, TaskKind task, Answer& answer) {
      if (task == about && node == 0) answer.words.at(place) += to_fixed(added, 1);
    });
    return error_of(ErrorKind::kPeer, [&] { run_federation(settings, federation.task(), engine); });
  };
  EXPECT_EQ(
      error_of_word(TaskKind::kJoin, 0, 1.0),
      "the answers of 3 nodes together say that the number of nodes that hold a class is 4, expected a count of 3 "
      "at most; one of them runs another version, or does not tell the truth");
  EXPECT_THAT(error_of_word(TaskKind::kJoin, 5, 0.25), HasSubstr("the number of nodes that test a class is 3.25"));
  EXPECT_THAT(error_of_word(TaskKind::kJoin, 7, -1.0),
              HasSubstr("together say that the number of examples of a class"));
  EXPECT_THAT(error_of_word(TaskKind::kJoin, 9 + 2 * 8 + 14, -0.5), HasSubstr("a sum of squares of values is -"));
  EXPECT_THAT(error_of_word(TaskKind::kHeldOut, 0, -10.0), HasSubstr("a number of held-out examples is -"));
  EXPECT_THAT(error_of_word(TaskKind::kCalibrate, 3, -9e3), HasSubstr("a loss on held-out examples is -"));
  EXPECT_THAT(error_of_word(TaskKind::kTargetTogether, 1, -3.5), HasSubstr("the share of a class in the target is -"));
  EXPECT_THAT(error_of_word(TaskKind::kTargetTogether, 2, 0.5),
              HasSubstr("the sum of the shares in the target is 3.5, expected 0 to 3"));
  settings.ratio.shared_prior = true;
  EXPECT_THAT(error_of_word(TaskKind::kSharedMix, 0, 1.0),
              HasSubstr("the number of nodes with test examples is 4, expected a count of 3 at most"));
  EXPECT_THAT(error_of_word(TaskKind::kSharedMix, 1, -3.5), HasSubstr("the share of a class in test examples is -"));
  EXPECT_THAT(error_of_word(TaskKind::kSharedMix, 2, 0.5),
              HasSubstr("the sum of the shares of classes in test examples is 3.5, expected 3"));
  EXPECT_THAT(error_of_word(TaskKind::kSharedTarget, 2, 0.5),
              HasSubstr("the sum of the shares in the target is 3.5, expected 0 to 3"));
  settings = mixture_settings();
  EXPECT_THAT(error_of_word(TaskKind::kMixture, 0, 6.0),
              HasSubstr("the answers of 3 nodes together say that a weight of nodes is 7, expected 0 to 6"));
}

TEST(Coordinator, RefusesReportsThatCannotBe) {
  const FederationSettings weighted = weighted_settings("true");
  const auto ratio_error = [&](const std::function<void(Ratio::Report&)>& change) {
    return error_of_lie(weighted, TaskKind::kRatio, with_report<Ratio::Report>(change));
  };
  EXPECT_THAT(ratio_error([](Ratio::Report& report) { report.details->largest = -1.0; }),
              HasSubstr("node 1: it says that its largest importance weight is -1, expected 0 or more"));
  EXPECT_THAT(ratio_error([](Ratio::Report& report) { report.details->effective_examples = 31.0; }),
              HasSubstr("node 1: it says that its effective number of examples is 31, expected 0 to 30"));
  EXPECT_THAT(ratio_error([](Ratio::Report& report) { report.details->examples = -1; }),
              HasSubstr("node 1: a message has a count below 0"));
  const auto evaluation_error = [&](const std::function<void(Evaluate::Report&)>& change) {
    return error_of_lie(quick_settings(), TaskKind::kEvaluate, with_report<Evaluate::Report>(change));
  };
  EXPECT_THAT(evaluation_error([](Evaluate::Report& report) { report.accuracy = 1.5; }),
              HasSubstr("node 1: it says that its accuracy is 1.5, expected 0 to 1"));
  EXPECT_THAT(evaluation_error([](Evaluate::Report& report) { report.loss = -0.1; }),
              HasSubstr("node 1: it says that its loss is -0.1, expected 0 or more"));
  EXPECT_THAT(evaluation_error([](Evaluate::Report& report) { report.loss = std::nan(""); }),
              HasSubstr("node 1: a message has a number that is not finite"));
  EXPECT_THAT(evaluation_error([](Evaluate::Report& report) {
                report.reweighted = {.accuracy = 0.5, .low = 0.6, .high = 0.4, .examples = 9.0};
              }),
              HasSubstr("node 1: it says that the upper end of its accuracy is 0.4, expected 0.6 to 1"));
  EXPECT_THAT(evaluation_error([](Evaluate::Report& report) {
                report.reweighted = {.accuracy = 2.0, .low = 0.1, .high = 0.4, .examples = 9.0};
              }),
              HasSubstr("node 1: it says that its reweighted accuracy is 2, expected 0 to 1"));
  EXPECT_THAT(evaluation_error([](Evaluate::Report& report) { report.adapted = {.right = report.examples + 1}; }),
              HasSubstr("node 1: it says that the number of right predictions for its own mix is "));
  EXPECT_THAT(evaluation_error([](Evaluate::Report& report) { report.adapted = {.right = -1}; }),
              HasSubstr("node 1: a message has a count below 0"));
  EXPECT_THAT(evaluation_error(
                  [](Evaluate::Report& report) { report.adapted = {.right = 0, .by_majority = report.examples + 1}; }),
              HasSubstr("node 1: it says that the number of examples of one class is "));
}

TEST(Coordinator, RefusesAnUpdateThatIsTooLongWhereThereIsALimit) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  settings.rounds = 2;
  settings.weighting = Weighting::kPooled;  // the norm is that of the update, not of its product with the weight
  LocalFederation federation(settings, data, /*workers=*/1);  // who hand answers over
  double longest = 0.0;
  Tampering looking(federation.engine(), [&](Index, TaskKind task, Answer& answer) {
    if (task != TaskKind::kTrain) return;
    double squares = 0.0;
    for (const float value : answer.weights) squares += static_cast<double>(value) * value;
    longest = std::max(longest, std::sqrt(squares) / answer.numbers[0]);
  });
  const FederationState free = run_federation(settings, federation.task(), looking);
  settings.max_update_norm = 1.001 * longest;
  LocalFederation wide(settings, data);
  EXPECT_EQ(wide.run().parameters, free.parameters);
  settings.max_update_norm = 0.999 * longest;
  EXPECT_THAT(error_of(ErrorKind::kPeer, [&] { LocalFederation(settings, data).run(); }),
              HasSubstr("its update has norm"));
}

/// A federation whose nodes do as a function says in training, and whose quorum is one node.
FederationState run_lossy(FederationSettings settings, const FederatedData& data, const Tampering::Change& change) {
  settings.patience.quorum = 1;
  LocalFederation federation(settings, data);
  Tampering engine(federation.engine(), [&](Index node, TaskKind task, Answer& answer) {
    if (task == TaskKind::kTrain) change(node, task, answer);
  });
  return run_federation(settings, federation.task(), engine);
}

TEST(Coordinator, GoesOnWithoutANodeThatFailsAndOneNaNPoisonsNothing) {
  const FederatedData all =
      gaussian_federation({{{20, 5, 5}, {5, 20, 5}}, {{5, 9, 5}, {9, 9, 9}}, {{5, 5, 20}, {9, 9, 9}}});
  FederationSettings settings = quick_settings();
  const FederationState end = run_lossy(settings, all, [](Index node, TaskKind, Answer& answer) {
    if (node == 1) answer.weights[3] = std::nanf("");
  });
  for (const float weight : end.parameters) EXPECT_TRUE(std::isfinite(weight));
  EXPECT_THAT(end.counted, ElementsAre(20, 0, 20));
  // The others are averaged: the same as where the second node sends what weighs next to nothing.
  const FederationState light = run_lossy(settings, all, [](Index node, TaskKind, Answer& answer) {
    if (node != 1) return;
    answer.numbers[0] = 1e-300;
    for (float& weight : answer.weights) weight = 0.0F;
  });
  EXPECT_EQ(end.parameters, light.parameters);
  EXPECT_GT(average_accuracy(end.history), 0.5);
}

TEST(Coordinator, RunsARoundAgainUntilAQuorumIsThere) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  settings.rounds = 3;
  const FederationState whole = LocalFederation(settings, data).run();
  std::atomic<int> calls = 0;
  const FederationState end = run_lossy(settings, data, [&](Index, TaskKind, Answer& answer) {
    if (++calls <= 6) answer.numbers.clear();  // all answers of three attempts at the first round
  });
  EXPECT_EQ(end.parameters, whole.parameters);
  EXPECT_THAT(
      error_of(ErrorKind::kPeer,
               [&] { run_lossy(settings, data, [](Index, TaskKind, Answer& answer) { answer.numbers.clear(); }); }),
      testing::StartsWith("node 1: it sent 0 words, 0 numbers"));
}

TEST(Coordinator, TellsHowMuchOfTheTrainingIsDone) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  settings.rounds = 4;
  settings.evaluate_every = 3;
  FederationState second;
  std::vector<double> done, evaluated;
  const FederationHooks observer{.progress =
                                     [&](std::string_view stage, double part) {
                                       if (stage == "training") done.push_back(part);
                                       if (stage == "evaluation") evaluated.push_back(part);
                                       return true;
                                     },
                                 .checkpoint = with_state([&](const FederationState& state) {
                                   EXPECT_DOUBLE_EQ(done.empty() ? 0.0 : done.back(), 0.25 * state.round);
                                   if (state.round == 2) second = state;
                                 })};
  LocalFederation federation(settings, data);
  const FederationState end = federation.run(observer);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 1.0);
  EXPECT_EQ(evaluated.front(), 0.75);
  EXPECT_EQ(evaluated.back(), 1.0);
  std::vector<int> rounds;
  for (const NodeEvaluation& row : end.history) rounds.push_back(row.round);
  EXPECT_THAT(rounds, ElementsAre(3, 3, 4, 4));
  // Of two rounds that are left, each is a half.
  done.clear();
  federation.run({.progress =
                      [&](std::string_view stage, double part) {
                        if (stage == "training") done.push_back(part);
                        return true;
                      },
                  .checkpoint = with_state(
                      [&](const FederationState& state) { EXPECT_DOUBLE_EQ(done.back(), 0.5 * (state.round - 2)); })},
                 second);
  EXPECT_EQ(done.back(), 1.0);
}

TEST(Coordinator, TellsHowMuchOfTheRatiosIsDone) {
  const FederatedData data = two_nodes();
  for (const bool pairwise : {true, false}) {
    FederationSettings settings = weighted_settings("mlls");
    settings.rounds = 1;
    settings.ratio.rounds = 10;
    if (pairwise)
      settings.ratio.exchange = RatioExchange::kPairwise;
    else
      settings.ratio.predictor = PredictorScope::kFederated;
    std::vector<double> done;
    LocalFederation(settings, data).run({.progress = [&](std::string_view stage, double part) {
      if (stage == (pairwise ? "ratio" : "predictor")) done.push_back(part);
      return true;
    }});
    int drops = 0;
    for (std::size_t i = 1; i < done.size(); ++i) drops += done[i] < done[i - 1] - 1e-12;
    EXPECT_EQ(drops, pairwise ? 0 : 1);  // weights that balance the classes are a message of their own
    EXPECT_NEAR(*std::max_element(done.begin(), done.end()), 1.0, 1e-12);
    EXPECT_NEAR(done.back(), 1.0, 1e-12);
    if (pairwise) {
      EXPECT_THAT(done, testing::Contains(testing::DoubleNear(0.5, 1e-12)));   // both predictors
      EXPECT_THAT(done, testing::Contains(testing::DoubleNear(0.75, 1e-12)));  // what all say of the first
    } else {
      EXPECT_THAT(done, testing::Contains(testing::DoubleNear(0.3, 1e-12)));  // three of ten rounds
    }
  }
}

TEST(Coordinator, NeverTellsOfMoreThanAll) {
  const FederatedData data = two_nodes();
  for (const char* method : {"true", "mlls-ts", "auto"})
    for (const PredictorScope scope : {PredictorScope::kLocal, PredictorScope::kFederated}) {
      FederationSettings settings = weighted_settings(method);
      settings.ratio.predictor = scope;
      settings.ratio.rounds = 5;
      settings.ratio.epochs = 4;
      settings.rounds = 3;
      settings.evaluate_every = 2;
      std::map<std::string, double> last;
      LocalFederation(settings, data).run({.progress = [&](std::string_view stage, double part) {
        EXPECT_GE(part, 0.0) << stage;
        EXPECT_LE(part, 1.0 + 1e-12) << stage;
        last[std::string(stage)] = part;
        return true;
      }});
      for (const auto& [stage, part] : last) EXPECT_NEAR(part, 1.0, 1e-12) << stage;
    }
}

TEST(Coordinator, StopsWhereTheObserverSaysSo) {
  const FederatedData data = two_nodes();
  for (const char* where : {"join", "training", "evaluation"}) {
    LocalFederation federation(quick_settings(), data);
    EXPECT_THROW(federation.run({.progress = [&](std::string_view stage, double) { return stage != where; }}), Stopped);
  }
}

TEST(Coordinator, CountsTimeAndMessagesOfEveryPhase) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("mlls-ts");
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.ratio.rounds = 7;
  settings.rounds = 4;
  settings.evaluate_every = 2;
  const FederationState end = LocalFederation(settings, data).run();
  std::vector<std::string> names;
  for (const PhaseCost& cost : end.phases) {
    names.push_back(cost.name);
    EXPECT_GT(cost.seconds, 0.0) << cost.name;
    EXPECT_GT(cost.traffic.up, 0u) << cost.name;
    EXPECT_GT(cost.traffic.down, 0u) << cost.name;
  }
  EXPECT_THAT(names, ElementsAre("join", "predictor", "ratio", "evaluation", "training"));
  const Index before = 1 + 7 + 1;  // class weights, training, held-out examples; then the calibration
  EXPECT_GE(end.phases[1].rounds, before + 4);
  EXPECT_LE(end.phases[1].rounds, before + PooledCalibration::kMostSteps);
  EXPECT_EQ(end.phases[3].rounds, 1 + 2);  // the truth to compare with, two evaluations
  EXPECT_EQ(end.phases[4].rounds, 4);
  for (const NodeRatio& row : end.ratios) EXPECT_GT(row.seconds, 0.0);
  settings.ratio.predictor = PredictorScope::kLocal;
  settings.ratio.exchange = RatioExchange::kPairwise;
  const FederationState pairwise = LocalFederation(settings, data).run();
  EXPECT_THAT(pairwise.phases[1].name, "ratio");
  EXPECT_EQ(pairwise.phases[1].rounds, 1 + 2 + 1);  // all predictors, what all say of each, all weights
  for (const NodeRatio& row : pairwise.ratios) EXPECT_GT(row.seconds, 0.0);
}

TEST(Coordinator, NamesTenNodesThatLackSomethingAndCountsTheOthers) {
  for (const int nodes : {10, 11, 12}) {
    std::vector<GaussianNode> all(nodes, {{5, 5, 0}, {0, 0, 0}});
    all.push_back({{5, 5, 5}, {3, 3, 3}});
    const FederatedData data = gaussian_federation(all);
    FederationSettings settings = weighted_settings("true");
    settings.rounds = 1;
    const std::vector<std::string> warnings = LocalFederation(settings, data).run().warnings;
    ASSERT_EQ(warnings.size(), nodes > 10 ? 22u : 20u) << testing::PrintToString(warnings);
    EXPECT_THAT(warnings[0], HasSubstr("node 1 has no test examples"));
    EXPECT_THAT(warnings[1], HasSubstr("node 1 has no training example of class c"));
    EXPECT_THAT(warnings[18], HasSubstr("node 10 has no test examples"));
    EXPECT_THAT(warnings[19], HasSubstr("node 10 has no training example of class c"));
    if (nodes == 10) continue;
    EXPECT_THAT(warnings[20], testing::StartsWith(fmt::format("{} more nodes lack training examples", nodes - 10)));
    EXPECT_THAT(warnings[21], testing::StartsWith(fmt::format("{} more nodes have no test examples", nodes - 10)));
  }
}

TEST(Coordinator, SaysWhatClassesANodeLacksAndWhichNoNodeWillMeet) {
  const FederatedData data = gaussian_federation({{{0, 9, 0}, {1, 0, 0}}, {{9, 9, 9}, {4, 2, 0}}});
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  const std::vector<std::string> warnings = LocalFederation(settings, data).run().warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0], HasSubstr("node 1 has no training example of classes a, c"));
  EXPECT_THAT(warnings[1], HasSubstr("no weight is left for c: in these test data no node will meet it"));
  settings = quick_settings();  // nobody is told where there are no weights
  settings.rounds = 1;
  EXPECT_THAT(LocalFederation(settings, data).run().warnings, IsEmpty());
}

TEST(Coordinator, ANodeWhoseClassesNobodyMeetsCountsForNoExample) {
  const FederatedData data = gaussian_federation({{{0, 9}, {4, 0}}, {{9, 9}, {4, 0}}});
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  const std::vector<NodeRatio> ratios = LocalFederation(settings, data).run().ratios;
  EXPECT_EQ(ratios[0].largest, 0.0);
  EXPECT_EQ(ratios[0].effective_examples, 0.0);
  EXPECT_NEAR(ratios[1].effective_examples, 9.0, 1e-9);
}

TEST(Coordinator, NeedsTrainingExamplesOfAClassThatIsTestedOrWeighted) {
  const FederatedData unseen = gaussian_federation({{{9, 9, 0}, {4, 4, 0}}});
  const FederatedData tested = gaussian_federation({{{9, 9, 0}, {4, 4, 1}}});
  EXPECT_EQ(LocalFederation(quick_settings(), unseen).run().round, 20);
  LocalFederation both[] = {{quick_settings(), tested}, {weighted_settings("true"), unseen}};
  for (LocalFederation& federation : both)
    EXPECT_THAT(error_of(ErrorKind::kInput, [&] { federation.run(); }), HasSubstr("class c has no training examples"));
}

TEST(Coordinator, CannotKnowTrueRatiosWithoutLabels) {
  FederatedData data = two_nodes();
  data.sets[3]->labels.clear();
  LocalFederation federation(weighted_settings("true"), data);
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { federation.run(); }),
              HasSubstr("node 2: true ratios need test labels"));
}

TEST(Coordinator, KnowsTheErrorOfTheSumWhereEveryTestedNodeHasLabels) {
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 1;
  FederatedData data = gaussian_federation({{{20, 5}, {5, 20}}, {{5, 20}, {9, 9}}, {{5, 5}, {0, 0}}});
  const FederationState known = LocalFederation(settings, data).run();
  // Of three nodes the third counts 0 on both sides.
  const Eigen::Vector2d truth(0.2 + 0.5, 0.8 + 0.5);
  EXPECT_NEAR(known.target_error, (known.target_sum - truth).lpNorm<1>() / 3.0, 1e-12);
  data.sets[3]->labels.clear();
  const FederationState unknown = LocalFederation(settings, data).run();
  EXPECT_TRUE(std::isnan(unknown.target_error));
  EXPECT_EQ(unknown.target_sum, known.target_sum);
}

TEST(Coordinator, TakesUpWhatNodesHadEstimated) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("vrls");
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  const FederationState first = federation.run();
  // Predictors that were trained again would be others: one epoch instead of twenty.
  settings.ratio.epochs = 1;
  LocalFederation again(settings, data);
  for (Index node = 0; node < 2; ++node)
    for (const char* entry : {"estimate", "estimate-low", "estimate-high"})
      again.store().of(node)->put(entry, *federation.store().of(node)->get(entry));
  const FederationState kept = again.run({}, {.estimates_kept = true});
  for (std::size_t node = 0; node < 2; ++node) {
    EXPECT_EQ(kept.ratios[node].low, first.ratios[node].low);
    EXPECT_EQ(kept.ratios[node].high, first.ratios[node].high);
    EXPECT_GT(kept.ratios[node].high.sum(), kept.ratios[node].low.sum());
  }
  EXPECT_EQ(kept.target_sum, first.target_sum);  // to the last bit
  EXPECT_EQ(kept.parameters, first.parameters);
  EXPECT_NE(again.run().target_sum, first.target_sum);  // without being told to
  LocalFederation fresh(settings, data);                // with nothing kept: as ever
  EXPECT_EQ(fresh.run({}, {.estimates_kept = true}).target_sum, LocalFederation(settings, data).run().target_sum);
  const auto refused = [&](const std::string& part) {
    EXPECT_THAT(error_of(ErrorKind::kInput, [&] { again.run({}, {.estimates_kept = true}); }), HasSubstr(part));
  };
  remember(*again.store().of(1), "estimate", ClassNumbers{Eigen::Vector3d(0.5, -0.5, 1.0)});
  refused("node 2: what it remembers as its estimate is 3 numbers, expected 3 that are not negative");
  remember(*again.store().of(1), "estimate", ClassNumbers{Eigen::Vector2d(0.5, 0.5)});
  refused("node 2: what it remembers as its estimate is 2 numbers, expected 3");
  again.store().of(1)->put("estimate", Bytes(11));
  refused("node 2: what it remembers as estimate is damaged");
}

class CoordinatorFolder : public Scratch {};

TEST_F(CoordinatorFolder, FedBnGoesOnWithTheSameBits) {
  const FederatedData data =
      gaussian_federation({{{20, 5, 5}, {5, 20, 5}}, {{5, 5, 20}, {10, 10, 10}}, {{5, 9, 5}, {5, 5, 5}}});
  FederationSettings settings = quick_settings();
  settings.algorithm = "fedbn";
  settings.model = {kNormed, {}};
  settings.sampled = 2;
  settings.rounds = 6;
  settings.evaluate_every = 1;
  LocalFederation whole(settings, data);
  FederationState saved;
  const FederationState end = whole.run({.checkpoint = with_state([&](const FederationState& state) {
                                           if (state.round != 3) return;
                                           saved = state;
                                           whole.store().save(path("."));
                                         })});
  LocalFederation later(settings, data);
  later.store().load(path("."));
  const FederationState other = later.run({}, saved);
  EXPECT_EQ(other.parameters, end.parameters);
  ASSERT_EQ(other.history.size(), end.history.size());
  for (std::size_t i = 0; i < end.history.size(); ++i) EXPECT_EQ(other.history[i].loss, end.history[i].loss) << i;
  // What is evaluated at a node is the global model with that node's batch norms.
  for (Index node = 0; node < 3; ++node) {
    auto net = global_model(settings, whole.task(), end);
    const auto algorithm = make_algorithm({settings, *net, 3});
    SharedNet shared(std::move(net), algorithm->shares_batch_norms());
    algorithm->personalise(shared, whole.kept(end, node));
    Net* const model = &shared.net();
    const Dataset& test = *data.nodes[node].test;
    std::vector<float> logits(test.size() * 3);
    model->logits(test, data.nodes[node].test_rows, logits);
    double nll = 0.0;
    for (Index i = 0; i < test.size(); ++i) {
      const float* row = &logits[3 * i];
      nll += std::log(std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2])) - row[test.labels[i]];
    }
    EXPECT_NEAR(end.history[end.history.size() - 3 + node].loss, nll / static_cast<double>(test.size()), 1e-5);
  }
  auto net = global_model(settings, whole.task(), end);
  const auto algorithm = make_algorithm({settings, *net, 3});
  SharedNet shared(std::move(net), false);
  EXPECT_THAT(error_of(ErrorKind::kInput,
                       [&] {
                         algorithm->personalise(shared, {{"batch-norms", {1.0F}}});
                       }),
              HasSubstr("it remembers 1 numbers of its batch norms"));
}

TEST(Coordinator, RefusesStatesAndMemoriesOfAnotherModel) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("true");
  settings.algorithm = "scaffold";
  settings.local.steps = 2;
  settings.model = {kNormed, {}};
  settings.rounds = 2;
  LocalFederation federation(settings, data);
  FederationState saved;
  federation.run({.checkpoint = with_state([&](const FederationState& state) {
                    if (state.round == 1) saved = state;
                  })});
  const auto refused = [&](const FederationState& state, const std::string& part) {
    EXPECT_THAT(error_of(ErrorKind::kInput, [&] { federation.run({}, state); }), HasSubstr(part));
  };
  FederationState wrong = saved;
  wrong.parameters.push_back(0.0F);
  refused(wrong, "the saved model has 14 weights, expected 13");
  wrong = saved;
  wrong.buffers.push_back(0.0F);
  refused(wrong, "the saved model has");
  wrong = saved;
  wrong.algorithm.parts["control"].pop_back();
  refused(wrong, "found 12 values of an algorithm's state, expected 13");
  wrong = saved;
  wrong.algorithm.parts["server/mean"] = {1.0F};
  refused(wrong, "state of the server's optimiser");
  const std::unique_ptr<NodeMemory> second = federation.store().of(1);
  remember_round(*second, 1, {{"control", std::vector<float>(12)}});
  refused(saved, "node 2: found 12 values of an algorithm's state, expected 13");
  forget_rounds(*second, 0, 0);
  refused(saved, "node 2: it does not remember its round 1 any more");
  remember(*federation.store().of(0), "ratio", ClassNumbers{Eigen::Vector2d(1.0, 1.0)});
  refused(saved, "node 1: what it remembers as its ratio is 2 numbers, expected 3");
  EXPECT_THAT(error_of(ErrorKind::kPeer,
                       [&] {
                         federation.run({}, [&] {
                           FederationState other = saved;
                           other.settings = "other";
                           return other;
                         }());
                       }),
              HasSubstr("node 1: the handshake failed: this node remembers the run"));
}

TEST(Coordinator, SaysWhatBecomesOfBatchNorms) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  settings.rounds = 1;
  settings.algorithm = "fedbn";
  EXPECT_THAT(LocalFederation(settings, data).run().warnings, ElementsAre(HasSubstr("fedbn is fedavg here")));
  settings.model = {kNormed, {}};
  EXPECT_THAT(LocalFederation(settings, data).run().warnings,
              ElementsAre(HasSubstr("batch norms stay at their nodes")));
  settings.algorithm = "fedavg";
  LocalFederation federation(settings, data);
  const FederationState end = federation.run();
  EXPECT_THAT(end.warnings, IsEmpty());
  const auto model = global_model(settings, federation.task(), end);
  EXPECT_EQ(std::vector<float>(model->buffers().begin(), model->buffers().end()), end.buffers);
}

TEST(AverageAccuracy, IsThatOfTheLastRoundOverNodesWithTestExamples) {
  EXPECT_TRUE(std::isnan(average_accuracy({})));
  EXPECT_TRUE(std::isnan(average_accuracy({{.round = 1, .node = 0}})));
  EXPECT_EQ(average_accuracy({{.round = 1, .node = 0, .accuracy = 0.1},
                              {.round = 2, .node = 0, .accuracy = 0.5},
                              {.round = 2, .node = 1},
                              {.round = 2, .node = 2, .accuracy = 1.0}}),
            0.75);
}

}  // namespace
}  // namespace labelshift
