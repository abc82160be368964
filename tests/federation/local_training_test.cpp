#include "labelshift/federation/local_training.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/learning/net.hpp"
#include "tests/federation/gaussian_federation.hpp"

namespace labelshift {
namespace {

const std::atomic<bool> kGoOn{false};

TEST(BatchOrder, HasNoExampleTwiceUntilAllAreUsed) {
  BatchOrder order(10, 3);
  std::set<Index> seen;
  for (int i = 0; i < 3; ++i)
    for (const Index at : order.next(3)) EXPECT_TRUE(seen.insert(at).second);
  EXPECT_EQ(seen.size(), 9u);
  const auto fresh = order.next(3);  // one is left, which is not enough: a new order
  EXPECT_EQ(fresh.size(), 3u);
}

TEST(BatchOrder, UsesAnOrderUpToItsLastBatch) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    BatchOrder order(9, seed);
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::set<Index> seen;
      for (int i = 0; i < 3; ++i)
        for (const Index at : order.next(3)) seen.insert(at);
      EXPECT_EQ(seen.size(), 9u);
    }
  }
}

TEST(BatchOrder, GivesAllThereAreWhereABatchIsLarger) {
  BatchOrder order(3, 0);
  const auto batch = order.next(64);
  EXPECT_EQ(std::set<Index>(batch.begin(), batch.end()).size(), 3u);
}

TEST(BatchOrder, AnEpochHasEveryExampleOnceAndNoBatchOfOne) {
  BatchOrder order(9, 5);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::multiset<Index> seen;
    std::vector<std::size_t> sizes;
    for (auto batch = order.next_of_epoch(4); !batch.empty(); batch = order.next_of_epoch(4)) {
      seen.insert(batch.begin(), batch.end());
      sizes.push_back(batch.size());
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{4, 5}));
    EXPECT_EQ(std::set<Index>(seen.begin(), seen.end()).size(), 9u);
    EXPECT_EQ(seen.size(), 9u);
  }
}

TEST(BatchOrder, DrawsEveryExampleEquallyOften) {
  // 4,000 first examples of 8: each is a binomial of mean 500 and standard deviation 21; 5 of these are 105.
  std::vector<int> counts(8);
  for (std::uint64_t seed = 0; seed < 4000; ++seed) ++counts[BatchOrder(8, seed).next(1)[0]];
  for (const int count : counts) EXPECT_NEAR(count, 500, 105);
}

class LocalTraining : public testing::Test {
 protected:
  LocalTraining()
      : data_(gaussian_examples({40, 30, 20}, 1)),
        rows_(all_rows(90)),
        net_(make_net({.name = "logistic", .shape = data_->shape, .classes = 3}, 5)) {}

  LocalLoss loss() const { return {.data = *data_, .rows = rows_}; }
  std::vector<float> weights() { return {net_->parameters().begin(), net_->parameters().end()}; }

  std::unique_ptr<Dataset> data_;
  std::vector<Index> rows_;
  std::unique_ptr<Net> net_;
};

TEST_F(LocalTraining, OfOneStepSendsTheGradientAndLeavesTheWeights) {
  const std::vector<float> before = weights();
  const LocalUpdate update = local_training(*net_, loss(), {.batch = 90}, 7, kGoOn);
  EXPECT_EQ(weights(), before);
  const std::vector<float> sent(update.update(*net_).begin(), update.update(*net_).end());
  EXPECT_NEAR(update.loss, net_->loss_and_gradient({*data_, rows_, {}}, {}, 0).objective, 1e-6);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(sent[i], net_->gradient()[i], 1e-6);
}

TEST_F(LocalTraining, WeighsEachExampleByItsClassAndDividesByTheBatch) {
  const std::vector<float> ratio{2.0F, 0.0F, 5.0F};
  LocalLoss weighted = loss();
  weighted.class_weights = ratio;
  const LocalUpdate update = local_training(*net_, weighted, {.batch = 90}, 7, kGoOn);
  // (IW-ERM) by hand: classes apart, each a mean over its own examples; (40 * 2 * mean_a + 20 * 5 * mean_c) / 90.
  const std::vector<float> sent(update.update(*net_).begin(), update.update(*net_).end());
  std::vector<double> expected(sent.size());
  for (const auto& [first, count, weight] : {std::tuple{0, 40, 2.0}, std::tuple{70, 20, 5.0}}) {
    net_->loss_and_gradient({*data_, std::span(rows_).subspan(first, count), {}}, {}, 0);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] += weight * count / 90.0 * static_cast<double>(net_->gradient()[i]);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(sent[i], expected[i], 1e-5);
}

TEST_F(LocalTraining, OfSeveralStepsSendsWhatTheyTookAway) {
  const std::vector<float> before = weights();
  const LocalUpdate update =
      local_training(*net_, loss(), {.steps = 2, .batch = 90, .learning_rate = 0.5, .weight_decay = 0.1}, 7, kGoOn);
  const std::vector<float> after = weights();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(update.taken[i], before[i] - after[i]);
  EXPECT_EQ(update.steps, 2);
  // Two steps by hand, with the whole node as a batch.
  std::copy(before.begin(), before.end(), net_->parameters().begin());
  double losses = 0.0;
  for (int step = 0; step < 2; ++step) {
    losses += net_->loss_and_gradient({*data_, rows_, {}}, {}, 0).objective;
    for (std::size_t i = 0; i < before.size(); ++i)
      net_->parameters()[i] -= 0.5F * (net_->gradient()[i] + 0.1F * net_->parameters()[i]);
  }
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], net_->parameters()[i], 1e-5);
  EXPECT_NEAR(update.loss, losses / 2.0, 1e-6);
}

TEST_F(LocalTraining, AnEpochIsAsManyStepsAsThereAreBatches) {
  EXPECT_EQ(local_training(*net_, loss(), {.epochs = 2, .batch = 40}, 7, kGoOn).steps, 2 * 3);
}

TEST_F(LocalTraining, AProximalTermKeepsTheWeightsNear) {
  const std::vector<float> start = weights();
  const auto distance = [&](double mu) {
    std::copy(start.begin(), start.end(), net_->parameters().begin());
    const LocalUpdate update =
        local_training(*net_, loss(), {.steps = 200, .batch = 30, .learning_rate = 0.1, .proximal = mu}, 7, kGoOn);
    double sum = 0.0;
    for (const float value : update.taken) sum += value * value;
    return std::sqrt(sum);
  };
  const double free = distance(0.0);
  EXPECT_LT(distance(1.0), 0.7 * free);
  EXPECT_LT(distance(8.0), 0.2 * free);
}

TEST_F(LocalTraining, ACorrectionIsAddedToEveryGradient) {
  const std::vector<float> start = weights();
  const std::vector<float> correction(start.size(), 2.0F);
  LocalLoss corrected = loss();
  corrected.correction = correction;
  // Two steps of 1e-6 along a gradient that is 2 more take 4e-6 more away.
  const LocalUpdate plain = local_training(*net_, loss(), {.steps = 2, .batch = 90, .learning_rate = 1e-6}, 7, kGoOn);
  std::copy(start.begin(), start.end(), net_->parameters().begin());
  const LocalUpdate one = local_training(*net_, corrected, {.steps = 2, .batch = 90, .learning_rate = 1e-6}, 7, kGoOn);
  for (std::size_t i = 0; i < start.size(); ++i) EXPECT_NEAR(one.taken[i] - plain.taken[i], 4e-6, 1e-6);
}

TEST_F(LocalTraining, TheSameSeedGivesTheSameBits) {
  const std::vector<float> start = weights();
  const LocalSettings settings{.steps = 5, .batch = 8};
  const LocalUpdate one = local_training(*net_, loss(), settings, 7, kGoOn);
  std::copy(start.begin(), start.end(), net_->parameters().begin());
  EXPECT_EQ(local_training(*net_, loss(), settings, 7, kGoOn).taken, one.taken);
  std::copy(start.begin(), start.end(), net_->parameters().begin());
  EXPECT_NE(local_training(*net_, loss(), settings, 8, kGoOn).taken, one.taken);
}

TEST_F(LocalTraining, StopsWhereItIsCancelled) {
  const std::atomic<bool> cancelled{true};
  EXPECT_THROW(local_training(*net_, loss(), {.steps = 1'000'000}, 7, cancelled), Stopped);
}

TEST_F(LocalTraining, RefusesALossThatIsNotFinite) {
  std::get<std::vector<float>>(data_->values)[0] = INFINITY;
  try {
    local_training(*net_, loss(), {.batch = 90}, 7, kGoOn);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("smaller learning rate"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace labelshift
