#include "labelshift/federation/federation.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/engine/fixed_point.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/answer_checks.hpp"
#include "labelshift/learning/optimiser.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {

namespace {

using testing::HasSubstr;

void expect_error_with(ErrorKind kind, const std::string& part, const std::function<void()>& act) {
  try {
    act();
    ADD_FAILURE() << "expected an error with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

/// Two nodes of three classes, shifted in training and in test.
FederatedData two_nodes() {
  return gaussian_federation({{{80, 10, 10}, {5, 90, 5}}, {{10, 10, 80}, {60, 20, 20}}});
}

const PhaseCost& phase(const FederationState& state, const std::string& name) {
  for (const PhaseCost& cost : state.phases)
    if (cost.name == name) return cost;
  throw std::runtime_error("no phase " + name);
}

TEST(Federation, AveragesGradientsAndStepsAdamAtTheServer) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  settings.local.batch = 100;  // the whole node: no sampling to follow
  settings.rounds = 3;
  LocalFederation federation(settings, data);
  std::vector<float> initial;
  const FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                                if (initial.empty()) initial = state.parameters;
                                              })});
  // The same by hand.
  const auto net = global_model(settings, federation.task(), end);
  std::copy(initial.begin(), initial.end(), net->parameters().begin());
  Adam adam(initial.size(), {.learning_rate = 0.05});
  for (int round = 0; round < 3; ++round) {
    std::vector<float> mean(initial.size());
    for (const NodeData& node : data.nodes) {
      net->loss_and_gradient({*node.train, node.train_rows, {}}, {}, 0);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += net->gradient()[i] / 2;
    }
    adam.step(net->parameters(), mean);
  }
  // Rounding alone: the nodes draw their examples in another order.
  for (std::size_t i = 0; i < initial.size(); ++i) EXPECT_NEAR(end.parameters[i], net->parameters()[i], 1e-4);
  EXPECT_NE(end.parameters, initial);
}

TEST(Federation, OfIdenticalNodesWithoutShiftGivesEveryExampleTheWeightK) {
  const GaussianNode node{{10, 20, 70}, {10, 20, 70}};
  const FederatedData data = gaussian_federation({node, node, node});
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  const FederationState state = federation.run();
  for (Index k = 0; k < 3; ++k) {
    for (const float weight : federation.numbers(k, "ratio")) EXPECT_NEAR(weight, 3.0, 1e-6);
    // Three targets are rounded by 2^-41 each, and a class has a tenth of the examples.
    EXPECT_NEAR(state.ratios[k].largest, 3.0, 1.1 * 3.0 * 0x1p-41 / 0.1);
    EXPECT_NEAR(state.ratios[k].effective_examples, 100.0, 1e-9);
  }
}

TEST(Federation, GivesNodeKTheRatioOfTheSummedTargetsToItsPrior) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  const FederationState state = federation.run();
  // Eq. (1): sum of targets (0.05 + 0.6, 0.9 + 0.2, 0.05 + 0.2); node 1 has (0.8, 0.1, 0.1), node 2 (0.1, 0.1, 0.8).
  const double sums[] = {0.65, 1.1, 0.25};
  const double priors[2][3] = {{0.8, 0.1, 0.1}, {0.1, 0.1, 0.8}};
  for (int k = 0; k < 2; ++k) {
    const std::vector<float> ratio = federation.numbers(k, "ratio");
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(ratio[c], sums[c] / priors[k][c], 1e-5) << k << c;
  }
  EXPECT_NEAR(state.ratios[0].largest, 11.0, 1e-9);
  // Kish: (80 * 0.8125 + 10 * 11 + 10 * 2.5)^2 / (80 * 0.8125^2 + 10 * 121 + 10 * 6.25) = 200^2 / 1325.3125.
  EXPECT_NEAR(state.ratios[0].effective_examples, 40'000.0 / 1'325.3125, 1e-6);
}

TEST(Federation, PooledWeightsDivideByThePooledPrior) {
  FederatedData data = gaussian_federation({{{80, 10, 10}, {5, 90, 5}}, {{0, 150, 150}, {60, 20, 20}}});
  FederationSettings settings = weighted_settings("true");
  settings.weighting = Weighting::kPooled;
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  federation.run();
  const double sums[] = {0.65, 1.1, 0.25};
  const double pooled[] = {80.0 / 400, 160.0 / 400, 160.0 / 400};
  for (int k = 0; k < 2; ++k)
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(federation.numbers(k, "ratio")[c], sums[c] / pooled[c], 1e-5) << k << c;
}

TEST(Federation, LetsHoldersOfAClassCarryTheWeightOfThoseWhoLackIt) {
  const FederatedData data = gaussian_federation({{{50, 50, 0}, {10, 10, 80}}, {{10, 10, 80}, {50, 50, 0}}});
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  const FederationState state = federation.run();
  // Class c: sum of targets 0.8, one of two nodes holds it with prior 0.8: 0.8 / 0.8 * 2.
  EXPECT_NEAR(federation.numbers(1, "ratio")[2], 2.0, 1e-6);
  EXPECT_EQ(federation.numbers(0, "ratio")[2], 0.0F);
  // Over both nodes, sum_k sum_c p_k(c) r_k(c) / K is the whole target mass, K = 2.
  double mass = 0.0;
  const double priors[2][3] = {{0.5, 0.5, 0.0}, {0.1, 0.1, 0.8}};
  for (int k = 0; k < 2; ++k)
    for (int c = 0; c < 3; ++c) mass += priors[k][c] * federation.numbers(k, "ratio")[c] / 2.0;
  EXPECT_NEAR(mass, 2.0, 1e-6);
  ASSERT_EQ(state.warnings.size(), 1u);
  EXPECT_THAT(state.warnings[0], HasSubstr("node 1 has no training example of class c"));
}

TEST(Federation, SaysThatALocalPredictorCannotSeeAClassItsNodeLacks) {
  const FederatedData data = gaussian_federation({{{50, 50, 0}, {30, 30, 40}}, {{30, 30, 40}, {50, 50, 100}}});
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  const FederationState state = federation.run();
  ASSERT_EQ(state.warnings.size(), 1u) << testing::PrintToString(state.warnings);
  EXPECT_THAT(state.warnings[0], HasSubstr("node 1"));
  EXPECT_THAT(state.warnings[0], HasSubstr("its own predictor cannot see it"));
  EXPECT_EQ(federation.numbers(0, "target")[2], 0.0F);
}

TEST(Federation, SaysThatOneTestExampleIsTooFewForRatios) {
  const FederatedData data = gaussian_federation({{{30, 30, 30}, {0, 1, 0}}, {{30, 30, 30}, {20, 20, 20}}});
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 1;
  const std::string sentence = "node 1 has 1 test example, too few to estimate its class mix from; give it more";
  EXPECT_THAT(LocalFederation(settings, data).run().warnings, testing::Contains(sentence));
  settings = weighted_settings("true");
  settings.rounds = 1;
  EXPECT_THAT(LocalFederation(settings, data).run().warnings, testing::Not(testing::Contains(sentence)));
}

TEST(Federation, RefusesAClassThatNoNodeHolds) {
  const FederatedData data = gaussian_federation({{{50, 50, 0}, {30, 30, 40}}, {{30, 30, 0}, {50, 50, 10}}});
  LocalFederation federation(weighted_settings("true"), data);
  expect_error_with(ErrorKind::kInput, "class c has no training examples on any node", [&] { federation.run(); });
}

TEST(Federation, CapsRatios) {
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  settings.ratio.max_ratio = 4.0;
  const FederatedData data = two_nodes();
  LocalFederation federation(settings, data);
  const FederationState state = federation.run();
  EXPECT_EQ(state.ratios[0].largest, 4.0);
  EXPECT_EQ(federation.numbers(0, "ratio")[1], 4.0F);
  EXPECT_NEAR(federation.numbers(0, "ratio")[2], 2.5, 1e-6);
}

TEST(Federation, AimsAtOneNodeWhereThatIsTheGoal) {
  FederationSettings settings = weighted_settings("true");
  settings.rounds = 1;
  settings.ratio.goal_node = 1;
  const FederatedData data = two_nodes();
  {
    LocalFederation federation(settings, data);
    federation.run();
    EXPECT_NEAR(federation.numbers(1, "ratio")[1], 0.9 / 0.1, 1e-5);  // p_1^te / p_2^tr
  }
  settings.ratio.goal_shift = false;  // No-LS: p_1^tr / p_2^tr, and ones at node 1
  LocalFederation federation(settings, data);
  federation.run();
  EXPECT_NEAR(federation.numbers(1, "ratio")[0], 0.8 / 0.1, 1e-5);
  for (const float weight : federation.numbers(0, "ratio")) EXPECT_NEAR(weight, 1.0, 1e-6);
}

/// Estimated targets of two nodes with 600 test examples each. Posteriors of a calibrated predictor on classes this far
/// apart (accuracy 0.9) find a share to about sqrt(q (1 - q) / 600) * 1.3 = 0.026; the predictor's own error, from
/// 1,000 examples, is of the same size. Five times that is 0.13 for each share, so 0.4 for the L1 error.
struct ExchangeCase {
  const char* method;
  PredictorScope scope;
  RatioExchange exchange;

  std::string name() const {
    std::string words = std::string(scope == PredictorScope::kLocal ? "local-" : "federated-") + method +
                        (exchange == RatioExchange::kLocal ? "" : "-pairwise");
    std::replace(words.begin(), words.end(), '-', '_');
    return words;
  }
  friend void PrintTo(const ExchangeCase& row, std::ostream* out) { *out << row.name(); }
};

class EveryExchange : public testing::TestWithParam<ExchangeCase> {};

TEST_P(EveryExchange, FindsTheTargets) {
  const auto& [method, scope, exchange] = GetParam();
  const FederatedData data =
      gaussian_federation({{{800, 100, 100}, {30, 540, 30}}, {{100, 100, 800}, {360, 120, 120}}});
  FederationSettings settings = weighted_settings(method);
  settings.ratio.predictor = scope;
  settings.ratio.exchange = exchange;
  settings.rounds = 1;
  LocalFederation federation(settings, data);
  const FederationState state = federation.run();
  EXPECT_LT((state.target_sum - Eigen::Vector3d(0.65, 1.1, 0.25)).lpNorm<1>() / 2.0, 0.4);
  EXPECT_NEAR(state.target_sum.sum(), 2.0, 1e-6);
  EXPECT_LT(state.target_error, 0.4);
  const double priors[2][3] = {{0.8, 0.1, 0.1}, {0.1, 0.1, 0.8}};
  for (const NodeRatio& node : state.ratios) {
    EXPECT_LT(node.prior_error, 0.4) << node.node;
    // Whatever predictor found it, a node's weights have the mean K.
    const std::vector<float> weights = federation.numbers(node.node, "ratio");
    double mean = 0.0;
    for (int c = 0; c < 3; ++c) mean += priors[node.node][c] * weights[c];
    EXPECT_NEAR(mean, 2.0, 1e-5) << node.node;
  }
}

INSTANTIATE_TEST_SUITE_P(Federation, EveryExchange,
                         testing::Values(ExchangeCase{"vrls", PredictorScope::kLocal, RatioExchange::kLocal},
                                         ExchangeCase{"mlls", PredictorScope::kLocal, RatioExchange::kLocal},
                                         ExchangeCase{"bbse", PredictorScope::kLocal, RatioExchange::kLocal},
                                         ExchangeCase{"auto", PredictorScope::kLocal, RatioExchange::kLocal},
                                         ExchangeCase{"mlls-ts", PredictorScope::kFederated, RatioExchange::kLocal},
                                         ExchangeCase{"vrls", PredictorScope::kFederated, RatioExchange::kLocal},
                                         ExchangeCase{"bbse", PredictorScope::kFederated, RatioExchange::kLocal},
                                         ExchangeCase{"bbse-soft", PredictorScope::kFederated, RatioExchange::kLocal},
                                         ExchangeCase{"rlls", PredictorScope::kFederated, RatioExchange::kLocal},
                                         ExchangeCase{"mlls-confusion", PredictorScope::kFederated,
                                                      RatioExchange::kLocal},
                                         ExchangeCase{"mlls-bct", PredictorScope::kLocal, RatioExchange::kPairwise}),
                         [](const auto& row) { return row.param.name(); });

TEST(Federation, PutsMNumbersOfTrafficForRatiosOnTopOfTraining) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 4;
  LocalFederation federation(settings, data);
  const FederationState state = federation.run();
  // Two messages. "Target" carries its kind down, m numbers up, and a report of two flags and two numbers. "Ratio"
  // carries its kind and m numbers with their length down, two numbers up, and reports a flag. What nodes of a
  // simulation alone report does not count.
  const Index request_header = 28 + 32, answer_header = 40, m = 3, nodes = 2;
  const PhaseCost& ratio = phase(state, "ratio");
  EXPECT_EQ(ratio.rounds, 2);
  EXPECT_EQ(ratio.traffic.up, nodes * (2 * answer_header + 8 * m + (2 + 8 * 2) + 8 * 2 + 1));
  EXPECT_EQ(ratio.traffic.down, nodes * (2 * request_header + 2 * 1 + 8 * (m + 1)));
  // Training: weights of logistic regression, 2 x 3 + 3, both ways; down also a number of steps, a flag and a round.
  const PhaseCost& training = phase(state, "training");
  EXPECT_EQ(training.rounds, 4);
  EXPECT_EQ(training.traffic.down, 4 * nodes * (request_header + 4 + 1 + 4 + 4 * 9));
  EXPECT_EQ(training.traffic.up, 4 * nodes * (answer_header + 4 * 9 + 8 * 2));
}

/// Settings that every algorithm accepts.
FederationSettings settings_for(const AlgorithmEntry& entry) {
  FederationSettings settings = quick_settings();
  settings.algorithm = entry.name;
  settings.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
  settings.local = {.steps = 5, .batch = 8, .learning_rate = 0.1};
  suit_algorithm(settings);
  settings.ratio.method = settings.algorithm == "iw-erm" || settings.algorithm == "fedpals" ? "mlls" : "none";
  return settings;
}

class EveryAlgorithm : public testing::TestWithParam<AlgorithmEntry> {};

TEST_P(EveryAlgorithm, GivesTheSameBitsForAnyNumberOfWorkers) {
  const FederatedData data = gaussian_federation(
      {{{40, 5, 5}, {5, 40, 5}}, {{5, 40, 5}, {5, 5, 40}}, {{5, 5, 40}, {40, 5, 5}}, {{20, 20, 20}, {20, 20, 20}}});
  FederationSettings settings = settings_for(GetParam());
  settings.sampled = 3;
  suit_algorithm(settings);
  std::vector<FederationState> ends;
  for (const unsigned workers : {1u, 2u, 4u}) ends.push_back(LocalFederation(settings, data, workers).run());
  for (const FederationState& end : ends) {
    EXPECT_EQ(end.parameters, ends[0].parameters);
    EXPECT_EQ(end.algorithm.parts, ends[0].algorithm.parts);
    ASSERT_EQ(end.history.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(end.history[i].loss, ends[0].history[i].loss);
  }
}

TEST_P(EveryAlgorithm, GoesOnWithTheSameBitsAsIfItHadNotStopped) {
  const FederatedData data = two_nodes();
  FederationSettings settings = settings_for(GetParam());
  settings.server = {.learning_rate = 0.05};  // adam, which has a memory
  suit_algorithm(settings);
  const FederationState whole = LocalFederation(settings, data).run();
  for (const int stop : {0, 7, 10}) {
    const std::string folder = testing::TempDir() + fmt::format("labelshift-stopped-{}-{}", ::getpid(), stop);
    std::filesystem::create_directories(folder);
    FederationState saved;
    LocalFederation stopped(settings, data);
    EXPECT_THROW(stopped.run({.checkpoint = with_state([&](const FederationState& state) {
                                saved = state;
                                if (state.round != stop) return;
                                stopped.store().save(folder);
                                throw Stopped{};
                              })}),
                 Stopped);
    LocalFederation federation(settings, data);  // with nothing in its memory but what was saved
    federation.store().load(folder);
    std::filesystem::remove_all(folder);
    const FederationState end = federation.run({}, saved);
    EXPECT_EQ(end.parameters, whole.parameters) << stop;
    EXPECT_EQ(end.algorithm.parts, whole.algorithm.parts) << stop;
    EXPECT_EQ(end.history.size(), whole.history.size()) << stop;
  }
}

TEST_P(EveryAlgorithm, LearnsWhereNodesAreAlike) {
  const FederatedData data = gaussian_federation({{{60, 60, 60}, {100, 100, 100}}, {{60, 60, 60}, {100, 100, 100}}});
  const FederationState end = LocalFederation(settings_for(GetParam()), data).run();
  // Bayes' classifier is right for about 0.91 of them; the standard error of 600 examples is 0.012.
  EXPECT_GT(average_accuracy(end.history), 0.85);
}

INSTANTIATE_TEST_SUITE_P(Federation, EveryAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) {
                           std::string name = row.param.name;
                           std::erase(name, '-');
                           return name;
                         });

/// The norm of the mean of the nodes' gradients: 0 at the minimum of the mean loss.
double gradient_norm(const FederationSettings& settings, const FederationTask& task, const FederationState& state,
                     const FederatedData& data) {
  const auto net = global_model(settings, task, state);
  std::vector<double> mean(state.parameters.size());
  for (const NodeData& node : data.nodes) {
    net->loss_and_gradient({*node.train, node.train_rows, {}}, {}, 0);
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += net->gradient()[i] / static_cast<double>(data.nodes.size());
  }
  return std::sqrt(std::inner_product(mean.begin(), mean.end(), mean.begin(), 0.0));
}

TEST(Scaffold, EndsAtTheOptimumOfAllWhereLocalStepsPullApart) {
  const FederatedData data = gaussian_federation({{{90, 8, 2}, {1, 1, 1}}, {{2, 8, 90}, {1, 1, 1}}});
  FederationSettings settings = quick_settings();
  settings.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
  settings.local = {.steps = 30, .batch = 100, .learning_rate = 1.0};  // whole gradients: drift is the only error
  settings.rounds = 150;
  LocalFederation drifting(settings, data);
  const double drift = gradient_norm(settings, drifting.task(), drifting.run(), data);
  settings.algorithm = "scaffold";
  LocalFederation corrected(settings, data);
  const double rest = gradient_norm(settings, corrected.task(), corrected.run(), data);
  EXPECT_GT(drift, 0.002);  // it has come to rest where averaged local steps cancel, which is not the optimum
  EXPECT_LT(rest, 0.1 * drift);
}

/// Points as images, so that a ResNet takes them.
FederatedData three_image_nodes() {
  FederatedData data = gaussian_federation({{{8, 8}, {4, 4}}, {{8, 4}, {4, 4}}, {{4, 8}, {4, 4}}});
  data.shape = {2, 16, 16};
  for (auto& set : data.sets) {
    const auto& points = std::get<std::vector<float>>(set->values);
    std::vector<float> pixels;
    for (const float value : points) pixels.insert(pixels.end(), 256, value);
    set->values = pixels;
    set->shape = data.shape;
  }
  return data;
}

TEST(FedBn, GivesTheSameBitsForAnyNumberOfWorkersAlsoWhereNodesComeLate) {
  const FederatedData data = three_image_nodes();
  FederationSettings settings = quick_settings();
  settings.algorithm = "fedbn";
  settings.model = {"resnet18", {{"width", "2"}}};
  settings.rounds = 3;
  settings.evaluate_every = 1;
  settings.sampled = 1;
  const FederationState one = LocalFederation(settings, data, 1).run();
  for (const unsigned workers : {2u, 3u}) {
    const FederationState end = LocalFederation(settings, data, workers).run();
    EXPECT_EQ(end.parameters, one.parameters);
    for (std::size_t i = 0; i < one.history.size(); ++i) EXPECT_EQ(end.history[i].loss, one.history[i].loss) << i;
  }
}

TEST(FedBn, KeepsBatchNormsAtTheirNodeAndOutOfTheMessages) {
  const FederatedData data = three_image_nodes();
  FederationSettings settings = quick_settings();
  settings.model = {"resnet18", {{"width", "2"}}};
  settings.rounds = 2;
  Traffic traffic[2];
  for (const bool local : {false, true}) {
    settings.algorithm = local ? "fedbn" : "fedavg";
    LocalFederation federation(settings, data);
    const FederationState end = federation.run();
    traffic[local] = phase(end, "training").traffic;
    EXPECT_EQ(federation.store().of(0)->names("round-").empty(), !local);
    if (!local) continue;
    const std::vector<float> one = federation.kept(end, 0).at("batch-norms");
    const std::vector<float> other = federation.kept(end, 1).at("batch-norms");
    EXPECT_NE(one, other);
    EXPECT_EQ(traffic[0].down - traffic[1].down, 2 * 3 * 4 * one.size());  // rounds, nodes, bytes
  }
}

TEST(FedBn, IsFedAvgOnANetWithoutBatchNorm) {
  const FederatedData data = two_nodes();
  FederationSettings settings = quick_settings();
  const std::vector<float> plain = LocalFederation(settings, data).run().parameters;
  settings.algorithm = "fedbn";
  EXPECT_EQ(LocalFederation(settings, data).run().parameters, plain);
}

TEST(Federation, ReportsAReweightedAccuracyWhereTestLabelsAreMissing) {
  FederatedData data = gaussian_federation({{{800, 800, 800}, {100, 450, 50}}, {{800, 800, 800}, {300, 200, 100}}});
  std::vector<std::vector<int>> truth;
  for (NodeData& node : data.nodes) {
    auto& set = *data.sets[&node == &data.nodes[0] ? 1 : 3];
    truth.push_back(std::exchange(set.labels, {}));
  }
  FederationSettings settings = weighted_settings("mlls");
  settings.source_holdout = 0.25;
  LocalFederation federation(settings, data);
  const FederationState end = federation.run();
  EXPECT_TRUE(std::isnan(end.target_error));
  for (Index k = 0; k < 2; ++k) {
    const NodeEvaluation& row = end.history[end.history.size() - 2 + k];
    EXPECT_TRUE(std::isnan(row.accuracy));
    EXPECT_GT(row.reweighted_examples, 100.0);
    EXPECT_LT(row.reweighted_examples, 600.0);
    // What it stands for, with the labels it did not see. Intervals of 95 % fail for one of two nodes at most.
    const auto net = global_model(settings, federation.task(), end);
    Dataset test = *data.nodes[k].test;
    std::vector<float> logits(test.size() * 3);
    net->logits(test, data.nodes[k].test_rows, logits);
    double right = 0.0;
    for (Index i = 0; i < test.size(); ++i)
      right += std::max_element(&logits[3 * i], &logits[3 * i] + 3) - &logits[3 * i] == truth[k][i];
    const double accuracy = right / static_cast<double>(test.size());
    const double half = row.reweighted_high - row.reweighted_low;  // twice the half width, for the noise of both
    EXPECT_NEAR(row.reweighted_accuracy, accuracy, half);
  }
}

TEST(Federation, EstimatesAndEvaluatesOnDifferentExamplesWhereAskedTo) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("mlls");
  settings.target_holdout = 0.25;
  const FederationState end = LocalFederation(settings, data).run();
  EXPECT_EQ(end.history.back().examples, 75);
}

TEST(Federation, GivesTheSameIntervalsWherePredictorsTravel) {
  const FederatedData data = gaussian_federation({{{80, 40, 20}, {60, 60, 60}}, {{40, 80, 20}, {60, 60, 60}}});
  FederationSettings settings = weighted_settings("vrls");
  settings.rounds = 1;
  const FederationState local = LocalFederation(settings, data).run();
  settings.ratio.exchange = RatioExchange::kPairwise;
  const FederationState pairwise = LocalFederation(settings, data).run();
  for (std::size_t k = 0; k < 2; ++k) {
    const NodeRatio &own = local.ratios[k], &travelled = pairwise.ratios[k];
    ASSERT_EQ(travelled.low.size(), 3);
    EXPECT_EQ(travelled.low, own.low);
    EXPECT_EQ(travelled.high, own.high);
    EXPECT_TRUE(travelled.estimate.isApprox(own.estimate, 1e-6));
  }
}

TEST(Federation, SaysNothingOfATargetThatIsPartlyOfClassesItCannotJudge) {
  FederatedData data = gaussian_federation({{{50, 50, 0}, {10, 10, 80}}, {{40, 40, 40}, {30, 30, 30}}});
  for (const int set : {1, 3}) data.sets[set]->labels.clear();
  FederationSettings settings = weighted_settings("mlls");
  settings.source_holdout = 0.2;
  const auto expect_silence_of_the_first = [&] {
    const FederationState end = LocalFederation(settings, data).run();
    EXPECT_TRUE(std::isnan(end.history[end.history.size() - 2].reweighted_accuracy));
    EXPECT_FALSE(std::isnan(end.history.back().reweighted_accuracy));
  };
  expect_silence_of_the_first();  // its own predictor takes the third class for one of the others
  settings.ratio.exchange = RatioExchange::kPairwise;
  expect_silence_of_the_first();
  settings.ratio.exchange = RatioExchange::kLocal;
  settings.ratio.predictor = PredictorScope::kFederated;
  expect_silence_of_the_first();
}

TEST(Federation, NamesTheClassesThatAMethodLacks) {
  const FederatedData lacking = gaussian_federation({{{0, 60, 60}, {9, 9, 9}}, {{40, 40, 40}, {9, 9, 9}}});
  const FederatedData lone = gaussian_federation({{{0, 60, 0}, {9, 9, 9}}, {{40, 40, 40}, {9, 9, 9}}});
  LocalFederation few(weighted_settings("auto"), lacking), one(weighted_settings("auto"), lone);
  expect_error_with(ErrorKind::kInput,
                    "node 1: method auto judges predictors by examples of every class, and there is "
                    "none of a; use another method",
                    [&] { few.run(); });
  expect_error_with(ErrorKind::kInput, "there is none of a, c;", [&] { one.run(); });
  FederatedData alike = gaussian_federation({{{0, 60, 60}, {9, 9, 9}}, {{40, 40, 40}, {0, 0, 0}}});
  for (float& value : std::get<1>(alike.sets[0]->values)) value = 0.0F;
  LocalFederation unpredicted(weighted_settings("bbse"), alike);
  expect_error_with(ErrorKind::kInput, "(its classes, from 0: b, c)", [&] { unpredicted.run(); });
}

TEST(Federation, DrawsTheNodesThatTrainAFederatedPredictorToo) {
  const FederatedData data = two_nodes();
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 1;
  settings.ratio.predictor = PredictorScope::kFederated;
  const std::uint64_t all = phase(LocalFederation(settings, data).run(), "predictor").traffic.down;
  settings.sampled = 1;
  const FederationState drawn = LocalFederation(settings, data).run();
  EXPECT_LT(phase(drawn, "predictor").traffic.down, 0.6 * static_cast<double>(all));
  for (const NodeRatio& ratio : drawn.ratios) EXPECT_LT(ratio.prior_error, 0.4);
}

TEST(Federation, RefusesToWeightTowardsNothing) {
  const FederatedData data = gaussian_federation({{{40, 40}, {0, 0}}, {{40, 40}, {0, 0}}});
  for (const char* method : {"true", "mlls"}) {
    LocalFederation federation(weighted_settings(method), data);
    expect_error_with(ErrorKind::kInput, "nothing to weight towards", [&] { federation.run(); });
  }
}

TEST(Federation, RefusesWhatItRemembersOfAnotherModel) {
  const FederatedData data = two_nodes();
  FederationState saved;
  LocalFederation first(quick_settings(), data);
  EXPECT_THROW(first.run({.checkpoint = with_state([&](const FederationState& state) {
                            saved = state;
                            throw Stopped{};
                          })}),
               Stopped);
  saved.parameters.pop_back();
  expect_error_with(ErrorKind::kInput, "changed since", [&] { first.run({}, saved); });
}

TEST(Federation, RunsOneNodeAlone) {
  const FederatedData data = gaussian_federation({{{80, 10, 10}, {10, 10, 80}}});
  EXPECT_GT(average_accuracy(LocalFederation(weighted_settings("true"), data).run().history), 0.5);
}

TEST(Federation, RunsMoreNodesThanClassesSomeOfOneClassAlone) {
  const FederatedData data = gaussian_federation(
      {{{40, 0, 0}, {10, 0, 0}}, {{0, 40, 0}, {0, 10, 10}}, {{0, 0, 40}, {5, 5, 5}}, {{10, 10, 10}, {4, 4, 4}}});
  FederationSettings settings = weighted_settings("vrls");
  LocalFederation federation(settings, data);
  const FederationState end = federation.run();
  EXPECT_EQ(federation.numbers(0, "target"), (std::vector<float>{1.0F, 0.0F, 0.0F}));
  EXPECT_EQ(end.warnings.size(), 3u);
  for (const NodeRatio& node : end.ratios) EXPECT_TRUE(std::isfinite(node.largest));
}

TEST(Federation, ANodeWithoutTestExamplesTrainsAndDoesNotCountInTheAverage) {
  const FederatedData data = gaussian_federation({{{40, 40}, {20, 20}}, {{40, 40}, {0, 0}}});
  FederationSettings settings = weighted_settings("mlls");
  LocalFederation federation(settings, data);
  const FederationState end = federation.run();
  EXPECT_NEAR(end.target_sum.sum(), 1.0, 1e-6);  // one target
  EXPECT_THAT(end.warnings.at(0), HasSubstr("node 2 has no test examples"));
  EXPECT_EQ(average_accuracy(end.history), end.history[end.history.size() - 2].accuracy);
}

TEST(Federation, RunsTenThousandNodes) {
  FederatedData data = gaussian_federation({{{20'000, 20'000}, {2'000, 2'000}}});
  const NodeData all = data.nodes[0];
  data.nodes.clear();
  for (Index k = 0; k < 10'000; ++k) {
    NodeData node{.train = all.train, .test = all.test};
    for (const Index row : {2 * k, 2 * k + 1, 20'000 + 2 * k, 20'000 + 2 * k + 1}) node.train_rows.push_back(row);
    node.test_rows = {k % 4'000};
    data.nodes.push_back(std::move(node));
  }
  FederationSettings settings = quick_settings();
  settings.sampled = 100;
  settings.rounds = settings.evaluate_every = 20;
  EXPECT_GT(average_accuracy(LocalFederation(settings, data).run().history), 0.9);
}

TEST(FederationSettings, AreRefusedWhereTheyMakeNoSense) {
  const auto refused = [](const std::string& part, const std::function<void(FederationSettings&)>& change) {
    FederationSettings settings = weighted_settings("vrls");
    change(settings);
    expect_error_with(ErrorKind::kUsage, part, [&] { check_settings(settings, 5); });
  };
  check_settings(weighted_settings("vrls"), 5);
  refused("did you mean \"iw-erm\"", [](auto& s) { s.algorithm = "iw_erm"; });
  refused("iw-erm needs ratios", [](auto& s) { s.ratio.method = "none"; });
  refused("sampled is 6", [](auto& s) { s.sampled = 6; });
  refused("rounds is 0", [](auto& s) { s.rounds = 0; });
  refused("scaffold with one local step is fedavg", [](auto& s) { s.algorithm = "scaffold"; });
  refused("fedprox needs a proximal", [](auto& s) {
    s.algorithm = "fedprox";
    s.local.steps = 5;
  });
  refused("scaffold weighs nodes equally", [](auto& s) {
    s.algorithm = "scaffold";
    s.local.steps = 5;
    s.weighting = Weighting::kPooled;
  });
  refused("momentum is of sgd; adam has beta1 instead", [](auto& s) { s.server.momentum = 0.9; });
  refused("beta1 is 1", [](auto& s) { s.server.beta1 = 1.0; });
  refused("ratio.learning-rate is 0", [](auto& s) { s.ratio.learning_rate = 0.0; });
  refused("not both", [](auto& s) { s.local.steps = s.local.epochs = 2; });
  refused("optimiser", [](auto& s) { s.server.optimiser = "adan"; });
  refused("method", [](auto& s) { s.ratio.method = "vlrs"; });
  refused("goal-node is 9", [](auto& s) { s.ratio.goal_node = 9; });
  refused("needs a goal-node", [](auto& s) { s.ratio.goal_shift = false; });
  refused("fraction is 0", [](auto& s) { s.ratio.fraction = 0.0; });
  refused("target-holdout is 1", [](auto& s) { s.target_holdout = 1.0; });
  refused("pairwise", [](auto& s) {
    s.ratio.exchange = RatioExchange::kPairwise;
    s.ratio.predictor = PredictorScope::kFederated;
  });
  refused("confusion matrix", [](auto& s) {
    s.ratio.method = "bbse";
    s.ratio.exchange = RatioExchange::kPairwise;
  });
}

TEST(CheckTraining, BelievesWeightsThatANodeCanHave) {
  const auto weighs = [](double weight, NodeWeight kind) {
    check_training({.numbers = {weight, 1.0}, .weights = {0.0F}}, kind);
  };
  const auto refused = [&](double weight, NodeWeight kind, const std::string& what) {
    expect_error_with(ErrorKind::kPeer, what, [&] { weighs(weight, kind); });
  };
  weighs(1.0, NodeWeight::kOne);
  refused(1e30, NodeWeight::kOne, "it says that the weight of its answer is 1e+30, expected 1;");
  refused(0.5, NodeWeight::kOne, "is 0.5, expected 1;");
  weighs(1.0, NodeWeight::kExamples);
  weighs(60'000.0, NodeWeight::kExamples);
  refused(2.5, NodeWeight::kExamples, "is 2.5, expected a count of 8.79609e+12 at most;");
  refused(1e13, NodeWeight::kExamples, "is 1e+13, expected a count");
  weighs(0x1p-60, NodeWeight::kMixture);
  weighs(1.0, NodeWeight::kMixture);
  weighs(1.0 + 1e-5, NodeWeight::kMixture);  // with n / lambda = 1e9 the search ends that far from a sum of 1
  refused(2.1, NodeWeight::kMixture, "is 2.1, expected 0 to 2;");
  for (const NodeWeight kind : {NodeWeight::kOne, NodeWeight::kExamples, NodeWeight::kMixture})
    for (const double weight : {0.0, -1.0}) refused(weight, kind, "its answer weighs nothing");
}

TEST(CheckOwnTraining, SaysThatTheTrainingHasRunAwayAndBlamesNoPeer) {
  const auto check = [](double weight, float value) {
    check_own_training({.weight = weight, .loss = 1.0, .parts = {0.0F, value, 1.0F}});
  };
  check(1.0, -0.9e18F);
  check(10.0, 0.9e19F);
  for (const float value : {1.1e18F, -3e38F, std::numeric_limits<float>::infinity(), std::nanf("")})
    expect_error_with(ErrorKind::kInput, "the training has run away: use smaller learning rates",
                      [&] { check(1.0, value); });
}

TEST(CheckTraining, BelievesNoValueWhoseSquareIsNoFloat) {
  const auto check = [](double weight, float value, NodeWeight kind) {
    check_training({.numbers = {weight, 1.0}, .weights = {0.0F, value, 1.0F}}, kind);
  };
  check(1.0, -0.9e18F, NodeWeight::kOne);
  check(10.0, 0.9e19F, NodeWeight::kExamples);
  for (const float value : {1.1e18F, -3e38F})
    expect_error_with(ErrorKind::kPeer, "its update has a value of size", [&] { check(1.0, value, NodeWeight::kOne); });
  expect_error_with(ErrorKind::kPeer, "its update has a value of size 1.1e+18, expected at most 1e+18;",
                    [&] { check(0x1p-10, 1.1e18F * 0x1p-10F, NodeWeight::kMixture); });
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")})  // what was packed
    expect_error_with(ErrorKind::kPeer, "its update has a value of size", [&] { check(1.0, value, NodeWeight::kOne); });
  check_training({}, NodeWeight::kOne);  // the engine says that it is no answer
}

/// Changes what the last node answers to a task, in training as a rule, on its way to the coordinator.
class HostileNode : public Engine {
 public:
  HostileNode(Engine& inner, std::function<void(Answer&)> change, TaskKind task = TaskKind::kTrain)
      : inner_(inner), change_(std::move(change)), task_(task) {}
  Index nodes() const override { return inner_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    AnswerTerms changed = terms;
    changed.accept = [&](Index node, Answer& answer) {
      if (node == nodes() - 1 && static_cast<TaskKind>(request.task) == task_) change_(answer);
      if (terms.accept) terms.accept(node, answer);
    };
    return inner_.run(request, cohort, changed, patience, observer);
  }

 private:
  Engine& inner_;
  const std::function<void(Answer&)> change_;
  const TaskKind task_;
};

TEST(Federation, GoesOnWithoutANodeWhoseAnswerIsOfASizeThatNoneHas) {
  const GaussianNode a{{20, 5, 5}, {5, 20, 5}}, b{{5, 9, 5}, {9, 9, 9}}, c{{5, 5, 20}, {9, 9, 9}};
  FederationSettings settings = quick_settings();
  settings.patience.quorum = 1;
  const auto heavy = [](Answer& answer) {  // all others would vanish beside it
    answer.numbers[0] = 1e30;
    std::fill(answer.weights.begin(), answer.weights.end(), 0.0F);
  };
  const auto huge = [](Answer& answer) { answer.weights[3] = 3e38F; };
  const auto lost = [](Answer&) { throw Error(ErrorKind::kPeer, "lost"); };
  for (const Weighting weighting : {Weighting::kNodes, Weighting::kPooled}) {
    settings.weighting = weighting;
    const FederatedData data = gaussian_federation({a, b, c});
    const auto end = [&](const std::function<void(Answer&)>& change) {
      LocalFederation federation(settings, data);
      HostileNode engine(federation.engine(), change);
      return run_federation(settings, federation.task(), engine);
    };
    const FederationState without = end(lost);
    for (const std::function<void(Answer&)>& change : {std::function<void(Answer&)>(heavy), {huge}}) {
      const FederationState state = end(change);
      EXPECT_EQ(state.parameters, without.parameters);
      EXPECT_EQ(state.counted, (std::vector<std::uint64_t>{20, 20, 0}));
      EXPECT_THAT(state.warnings, testing::Contains(HasSubstr("node 3 took no part in 20 of 20 rounds, last since ")));
    }
  }
}

TEST(Federation, NamesTheNodeWhoseCompressedUpdateIsHuge) {
  FederationSettings settings = quick_settings();
  settings.compression = {.codec = "qsgd", .levels = 7};
  const FederatedData data = two_nodes();
  LocalFederation federation(settings, data);
  HostileNode engine(federation.engine(), [](Answer& answer) {
    const float most = 3e38F;  // of the first run
    std::memcpy(answer.packed.data(), &most, sizeof most);
  });
  expect_error_with(ErrorKind::kPeer, "node 2: its update has a value of size",
                    [&] { run_federation(settings, federation.task(), engine); });
}

TEST(CheckTraining, ReadsNumbersByTheirNames) {
  const auto numbers = training_numbers({.numbers = {3.0, 6.0}});
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->weight, 3.0);
  EXPECT_EQ(numbers->loss, 6.0);
  EXPECT_FALSE(training_numbers({.numbers = {3.0}}));
  EXPECT_FALSE(training_numbers({.numbers = {3.0, 6.0, 1.0}}));
}

/// Two nodes, of which the second changes what it answers to a task.
void expect_refused_answer(const std::string& part, const FederationSettings& settings, TaskKind task,
                           const std::function<void(Answer&)>& change) {
  const FederatedData data = two_nodes();
  LocalFederation federation(settings, data);
  HostileNode engine(federation.engine(), change, task);
  expect_error_with(ErrorKind::kPeer, part, [&] { run_federation(settings, federation.task(), engine); });
}

TEST(Federation, NamesTheNodeWhoseSquaresAreNegative) {
  FederationSettings settings = quick_settings();
  settings.algorithm = "fafed";
  settings.server.weight_decay = 0.0;
  // All others would have NaN in the next round, and be blamed.
  expect_refused_answer("node 2: it says that value 9 of its squares is -1e+06, expected 0 or more", settings,
                        TaskKind::kTrain, [](Answer& answer) { answer.weights.back() = -1e6F; });
  settings.server.optimiser = "sgd";  // the last value is of the momentum then
  const FederatedData data = two_nodes();
  LocalFederation federation(settings, data);
  HostileNode engine(federation.engine(), [](Answer& answer) { answer.weights.back() = -1.0F; });
  EXPECT_EQ(run_federation(settings, federation.task(), engine).round, settings.rounds);
}

TEST(Federation, NamesTheNodeWhoseBatchNormsHaveANegativeVariance) {
  const NetChoice normed{LABELSHIFT_FEDERATION_REFERENCE "/normed.pt", {}};
  const std::string part = "running_var is -0.5, expected 0 or more";
  const auto negative = [](Answer& answer) { answer.weights.back() = -0.5F; };
  FederationSettings settings = quick_settings();
  settings.model = normed;
  expect_refused_answer(part, settings, TaskKind::kTrain, negative);
  settings = weighted_settings("vrls");
  settings.ratio.net = normed;
  settings.ratio.predictor = PredictorScope::kFederated;
  expect_refused_answer(part, settings, TaskKind::kTrainPredictor, negative);
  settings.ratio.predictor = PredictorScope::kLocal;
  settings.ratio.exchange = RatioExchange::kPairwise;
  expect_refused_answer(part, settings, TaskKind::kShare, [](Answer& answer) {
    auto report = from_bytes<Share::Report>(answer.report);
    report.weights.back() = -0.5F;
    answer.report = to_bytes(report);
  });
}

TEST(CheckLosses, BelievesNoNegativeSumOfSquares) {
  // One fit of three parameters; products by column of the lower triangle, so squares are at 0, 3 and 5.
  const auto check = [](Index at, double value, Index nodes) {
    Calibrate::CalibrationSums sums{.values = Eigen::VectorXd::Zero(1),
                                    .held_out = Eigen::VectorXd::Zero(1),
                                    .gradients = Eigen::VectorXd::Zero(3),
                                    .noise = Eigen::VectorXd::Zero(6 + 3 * 2)};
    sums.noise[at] = value;
    check_losses(sums, nodes);
  };
  for (const Index at : {1, 2, 4, 6, 11}) check(at, -1.0, 1);
  for (const Index at : {0, 3, 5}) {
    check(at, 1.0, 1);
    expect_error_with(ErrorKind::kPeer,
                      "it says that a sum of squared slopes of losses on held-out examples is -1e-09, expected 0",
                      [&] { check(at, -1e-9, 1); });
    expect_error_with(ErrorKind::kPeer, "the answers of 3 nodes together say", [&] { check(at, -1.0, 3); });
  }
}

/// vrls with one predictor for all, which is hardly trained.
FederationSettings federated_settings() {
  FederationSettings settings = weighted_settings("vrls");
  settings.rounds = settings.evaluate_every = 2;
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.ratio.rounds = 5;
  return settings;
}

TEST(Federation, FollowsNoCalibrationOfNegativeVariance) {
  constexpr Index kClasses = 3;
  const Index p = CalibrationParameters(pooled_kind(kClasses), kClasses).size();
  const auto products = static_cast<std::size_t>(p * (p + 1) / 2), sums = static_cast<std::size_t>(p * kClasses);
  const auto with_noise = [&](const Answer& answer) {  // of a question about one fit, which asks for the noise
    const auto curvature = static_cast<std::size_t>(pooled_curvature_size(kClasses));
    return answer.words.size() == 2 + static_cast<std::size_t>(p) + curvature + products + sums;
  };
  expect_refused_answer("node 2: it says that a sum of squared slopes of losses on held-out examples is -1,",
                        federated_settings(), TaskKind::kCalibrate, [&](Answer& answer) {
                          if (with_noise(answer)) answer.words[answer.words.size() - products - sums] = to_fixed(-1, 2);
                        });
  expect_refused_answer(
      "leads to a calibration of negative variance", federated_settings(), TaskKind::kCalibrate, [&](Answer& answer) {
        if (!with_noise(answer)) return;
        std::fill(answer.words.end() - static_cast<std::ptrdiff_t>(sums), answer.words.end(), to_fixed(1.0, 2));
      });
}

/// A coordinator that asks for estimates with a variance below 0.
class HostileCoordinator : public Engine {
 public:
  explicit HostileCoordinator(Engine& inner) : inner_(inner) {}
  Index nodes() const override { return inner_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    if (static_cast<TaskKind>(request.task) != TaskKind::kTargetTogether)
      return inner_.run(request, cohort, terms, patience, observer);
    Request changed = request;
    auto body = from_bytes<TargetTogether::Request>(request.body);
    body.covariance[0] = -1e-3;
    changed.body = to_bytes(body);
    return inner_.run(changed, cohort, terms, patience, observer);
  }

 private:
  Engine& inner_;
};

TEST(Federation, EstimatesNothingWithANegativeVariance) {
  const FederatedData data = two_nodes();
  LocalFederation federation(federated_settings(), data);
  HostileCoordinator engine(federation.engine());
  expect_error_with(ErrorKind::kPeer, "node 1: a message has a covariance with a variance below 0",
                    [&] { run_federation(federated_settings(), federation.task(), engine); });
}

TEST(Federation, SaysWhereClassesWithoutHeldOutExamplesLeaveOneTemperature) {
  const auto warnings = [](Index examples, const std::string& method) {  // of class c at each node
    FederationSettings settings = federated_settings();
    settings.ratio.method = method;
    return LocalFederation(settings,
                           gaussian_federation({{{80, 10, examples}, {5, 90, 5}}, {{10, 80, examples}, {60, 20, 20}}}))
        .run()
        .warnings;
  };
  const auto said = testing::Contains(
      HasSubstr("no node has a held-out example of class c, so the calibration of the predictor is one temperature "
                "for all classes, without a bias for each, and estimates may be several times further off; give a "
                "node two training examples or more of it"));
  EXPECT_THAT(warnings(1, "vrls"), said);
  EXPECT_THAT(warnings(2, "vrls"), testing::Not(said));
  EXPECT_THAT(warnings(1, "mlls-ts"), testing::Not(said));  // which has no biases
  FederationSettings settings = federated_settings();
  settings.ratio.method = "vrls";
  EXPECT_THAT(LocalFederation(settings, gaussian_federation({{{1, 80, 1}, {5, 90, 5}}, {{1, 80, 1}, {60, 20, 20}}}))
                  .run()
                  .warnings,
              testing::Contains(HasSubstr("no node has a held-out example of the classes a, c, so")));
}

}  // namespace
}  // namespace labelshift
