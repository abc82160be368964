#include "labelshift/federation/together_estimate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/federation/gaussian_federation.hpp"

// What nodes say of their mixes with a predictor that all trained together.

namespace labelshift {
namespace {

FederationState together(const std::string& method, const FederatedData& data) {
  FederationSettings settings = weighted_settings(method);
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.rounds = 1;
  return LocalFederation(settings, data).run();
}

TEST(EstimateTogether, SaysNothingOfWhatHeldOutExamplesCannotTell) {
  // The only example of a class at a node is trained on, so nobody holds out one of the last class.
  const FederatedData some = gaussian_federation({{{80, 40, 1}, {60, 60, 60}}, {{40, 80, 1}, {60, 60, 60}}});
  const FederatedData all = gaussian_federation({{{80, 40, 20}, {60, 60, 60}}, {{40, 80, 20}, {60, 60, 60}}});
  for (const NodeRatio& node : together("vrls", some).ratios) {
    EXPECT_EQ(node.low.size(), 3);
    EXPECT_TRUE(std::isnan(node.p_value));
  }
  for (const NodeRatio& node : together("vrls", all).ratios) EXPECT_GE(node.p_value, 0.0);
  for (const NodeRatio& node : together("mlls-confusion", some).ratios) {
    EXPECT_EQ(node.estimate.size(), 3);
    EXPECT_EQ(node.low.size(), 0);
  }
  for (const char* method : {"mlls-confusion", "bbse", "bbse-soft"})
    for (const NodeRatio& node : together(method, all).ratios) EXPECT_EQ(node.low.size(), 3) << method;
}

TEST(EstimateTogether, FindsThePriorThatMixesShare) {
  // No node meets the last class, of which each gives some examples to the nearest law of chance if it estimates alone.
  std::vector<GaussianNode> nodes;
  for (int k = 0; k < 12; ++k) {
    const Index first = 2 + 2 * k;
    nodes.push_back({{40, 40, 40}, {first, 30 - first, 0}});
  }
  nodes.push_back({{40, 40, 40}, {0, 0, 0}});
  const FederatedData data = gaussian_federation(nodes);
  FederationSettings settings = weighted_settings("vrls");
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.rounds = 1;
  const FederationState alone = LocalFederation(settings, data).run();
  settings.ratio.shared_prior = true;
  const FederationState shared = LocalFederation(settings, data, /*workers=*/1).run();
  const FederationState again = LocalFederation(settings, data, /*workers=*/3).run();
  EXPECT_EQ(shared.target_sum, again.target_sum);
  EXPECT_EQ(shared.parameters, again.parameters);
  EXPECT_NEAR(shared.target_sum.sum(), 12.0, 1e-6);
  EXPECT_LT(shared.target_sum[2], 0.5 * alone.target_sum[2]);
  for (std::size_t k = 0; k < 12; ++k) {
    const NodeRatio& node = shared.ratios[k];
    ASSERT_EQ(node.low.size(), 3);
    EXPECT_TRUE((node.low.array() <= node.estimate.array()).all() &&
                (node.estimate.array() <= node.high.array()).all());
    EXPECT_EQ(node.p_value, alone.ratios[k].p_value);
    EXPECT_GT(node.seconds, 0.0);
  }
  EXPECT_EQ(shared.ratios[12].estimate, Eigen::Vector3d::Zero());
}

TEST(EstimateTogether, CalibratesOnTestLabelsTooIfItIsTold) {
  // Features of the test examples are moved, so the held-out examples alone give a calibration that is wrong there.
  FederatedData data = gaussian_federation({{{80, 40, 20}, {60, 60, 60}}, {{40, 80, 20}, {60, 60, 60}}});
  for (const std::size_t test : {1, 3})
    for (float& value : std::get<std::vector<float>>(data.sets[test]->values)) value += 1.0F;
  FederationSettings settings = weighted_settings("vrls");
  settings.ratio.predictor = PredictorScope::kFederated;
  settings.rounds = 1;
  const auto error = [&] { return LocalFederation(settings, data).run().target_error; };
  const double blind = error();
  settings.ratio.calibrate_on_test = true;
  EXPECT_LT(error(), blind);
}

}  // namespace
}  // namespace labelshift
