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
  for (const NodeRatio& node : together("mlls-confusion", all).ratios) EXPECT_EQ(node.low.size(), 3);
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
