#include "labelshift/federation/mix_adaptation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

using Eigen::Vector2d;
using Eigen::Vector3d;
using Eigen::VectorXd;

TEST(ShrunkMix, IsThePosteriorMeanOfOneExampleAClass) {
  // (7 q + 3 p) / 10.
  const VectorXd mix = shrunk_mix(Vector3d(1.0, 0.0, 0.0), Vector3d(0.2, 0.3, 0.5), 7.0);
  EXPECT_LE((mix - Vector3d(0.76, 0.09, 0.15)).lpNorm<1>(), 1e-15);
  EXPECT_EQ(shrunk_mix(Vector3d(1.0, 0.0, 0.0), Vector3d(0.25, 0.25, 0.5), 0.0), Vector3d(0.25, 0.25, 0.5));
}

/// Logits of probabilities.
RowMajorMatrix<float> logits_of(const std::vector<std::vector<double>>& probs) {
  RowMajorMatrix<float> logits(std::ssize(probs), std::ssize(probs[0]));
  for (Index i = 0; i < logits.rows(); ++i)
    for (Index c = 0; c < logits.cols(); ++c) logits(i, c) = static_cast<float>(std::log(probs[i][c]));
  return logits;
}

TEST(RightForMix, MultipliesByTheMixOverThatOfTraining) {
  // From 1:3 to 3:1 the odds of class 0 grow nine times: 1:8 becomes 9:8, and 1:10 stays below 1.
  const auto logits = logits_of({{1.0 / 9.0, 8.0 / 9.0}, {1.0 / 11.0, 10.0 / 11.0}, {0.6, 0.4}});
  const std::vector<int> labels = {0, 1, 0};
  EXPECT_EQ(right_for_mix(logits, labels, Vector2d(0.75, 0.25), Vector2d(0.25, 0.75)), 3);
  EXPECT_EQ(right_for_mix(logits, labels, Vector2d(0.75, 0.25), Vector2d(0.75, 0.25)), 2);  // as the model says
}

TEST(RightForMix, NeverPredictsWhatTheModelIsNotTrainedTowards) {
  const auto logits = logits_of({{0.9, 0.06, 0.04}, {0.9, 0.04, 0.06}});
  const std::vector<int> labels = {1, 0};
  EXPECT_EQ(right_for_mix(logits, labels, Vector3d(0.5, 0.25, 0.25), Vector3d(0.0, 0.5, 0.5)), 1);
  EXPECT_EQ(right_for_mix(logits, labels, Vector3d(0.0, 0.5, 0.5), Vector3d(0.5, 0.25, 0.25)), 1);
}

TEST(RightByMajority, CountsTheMostFrequentClassOfTheMix) {
  const std::vector<int> labels = {0, 2, 2, 1, 2};
  EXPECT_EQ(right_by_majority(labels, Vector3d(0.3, 0.2, 0.5)), 3);
  EXPECT_EQ(right_by_majority(labels, Vector3d(0.4, 0.4, 0.2)), 1);  // the first of two
}

/// A node with ten classes as far apart as 2 standard deviations in ten directions, and what adapting to its mix is
/// worth there. The model is Bayes' rule for an even mix.
class AdaptedNode {
 public:
  AdaptedNode(const VectorXd& mix, Rng& rng) : rng_(rng) {
    const Sample seen = draw(mix, 30), later = draw(mix, 500);
    const VectorXd even = VectorXd::Constant(mix.size(), 0.1);
    RowMajorMatrix<double> probs = seen.logits.cast<double>().array().exp();
    probs.array().colwise() /= probs.rowwise().sum().array().eval();
    const VectorXd q = even.cwiseProduct(make_estimator(find_estimator("mlls-sqp"))
                                             ->estimate({.label_prior = even}, {Probabilities(probs, "probs"), {}})
                                             .ratio);
    const auto accuracy = [&](const VectorXd& with) {
      return static_cast<double>(right_for_mix(later.logits, later.labels, with, even)) / 500.0;
    };
    for (const double strength : {0.0, 2.5, 5.0, 10.0, 20.0, 40.0})
      accuracies.push_back(accuracy((30.0 * q + strength * even) / (30.0 + strength)));
    shrunk = accuracy(shrunk_mix(q, even, 30.0));
  }

  std::vector<double> accuracies;  // by strength
  double shrunk = 0.0;

 private:
  struct Sample {
    RowMajorMatrix<float> logits;
    std::vector<int> labels;
  };
  Sample draw(const VectorXd& mix, Index n) {
    Sample sample{RowMajorMatrix<float>(n, mix.size()), {}};
    for (Index i = 0; i < n; ++i) {
      int label = 0;
      for (double u = rng_.uniform() - mix[0]; u > 0.0 && label + 1 < mix.size(); u -= mix[label]) ++label;
      sample.labels.push_back(label);
      for (Index c = 0; c < mix.size(); ++c)
        sample.logits(i, c) = static_cast<float>(2.0 * (rng_.normal() + (c == label ? 2.0 : 0.0)));
    }
    return sample;
  }
  Rng& rng_;
};

TEST(ShrunkMix, LosesLeastWhereItIsWrongOfAllStrengths) {
  // The numbers are in docs/notation.md. Means over 150 nodes of differences of accuracies have standard errors below
  // 0.005.
  Rng rng(14);
  std::vector<double> worst(6, 0.0);
  double worst_shrunk = 0.0;
  for (const char* kind : {"even", "dirichlet", "one class"}) {
    std::vector<double> mean(6, 0.0);
    double shrunk = 0.0;
    for (int node = 0; node < 150; ++node) {
      VectorXd mix = VectorXd::Constant(10, 0.1);
      if (kind[0] == 'd')
        for (double& share : mix) share = -std::log(1.0 - rng.uniform());  // Dirichlet(1)
      if (kind[0] == 'o') {
        mix.setConstant(0.05 / 9.0);
        mix[node % 10] = 0.95;
      }
      const AdaptedNode one(mix / mix.sum(), rng);
      for (std::size_t s = 0; s < mean.size(); ++s) mean[s] += one.accuracies[s] / 150.0;
      shrunk += one.shrunk / 150.0;
    }
    const double best = *std::max_element(mean.begin(), mean.end());
    for (std::size_t s = 0; s < mean.size(); ++s) worst[s] = std::max(worst[s], best - mean[s]);
    worst_shrunk = std::max(worst_shrunk, best - shrunk);
  }
  EXPECT_EQ(worst_shrunk, worst[3]);  // one example a class
  EXPECT_EQ(worst_shrunk, *std::min_element(worst.begin(), worst.end()));
  EXPECT_LT(worst_shrunk, 0.045);
  EXPECT_GT(worst[0], worst_shrunk + 0.02);
  EXPECT_GT(worst[5], worst_shrunk + 0.02);
}

// --- in a federation
// -------------------------------------------------------------------------------------------------------------

/// Three nodes, of which two lack a class and the sizes differ.
FederatedData three_nodes() {
  return gaussian_federation({{{80, 10, 10}, {5, 90, 5}}, {{0, 150, 150}, {60, 20, 20}}, {{30, 0, 10}, {20, 20, 60}}});
}

TEST(TrainedMix, IsThatOfTheWeightedExamplesOfAllNodes) {
  const FederatedData data = three_nodes();
  for (const bool pooled : {false, true})
    for (const char* method : {"true", "mlls"})
      for (const char* how : {"local", "pairwise", "federated", "one node"}) {
        if (pooled && how == std::string("pairwise")) continue;
        SCOPED_TRACE(std::string(method) + " " + how + (pooled ? " pooled" : ""));
        FederationSettings settings = weighted_settings(method);
        settings.rounds = 1;
        if (pooled) settings.weighting = Weighting::kPooled;
        if (how == std::string("pairwise")) settings.ratio.exchange = RatioExchange::kPairwise;
        if (how == std::string("federated")) settings.ratio.predictor = PredictorScope::kFederated;
        if (how == std::string("one node")) settings.ratio.goal_node = 3;
        LocalFederation federation(settings, data);
        const FederationState state = federation.run();
        VectorXd mix = VectorXd::Zero(3);
        for (Index k = 0; k < 3; ++k) {
          const std::vector<int>& labels = data.nodes[k].train->labels;
          const std::vector<float> weights = federation.numbers(k, "ratio");
          for (const int label : labels)
            mix[label] += weights[label] / (pooled ? 1.0 : static_cast<double>(labels.size()));
        }
        EXPECT_LE((state.trained_mix - mix / mix.sum()).lpNorm<1>(), 1e-6);
      }
}

TEST(TrainedMix, IsThePooledOneWhereExamplesCountTheSameAndOtherwiseUnknown) {
  FederationSettings settings = quick_settings();
  settings.rounds = 1;
  EXPECT_EQ(LocalFederation(settings, three_nodes()).run().trained_mix.size(), 0);
  settings.weighting = Weighting::kPooled;
  EXPECT_LE((LocalFederation(settings, three_nodes()).run().trained_mix - Vector3d(110, 160, 170) / 440.0).lpNorm<1>(),
            1e-9);
  settings = weighted_settings("true");
  settings.rounds = 1;
  settings.ratio.max_ratio = 2.0;
  EXPECT_EQ(LocalFederation(settings, three_nodes()).run().trained_mix.size(), 0);
}

TEST(Adapting, CountsWhatTheModelIsWorthToANodeThatKnowsItsMix) {
  const FederatedData data = gaussian_federation({{{80, 10, 10}, {5, 90, 5}}, {{10, 10, 80}, {60, 20, 20}}});
  FederationSettings settings = weighted_settings("mlls");
  settings.rounds = 300;  // until its probabilities mean what they say
  LocalFederation federation(settings, data);
  const FederationState end = federation.run();
  const auto net = global_model(settings, federation.task(), end);
  const VectorXd trained = end.target_sum / end.target_sum.sum();
  for (Index k = 0; k < 2; ++k) {
    const NodeEvaluation& row = end.history[end.history.size() - 2 + static_cast<std::size_t>(k)];
    const std::vector<float> q = federation.numbers(k, "target");
    const RowMajorMatrix<float> logits = evaluate_logits(*net, *data.nodes[k].test, data.nodes[k].test_rows);
    int right = 0;
    for (Index i = 0; i < 100; ++i) {
      std::vector<double> said(3);
      for (Index c = 0; c < 3; ++c)
        said[c] = std::exp(logits(i, c)) * (100.0 * q[c] + 3.0 * trained[c]) / (103.0 * trained[c]);
      right += std::max_element(said.begin(), said.end()) - said.begin() == data.nodes[k].test->labels[i];
    }
    EXPECT_DOUBLE_EQ(row.adapted, right / 100.0);
    EXPECT_GE(row.adapted, row.accuracy);  // these targets are far from the mean of both
    EXPECT_LE(row.adapted_low, row.adapted);
    EXPECT_GE(row.adapted_high, row.adapted);
    EXPECT_DOUBLE_EQ(row.majority, k == 0 ? 0.9 : 0.6);
  }
  // Wilson's interval of 90 of 100.
  EXPECT_NEAR(end.history[end.history.size() - 2].majority_low, 0.82563, 1e-5);
  EXPECT_NEAR(end.history[end.history.size() - 2].majority_high, 0.94478, 1e-5);
  EXPECT_DOUBLE_EQ(average_of(end.history, &NodeEvaluation::majority), 0.75);
}

TEST(Adapting, NeedsAnEstimateLabelsAndAKnownMixOfTraining) {
  const auto expect_nothing = [](const FederationSettings& settings, const FederatedData& data) {
    for (const NodeEvaluation& row : LocalFederation(settings, data).run().history) {
      EXPECT_TRUE(std::isnan(row.adapted));
      EXPECT_TRUE(std::isnan(row.majority));
    }
  };
  FederatedData data = three_nodes();
  expect_nothing(weighted_settings("true"), data);
  expect_nothing(quick_settings(), data);
  FederationSettings cut = weighted_settings("mlls");
  cut.ratio.max_ratio = 2.0;
  expect_nothing(cut, data);
  for (const int set : {1, 3, 5}) data.sets[set]->labels.clear();
  expect_nothing(weighted_settings("mlls"), data);
}

}  // namespace
}  // namespace labelshift
