#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "labelshift/core/base/observer.hpp"
#include "tests/federation/gaussian_federation.hpp"

// Compressed updates with every algorithm.

namespace labelshift {
namespace {

class CompressionOf : public testing::TestWithParam<AlgorithmEntry> {
 protected:
  CompressionOf() : settings_(quick_settings()) {
    settings_.algorithm = GetParam().name;
    settings_.rounds = 7;
    settings_.evaluate_every = 7;
    settings_.local = {.steps = 3, .batch = 8, .learning_rate = 0.1};
    suit_algorithm(settings_);
    if (settings_.algorithm == "fedbn") settings_.model = {LABELSHIFT_FEDERATION_REFERENCE "/normed.pt", {}};
    if (settings_.algorithm == "iw-erm") settings_.ratio.method = "true";
  }
  FederationSettings with(const CompressionSettings& compression) const {
    FederationSettings settings = settings_;
    settings.compression = compression;
    // FedCOM is what a codec makes of FedAvg, and refuses to be without one.
    if (settings.algorithm == "fedcom" && !compression.compressed()) settings.algorithm = "fedavg";
    return settings;
  }
  static void expect_same(const FederationState& a, const FederationState& b) {
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.buffers, b.buffers);
    EXPECT_EQ(a.algorithm.parts, b.algorithm.parts);
  }

  const FederatedData data_ =
      gaussian_federation({{{24, 6, 6}, {3, 9, 3}}, {{6, 24, 6}, {3, 3, 9}}, {{6, 6, 24}, {9, 3, 3}}});
  FederationSettings settings_;
};

TEST_P(CompressionOf, ChangesNoBitWhereAllIsSent) {
  // A value times 1 travels as it is, and no algorithm computes with what it sent before it is packed.
  LocalFederation plain(with({}), data_), packed(with({.codec = "random-k", .kept = 1.0}), data_);
  const FederationState a = plain.run(), b = packed.run();
  expect_same(a, b);
  if (!make_algorithm({settings_, *global_model(settings_, plain.task(), a), 3})->has_memory()) return;
  for (Index node = 0; node < 3; ++node) EXPECT_EQ(plain.kept(a, node), packed.kept(b, node)) << node;
}

TEST_P(CompressionOf, GoesOnWithTheSameBitsFromAnyRound) {
  const FederationSettings settings = with({.codec = "qsgd", .levels = 15});
  const FederationState whole = LocalFederation(settings, data_).run();
  EXPECT_NE(whole.parameters, LocalFederation(with({}), data_).run().parameters);
  for (const int stop : {1, 4, 6}) {
    SCOPED_TRACE(stop);
    const std::string folder = testing::TempDir() + fmt::format("labelshift-compression-{}", ::getpid());
    std::filesystem::create_directories(folder);
    FederationState saved;
    LocalFederation stopped(settings, data_);
    EXPECT_THROW(stopped.run({.checkpoint = with_state([&](const FederationState& state) {
                                if (state.round != stop) return;
                                saved = state;
                                stopped.store().save(folder);
                                throw Stopped{};
                              })}),
                 Stopped);
    LocalFederation federation(settings, data_);
    federation.store().load(folder);
    std::filesystem::remove_all(folder);
    expect_same(federation.run({}, saved), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Federation, CompressionOf, testing::ValuesIn(algorithms()), [](const auto& row) {
  std::string name = row.param.name;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace labelshift
