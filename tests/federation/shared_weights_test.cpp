#include "labelshift/federation/shared_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace labelshift {
namespace {

std::unique_ptr<Net> small_resnet() {
  return make_net({.name = "resnet18", .settings = {{"width", "4"}}, .shape = {3, 16, 16}, .classes = 3}, 1);
}

Index size_of(const TensorPlace& place) {
  return std::accumulate(place.shape.begin(), place.shape.end(), Index{1}, std::multiplies<>());
}

TEST(SharedWeights, AreAllOfANetWithoutBatchNorm) {
  const auto net = make_net({.name = "logistic", .shape = {1, 1, 4}, .classes = 3}, 1);
  for (const bool batch_norms : {false, true}) {
    const SharedWeights shared(*net, batch_norms);
    EXPECT_EQ(shared.size(), 15);
    EXPECT_EQ(shared.local_size(), 0);
    const std::vector<float> message = shared.gather(net->parameters(), net->buffers());
    EXPECT_TRUE(std::equal(message.begin(), message.end(), net->parameters().begin(), net->parameters().end()));
  }
}

TEST(SharedWeights, LeaveOutEveryBatchNormThoseOfShortcutsToo) {
  const auto net = small_resnet();
  const SharedWeights shared(*net, /*batch_norms=*/false);
  Index local = 0, in_shortcuts = 0;
  for (const TensorPlace& place : net->tensors()) {
    if (!place.batch_norm) continue;
    local += size_of(place);
    in_shortcuts += place.name.find("downsample") != std::string::npos;
  }
  EXPECT_EQ(shared.local_size(), local);
  EXPECT_EQ(shared.size() + local, std::ssize(net->parameters()) + std::ssize(net->buffers()));
  // Three shortcuts of five tensors each (one of them counts batches, where the net keeps that): what a search for "bn"
  // in the names misses.
  EXPECT_GE(in_shortcuts, 3 * 4);
}

TEST(SharedWeights, ComeBackToTheirPlaces) {
  for (const bool batch_norms : {false, true}) {
    const auto net = small_resnet();
    const SharedWeights shared(*net, batch_norms);
    std::iota(net->parameters().begin(), net->parameters().end(), 0.0F);
    std::iota(net->buffers().begin(), net->buffers().end(), 1e6F);
    const std::vector<float> message = shared.gather(net->parameters(), net->buffers());
    const std::vector<float> local = shared.gather_local(net->parameters(), net->buffers());
    const std::vector<float> parameters(net->parameters().begin(), net->parameters().end());
    const std::vector<float> buffers(net->buffers().begin(), net->buffers().end());
    std::fill(net->parameters().begin(), net->parameters().end(), -1.0F);
    std::fill(net->buffers().begin(), net->buffers().end(), -1.0F);
    shared.scatter(message, net->parameters(), net->buffers());
    EXPECT_EQ(std::count(net->parameters().begin(), net->parameters().end(), -1.0F) +
                  std::count(net->buffers().begin(), net->buffers().end(), -1.0F),
              shared.local_size());
    shared.scatter_local(local, net->parameters(), net->buffers());
    EXPECT_TRUE(std::equal(parameters.begin(), parameters.end(), net->parameters().begin()));
    EXPECT_TRUE(std::equal(buffers.begin(), buffers.end(), net->buffers().begin()));
  }
}

}  // namespace
}  // namespace labelshift
