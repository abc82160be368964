#include "labelshift/federation/codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/gaussian_federation.hpp"
#include "tests/federation/true_weights.hpp"

namespace labelshift {

void PrintTo(const CompressionSettings& settings, std::ostream* out) {
  *out << settings.codec << " with " << settings.levels << " levels, " << settings.kept << " kept";
}

namespace {

std::vector<float> normal_values(Index n, std::uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

std::vector<float> sent(const UpdateCodec& codec, const std::vector<float>& values, std::uint64_t seed) {
  std::vector<float> result(values.size(), std::nanf(""));
  codec.unpack(codec.pack(values, seed), result);
  return result;
}

double squared(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

class EveryCodec : public testing::TestWithParam<CompressionSettings> {};

/// Values of one size, of very different sizes, and all but one of them 0.
std::vector<std::vector<float>> samples() {
  std::vector<std::vector<float>> all = {normal_values(700), normal_values(33), {-3.0F}};
  std::vector<float> uneven = normal_values(600, 2);
  for (std::size_t i = 0; i < uneven.size(); ++i) uneven[i] *= std::pow(10.0F, static_cast<float>(i % 7) - 3.0F);
  std::vector<float> alone(520);
  alone[515] = 2.0F;
  all.push_back(uneven);
  all.push_back(alone);
  return all;
}

TEST_P(EveryCodec, IsRightOnAverageAndItsVarianceIsWithinQ) {
  const auto codec = make_codec(GetParam());
  constexpr int kDraws = 4000;
  for (const std::vector<float>& values : samples()) {
    std::vector<double> sum(values.size()), squares(values.size());
    double error = 0.0;
    for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
      const std::vector<float> one = sent(*codec, values, seed);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double off = static_cast<double>(one[i]) - values[i];
        sum[i] += off;
        squares[i] += off * off;
        error += off * off;
      }
    }
    // 5 standard errors are not exceeded by any of 2,000 values. Where a value is hardly ever rounded up, the standard
    // error is not known; there it may happen 13 times more or less than it should.
    double largest = 0.0;
    for (const float value : values) largest = std::max<double>(largest, std::abs(value));
    const double rare = GetParam().codec == "qsgd" ? 13.0 * largest / GetParam().levels / kDraws : 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double deviation = std::sqrt(squares[i] / kDraws);
      EXPECT_NEAR(sum[i] / kDraws, 0.0, 5.0 * deviation / std::sqrt(kDraws) + rare + 1e-6 * std::abs(values[i])) << i;
    }
    EXPECT_LE(error / kDraws, 1.1 * codec->variance(std::ssize(values)) * squared(values));
  }
}

TEST_P(EveryCodec, GivesTheSameBytesForTheSameSeedAndOthersForAnother) {
  const auto codec = make_codec(GetParam());
  const std::vector<float> values = normal_values(1000);
  EXPECT_EQ(codec->pack(values, 7), codec->pack(values, 7));
  EXPECT_NE(codec->pack(values, 7), codec->pack(values, 8));
}

TEST_P(EveryCodec, RefusesBytesThatCannotBe) {
  const auto codec = make_codec(GetParam());
  const std::vector<float> values = normal_values(100);
  const Bytes good = codec->pack(values, 1);
  std::vector<float> out(values.size());
  for (const int change : {-1, 1}) {
    Bytes other = good;
    other.resize(good.size() + static_cast<std::size_t>(change));
    EXPECT_THROW(codec->unpack(other, out), Error);
  }
  EXPECT_THROW(codec->unpack({}, out), Error);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> broken = values;
    broken[50] = bad;
    broken.resize(GetParam().codec == "random-k" ? 1 : broken.size());  // of which one is surely sent
    broken[broken.size() / 2] = bad;
    std::vector<float> read(broken.size());
    EXPECT_THROW(codec->unpack(codec->pack(broken, 1), read), Error);
  }
}

TEST_P(EveryCodec, TakesNoValuesAtAll) {
  const auto codec = make_codec(GetParam());
  EXPECT_NO_THROW(codec->unpack(codec->pack({}, 3), {}));
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec,
                         testing::Values(CompressionSettings{.codec = "qsgd", .levels = 1},
                                         CompressionSettings{.codec = "qsgd", .levels = 3},
                                         CompressionSettings{.codec = "qsgd", .levels = 7},
                                         CompressionSettings{.codec = "qsgd", .levels = 100},
                                         CompressionSettings{.codec = "qsgd", .levels = 127},
                                         CompressionSettings{.codec = "qsgd", .levels = 1000},
                                         CompressionSettings{.codec = "random-k", .kept = 0.1},
                                         CompressionSettings{.codec = "random-k", .kept = 0.9}),
                         [](const auto& one) {
                           return one.param.codec == "qsgd"
                                      ? "Qsgd" + std::to_string(one.param.levels)
                                      : "RandomK" + std::to_string(std::lround(100 * one.param.kept));
                         });

TEST(Qsgd, PacksALevelInTheBitsThatItNeeds) {
  // Levels are met exactly, so nothing is random: -2, -1, 0, 1, 2 of s = 2 are 0 to 4, of 3 bits.
  const auto codec = make_codec({.codec = "qsgd", .levels = 2});
  const Bytes packed = codec->pack(std::vector<float>{-2.0F, 1.0F, 0.0F, 2.0F}, 9);
  ASSERT_EQ(packed.size(), 6U);
  float largest = 0.0F;
  std::memcpy(&largest, packed.data(), 4);
  EXPECT_EQ(largest, 2.0F);
  // 000, 011, 010, 100, from the lowest bit on: 100 010 011 000.
  EXPECT_EQ(packed[4], std::byte{0b10011000});
  EXPECT_EQ(packed[5], std::byte{0b1000});
  // 4 bits: 7 levels on each side, two to a byte.
  const Bytes four = make_codec({.codec = "qsgd", .levels = 7})->pack(std::vector<float>{-7.0F, 7.0F, 1.0F}, 9);
  ASSERT_EQ(four.size(), 6U);
  EXPECT_EQ(four[4], std::byte{0xe0});
  EXPECT_EQ(four[5], std::byte{0x08});
  // 512 values to a run: 4 bytes for the largest, 256 for the levels.
  EXPECT_EQ(make_codec({.codec = "qsgd", .levels = 7})->pack(normal_values(1025), 0).size(), 2U * 260 + 5);
}

TEST(Qsgd, RefusesLevelsAndLargestValuesThatCannotBe) {
  const auto codec = make_codec({.codec = "qsgd", .levels = 2});
  std::vector<float> out(4);
  Bytes packed = codec->pack(std::vector<float>{-2.0F, 1.0F, 0.0F, 2.0F}, 9);
  packed[4] |= std::byte{0b101};
  expect_error(ErrorKind::kPeer, "the packed weights have a level 5, expected at most 4; does it run this version?",
               [&] { codec->unpack(packed, out); });
  Bytes negative = codec->pack(std::vector<float>(4, 1.0F), 9);
  negative[3] |= std::byte{0x80};
  expect_error(
      ErrorKind::kPeer,
      "the packed weights have a number that is not finite, or below 0; the training there has run away: use smaller "
      "learning rates, or less compression",
      [&] { codec->unpack(negative, out); });
}

TEST(Qsgd, RefusesLargestValuesWhoseLevelsAreNoFloats) {
  std::size_t refused = 0;
  for (int levels = 1; levels <= 255; ++levels) {
    const auto codec = make_codec({.codec = "qsgd", .levels = levels});
    std::vector<float> values(3, std::numeric_limits<float>::max()), out(3);
    try {
      codec->unpack(codec->pack(values, 1), out);
      for (const float value : out) EXPECT_TRUE(std::isfinite(value)) << levels;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);  // those whose steps are rounded up, such as 31
}

TEST(Qsgd, KeepsZerosAndWhatIsTooSmallToDivideBy) {
  const auto codec = make_codec({.codec = "qsgd", .levels = 7});
  EXPECT_EQ(sent(*codec, std::vector<float>(600), 1), std::vector<float>(600));
  for (const float value : sent(*codec, std::vector<float>(10, 1e-45F), 1)) EXPECT_TRUE(std::isfinite(value));
}

TEST(RandomK, SendsTheSeedAndSoManyValues) {
  const std::vector<float> values = normal_values(100);
  const Bytes packed = make_codec({.codec = "random-k", .kept = 0.1})->pack(values, 5);
  EXPECT_EQ(packed.size(), 8U + 10 * 4);
  const std::vector<float> read = sent(*make_codec({.codec = "random-k", .kept = 0.1}), values, 5);
  int kept = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    if (read[i] == 0.0F) continue;
    ++kept;
    EXPECT_EQ(read[i], 10.0F * values[i]);
  }
  EXPECT_EQ(kept, 10);
  EXPECT_EQ(sent(*make_codec({.codec = "random-k", .kept = 1.0}), values, 5), values);
  EXPECT_EQ(make_codec({.codec = "random-k", .kept = 0.1})->variance(100), 9.0);
}

TEST(Compression, IsOfParametersAloneAndCountsTheBytesOfNodes) {
  const FederatedData data = gaussian_federation({{{40, 10, 10}, {5, 20, 5}}, {{10, 10, 40}, {20, 5, 5}}});
  FederationSettings settings = quick_settings();
  settings.rounds = 2;
  settings.compression = {.codec = "qsgd", .levels = 7};
  const FederationState state = LocalFederation(settings, data).run();
  for (const PhaseCost& cost : state.phases) {
    if (cost.name != "training") continue;
    EXPECT_EQ(cost.traffic.up, 2U * 2 * (40 + 2 * 8 + 4 + 5));  // 9 weights of 4 bits
    EXPECT_EQ(cost.traffic.down, 2U * 2 * (28 + 32 + 9 + 9 * 4));
  }
  EXPECT_EQ(state.compression_variance, 9.0 / (4 * 7 * 7));  // one run of 9 values
  settings.compression = {.codec = "qsdg"};
  expect_error(ErrorKind::kUsage, "unknown compression \"qsdg\"; did you mean \"qsgd\"? (known: none, qsgd, random-k)",
               [&] { LocalFederation(settings, data).run(); });
}

TEST(Compression, KeepsStatisticsOfBatchNormsAsTheyAre) {
  const FederatedData data = gaussian_federation({{{40, 10, 10}, {5, 20, 5}}, {{10, 10, 40}, {20, 5, 5}}});
  FederationSettings settings = quick_settings();
  settings.rounds = 1;
  settings.model = {LABELSHIFT_FEDERATION_REFERENCE "/normed.pt", {}};
  const FederationState plain = LocalFederation(settings, data).run();
  settings.compression = {.codec = "qsgd", .levels = 1};
  const FederationState compressed = LocalFederation(settings, data).run();
  ASSERT_FALSE(plain.buffers.empty());
  EXPECT_EQ(compressed.buffers, plain.buffers);
  EXPECT_NE(compressed.parameters, plain.parameters);
}

/// Two nodes whose batches are all they have, so that nothing is drawn but what a codec draws.
class CompressedLocalSgd : public testing::Test {
 protected:
  CompressedLocalSgd() : data_(gaussian_federation({{{60, 20, 20}, {5, 20, 5}}, {{20, 20, 60}, {20, 5, 5}}})) {
    settings_ = quick_settings();
    settings_.rounds = 5;
    settings_.local = {.steps = 3, .batch = 100, .learning_rate = 0.2};
    settings_.server = {.optimiser = "sgd", .learning_rate = 0.7, .weight_decay = 0.0};
    settings_.compression = {.codec = "random-k", .kept = 1.0};
  }

  const FederatedData data_;
  FederationSettings settings_;
};

TEST_F(CompressedLocalSgd, IsFedAvgToTheBitWhereAllIsSent) {
  FederationSettings plain = settings_;
  plain.compression = {};
  settings_.algorithm = "fedcom";
  EXPECT_EQ(LocalFederation(settings_, data_).run().parameters, LocalFederation(plain, data_).run().parameters);
  settings_.compression.kept = 0.5;
  EXPECT_NE(LocalFederation(settings_, data_).run().parameters, LocalFederation(plain, data_).run().parameters);
}

TEST_F(CompressedLocalSgd, WithGradientTrackingIsFedAvgWhereNodesDoNotDiffer) {
  // What a node sends is then the mean of what all send, so that nothing is tracked.
  const auto run = [&](const FederatedData& data, const std::string& algorithm, const CompressionSettings& compression,
                       int rounds) {
    FederationSettings settings = settings_;
    settings.algorithm = algorithm;
    settings.compression = compression;
    settings.rounds = rounds;
    LocalFederation federation(settings, data);
    const FederationState end = federation.run();
    if (algorithm == "fedcomgate" && std::ssize(data.nodes) == 1) {
      NamedParts kept = federation.kept(end, 0);
      EXPECT_EQ(kept["delta"], std::vector<float>(9));
    }
    return end.parameters;
  };
  const FederatedData alone = gaussian_federation({{{60, 20, 20}, {5, 20, 5}}});
  FederatedData twins = gaussian_federation({{{60, 20, 20}, {5, 20, 5}}, {{20, 20, 60}, {20, 5, 5}}});
  twins.nodes[1].train = twins.nodes[0].train;
  for (const CompressionSettings& whole : {CompressionSettings{}, {.codec = "random-k", .kept = 1.0}}) {
    SCOPED_TRACE(whole.codec);
    settings_.local.batch = 8;
    EXPECT_EQ(run(alone, "fedcomgate", whole, 5), run(alone, "fedavg", {}, 5));
    EXPECT_EQ(run(data_, "fedcomgate", whole, 1), run(data_, "fedavg", {}, 1));  // nothing is tracked yet
    EXPECT_NE(run(data_, "fedcomgate", whole, 2), run(data_, "fedavg", {}, 2));
    // Whole batches of the same examples, each in an order of its own, so that sums are rounded differently.
    settings_.local.batch = 100;
    const std::vector<float> a = run(twins, "fedcomgate", whole, 5), b = run(twins, "fedavg", {}, 5);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-6) << i;
  }
}

TEST_F(CompressedLocalSgd, WithGradientTrackingIsAlgorithm3OfHaddadpourEtAl) {
  settings_.algorithm = "fedcomgate";
  for (const char* method : {"none", "true"}) {
    settings_.ratio.method = method;
    LocalFederation federation(settings_, data_);
    std::vector<float> initial;
    const FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                                  if (initial.empty()) initial = state.parameters;
                                                })});
    const auto net = global_model(settings_, federation.task(), end);
    const auto p = std::ssize(initial);
    Eigen::VectorXf w = Eigen::Map<Eigen::VectorXf>(initial.data(), p);
    std::vector<Eigen::VectorXf> delta(2, Eigen::VectorXf::Zero(p)), sent(2);
    for (int round = 0; round < 5; ++round) {
      for (int k = 0; k < 2; ++k) {
        const NodeData& node = data_.nodes[k];
        const std::vector<float> weights = settings_.ratio.weighted() ? true_weights(data_, k) : std::vector<float>();
        Eigen::VectorXf v = w;
        for (int step = 0; step < 3; ++step) {
          std::copy(v.begin(), v.end(), net->parameters().begin());
          net->loss_and_gradient({*node.train, node.train_rows, weights}, {}, 0);
          v -= 0.2F * (Eigen::Map<const Eigen::VectorXf>(net->gradient().data(), p) - delta[k]);
        }
        sent[k] = w - v;
      }
      const Eigen::VectorXf mean = (sent[0] + sent[1]) / 2;
      for (int k = 0; k < 2; ++k) delta[k] += (sent[k] - mean) / (3 * 0.2F);
      w -= 0.7F * mean;
    }
    for (Index i = 0; i < p; ++i) EXPECT_NEAR(end.parameters[i], w[i], 2e-5) << method << i;
  }
}

TEST_F(CompressedLocalSgd, TracksWhatWasSentSoThatDifferencesAddUpToZero) {
  settings_.algorithm = "fedcomgate";
  settings_.compression = {.codec = "qsgd", .levels = 2};
  settings_.rounds = 20;
  LocalFederation federation(settings_, data_);
  const FederationState end = federation.run();
  const auto a = federation.kept(end, 0)["delta"], b = federation.kept(end, 1)["delta"];
  ASSERT_EQ(a.size(), 9U);
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i] + b[i], 0.0, 1e-5) << i;
    largest = std::max<double>(largest, std::abs(a[i]));
  }
  EXPECT_GT(largest, 0.01);
}

TEST_F(CompressedLocalSgd, WarnsWhereWhatNodesTrackMayRunAway) {
  for (const char* algorithm : {"fedcom", "fedcomgate"})
    for (const double kept : {0.1, 0.6}) {
      settings_.algorithm = algorithm;
      settings_.compression = {.codec = "random-k", .kept = kept};
      const bool warned = std::string(algorithm) == "fedcomgate" && kept < 0.5;
      const FederationState state = [&] {
        settings_.rounds = 1;
        return LocalFederation(settings_, data_).run();
      }();
      EXPECT_EQ(state.warnings.size(), warned ? 1U : 0U) << algorithm << kept;
      if (warned) {
        EXPECT_THAT(state.warnings[0], testing::HasSubstr("9 times as large, so training may run away with any step"));
      }
    }
}

TEST_F(CompressedLocalSgd, RefusesWhatItDoesNotGoWith) {
  const auto refused = [&](const char* algorithm, const std::string& part, const auto& change) {
    FederationSettings settings = settings_;
    settings.algorithm = algorithm;
    change(settings);
    expect_refused(part, [&] { check_settings(settings, 2); });
  };
  refused("fedcom", "fedcom is about compressed updates", [](auto& s) { s.compression = {}; });
  for (const char* algorithm : {"fedcom", "fedcomgate"}) {
    refused(algorithm, "give server = \"sgd\"", [](auto& s) { s.server.optimiser = "adam"; });
    refused(algorithm, "give momentum = 0", [](auto& s) { s.server.momentum = 0.5; });
    refused(algorithm, "give weight-decay = 0", [](auto& s) { s.server.weight_decay = 1e-3; });
    refused(algorithm, "has no proximal term", [](auto& s) { s.local.proximal = 0.1; });
  }
  refused("fedcomgate", "needs every node in every round", [](auto& s) { s.sampled = 1; });
  refused("fedcomgate", "weighs nodes equally", [](auto& s) { s.weighting = Weighting::kPooled; });
  refused("fedcomgate", "give local-steps above 1", [](auto& s) { s.local.steps = 1; });
  refused("fedcomgate", "as many steps at every node", [](auto& s) {
    s.local.steps = 1;
    s.local.epochs = 2;
  });
}

}  // namespace
}  // namespace labelshift
