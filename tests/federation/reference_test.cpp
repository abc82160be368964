#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "tests/federation/gaussian_federation.hpp"
#include "tests/federation/reference_federation.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

const std::string kNormed = LABELSHIFT_FEDERATION_REFERENCE "/normed.pt";
const std::string kPlain = LABELSHIFT_FEDERATION_REFERENCE "/plain.pt";

VectorXd doubles(std::span<const float> values) {
  return Eigen::Map<const Eigen::VectorXf>(values.data(), std::ssize(values)).cast<double>();
}

// The library works in floats. A step rounds a weight of size 1 a few times, 6e-8 each, and computes a gradient of size
// 1 to about 3e-7; a dozen steps of size up to 1 that hardly damp an error make 1e-5. An update is a thousand times
// larger.
constexpr double kWeights = 2e-5;
// A predictor's weights are off by as much, and a prior reacts to them with a factor of a few: at most 10 here.
constexpr double kPriors = 2e-4;

/// Four nodes of different sizes. The third lacks a class, and so does the fourth.
FederatedData unequal_nodes() {
  return gaussian_federation(
      {{{12, 5, 3}, {3, 8, 4}}, {{4, 9, 6}, {6, 2, 2}}, {{2, 0, 16}, {5, 5, 5}}, {{7, 20, 0}, {1, 3, 9}}});
}

/// The same with the examples of a class all alike at a node, so that it does not matter which of them are held out.
/// The nodes' points of a class differ, and two classes of the second node share one unless all are to be `apart`: no
/// predictor tells these apart.
FederatedData repeated_points(bool apart) {
  FederatedData data = unequal_nodes();
  const float points[4][3][2] = {{{2.0F, 0.5F}, {-1.0F, 1.5F}, {0.5F, -0.5F}},
                                 {{0.5F, 1.0F}, {apart ? -2.0F : 0.5F, 1.0F}, {-1.0F, -2.0F}},
                                 {{1.5F, -1.0F}, {0.0F, 0.0F}, {-1.0F, 1.0F}},
                                 {{-0.5F, 0.5F}, {-1.5F, 0.5F}, {0.0F, 0.0F}}};
  for (int k = 0; k < 4; ++k) {
    Dataset& train = *data.sets[2 * k];
    auto& values = std::get<std::vector<float>>(train.values);
    for (Index i = 0; i < train.size(); ++i) std::copy_n(points[k][train.labels[i]], 2, &values[2 * i]);
  }
  return data;
}

/// All sets of `size` of `nodes` nodes.
std::vector<std::vector<Index>> cohorts(Index nodes, Index size) {
  std::vector<std::vector<Index>> all;
  for (unsigned bits = 0; bits < (1u << nodes); ++bits) {
    std::vector<Index> cohort;
    for (Index k = 0; k < nodes; ++k)
      if (bits >> k & 1) cohort.push_back(k);
    if (std::ssize(cohort) == size) all.push_back(cohort);
  }
  return all;
}

/// Whether the examples of a class are all alike at a node.
enum class Points { kDrawn, kRepeated, kRepeatedApart };

struct Case {
  std::string name;
  std::function<void(FederationSettings&)> change;
  Points points = Points::kDrawn;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

FederationSettings reference_settings() {
  FederationSettings settings;
  settings.model = {"logistic", {}};
  settings.rounds = 4;
  settings.evaluate_every = 1;
  settings.seed = 11;
  settings.local = {.batch = 64, .learning_rate = 0.4};
  settings.server = {.optimiser = "sgd", .learning_rate = 0.7, .weight_decay = 0.05};
  settings.ratio.net = {kPlain, {}};
  settings.ratio.epochs = 12;
  settings.ratio.rounds = 12;
  settings.ratio.learning_rate = 0.1;
  settings.ratio.weight_decay = 0.02;
  return settings;
}

class AgreesWithTheReference : public testing::TestWithParam<Case> {
 protected:
  AgreesWithTheReference()
      : data_(GetParam().points == Points::kDrawn ? unequal_nodes()
                                                  : repeated_points(GetParam().points == Points::kRepeatedApart)),
        settings_(changed()),
        reference_(settings_, data_) {
    reference_.net.batch_norm = settings_.model.name == kNormed;
    reference_.predictor_net.batch_norm = settings_.ratio.net.name == kNormed;
  }

  static FederationSettings changed() {
    FederationSettings settings = reference_settings();
    GetParam().change(settings);
    return settings;
  }

  /// Phases 1 and 2.
  void compare_ratios(const FederationState& state) {
    if (settings_.ratio.estimated()) {
      const auto net = make_net({.name = settings_.ratio.net.name, .shape = data_.shape, .classes = 3}, 0);
      reference_.first_w = doubles(net->parameters());
      reference_.first_buffers = doubles(net->buffers());
    }
    reference_.start(doubles(state.parameters), doubles(state.buffers));
    reference_.estimate_ratios();
    if (!settings_.ratio.weighted()) {
      EXPECT_TRUE(state.ratios.empty());
      return;
    }
    EXPECT_LT((state.target_sum - reference_.target_sum).lpNorm<Eigen::Infinity>(), kPriors)
        << state.target_sum.transpose() << " and " << reference_.target_sum.transpose();
    if (settings_.ratio.estimated()) {
      EXPECT_NEAR(state.target_error, reference_.target_error, kPriors);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const reference::Node& node = reference_.nodes[k];
      const VectorXd counts = reference::counts_of(node.train, 3);
      const NodeRatio& found = state.ratios[k];
      EXPECT_EQ(found.node, static_cast<Index>(k));
      EXPECT_EQ(found.examples, counts.sum());
      EXPECT_NEAR(found.largest, (counts.array() > 0.0).select(node.ratio, 0.0).maxCoeff(), 10.0 * kPriors);
      const double sum = counts.dot(node.ratio), squares = counts.dot(node.ratio.cwiseAbs2());
      EXPECT_NEAR(found.effective_examples, sum * sum / squares, 20.0 * kPriors);
      const bool known = settings_.ratio.estimated() && node.target.size() > 0;
      const double error = known ? (node.target - node.truth).lpNorm<1>() : 0.0;
      EXPECT_EQ(std::isnan(found.prior_error), !known);
      EXPECT_NEAR(known ? found.prior_error : 0.0, error, kPriors);
    }
  }

  /// One round of training. Who took part is not told: it is the one cohort whose step this was.
  void compare_round(const FederationState& state) {
    const std::vector<std::vector<Index>> all = cohorts(4, settings_.sampled > 0 ? settings_.sampled : 4);
    std::vector<double> distance;
    std::vector<reference::Federation> next;
    for (const std::vector<Index>& cohort : all) {
      reference::Federation copy = reference_;
      copy.round(cohort);
      distance.push_back((doubles(state.parameters) - copy.w).lpNorm<Eigen::Infinity>());
      next.push_back(std::move(copy));
    }
    const auto best = std::min_element(distance.begin(), distance.end()) - distance.begin();
    const double tolerance = settings_.ratio.estimated() ? 10.0 * kPriors : kWeights;
    EXPECT_LT(distance[best], tolerance) << "in round " << state.round;
    distance.erase(distance.begin() + best);
    for (const double other : distance) EXPECT_GT(other, 100.0 * kWeights) << "in round " << state.round;
    took_part_.insert(all[best].begin(), all[best].end());
    seen_.insert(all[best]);
    const reference::Federation& now = next[best];
    if (now.buffers.size() > 0) {
      EXPECT_LT((doubles(state.buffers) - now.buffers).lpNorm<Eigen::Infinity>(), kWeights);
    }
    if (settings_.algorithm == "scaffold") {
      EXPECT_LT((doubles(state.algorithm.parts.at("control")) - now.control).lpNorm<Eigen::Infinity>(), 3.0 * kWeights);
      EXPECT_GT(now.control.lpNorm<Eigen::Infinity>(), 100.0 * kWeights);
    }
    reference_.w = now.w;
    reference_.buffers = now.buffers;
    reference_.control = now.control;
    reference_.server = now.server;
    reference_.nodes = now.nodes;
    if (settings_.evaluate_every > 1) return;
    ASSERT_EQ(std::ssize(state.history), 4 * state.round);
    for (Index k = 0; k < 4; ++k) {
      const reference::Evaluation judged = now.judge(now.nodes[k]);
      const NodeEvaluation& row = state.history[state.history.size() - 4 + k];
      EXPECT_EQ(row.round, state.round);
      EXPECT_EQ(row.node, k);
      EXPECT_EQ(row.examples, now.nodes[k].evaluate.x.rows());
      EXPECT_NEAR(row.accuracy, judged.accuracy, 1e-9);
      EXPECT_NEAR(row.loss, judged.loss, 10.0 * tolerance);
      if (settings_.source_holdout == 0.0 || std::isnan(row.reweighted_accuracy)) continue;
      ++reweighted_;
      EXPECT_NEAR(row.reweighted_accuracy, judged.reweighted, 10.0 * kPriors);
      EXPECT_NEAR(row.reweighted_low, judged.low, 10.0 * kPriors);
      EXPECT_NEAR(row.reweighted_high, judged.high, 10.0 * kPriors);
      EXPECT_NEAR(row.reweighted_examples, judged.effective, 50.0 * kPriors);
    }
  }

  const FederatedData data_;
  const FederationSettings settings_;
  reference::Federation reference_;
  std::set<Index> took_part_;
  std::set<std::vector<Index>> seen_;
  int reweighted_ = 0;  // evaluations that had one
};

TEST_P(AgreesWithTheReference, AfterEveryRound) {
  LocalFederation federation(settings_, data_);
  int told = 0;
  const FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                                EXPECT_EQ(state.round, told++);
                                                state.round == 0 ? compare_ratios(state) : compare_round(state);
                                              })});
  EXPECT_EQ(told, settings_.rounds + 1);
  if (settings_.sampled > 0) {
    EXPECT_GT(std::ssize(took_part_), settings_.sampled);
    EXPECT_GT(std::ssize(seen_), 1);
  }
  if (settings_.source_holdout > 0.0) {
    EXPECT_GE(reweighted_, settings_.rounds);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Federation, AgreesWithTheReference,
    testing::Values(Case{"FedAvgOfGradients", [](auto&) {}},
                    Case{"FedAvgWithAdam",
                         [](auto& s) {
                           s.server = {
                               .learning_rate = 0.1, .weight_decay = 0.05, .beta1 = 0.6, .beta2 = 0.8, .epsilon = 1e-3};
                         }},
                    Case{"FedAvgWithYogi",
                         [](auto& s) {
                           s.weighting = Weighting::kPooled;
                           s.server = {.optimiser = "yogi",
                                       .learning_rate = 0.1,
                                       .weight_decay = 0.05,
                                       .beta1 = 0.6,
                                       .beta2 = 0.8,
                                       .epsilon = 1e-3};
                         }},
                    Case{"FedAvgOfLocalSteps",
                         [](auto& s) {
                           s.weighting = Weighting::kPooled;
                           s.local.steps = 3;
                           s.local.weight_decay = 0.1;
                           s.server.momentum = 0.5;
                         }},
                    Case{"FedAvgOfEpochs",
                         [](auto& s) {
                           s.local.epochs = 2;
                           s.sampled = 3;
                         }},
                    Case{"FedAvgThatIsNotEvaluated", [](auto& s) { s.evaluate_every = 9; }},
                    Case{"FedBnThatIsNotEvaluated",
                         [](auto& s) {
                           s.evaluate_every = 9;
                           s.algorithm = "fedbn";
                           s.model = {kNormed, {}};
                         }},
                    Case{"FedAvgOfOneEpoch", [](auto& s) { s.local.epochs = 1; }},
                    Case{"FedAvgWithBatchNorm",
                         [](auto& s) {
                           s.model = {kNormed, {}};
                           s.weighting = Weighting::kPooled;
                           s.sampled = 3;
                         }},
                    Case{"FedProx",
                         [](auto& s) {
                           s.algorithm = "fedprox";
                           s.local.steps = 3;
                           s.local.proximal = 0.7;
                           s.local.weight_decay = 0.1;
                         }},
                    Case{"FedBnOfGradients",
                         [](auto& s) {
                           s.algorithm = "fedbn";
                           s.model = {kNormed, {}};
                           s.local.weight_decay = 0.2;
                           s.sampled = 2;
                         }},
                    Case{"FedBnOfLocalSteps",
                         [](auto& s) {
                           s.algorithm = "fedbn";
                           s.model = {kNormed, {}};
                           s.local.steps = 2;
                           s.server = {.learning_rate = 0.1, .weight_decay = 0.05, .epsilon = 1e-3};
                         }},
                    Case{"Scaffold",
                         [](auto& s) {
                           s.algorithm = "scaffold";
                           s.local.steps = 3;
                           s.sampled = 2;
                           s.rounds = 6;
                         }},
                    Case{"ScaffoldOfEpochsWithWeights",
                         [](auto& s) {
                           s.algorithm = "scaffold";
                           s.local.epochs = 2;
                           s.local.weight_decay = 0.1;
                           s.ratio.method = "true";
                         }},
                    Case{"IwErmWithTrueRatios",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "true";
                           s.sampled = 3;
                         }},
                    Case{"IwErmPooled",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "true";
                           s.weighting = Weighting::kPooled;
                           s.local.steps = 2;
                         }},
                    Case{"IwErmWithLargestRatio",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "true";
                           s.ratio.max_ratio = 3.0;
                         }},
                    Case{"IwErmForOneNode",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls";
                           s.ratio.goal_node = 2;
                         }},
                    Case{"IwErmForOneNodeWithoutShift",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls";
                           s.ratio.goal_node = 4;
                           s.ratio.goal_shift = false;
                         }},
                    Case{"IwErmWithRawVrls",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "vrls-raw";
                         }},
                    Case{"IwErmWithPredictorsOfBatchNorm",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls";
                           s.ratio.net = {kNormed, {}};
                           s.weighting = Weighting::kPooled;
                         }},
                    Case{"IwErmWithBcts",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls-bct";
                           s.ratio.held_out = 0.3;
                           s.ratio.fraction = 0.7;
                         },
                         Points::kRepeated},
                    Case{"IwErmWithPredictorsThatStopEarly",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls";
                           s.ratio.stop_below = 0.8;
                         }},
                    Case{"IwErmWithBbse",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "bbse";
                           s.ratio.epochs = 40;
                         },
                         Points::kRepeatedApart},
                    Case{"IwErmPairwise",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "vrls";
                           s.ratio.exchange = RatioExchange::kPairwise;
                           s.ratio.max_ratio = 9.0;
                         },
                         Points::kRepeated},
                    Case{"IwErmPairwiseWithPredictorsOfBatchNorm",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls";
                           s.ratio.net = {kNormed, {}};
                           s.ratio.exchange = RatioExchange::kPairwise;
                         }},
                    Case{"IwErmWithAFederatedPredictor",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "vrls-raw";
                           s.ratio.predictor = PredictorScope::kFederated;
                         }},
                    Case{"IwErmWithAFederatedPredictorOfBatchNorm",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls";
                           s.ratio.net = {kNormed, {}};
                           s.ratio.predictor = PredictorScope::kFederated;
                           s.ratio.goal_node = 3;
                         }},
                    Case{"IwErmWithACalibratedFederatedPredictor",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "vrls-ts";
                           s.ratio.predictor = PredictorScope::kFederated;
                           s.ratio.held_out = 0.4;
                           s.ratio.rounds = 40;
                           s.weighting = Weighting::kPooled;
                         },
                         Points::kRepeated},
                    Case{"IwErmWithAFederatedPredictorOfTwoRounds",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls-ts";
                           s.ratio.predictor = PredictorScope::kFederated;
                           s.ratio.rounds = 2;
                           s.ratio.learning_rate = 1.5;  // so that the last step changes the temperature
                         },
                         Points::kRepeated},
                    Case{"IwErmWithAChosenFederatedPredictor",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "auto";
                           s.ratio.predictor = PredictorScope::kFederated;
                           s.ratio.fraction = 0.8;
                         },
                         Points::kRepeated},
                    Case{"IwErmWithAMatrixThatIsChosenTogether",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "vrls";
                           s.ratio.predictor = PredictorScope::kFederated;
                           s.ratio.held_out = 0.4;
                           s.ratio.rounds = 40;
                         },
                         Points::kRepeated},
                    Case{"IwErmWithReweightedAccuracy",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "mlls";
                           s.source_holdout = 0.3;
                         },
                         Points::kRepeated},
                    Case{"IwErmWithReweightedAccuracyOfTrueRatios",
                         [](auto& s) {
                           s.algorithm = "iw-erm";
                           s.ratio.method = "true";
                           s.source_holdout = 0.3;
                         },
                         Points::kRepeated}),
    [](const auto& row) { return row.param.name; });

TEST(ReweightedAccuracy, AgreesWithTheReferenceForAnyModel) {
  // Models that have hardly been trained are right by chance: never, or mostly where weights are small.
  const FederatedData data = repeated_points(/*apart=*/true);
  int none = 0, sandwiches = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    FederationSettings settings = reference_settings();
    settings.seed = seed;
    settings.algorithm = "iw-erm";
    settings.ratio.method = "true";
    settings.source_holdout = 0.4;
    settings.rounds = 1;
    settings.server.learning_rate = 0.01;
    const FederationState state = LocalFederation(settings, data).run();
    reference::Federation reference(settings, data);
    reference.start(doubles(state.parameters), {});
    reference.estimate_ratios();
    for (std::size_t k = 0; k < 4; ++k) {
      const NodeEvaluation& row = state.history[k];
      if (std::isnan(row.reweighted_accuracy)) continue;
      const reference::Evaluation judged = reference.judge(reference.nodes[k]);
      EXPECT_NEAR(row.reweighted_accuracy, judged.reweighted, 1e-6);
      EXPECT_NEAR(row.reweighted_low, judged.low, 1e-6);
      EXPECT_NEAR(row.reweighted_high, judged.high, 1e-6);
      EXPECT_NEAR(row.reweighted_examples, judged.effective, 1e-5);
      none += judged.reweighted == 0.0;
      sandwiches += judged.sandwich;
    }
  }
  EXPECT_GT(none, 0);
  EXPECT_GT(sandwiches, 0);
}

TEST(PooledWeights, OfANodeOfTwoExamplesAreTwo) {
  const FederatedData data = gaussian_federation({{{1, 1, 0}, {1, 1, 1}}, {{3, 2, 4}, {1, 1, 1}}});
  FederationSettings settings = reference_settings();
  settings.weighting = Weighting::kPooled;
  settings.rounds = 1;
  reference::Federation reference(settings, data);
  const FederationState end =
      LocalFederation(settings, data).run({.checkpoint = with_state([&](const FederationState& state) {
                                             if (state.round == 0) reference.start(doubles(state.parameters), {});
                                           })});
  reference.round({0, 1});
  EXPECT_LT((doubles(end.parameters) - reference.w).lpNorm<Eigen::Infinity>(), kWeights);
}

}  // namespace
}  // namespace labelshift
