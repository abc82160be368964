#include "labelshift/learning/net.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/net_kernels.hpp"
#include "labelshift/learning/optimiser.hpp"
#include "labelshift/learning/training_threads.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

const std::string kReference = LABELSHIFT_LEARNING_REFERENCE;

std::vector<Index> first_rows(Index n) {
  std::vector<Index> rows(n);
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

/// Noise images of bytes, labels in turn.
Dataset noise_images(Index n, ExampleShape shape, int classes) {
  Rng rng(5);
  std::vector<std::uint8_t> values(n * shape.size());
  for (auto& value : values) value = static_cast<std::uint8_t>(rng.below(256));
  Dataset data{.shape = shape, .values = values};
  for (Index i = 0; i < n; ++i) data.labels.push_back(static_cast<int>(i) % classes);
  for (int c = 0; c < classes; ++c) data.class_names.push_back(std::to_string(c));
  return data;
}

/// A net and data that fit each other.
struct NetCase {
  std::string label;
  NetSpec spec;
  friend void PrintTo(const NetCase& each, std::ostream* out) { *out << each.label; }
};

NetSpec spec_of(const std::string& name, ExampleShape shape, Index classes,
                std::map<std::string, std::string> settings = {}) {
  const std::vector<float> mean(shape.channels, 127.5F), scale(shape.channels, 1.0F / 73.9F);
  return {.name = name,
          .settings = settings,
          .shape = shape,
          .classes = classes,
          .normalisation = {.mean = mean, .scale = scale}};
}

/// Small enough to be checked in no time; every row of nets() must be here.
std::vector<NetCase> every_net() {
  std::vector<NetCase> cases = {
      {"logistic", spec_of("logistic", {2, 6, 6}, 5)},
      {"mlp", spec_of("mlp", {1, 7, 7}, 4, {{"hidden", "24"}})},
      {"lenet", spec_of("lenet", {2, 20, 18}, 10)},
      {"resnet18", spec_of("resnet18", {3, 16, 16}, 4, {{"width", "4"}})},
      {"resnet18_groups", spec_of("resnet18", {3, 16, 16}, 4, {{"width", "8"}, {"norm", "group"}})},
      {"torchscript", spec_of(kReference + "/small.pt", {1, 8, 8}, 3)},
  };
  EXPECT_EQ(cases.size(), nets().size() + 2);
  return cases;
}

Dataset data_for(const NetSpec& spec, Index n = 12) {
  return noise_images(n, spec.shape, static_cast<int>(spec.classes));
}

std::vector<float> logits_of(Net& net, const Dataset& data, std::span<const Index> rows) {
  std::vector<float> out(rows.size() * net.spec().classes);
  net.logits(data, rows, out);
  return out;
}

double dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<float> copy_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

class EveryNet : public testing::TestWithParam<NetCase> {
 protected:
  const NetSpec spec_ = GetParam().spec;
  const Dataset data_ = data_for(spec_);
  const std::vector<Index> rows_ = first_rows(data_.size());
  std::unique_ptr<Net> net_ = make_net(spec_, 11);
};

TEST_P(EveryNet, HasTheGradientOfItsLoss) {
  std::vector<float> weights(rows_.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.25F + 0.25F * static_cast<float>(i % 5);
  const Batch batch{data_, rows_, weights};
  const Objective objective{.zeta = 0.7};
  const std::uint64_t noise = 3;
  net_->loss_and_gradient(batch, objective, noise);
  const std::vector<float> gradient = copy_of(net_->gradient());
  const std::vector<float> start = copy_of(net_->parameters());

  const auto slope_along = [&](const std::vector<float>& direction, float h) {
    const auto loss_at = [&](float step) {
      for (std::size_t i = 0; i < start.size(); ++i) net_->parameters()[i] = start[i] + step * direction[i];
      return net_->loss_and_gradient(batch, objective, noise).objective;
    };
    const double slope = (loss_at(h) - loss_at(-h)) / (2.0 * static_cast<double>(h));
    std::copy(start.begin(), start.end(), net_->parameters().begin());
    return slope;
  };
  // Logits are rounded to 1e-7 of their size, so a loss to about 1e-7 and a slope to 3e-4 at h = 3e-4; curvature and
  // the kinks of a ReLU add terms of the order of h. A wrong term of the gradient shows as ten per cent and more.
  for (const TensorPlace& place : net_->tensors()) {
    if (place.buffer) continue;
    Index size = 1;
    for (const Index side : place.shape) size *= side;
    const std::span<const float> part(gradient.data() + place.offset, static_cast<std::size_t>(size));
    const double norm = std::sqrt(dot(part, part));
    if (norm < 1e-5) continue;  // a bias before a batch norm has none; the directions below include it
    std::vector<float> direction(start.size());
    for (Index i = 0; i < size; ++i) direction[place.offset + i] = static_cast<float>(part[i] / norm);
    EXPECT_NEAR(slope_along(direction, 3e-4F), norm, 0.02 * norm + 1e-3) << place.name;
  }
  Rng rng(8);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<float> direction(start.size());
    for (float& value : direction) value = static_cast<float>(rng.normal());
    const double length = std::sqrt(dot(direction, direction));
    for (float& value : direction) value = static_cast<float>(value / length);
    EXPECT_NEAR(slope_along(direction, 1e-3F), dot(direction, gradient), 2e-3);
  }
}

TEST_P(EveryNet, TakesOffsetsOfLogitsAsItTakesBiases) {
  const Batch batch{data_, rows_, {}};
  std::vector<float> offsets;
  for (Index c = 0; c < spec_.classes; ++c) offsets.push_back(0.5F * static_cast<float>(c % 3) - 1.0F);
  const BatchLoss loss = net_->loss_and_gradient(batch, {.zeta = 0.7, .offsets = offsets}, /*noise=*/3);
  const std::vector<float> gradient = copy_of(net_->gradient());
  const TensorPlace& bias = *std::find_if(net_->tensors().rbegin(), net_->tensors().rend(),
                                          [](const TensorPlace& place) { return !place.buffer; });
  ASSERT_EQ(bias.shape, std::vector<Index>{spec_.classes});
  for (Index c = 0; c < spec_.classes; ++c) net_->parameters()[bias.offset + c] += offsets[c];
  const BatchLoss moved = net_->loss_and_gradient(batch, {.zeta = 0.7}, /*noise=*/3);
  EXPECT_NEAR(loss.objective, moved.objective, 1e-5);  // logits are rounded to 1e-7 of their size
  EXPECT_NEAR(loss.cross_entropy, moved.cross_entropy, 1e-5);
  EXPECT_THAT(gradient, testing::Pointwise(testing::FloatNear(1e-4F), copy_of(net_->gradient())));
}

TEST_P(EveryNet, GivesItsGradientAwayAndComputesAnother) {
  net_->loss_and_gradient({data_, rows_, {}}, {}, 1);
  const std::vector<float> kept(net_->gradient().begin(), net_->gradient().end());
  EXPECT_EQ(net_->take_gradient(), kept);
  net_->loss_and_gradient({data_, rows_, {}}, {}, 1);
  EXPECT_THAT(net_->gradient(), testing::ElementsAreArray(kept));
}

TEST_P(EveryNet, LaysItsTensorsEndToEnd) {
  Index parameters = 0, buffers = 0;
  for (const TensorPlace& place : net_->tensors()) {
    Index& end = place.buffer ? buffers : parameters;
    EXPECT_EQ(place.offset, end) << place.name;
    end += std::accumulate(place.shape.begin(), place.shape.end(), Index{1}, std::multiplies<>());
  }
  EXPECT_EQ(parameters, static_cast<Index>(net_->parameters().size()));
  EXPECT_EQ(parameters, static_cast<Index>(net_->gradient().size()));
  EXPECT_EQ(buffers, static_cast<Index>(net_->buffers().size()));
}

TEST_P(EveryNet, IsWhatIsWrittenIntoItsBuffers) {
  const auto other = make_net(spec_, 12);
  net_->loss_and_gradient({data_, rows_, {}}, {}, 1);  // moves running statistics, if there are any
  Adam adam(net_->parameters().size(), {});
  adam.step(net_->parameters(), net_->gradient());
  EXPECT_NE(logits_of(*net_, data_, rows_), logits_of(*other, data_, rows_));
  std::ranges::copy(net_->parameters(), other->parameters().begin());
  std::ranges::copy(net_->buffers(), other->buffers().begin());
  EXPECT_EQ(logits_of(*net_, data_, rows_), logits_of(*other, data_, rows_));
}

TEST_P(EveryNet, WeighsExamplesAndDividesByTheBatchSize) {
  // Doubling every weight doubles loss and gradient exactly; dividing by the sum of weights would leave them.
  const std::vector<float> ones(rows_.size(), 1.0F), twos(rows_.size(), 2.0F);
  const BatchLoss plain = net_->loss_and_gradient({data_, rows_, {}}, {.zeta = 0.5}, 2);
  const std::vector<float> gradient = copy_of(net_->gradient());
  const BatchLoss one = net_->loss_and_gradient({data_, rows_, ones}, {.zeta = 0.5}, 2);
  EXPECT_EQ(one.objective, plain.objective);
  EXPECT_EQ(copy_of(net_->gradient()), gradient);
  const BatchLoss two = net_->loss_and_gradient({data_, rows_, twos}, {.zeta = 0.5}, 2);
  EXPECT_EQ(two.cross_entropy, 2.0 * plain.cross_entropy);
  EXPECT_EQ(two.objective, 2.0 * plain.objective);
  for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(net_->gradient()[i], 2.0F * gradient[i]);
}

TEST_P(EveryNet, EvaluatesARowWhateverElseIsInTheBatch) {
  net_->loss_and_gradient({data_, rows_, {}}, {}, 1);
  const std::vector<float> buffers = copy_of(net_->buffers());
  const std::vector<float> together = logits_of(*net_, data_, rows_);
  EXPECT_EQ(copy_of(net_->buffers()), buffers);  // evaluation learns nothing
  for (const Index row : {Index{0}, Index{7}}) {
    const std::vector<float> alone = logits_of(*net_, data_, std::vector{row});
    for (Index c = 0; c < spec_.classes; ++c)
      EXPECT_NEAR(alone[c], together[row * spec_.classes + c], 1e-4);  // rounding alone: BLAS sums in another order
  }
}

/// Ten steps; the parameters after them.
std::vector<float> trained(const NetSpec& spec, const Dataset& data, std::uint64_t seed) {
  const auto net = make_net(spec, seed);
  Adam adam(net->parameters().size(), {});
  const std::vector<Index> rows = first_rows(data.size());
  for (std::uint64_t step = 0; step < 10; ++step) {
    net->loss_and_gradient({data, rows, {}}, {.zeta = 1.0}, step);
    adam.step(net->parameters(), net->gradient());
  }
  return copy_of(net->parameters());
}

TEST_P(EveryNet, TrainsToTheSameBitsAloneAndBesideAnother) {
  use_one_torch_thread();
  const std::vector<float> first = trained(spec_, data_, 1);
  const std::vector<float> second = trained(spec_, data_, 2);
  std::vector<float> first_again, second_again;
  std::thread one([&] { first_again = trained(spec_, data_, 1); });
  std::thread two([&] { second_again = trained(spec_, data_, 2); });
  one.join();
  two.join();
  EXPECT_EQ(first_again, first);
  EXPECT_EQ(second_again, second);
  if (GetParam().label != "torchscript") {  // which starts from the weights in its file
    EXPECT_NE(first, second);
  }
}

TEST_P(EveryNet, LearnsItsTrainingExamples) {
  Adam adam(net_->parameters().size(), {.learning_rate = 1e-2});
  const double before = net_->loss_and_gradient({data_, rows_, {}}, {}, 0).cross_entropy;
  for (std::uint64_t step = 1; step <= 30; ++step) {
    net_->loss_and_gradient({data_, rows_, {}}, {}, step);
    adam.step(net_->parameters(), net_->gradient());
  }
  EXPECT_LT(net_->loss_and_gradient({data_, rows_, {}}, {}, 0).cross_entropy, 0.5 * before);
}

INSTANTIATE_TEST_SUITE_P(Learning, EveryNet, testing::ValuesIn(every_net()),
                         [](const auto& each) { return each.param.label; });

std::vector<std::string> described(const Net& net) {
  std::vector<std::string> result;
  for (const TensorPlace& place : net.tensors())
    result.push_back(fmt::format("{} {}", place.name, fmt::join(place.shape, "x")));
  return result;
}

TEST(Nets, HaveTheParametersOfTheirPapers) {
  const ExampleShape mnist{1, 28, 28};
  EXPECT_EQ(make_net(spec_of("logistic", mnist, 10), 0)->parameters().size(), 7'850U);
  EXPECT_EQ(make_net(spec_of("mlp", mnist, 10), 0)->parameters().size(), 269'322U);
  EXPECT_EQ(make_net(spec_of("lenet", mnist, 10), 0)->parameters().size(), 44'426U);
}

TEST(ResNet18, HasTorchvisionsTensors) {
  const auto net = make_net(spec_of("resnet18", {3, 32, 32}, 10), 0);
  EXPECT_EQ(net->parameters().size(), 11'173'962U);
  // torchvision.models.resnet18(num_classes=10).state_dict() without num_batches_tracked; conv1 is 3 x 3 here.
  std::vector<std::string> expected = {"conv1.weight 64x3x3x3"};
  const auto norm = [&](const std::string& name, int width) {
    for (const char* part : {"weight", "bias", "running_mean", "running_var"})
      expected.push_back(fmt::format("{}.{} {}", name, part, width));
  };
  norm("bn1", 64);
  for (int layer = 1; layer <= 4; ++layer)
    for (int block = 0; block < 2; ++block) {
      const std::string name = fmt::format("layer{}.{}", layer, block);
      const int width = 32 << layer;
      const int from = layer > 1 && block == 0 ? width / 2 : width;
      expected.push_back(fmt::format("{}.conv1.weight {}x{}x3x3", name, width, from));
      norm(name + ".bn1", width);
      expected.push_back(fmt::format("{}.conv2.weight {}x{}x3x3", name, width, width));
      norm(name + ".bn2", width);
      if (from == width) continue;
      expected.push_back(fmt::format("{}.downsample.0.weight {}x{}x1x1", name, width, from));
      norm(name + ".downsample.1", width);
    }
  expected.insert(expected.end(), {"fc.weight 10x512", "fc.bias 10"});
  EXPECT_EQ(described(*net), expected);
  for (const TensorPlace& place : net->tensors()) {
    const bool norm_layer = place.name.find("bn") != std::string::npos || place.name.find("downsample.1") < 99;
    EXPECT_EQ(place.batch_norm, norm_layer) << place.name;
    EXPECT_EQ(place.buffer, place.name.find("running") != std::string::npos) << place.name;
  }
  // kaiming_normal over fan_out: the variance of layer4.1.conv2 is 2 / (512 9). Of 2.4e6 draws the mean square is
  // right to 4 sqrt(2 / 2.4e6) = 0.4 %.
  for (const TensorPlace& place : net->tensors()) {
    if (place.name != "layer4.1.conv2.weight") continue;
    const auto w = net->parameters().subspan(place.offset, 512 * 512 * 9);
    EXPECT_NEAR(dot(w, w) / static_cast<double>(w.size()) * 512 * 9 / 2, 1.0, 0.004);
  }
}

TEST(ResNet18, EvaluatesWithItsRunningStatistics) {
  const NetSpec spec = spec_of("resnet18", {3, 16, 16}, 4, {{"width", "4"}});
  const Dataset data = data_for(spec);
  const auto net = make_net(spec, 1);
  const std::vector<float> before = logits_of(*net, data, first_rows(4));
  for (float& value : net->buffers()) value += 0.5F;
  EXPECT_NE(logits_of(*net, data, first_rows(4)), before);
}

TEST(ResNet18, TrainsWithAnyNumberOfChannels) {
  // oneDNN has kernels of its own for few channels, some of which wrote past their buffers.
  for (const char* width : {"1", "2", "3", "5", "7", "8", "9", "12", "15", "16"}) {
    for (const int channels : {1, 3}) {
      const NetSpec spec = spec_of("resnet18", {channels, 16, 16}, 4, {{"width", width}});
      const Dataset data = data_for(spec);
      const auto net = make_net(spec, 1);
      const std::vector<Index> rows = first_rows(12);
      net->loss_and_gradient({data, rows, {}}, {}, 0);
      for (const float value : net->gradient()) ASSERT_TRUE(std::isfinite(value)) << width;
      for (const float value : logits_of(*net, data, rows)) ASSERT_TRUE(std::isfinite(value)) << width;
    }
  }
}

TEST(ResNet18, WithGroupNormsKnowsNothingOfTheRestOfABatch) {
  const NetSpec batch = spec_of("resnet18", {3, 16, 16}, 4, {{"width", "8"}});
  NetSpec group = batch;
  group.settings["norm"] = "group";
  const auto net = make_net(group, 1);
  EXPECT_TRUE(net->buffers().empty());
  EXPECT_EQ(net->parameters().size(), make_net(batch, 1)->parameters().size());
  for (const TensorPlace& place : net->tensors()) EXPECT_FALSE(place.batch_norm) << place.name;
  const Dataset data = data_for(group);
  // The loss of two examples is the mean of what each has alone, also while the net trains. With batch norms it is not.
  const auto loss = [&](const NetSpec& spec, const std::vector<Index>& rows) {
    return make_net(spec, 1)->loss_and_gradient({data, rows, {}}, {}, 0).cross_entropy;
  };
  const auto apart = [&](const NetSpec& spec) { return 0.5 * (loss(spec, {0}) + loss(spec, {1})); };
  EXPECT_NEAR(loss(group, {0, 1}), apart(group), 1e-4);
  EXPECT_GT(std::abs(loss(batch, {0, 1}) - apart(batch)), 1e-2);
}

TEST(ResNet18, MovesItsRunningStatisticsByATenth) {
  const NetSpec spec = spec_of("resnet18", {3, 16, 16}, 4, {{"width", "4"}});
  const Dataset data = data_for(spec);
  const auto net = make_net(spec, 1);
  const std::vector<Index> rows = first_rows(12);
  net->loss_and_gradient({data, rows, {}}, {}, 0);
  const float once = net->buffers()[0];  // 0.1 mean, from 0
  net->loss_and_gradient({data, rows, {}}, {}, 0);
  EXPECT_NEAR(net->buffers()[0], 1.9F * once, 1e-6);
}

TEST(Linear, StartsUniformBelowOneOverTheRootOfItsInputs) {
  const auto net = make_net(spec_of("mlp", {1, 28, 28}, 10), 3);
  const auto w = net->parameters().first(784 * 256);
  const double bound = 1.0 / 28.0;
  const auto [low, high] = std::ranges::minmax(w);
  // The extremes of 2e5 draws miss the bound by 1e-5 of it each, and by 1e-4 once in e^-10.
  EXPECT_NEAR(low, -bound, 1e-4 * bound);
  EXPECT_NEAR(high, bound, 1e-4 * bound);
  // Mean square bound^2 / 3, standard error sqrt(4 / 45 / 2e5) bound^2 = 6.7e-4 bound^2; four of them.
  EXPECT_NEAR(dot(w, w) / static_cast<double>(w.size()) / (bound * bound), 1.0 / 3.0, 2.7e-3);
}

TEST(Loss, IsCrossEntropyPlusZetaOmega) {
  const NetSpec spec = spec_of("mlp", {1, 7, 7}, 4, {{"dropout", "0"}});
  const Dataset data = data_for(spec);
  const auto net = make_net(spec, 4);
  const std::vector<Index> rows = {3, 0, 5};
  const std::vector<float> weights = {2.0F, 0.0F, 0.5F};
  const std::vector<float> z = logits_of(*net, data, rows);
  double cross_entropy = 0.0, omega = 0.0;
  for (int i = 0; i < 3; ++i) {
    double sum = 0.0;
    for (int c = 0; c < 4; ++c) sum += std::exp(z[4 * i + c]);
    for (int c = 0; c < 4; ++c) {
      const double phi = std::exp(z[4 * i + c]) / sum;
      omega += weights[i] * phi * std::log(phi) / 3.0;
      if (c == data.labels[rows[i]]) cross_entropy -= weights[i] * std::log(phi) / 3.0;
    }
  }
  const BatchLoss loss = net->loss_and_gradient({data, rows, weights}, {.zeta = 0.3}, 0);
  EXPECT_NEAR(loss.cross_entropy, cross_entropy, 1e-6);
  EXPECT_NEAR(loss.objective, cross_entropy + 0.3 * omega, 1e-6);
  const BatchLoss plain = net->loss_and_gradient({data, rows, weights}, {.zeta = 0.0}, 0);
  EXPECT_EQ(plain.objective, plain.cross_entropy);
}

TEST(Loss, StaysFiniteForHugeLogits) {
  Dataset data{.labels = {0, 1}};
  const std::vector<Index> rows = {0, 1};
  const std::vector<float> z = {300.0F, -300.0F, 300.0F, -300.0F};
  std::vector<float> slope(4);
  const BatchLoss loss = loss_at_logits({data, rows, {}}, {.zeta = 1.0}, 2, z.data(), slope.data());
  EXPECT_NEAR(loss.objective, 300.0, 1e-9);  // half of 600, which the second example costs
  EXPECT_THAT(slope, testing::Pointwise(testing::FloatNear(1e-6F), {0.0F, 0.0F, 0.5F, -0.5F}));
}

TEST(Loss, LeavesClassesOutAsIfThereWereNoneOfThem) {
  Dataset data{.labels = {2, 0}}, fewer{.labels = {1, 0}};
  const std::vector<Index> rows = {0, 1};
  const std::vector<float> z = {0.5F, 90.0F, -1.0F, 7.0F, 1.5F, 8.0F, 0.25F, -3.0F};
  const std::vector<float> kept = {0.5F, -1.0F, 1.5F, 0.25F}, offsets = {0.0F, kLeftOut, 0.0F, kLeftOut};
  std::vector<float> slope(8), few(4);
  const BatchLoss loss = loss_at_logits({data, rows, {}}, {.zeta = 1.0, .offsets = offsets}, 4, z.data(), slope.data());
  const BatchLoss plain = loss_at_logits({fewer, rows, {}}, {.zeta = 1.0}, 2, kept.data(), few.data());
  EXPECT_EQ(loss.objective, plain.objective);
  EXPECT_EQ(loss.cross_entropy, plain.cross_entropy);
  EXPECT_THAT(slope, testing::ElementsAre(few[0], 0.0F, few[1], 0.0F, few[2], 0.0F, few[3], 0.0F));
}

TEST(Dropout, DropsTheSameUnitsForTheSameNoise) {
  const NetSpec spec = spec_of("mlp", {1, 7, 7}, 4);
  const Dataset data = data_for(spec);
  const std::vector<Index> rows = first_rows(12);
  const auto net = make_net(spec, 4);
  const auto loss = [&](std::uint64_t noise) {
    return net->loss_and_gradient({data, rows, {}}, {}, noise).cross_entropy;
  };
  const double seven = loss(7);
  EXPECT_NE(loss(8), seven);
  EXPECT_EQ(loss(7), seven);
}

TEST(Dropout, IsOffInEvaluation) {
  const Dataset data = data_for(spec_of("mlp", {1, 7, 7}, 4));
  const auto with = make_net(spec_of("mlp", {1, 7, 7}, 4), 4);
  const auto without = make_net(spec_of("mlp", {1, 7, 7}, 4, {{"dropout", "0"}}), 4);
  with->loss_and_gradient({data, first_rows(12), {}}, {}, 0);
  EXPECT_EQ(logits_of(*with, data, first_rows(12)), logits_of(*without, data, first_rows(12)));
}

TEST(Dropout, DropsItsShareOfEveryLayerIndependently) {
  constexpr Index kCount = 1'000'000;
  std::vector<float> one(kCount), two(kCount);
  double zeros = 0.0, both = 0.0, neighbours = 0.0;
  dropout_mask(0.2, 9, 1, one);
  dropout_mask(0.2, 9, 2, two);
  for (Index i = 0; i < kCount; ++i) {
    EXPECT_TRUE(one[i] == 0.0F || one[i] == 1.25F);
    zeros += one[i] == 0.0F;
    both += one[i] == 0.0F && two[i] == 0.0F;
    neighbours += i > 0 && one[i] == 0.0F && one[i - 1] == 0.0F;
  }
  // Four standard errors: 4 sqrt(0.16 / 1e6) and 4 sqrt(0.04 0.96 / 1e6), the last a little more as pairs overlap.
  EXPECT_NEAR(zeros / kCount, 0.2, 1.6e-3);
  EXPECT_NEAR(both / kCount, 0.04, 8e-4);
  EXPECT_NEAR(neighbours / kCount, 0.04, 1e-3);
}

TEST(Input, IsNormalisedChannelByChannelInTheOrderOfTheRows) {
  const NetSpec spec{.name = "logistic",
                     .shape = {2, 1, 2},
                     .classes = 2,
                     .normalisation = {.mean = {1.0F, 10.0F}, .scale = {0.5F, 2.0F}}};
  const Dataset bytes{.shape = {2, 1, 2}, .values = std::vector<std::uint8_t>{1, 3, 10, 11, 5, 255, 9, 10}};
  std::vector<float> out(8);
  gather_input(spec, bytes, std::vector<Index>{1, 0}, out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 127, -2, 0, 0, 1, 0, 2}));
}

TEST(Input, OfATableIsNormalisedColumnByColumn) {
  const NetSpec spec{
      .name = "logistic", .shape = {1, 1, 3}, .classes = 2, .normalisation = {.mean = {1, 2, 3}, .scale = {1, 2, 4}}};
  const Dataset table{.shape = {1, 1, 3}, .values = std::vector<float>{2, 3, 4}};
  std::vector<float> out(3);
  gather_input(spec, table, std::vector<Index>{0}, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, 2, 4}));
}

TEST(Input, IsTakenAsItIsWithoutANormalisation) {
  const NetSpec spec{.name = "logistic", .shape = {1, 1, 3}, .classes = 2};
  const Dataset table{.shape = {1, 1, 3}, .values = std::vector<float>{2, 3, 4}};
  std::vector<float> out(3);
  gather_input(spec, table, std::vector<Index>{0}, out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 3, 4}));
}

TEST(TorchScript, KeepsItsNamesWeightsAndBatchNorm) {
  const auto net = make_net(spec_of(kReference + "/small.pt", {1, 8, 8}, 3), 0);
  EXPECT_EQ(described(*net),
            (std::vector<std::string>{"conv.weight 4x1x3x3", "conv.bias 4", "norm.weight 4", "norm.bias 4",
                                      "norm.running_mean 4", "norm.running_var 4", "fc.weight 3x144", "fc.bias 3"}));
  for (const TensorPlace& place : net->tensors()) EXPECT_EQ(place.batch_norm, place.name.starts_with("norm"));
  EXPECT_EQ(net->buffers()[4], 1.0F);  // a variance
}

TEST(Denormals, AreFlushedOnTheThreadThatAsksAlone) {
  const auto half_of_the_smallest = [] {
    const volatile float smallest = std::numeric_limits<float>::min();
    return smallest * 0.5F;
  };
  float flushed = 1.0F;
  std::thread([&] {
    flush_denormals_on_this_thread();
    flushed = half_of_the_smallest();
  }).join();
  EXPECT_EQ(flushed, 0.0F);
  EXPECT_GT(half_of_the_smallest(), 0.0F);
}

class NetErrors : public Scratch {
 protected:
  void expect(ErrorKind kind, const std::string& message, const NetSpec& spec) const {
    expect_error(kind, message, [&] { make_net(spec, 0); });
  }
};

TEST_F(NetErrors, NameWhatIsKnown) {
  expect(ErrorKind::kUsage,
         "unknown net \"lenett\"; did you mean \"lenet\"? (known: logistic, mlp, lenet, resnet18, the path of a "
         "TorchScript file)",
         spec_of("lenett", {1, 28, 28}, 10));
  expect(ErrorKind::kUsage, "unknown setting of mlp \"hiden\"; did you mean \"hidden\"? (known: hidden, dropout)",
         spec_of("mlp", {1, 28, 28}, 10, {{"hiden", "3"}}));
  expect(ErrorKind::kUsage, "width is \"0\", not a number from 1 to 1024",
         spec_of("resnet18", {3, 32, 32}, 10, {{"width", "0"}}));
}

TEST_F(NetErrors, SayWhichImagesDoNotFit) {
  expect(ErrorKind::kInput, "lenet needs images of at least 16 x 16, but the examples are 1 x 20; use mlp or logistic",
         spec_of("lenet", {1, 1, 20}, 2));
  expect(ErrorKind::kInput,
         "resnet18 needs images of at least 16 x 16, but the examples are 16 x 15; use mlp or logistic",
         spec_of("resnet18", {3, 16, 15}, 2));
}

TEST_F(NetErrors, SayThatThereIsNoCuda) {
  expect_error(ErrorKind::kUsage, "there is no CUDA device that this LibTorch can use", [] {
    make_net(spec_of("logistic", {1, 2, 2}, 2), 0, Device::kCuda);
  });
}

TEST_F(NetErrors, SayWhatIsWrongWithATorchScriptFile) {
  expect(ErrorKind::kInput, "cannot read DIR/none.pt: no such file or directory; check the path",
         spec_of(path("none.pt"), {1, 8, 8}, 3));
  expect(ErrorKind::kInput,
         "DIR/text.pt is not a TorchScript file; write one with torch.jit.script(model).save(\"DIR/text.pt\")",
         spec_of(file("text.pt", "no model"), {1, 8, 8}, 3));
  const std::string small = kReference + "/small.pt";
  expect(ErrorKind::kInput,
         small +
             " returns Float of shape (2, 3) for 2 examples, not floats of shape (2, 10); it must return one logit "
             "a class",
         spec_of(small, {1, 8, 8}, 10));
  expect(ErrorKind::kUsage, small + " has no settings, so \"hidden\" cannot be set",
         spec_of(small, {1, 8, 8}, 3, {{"hidden", "2"}}));
  const std::string frozen = kReference + "/frozen.pt";
  expect(ErrorKind::kInput, frozen + " has no parameters to train; save the model before torch.jit.freeze",
         spec_of(frozen, {1, 1, 4}, 3));
}

TEST_F(NetErrors, QuoteLibTorchWhereATorchScriptNetFails) {
  const std::string small = kReference + "/small.pt";
  try {
    make_net(spec_of(small, {2, 8, 8}, 3), 0);
    ADD_FAILURE() << "two channels fit a net of one";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), testing::StartsWith(small + " cannot compute examples of shape (1, 2, 8, 8): "));
    EXPECT_THAT(error.what(), testing::HasSubstr("to have 1 channels, but got 2 channels"));
    EXPECT_THAT(error.what(), testing::EndsWith("; export a model that takes this shape"));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
}

TEST_F(NetErrors, SayWhichLabelIsNotAClass) {
  const NetSpec spec = spec_of("logistic", {1, 2, 2}, 2);
  const auto net = make_net(spec, 0);
  Dataset data = noise_images(3, spec.shape, 3);
  expect_error(ErrorKind::kInput,
               "example 2 has the label 2, but the net has 2 classes, 0 to 1; make a net with an output a class", [&] {
                 net->loss_and_gradient({data, first_rows(3), {}}, {}, 0);
               });
  data.labels.clear();
  expect_error(ErrorKind::kInput, "the data set has no labels, so nothing can be trained on it; give labelled data",
               [&] {
                 net->loss_and_gradient({data, first_rows(3), {}}, {}, 0);
               });
  data.shape = {1, 4, 1};
  expect_error(
      ErrorKind::kInput,
      "the examples are 1 x 4 x 1 (channels x height x width), but the net was made for 1 x 2 x 2; use data of "
      "the shape it was trained on",
      [&] { logits_of(*net, data, first_rows(1)); });
}

}  // namespace
}  // namespace labelshift
