#include <gmock/gmock.h>

#include <Eigen/Core>
#include <cmath>

#include "labelshift/core/base/rng.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

class FaFedFederation : public testing::Test {
 protected:
  FaFedFederation()
      : data_(gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 3}, {3, 3, 9}}})), settings_(quick_settings()) {
    settings_.algorithm = "fafed";
    settings_.rounds = 6;
    settings_.evaluate_every = 6;
    settings_.local = {.steps = 3, .batch = 64, .learning_rate = 0.2, .weight_decay = 0.1};  // whole nodes
    settings_.server = {.optimiser = "adam", .weight_decay = 0.0, .beta1 = 0.7, .beta2 = 0.9, .epsilon = 0.05};
  }

  const FederatedData data_;
  FederationSettings settings_;
};

TEST_F(FaFedFederation, IsAlgorithm2OfWuEtAl) {
  for (const char* server : {"adam", "sgd"}) {
    settings_.server.optimiser = server;
    LocalFederation federation(settings_, data_);
    std::vector<float> initial;
    const FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                                  if (state.round == 0) initial = state.parameters;
                                                })});
    const auto net = global_model(settings_, federation.task(), end);
    const auto gradient = [&](Index k, const Eigen::ArrayXf& w) -> Eigen::ArrayXf {
      std::copy(w.begin(), w.end(), net->parameters().begin());
      net->loss_and_gradient({*data_.nodes[k].train, data_.nodes[k].train_rows, {}}, {}, 0);
      return Eigen::Map<const Eigen::ArrayXf>(net->gradient().data(), w.size()) + 0.1F * w;
    };
    const bool adaptive = server == std::string("adam");
    Eigen::ArrayXf x = Eigen::Map<Eigen::ArrayXf>(initial.data(), std::ssize(initial));
    Eigen::ArrayXf m = (gradient(0, x) + gradient(1, x)) / 2;
    Eigen::ArrayXf v = (gradient(0, x).square() + gradient(1, x).square()) / 2;
    for (int round = 2; round <= 6; ++round) {
      Eigen::ArrayXf next_x = 0 * x, next_m = 0 * x, next_v = 0 * x;
      const Eigen::ArrayXf a = adaptive ? Eigen::ArrayXf(v.sqrt() + 0.05F) : Eigen::ArrayXf(0 * x + 1);
      for (Index k = 0; k < 2; ++k) {
        Eigen::ArrayXf y = x, mine = m, squares = v;
        for (int step = 0; step < 3; ++step) {
          const Eigen::ArrayXf before = y;
          y -= 0.2F / a * mine;
          const Eigen::ArrayXf g = gradient(k, y);
          mine = g + 0.7F * (mine - gradient(k, before));
          squares = 0.9F * squares + 0.1F * g.square();
        }
        next_x += y / 2, next_m += mine / 2, next_v += squares / 2;
      }
      x = next_x, m = next_m, v = next_v;
    }
    // 15 steps in float32; where A^-1 is as large as 1 / rho = 20 a rounding of 1e-7 becomes 2e-6.
    for (Index i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(end.parameters[i], x[i], 1e-4) << server << i;
      EXPECT_NEAR(end.algorithm.parts.at("momentum")[i], m[i], 1e-4) << server << i;
      if (adaptive) {
        EXPECT_NEAR(end.algorithm.parts.at("squares")[i], v[i], 1e-4) << i;
      }
    }
    EXPECT_EQ(end.algorithm.parts.at("squares").size(), adaptive ? initial.size() : 0U);
  }
}

TEST_F(FaFedFederation, IsFedAvgARoundLaterWithoutMomentumAndMatrices) {
  settings_.server = {.optimiser = "sgd", .weight_decay = 0.0, .beta1 = 0.0};
  settings_.local = {.steps = 1, .batch = 4, .learning_rate = 0.2};  // small batches: both draw the same
  FederationSettings plain = settings_;
  plain.algorithm = "fedavg";
  plain.server.learning_rate = 0.2;
  plain.rounds = settings_.rounds - 1;
  const FederationState a = LocalFederation(settings_, data_).run(), b = LocalFederation(plain, data_).run();
  for (std::size_t i = 0; i < a.parameters.size(); ++i) EXPECT_NEAR(a.parameters[i], b.parameters[i], 2e-6) << i;
}

TEST_F(FaFedFederation, ReducesTheVarianceOfItsDirection) {
  // With small batches m is closer to the gradient of all examples than a stochastic gradient is.
  settings_.server = {.optimiser = "sgd", .weight_decay = 0.0, .beta1 = 0.9};
  settings_.local = {.steps = 1, .batch = 2, .learning_rate = 0.02};
  settings_.rounds = 40;
  const auto error = [&](double kept) {
    double sum = 0.0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      settings_.seed = seed;
      settings_.server.beta1 = kept;
      LocalFederation federation(settings_, data_);
      const FederationState end = federation.run();
      const auto net = global_model(settings_, federation.task(), end);
      Eigen::ArrayXf g = Eigen::ArrayXf::Zero(std::ssize(end.parameters));
      for (Index k = 0; k < 2; ++k) {
        net->loss_and_gradient({*data_.nodes[k].train, data_.nodes[k].train_rows, {}}, {}, 0);
        g += Eigen::Map<const Eigen::ArrayXf>(net->gradient().data(), g.size()) / 2;
      }
      const std::vector<float>& m = end.algorithm.parts.at("momentum");
      sum += (Eigen::Map<const Eigen::ArrayXf>(m.data(), g.size()) - g).matrix().squaredNorm();
    }
    return sum;
  };
  // For a quadratic the variance is (1 - kept) / (1 + kept) = 0.05 times that of a gradient; half is far from chance.
  EXPECT_LT(error(0.9), 0.5 * error(0.0));
}

TEST_F(FaFedFederation, CountsABatchOnceInRunningMeans) {
  // Two gradients are computed a step. With one step of whole batches running means are those of one pass a round.
  settings_.model = {LABELSHIFT_FEDERATION_REFERENCE "/normed.pt", {}};
  settings_.local.steps = 1;
  settings_.local.learning_rate = 1e-12;  // so that weights stay
  settings_.local.weight_decay = 0.0;
  FederationSettings plain = settings_;
  plain.algorithm = "fedavg";
  plain.server = {.optimiser = "sgd", .learning_rate = 1e-12, .weight_decay = 0.0};
  const FederationState a = LocalFederation(settings_, data_).run(), b = LocalFederation(plain, data_).run();
  ASSERT_FALSE(a.buffers.empty());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) EXPECT_NEAR(a.buffers[i], b.buffers[i], 1e-5) << i;
}

TEST_F(FaFedFederation, RefusesWhatItDoesNotGoWith) {
  const auto refused = [&](const std::string& part, const auto& change) {
    FederationSettings settings = settings_;
    change(settings);
    expect_refused(part, [&] { check_settings(settings, 2); });
  };
  check_settings(settings_, 2);
  refused("has matrices of its own", [](auto& s) { s.server.optimiser = "yogi"; });
  refused("give weight-decay = 0", [](auto& s) { s.server.weight_decay = 0.1; });
  refused("give momentum = 0", [](auto& s) {
    s.server.optimiser = "sgd";
    s.server.momentum = 0.1;
  });
  refused("give an epsilon above 0", [](auto& s) { s.server.epsilon = 0.0; });
  refused("as many steps at every node", [](auto& s) {
    s.local.steps = 1;
    s.local.epochs = 1;
  });
  refused("needs every node in every round", [](auto& s) { s.sampled = 1; });
  refused("weighs nodes equally", [](auto& s) { s.weighting = Weighting::kPooled; });
  refused("steps in a metric of its own", [](auto& s) {
    s.server.optimiser = "sgd";
    s.regulariser.name = "l1";
  });
  refused("steps in a metric of its own", [](auto& s) { s.regulariser.name = "l1"; });
  refused("the first round of fafed has no step yet", [](auto& s) { s.rounds = 1; });
}

}  // namespace
}  // namespace labelshift
