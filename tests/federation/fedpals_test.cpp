#include <gmock/gmock.h>

#include <map>

#include "labelshift/federation/mixture_weights.hpp"
#include "tests/federation/mixture_reference.hpp"
#include "tests/federation/offset_reference.hpp"

namespace labelshift {
namespace {

class FedPalsFederation : public OffsetFederation {
 protected:
  FedPalsFederation() : OffsetFederation("fedpals") { settings_.ratio.method = "true"; }

  double weight_of(LocalFederation& federation, Index node) const {
    return recall<MixtureWeight>(*federation.store().of(node), kMixtureEntry)->value;
  }
  static FederationHooks look_at_start(std::vector<float>& initial) {
    return {.checkpoint = with_state([&](const FederationState& state) {
              if (state.round == 0) initial = state.parameters;
            })};
  }
};

TEST_F(FedPalsFederation, AveragesWithTheWeightsThatBringTheMixToTheTarget) {
  for (const double lambda : {0.1, 20.0}) {
    settings_.fedpals_lambda = lambda;
    LocalFederation federation(settings_, data_);
    std::vector<float> initial;
    const FederationState end = federation.run(look_at_start(initial));
    const Eigen::VectorXd alpha =
        reference::mixture_weights(counts(), end.target_sum / end.target_sum.sum(), settings_.fedpals_lambda);
    for (Index k = 0; k < 3; ++k) EXPECT_NEAR(weight_of(federation, k), alpha[k], 1e-5) << k;
    EXPECT_GT(alpha.maxCoeff() - alpha.minCoeff(), 0.1);  // they are not those of FedAvg
    const auto net = global_model(settings_, federation.task(), end);
    Eigen::VectorXf w = Eigen::Map<Eigen::VectorXf>(initial.data(), std::ssize(initial));
    for (int round = 0; round < settings_.rounds; ++round) {
      Eigen::VectorXf update = 0.0F * w;
      for (Index k = 0; k < 3; ++k) {
        Eigen::VectorXf v = w;
        for (int step = 0; step < 3; ++step) {
          std::copy(v.begin(), v.end(), net->parameters().begin());
          net->loss_and_gradient({*data_.nodes[k].train, data_.nodes[k].train_rows, {}}, {}, 0);
          v -= 0.3F * Eigen::Map<const Eigen::VectorXf>(net->gradient().data(), v.size());
        }
        update += static_cast<float>(alpha[k]) * (w - v);
      }
      w -= 0.8F * update;
    }
    for (Index i = 0; i < w.size(); ++i) EXPECT_NEAR(end.parameters[i], w[i], 1e-5) << i;
  }
}

TEST_F(FedPalsFederation, HasFedAvgsWeightsWhereUnevenOnesCostMuch) {
  settings_.fedpals_lambda = 1e12;
  settings_.local.batch = 4;
  FederationSettings plain = settings_;
  plain.algorithm = "fedavg";
  plain.ratio.method = "none";
  plain.weighting = Weighting::kPooled;
  LocalFederation federation(settings_, data_);
  const FederationState a = federation.run(), b = LocalFederation(plain, data_).run();
  for (Index k = 0; k < 3; ++k) EXPECT_NEAR(weight_of(federation, k), counts().row(k).sum() / counts().sum(), 1e-8);
  for (std::size_t i = 0; i < a.parameters.size(); ++i) EXPECT_NEAR(a.parameters[i], b.parameters[i], 5e-6) << i;
}

TEST_F(FedPalsFederation, HasEqualWeightsWhereNodesAreAlike) {
  data_ = gaussian_federation({{{8, 4, 6}, {3, 9, 3}}, {{8, 4, 6}, {3, 3, 9}}});
  LocalFederation federation(settings_, data_);
  federation.run();
  for (Index k = 0; k < 2; ++k) EXPECT_NEAR(weight_of(federation, k), 0.5, 1e-8);
}

TEST_F(FedPalsFederation, SaysNeverThatMoreThanAllIsDone) {
  settings_.ratio.method = "mlls";
  std::map<std::string, double> most;  // of each phase
  LocalFederation(settings_, data_).run({.progress = [&](std::string_view stage, double done) {
    EXPECT_GE(done, 0.0) << stage;
    EXPECT_LE(done, 1.0) << stage;
    most[std::string(stage)] = std::max(most[std::string(stage)], done);
    return true;
  }});
  EXPECT_GT(most.size(), 2U);
}

TEST_F(FedPalsFederation, GoesNowhereInARoundOfNodesThatTheTargetHasNoUseFor) {
  data_ = gaussian_federation({{{24, 3, 3}, {9, 0, 0}}, {{0, 30, 0}, {9, 0, 0}}, {{0, 0, 30}, {9, 0, 0}}});
  settings_.fedpals_lambda = 1e-3;
  settings_.sampled = 1;
  settings_.rounds = 12;
  settings_.server = {.optimiser = "adam", .learning_rate = 0.1};
  LocalFederation federation(settings_, data_);
  std::vector<std::vector<float>> weights;
  std::vector<bool> useful;  // whether the first node, which has all of the weight, was in the round
  const FederationState end = federation.run(
      {.checkpoint = with_state([&](const FederationState& state) {
         weights.push_back(state.parameters);
         useful.push_back(state.round > 0 && state.counted[0] == static_cast<std::uint64_t>(state.round));
       })});
  EXPECT_EQ(weight_of(federation, 1), 0.0);
  EXPECT_THAT(useful, testing::AllOf(testing::Contains(true), testing::Contains(false)));
  for (std::size_t round = 1; round < weights.size(); ++round)
    EXPECT_EQ(weights[round] != weights[round - 1], useful[round]) << round;
}

TEST_F(FedPalsFederation, SaysWhereNoMixOfNodesIsThatOfTheTarget) {
  const auto far = testing::HasSubstr("the mix of their data still is");
  data_ = gaussian_federation({{{16, 2, 2}, {5, 5, 5}}, {{2, 16, 2}, {5, 5, 5}}, {{2, 2, 16}, {5, 5, 5}}});
  EXPECT_THAT(LocalFederation(settings_, data_).run().warnings, testing::Not(testing::Contains(far)));
  data_ = gaussian_federation({{{16, 2, 2}, {9, 0, 0}}, {{2, 16, 2}, {9, 0, 0}}, {{2, 2, 16}, {9, 0, 0}}});
  EXPECT_THAT(LocalFederation(settings_, data_).run().warnings,
              testing::Contains(testing::StartsWith(
                  "with the weights of nodes that were found the mix of their data still is 0.40 (L1) from the")));
}

TEST_F(FedPalsFederation, FindsOtherWeightsWhereTheOperatorLetsANodeIn) {
  LocalFederation federation(settings_, data_);
  int done = 0;
  double before = 0.0;
  federation.run({.checkpoint = with_state([&](const FederationState& state) {
                    done = state.round;
                    if (done == 2) before = weight_of(federation, 0);
                  }),
                  .left_out = [&] { return done < 3 ? std::vector<Index>{2} : std::vector<Index>(); }});
  LocalFederation whole(settings_, data_);
  whole.run();
  EXPECT_NE(before, weight_of(federation, 0));
  for (Index k = 0; k < 3; ++k) EXPECT_EQ(weight_of(federation, k), weight_of(whole, k)) << k;
}

TEST_F(FedPalsFederation, HasNoImportanceWeights) {
  LocalFederation federation(settings_, data_);
  const FederationState end = federation.run();
  EXPECT_TRUE(federation.numbers(0, kRatioEntry).empty());
  EXPECT_TRUE(std::isnan(end.largest_weight));
}

TEST_F(FedPalsFederation, RefusesWhatItDoesNotGoWith) {
  const auto refused = [&](const std::string& part, const auto& change) {
    FederationSettings settings = settings_;
    change(settings);
    expect_refused(part, [&] { check_settings(settings, 3); });
  };
  check_settings(settings_, 3);
  refused("fedpals needs the target's label mix; give [ratio] a method, such as \"vrls\", or \"true\"",
          [](auto& s) { s.ratio.method = "none"; });
  refused("fedpals finds what each node weighs", [](auto& s) { s.weighting = Weighting::kPooled; });
  refused("training.fedpals-lambda is 0, expected a number from 0.001", [](auto& s) { s.fedpals_lambda = 0.0; });
  refused("has no proximal term", [](auto& s) { s.local.proximal = 0.5; });
}

}  // namespace
}  // namespace labelshift
