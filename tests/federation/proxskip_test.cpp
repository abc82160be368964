#include <gmock/gmock.h>

#include <Eigen/Core>
#include <cmath>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/federation/algorithms/proxskip.hpp"
#include "tests/federation/gaussian_federation.hpp"
#include "tests/federation/true_weights.hpp"

namespace labelshift {
namespace {

class ProxSkipFederation : public testing::Test {
 protected:
  ProxSkipFederation()
      : data_(gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}})), settings_(quick_settings()) {
    settings_.algorithm = "proxskip";
    suit_algorithm(settings_);
    settings_.rounds = 8;
    settings_.evaluate_every = 8;
    settings_.local.batch = 64;  // whole nodes, so that there are no draws but the coin
    settings_.local.learning_rate = 0.2;
  }

  /// The weights before the first round, and the end.
  FederationState run(std::vector<float>& initial) {
    LocalFederation federation(settings_, data_);
    FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                            if (state.round == 0) initial = state.parameters;
                                          })});
    for (Index node = 0; node < 2; ++node) kept_[node] = federation.kept(end, node);
    net_ = global_model(settings_, federation.task(), end);
    return end;
  }
  Eigen::VectorXf gradient(Index node, const Eigen::VectorXf& w) {
    const NodeData& has = data_.nodes[node];
    const std::vector<float> weights = settings_.ratio.weighted() ? true_weights(data_, node) : std::vector<float>();
    std::copy(w.begin(), w.end(), net_->parameters().begin());
    net_->loss_and_gradient({*has.train, has.train_rows, weights}, {}, 0);
    return Eigen::Map<const Eigen::VectorXf>(net_->gradient().data(), std::ssize(net_->gradient()));
  }

  const FederatedData data_;
  FederationSettings settings_;
  NamedParts kept_[2];
  std::unique_ptr<Net> net_;
};

struct ProxSkipCase {
  const char* regulariser;
  const char* method;  // by which it comes by importance weights
};

TEST_F(ProxSkipFederation, IsAlgorithm1OfMishchenkoEtAl) {
  for (const auto& [regulariser, method] :
       {ProxSkipCase{"none", "none"}, {"l1", "none"}, {"none", "true"}, {"l1", "true"}}) {
    SCOPED_TRACE(method);
    settings_.regulariser = {.name = regulariser, .strength = 0.5};
    settings_.ratio.method = method;
    std::vector<float> initial;
    const FederationState end = run(initial);
    const float gamma = 0.2F, p = 0.4F;
    const Index d = std::ssize(initial);
    Eigen::VectorXf w = Eigen::Map<Eigen::VectorXf>(initial.data(), d);
    std::vector<Eigen::VectorXf> h(2, Eigen::VectorXf::Zero(d)), hat(2);
    for (std::uint64_t round = 1; round <= 8; ++round) {
      Eigen::VectorXf mean = Eigen::VectorXf::Zero(d);
      for (Index k = 0; k < 2; ++k) {
        hat[k] = w;  // what is x_k too as long as the coin says no, for then h_k stays
        for (std::uint32_t step = 0; step < draw_proxskip_steps(settings_, round); ++step)
          hat[k] -= gamma * (gradient(k, hat[k]) - h[k]);
        mean += (hat[k] - gamma / p * h[k]) / 2.0F;
      }
      w = mean;
      if (settings_.regulariser.regularised())
        for (Index i = 0; i < 6; ++i)  // of weights, not of the biases that follow
          w[i] = std::copysign(std::max(std::abs(w[i]) - 0.5F * gamma / p, 0.0F), w[i]);
      for (Index k = 0; k < 2; ++k) h[k] += p / gamma * (w - hat[k]);
    }
    for (Index i = 0; i < d; ++i) EXPECT_NEAR(end.parameters[i], w[i], 2e-5) << regulariser << i;
    EXPECT_EQ(end.zeros > 0.0, settings_.regulariser.regularised());
  }
}

TEST_F(ProxSkipFederation, IsFedAvgWhereEveryStepIsARound) {
  settings_.round_probability = 1.0;
  settings_.local.batch = 4;
  FederationSettings plain = settings_;
  plain.algorithm = "fedavg";
  plain.server.learning_rate = settings_.local.learning_rate;
  const FederationState a = LocalFederation(settings_, data_).run(), b = LocalFederation(plain, data_).run();
  // Eight steps in float32, of weights below 2: each rounds by 1e-7 or so.
  for (std::size_t i = 0; i < a.parameters.size(); ++i) EXPECT_NEAR(a.parameters[i], b.parameters[i], 5e-6) << i;
}

TEST_F(ProxSkipFederation, FindsTheOptimumOfAllNodesWhichLocalStepsAloneDoNot) {
  // With whole batches its fixed point has mean_k (gradient of node k) = 0, whatever the nodes' own optima are.
  settings_.rounds = 400;
  settings_.evaluate_every = 400;
  settings_.local.weight_decay = 0.1;
  std::vector<float> initial;
  const FederationState end = run(initial);
  const auto slope = [&](const FederationState& state) {
    const Eigen::VectorXf w = Eigen::Map<const Eigen::VectorXf>(state.parameters.data(), std::ssize(state.parameters));
    return ((gradient(0, w) + gradient(1, w)) / 2 + 0.1F * w).norm();
  };
  EXPECT_LT(slope(end), 1e-5);
  FederationSettings plain = settings_;
  plain.algorithm = "fedavg";
  plain.local.steps = 10;
  EXPECT_GT(slope(LocalFederation(plain, data_).run()), 1e-3);
}

TEST_F(ProxSkipFederation, TracksWhatWasSentSoThatShiftsAddUpToZero) {
  settings_.compression = {.codec = "qsgd", .levels = 2};
  settings_.rounds = 20;
  std::vector<float> initial;
  const FederationState end = run(initial);
  // h_k of the last round follows from what each sent and the mean, which the last request has not brought yet.
  double largest = 0.0;
  for (std::size_t i = 0; i < end.parameters.size(); ++i) {
    EXPECT_NEAR((kept_[0]["sent"][i] + kept_[1]["sent"][i]) / 2, end.parameters[i], 1e-6) << i;
    EXPECT_NEAR(kept_[0]["shift"][i] + kept_[1]["shift"][i], 0.0, 1e-5) << i;
    largest = std::max<double>(largest, std::abs(kept_[0]["shift"][i]));
  }
  EXPECT_GT(largest, 0.01);
}

TEST_F(ProxSkipFederation, DrawsStepsByTheLawOfTheCoin) {
  settings_.round_probability = 0.25;
  constexpr int kDraws = 20'000;
  double sum = 0.0, ones = 0.0;
  for (std::uint64_t round = 1; round <= kDraws; ++round) {
    const std::uint32_t steps = draw_proxskip_steps(settings_, round);
    ASSERT_GE(steps, 1U);
    sum += steps;
    ones += steps == 1;
  }
  // Standard deviation of a draw sqrt(1 - p) / p = 3.46, of the share of ones 0.43; four standard errors.
  EXPECT_NEAR(sum / kDraws, 4.0, 4 * 3.46 / std::sqrt(kDraws));
  EXPECT_NEAR(ones / kDraws, 0.25, 4 * 0.43 / std::sqrt(kDraws));
  FederationSettings seeded = settings_;
  seeded.seed = 1;
  int same = 0;
  for (std::uint64_t round = 1; round <= 100; ++round)
    same += draw_proxskip_steps(settings_, round) == draw_proxskip_steps(seeded, round);
  EXPECT_LT(same, 50);  // 14 on average
}

TEST_F(ProxSkipFederation, BeginsAnewWhereTheOperatorLeavesANodeOut) {
  // The shifts of three nodes add up to 0; those of two of them do not, and would pull the model away for good.
  const FederatedData three =
      gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}, {{3, 3, 12}, {9, 3, 3}}});
  settings_.rounds = 30;
  settings_.evaluate_every = 30;
  for (const char* name : {"proxskip", "fedcomgate"}) {
    FederationSettings settings = settings_;
    settings.algorithm = name;
    if (name == std::string("fedcomgate")) settings.local.steps = 3;
    suit_algorithm(settings);
    LocalFederation federation(settings, three);
    int done = 0;
    const FederationState end =
        federation.run({.checkpoint = with_state([&](const FederationState& state) { done = state.round; }),
                        .left_out = [&] { return done < 10 ? std::vector<Index>() : std::vector<Index>{2}; }});
    EXPECT_EQ(end.counted, (std::vector<std::uint64_t>{30, 30, 0}));
    EXPECT_THAT(end.warnings,
                testing::Contains("node 3 took no part in 20 of 30 rounds, last since the operator left it "
                                  "out"));
    const char* kept = name == std::string("proxskip") ? "shift" : "delta";
    NamedParts a = federation.kept(end, 0), b = federation.kept(end, 1);
    for (std::size_t i = 0; i < a[kept].size(); ++i) EXPECT_NEAR(a[kept][i] + b[kept][i], 0.0, 1e-4) << name << i;
  }
}

TEST_F(ProxSkipFederation, GoesBackToItsCheckpointAfterANodeWasLeftOut) {
  // The coordinator is killed some rounds after it left a node out, and has saved nothing since.
  settings_.rounds = 12;
  settings_.evaluate_every = 12;
  const FederationState plain = LocalFederation(settings_, data_).run();
  LocalFederation federation(settings_, data_);
  FederationState saved;
  int done = 0;
  const FederationHooks hooks{.checkpoint =
                                  [&](const FederationMoment& moment) {
                                    done = moment.round;
                                    if (done == 10) throw Stopped{};
                                    if (done != 4 && done != 8) return false;
                                    saved = moment.state();
                                    return true;
                                  },
                              .may_go_back_twice = true,
                              .left_out = [&] { return done < 8 ? std::vector<Index>() : std::vector<Index>{1}; }};
  EXPECT_THROW(federation.run(hooks), Stopped);
  EXPECT_EQ(saved.round, 8);
  EXPECT_EQ(federation.run({}, saved).parameters, plain.parameters);
}

TEST_F(ProxSkipFederation, RefusesWhatItDoesNotGoWith) {
  const auto refused = [&](const std::string& part, const auto& change) {
    FederationSettings settings = settings_;
    change(settings);
    expect_refused(part, [&] { check_settings(settings, 2); });
  };
  check_settings(settings_, 2);
  refused("draws how many steps", [](auto& s) { s.local.steps = 2; });
  refused("draws how many steps", [](auto& s) { s.local.epochs = 2; });
  refused("give server = \"sgd\"", [](auto& s) { s.server.optimiser = "adam"; });
  refused("learning rate is 0.5, given or by default; give learning-rate = 1",
          [](auto& s) { s.server.learning_rate = 0.5; });
  refused("give weight-decay = 0", [](auto& s) { s.server.weight_decay = 0.5; });
  refused("give momentum = 0", [](auto& s) { s.server.momentum = 0.5; });
  refused("needs every node in every round", [](auto& s) { s.sampled = 1; });
  refused("weighs nodes equally", [](auto& s) { s.weighting = Weighting::kPooled; });
  refused("has no proximal term", [](auto& s) { s.local.proximal = 0.5; });
}

}  // namespace
}  // namespace labelshift
