#include "labelshift/learning/tile_nets.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/torch_backend.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

struct Layers {
  std::string name;
  const TileLayers* functions;
  friend void PrintTo(const Layers& layers, std::ostream* out) { *out << layers.name; }
};

/// All that this processor can run: the others are chosen on older ones.
std::vector<Layers> all_layers() {
  std::vector<Layers> result = {{"generic", &kLayersGeneric}};
#ifdef __x86_64__
  if (native_cpu() >= Cpu::kAvx2) result.push_back({"avx2", &kLayersAvx2});
  if (native_cpu() == Cpu::kAvx512) result.push_back({"avx512", &kLayersAvx512});
#endif
  return result;
}

NetSpec spec_of(const std::string& name, ExampleShape shape, Index classes) {
  const std::vector<float> mean(shape.channels, 120.0F), scale(shape.channels, 1.0F / 73.9F);
  return {.name = name, .shape = shape, .classes = classes, .normalisation = {.mean = mean, .scale = scale}};
}

Dataset noise_images(Index n, ExampleShape shape, Index classes) {
  Rng rng(5);
  std::vector<std::uint8_t> values(n * shape.size());
  for (auto& value : values) value = static_cast<std::uint8_t>(rng.below(256));
  Dataset data{.shape = shape, .values = values};
  for (Index i = 0; i < n; ++i) data.labels.push_back(static_cast<int>(rng.below(classes)));
  return data;
}

std::vector<Index> some_rows(Index n, const Dataset& data) {
  Rng rng(6);
  std::vector<Index> rows(n);
  for (Index& row : rows) row = rng.below(data.size());
  return rows;
}

std::vector<float> logits_of(Net& net, const Dataset& data, std::span<const Index> rows) {
  std::vector<float> out(rows.size() * net.spec().classes);
  net.logits(data, rows, out);
  return out;
}

double norm_of(std::span<const float> values) {
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

double distance(std::span<const float> a, std::span<const float> b) {
  std::vector<float> difference(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return norm_of(difference);
}

std::unique_ptr<Net> by_hand(const NetSpec& spec, std::uint64_t seed, const TileLayers& layers) {
  return spec.name == "lenet" ? make_tile_lenet(spec, seed, layers) : make_tile_logistic(spec, seed, layers);
}

std::unique_ptr<Net> by_torch(const NetSpec& spec, std::uint64_t seed) {
  Settings none;
  auto* make = spec.name == "lenet" ? torch_backend().make_lenet : torch_backend().make_logistic;
  return make(spec, none, seed, Device::kCpu);
}

/// Odd sides lose a pixel in a pool, and 30 x 33 two and one.
std::vector<NetSpec> all_specs() {
  return {spec_of("lenet", {1, 28, 28}, 10), spec_of("lenet", {3, 32, 32}, 10), spec_of("lenet", {1, 16, 16}, 3),
          spec_of("lenet", {2, 30, 33}, 13), spec_of("lenet", {3, 17, 22}, 4),  spec_of("logistic", {1, 28, 28}, 10),
          spec_of("logistic", {1, 1, 7}, 2), spec_of("logistic", {3, 9, 5}, 21)};
}

std::string described(const NetSpec& spec) {
  return fmt::format("{} {}x{}x{} {} classes", spec.name, spec.shape.channels, spec.shape.height, spec.shape.width,
                     spec.classes);
}

class TileNets : public testing::TestWithParam<Layers> {
 protected:
  const TileLayers& layers_ = *GetParam().functions;
};

TEST_P(TileNets, StartAsThoseOfLibTorch) {
  for (const NetSpec& spec : all_specs()) {
    const auto net = by_hand(spec, 9, layers_), reference = by_torch(spec, 9);
    EXPECT_THAT(net->parameters(), testing::ElementsAreArray(reference->parameters())) << described(spec);
    ASSERT_EQ(net->tensors().size(), reference->tensors().size());
    for (std::size_t i = 0; i < net->tensors().size(); ++i) {
      const TensorPlace &place = net->tensors()[i], &same = reference->tensors()[i];
      EXPECT_EQ(place.name, same.name);
      EXPECT_EQ(place.shape, same.shape);
      EXPECT_EQ(place.offset, same.offset);
      EXPECT_FALSE(place.buffer || place.batch_norm);
    }
  }
}

TEST_P(TileNets, ComputeWhatLibTorchComputes) {
  for (const NetSpec& spec : all_specs()) {
    const Dataset data = noise_images(70, spec.shape, spec.classes);
    const auto net = by_hand(spec, 9, layers_), reference = by_torch(spec, 9);
    Rng rng(7);
    for (float& value : net->parameters()) value *= static_cast<float>(1.0 + rng.uniform());  // saturates some units
    std::ranges::copy(net->parameters(), reference->parameters().begin());
    for (const Index size : {1, 5, 16, 17, 64}) {
      SCOPED_TRACE(fmt::format("{}, batch {}", described(spec), size));
      const std::vector<Index> rows = some_rows(size, data);
      std::vector<float> weights(size);
      for (float& weight : weights) weight = static_cast<float>(3.0 * rng.uniform());
      // A sum of n terms in another order differs by about sqrt(n) 2^-24 of its terms' norm: 2e-6 for the longest, the
      // 784 pixels of logistic. LeNet has five such layers each way, and tanh is right to 4e-7.
      const double tolerance = 1e-5;
      const std::vector<float> z = logits_of(*net, data, rows), expected = logits_of(*reference, data, rows);
      EXPECT_LE(distance(z, expected), tolerance * norm_of(expected));
      const BatchLoss loss = net->loss_and_gradient({data, rows, weights}, {.zeta = 0.7}, 0);
      const BatchLoss other = reference->loss_and_gradient({data, rows, weights}, {.zeta = 0.7}, 0);
      EXPECT_NEAR(loss.cross_entropy, other.cross_entropy, tolerance * std::abs(other.cross_entropy));
      EXPECT_NEAR(loss.objective, other.objective, tolerance * std::abs(other.cross_entropy));
      for (const TensorPlace& place : net->tensors()) {
        Index count = 1;
        for (const Index side : place.shape) count *= side;
        const auto part = net->gradient().subspan(place.offset, count);
        const auto same = reference->gradient().subspan(place.offset, count);
        EXPECT_LE(distance(part, same), tolerance * norm_of(same)) << place.name;
      }
    }
  }
}

TEST_P(TileNets, GiveARowTheSameBitsInEveryBatch) {
  for (const NetSpec& spec : all_specs()) {
    const Dataset data = noise_images(40, spec.shape, spec.classes);
    const auto net = by_hand(spec, 3, layers_);
    const std::vector<Index> rows = some_rows(37, data);
    const std::vector<float> together = logits_of(*net, data, rows);
    for (std::size_t i = 0; i < rows.size(); i += 6) {
      const std::vector<float> alone = logits_of(*net, data, std::vector{rows[i]});
      EXPECT_THAT(alone, testing::ElementsAreArray(together.begin() + static_cast<Index>(i) * spec.classes,
                                                   together.begin() + static_cast<Index>(i + 1) * spec.classes))
          << described(spec);
    }
  }
}

TEST_P(TileNets, ForgetTheBatchBefore) {
  for (const NetSpec& spec : all_specs()) {
    const Dataset data = noise_images(40, spec.shape, spec.classes);
    const auto net = by_hand(spec, 3, layers_), fresh = by_hand(spec, 3, layers_);
    net->loss_and_gradient({data, some_rows(33, data), {}}, {.zeta = 1.0}, 0);
    const std::vector<Index> rows = {4, 7, 1};  // fewer than before: nothing may be left in the other lanes
    const BatchLoss loss = net->loss_and_gradient({data, rows, {}}, {.zeta = 0.5}, 1);
    EXPECT_EQ(fresh->loss_and_gradient({data, rows, {}}, {.zeta = 0.5}, 2).objective, loss.objective);
    EXPECT_THAT(net->gradient(), testing::ElementsAreArray(fresh->gradient())) << described(spec);
  }
}

TEST_P(TileNets, HaveATanhThatIsRightToFourUnits) {
  std::vector<Tile> tiles(2000);
  const auto x = [&](std::size_t i, std::size_t e) { return static_cast<float>(i * 16 + e) * 6.25e-4F - 10.0F; };
  for (std::size_t i = 0; i < tiles.size(); ++i)
    for (std::size_t e = 0; e < 16; ++e) tiles[i].of[e] = x(i, e);
  layers_.tanh(static_cast<std::ptrdiff_t>(tiles.size()), tiles.data());
  double worst = 0.0;
  for (std::size_t i = 0; i < tiles.size(); ++i)
    for (std::size_t e = 0; e < 16; ++e) {
      const double exact = std::tanh(static_cast<double>(x(i, e)));
      worst = std::max(worst, std::abs(tiles[i].of[e] - exact) / std::max(std::abs(exact), 1e-30));
    }
  EXPECT_LE(worst, 4.0 * 0x1p-23);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tile edges{{0.0F, -kInfinity, kInfinity, std::numeric_limits<float>::quiet_NaN()}};
  layers_.tanh(1, &edges);
  EXPECT_EQ(edges.of[0], 0.0F);
  EXPECT_NEAR(edges.of[1], -1.0F, 1e-6);
  EXPECT_NEAR(edges.of[2], 1.0F, 1e-6);
  EXPECT_TRUE(std::isnan(edges.of[3]));  // a net that diverged must not look well
}

INSTANTIATE_TEST_SUITE_P(Learning, TileNets, testing::ValuesIn(all_layers()),
                         [](const auto& each) { return each.param.name; });

TEST(TileNet, RefusesWhatLibTorchsRefuses) {
  const NetSpec spec = spec_of("lenet", {1, 16, 16}, 2);
  const auto net = make_net(spec, 0);
  Dataset data = noise_images(20, spec.shape, 2);
  data.labels[18] = 2;
  const std::vector<Index> rows = some_rows(64, data);
  expect_error(ErrorKind::kInput,
               "example 18 has the label 2, but the net has 2 classes, 0 to 1; make a net with an output a class", [&] {
                 net->loss_and_gradient({data, rows, {}}, {}, 0);
               });
  data.labels.clear();
  expect_error(ErrorKind::kInput, "the data set has no labels, so nothing can be trained on it; give labelled data",
               [&] {
                 net->loss_and_gradient({data, rows, {}}, {}, 0);
               });
  expect_error(ErrorKind::kInput,
               "lenet needs images of at least 16 x 16, but the examples are 16 x 15; use mlp or "
               "logistic",
               [&] {
                 make_net(spec_of("lenet", {1, 16, 15}, 2), 0);
               });
  NetSpec set = spec;
  set.settings["width"] = "3";
  expect_error(ErrorKind::kUsage, "lenet has no settings, so \"width\" cannot be set", [&] { make_net(set, 0); });
}

}  // namespace
}  // namespace labelshift
