#include "labelshift/federation/mixture_weights.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "tests/federation/mixture_reference.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

struct Found {
  VectorXd alpha;  // (K)
  int questions = 0;
};

/// As a coordinator and nodes find it, `counts` (K, m) being the nodes' examples.
Found search(const MatrixXd& counts, const VectorXd& target, double lambda) {
  MixtureSearch search(target, counts.sum(), lambda);
  Found found{VectorXd::Zero(counts.rows())};
  while (!search.done()) {
    Mixture::MixtureSums sums = Mixture::MixtureSums::zero(counts.cols());
    for (Index k = 0; k < counts.rows(); ++k) {
      const Mixture::MixtureSums one = mixture_sums(search.question(), counts.row(k).transpose());
      found.alpha[k] = one.weight;
      sums.weight += one.weight;
      sums.mix += one.mix;
      sums.moving += one.moving;
      sums.moving_mix += one.moving_mix;
      sums.moving_square += one.moving_square;
    }
    search.take(sums);
  }
  found.questions = search.questions();
  return found;
}

TEST(MixtureWeights, AreThoseThatMinimiseTheDistanceAndThePenalty) {
  Rng rng(3);
  for (int run = 0; run < 200; ++run) {
    const Index nodes = 2 + static_cast<Index>(rng.below(5)), classes = 2 + static_cast<Index>(rng.below(4));
    MatrixXd counts(nodes, classes);
    VectorXd target(classes);
    for (double& count : counts.reshaped())
      count = rng.uniform() < 0.3 ? 0.0 : 1.0 + static_cast<double>(rng.below(900));
    counts.col(0).array() += 1.0;
    for (double& share : target) share = rng.uniform() < 0.3 ? 0.0 : rng.uniform();
    target[classes - 1] += 0.1;
    target /= target.sum();
    const double lambda = std::pow(10.0, -3.0 + 8.0 * rng.uniform());
    const Found found = search(counts, target, lambda);
    const VectorXd alpha = reference::mixture_weights(counts, target, lambda);
    // The gradient is 0 to 1e-8; along a direction in which the objective is as flat as lambda / n, alpha may be off by
    // n / lambda times that, and rounding by as much.
    const double tolerance = 1e-7 + 1e-8 * counts.sum() / lambda;
    if (tolerance < 0.02) {
      EXPECT_LT((found.alpha - alpha).lpNorm<Eigen::Infinity>(), tolerance) << run;
    }
    const auto value = [&](const VectorXd& a) {
      const VectorXd n = counts.rowwise().sum();
      return (counts.transpose() * a.cwiseQuotient(n) - target).squaredNorm() +
             lambda * a.cwiseAbs2().cwiseQuotient(n).sum();
    };
    EXPECT_NEAR(value(found.alpha / found.alpha.sum()), value(alpha), 1e-6 * (1.0 + value(alpha))) << run;
    EXPECT_NEAR(found.alpha.sum(), 1.0, 1e-6) << run;
    EXPECT_LE(found.questions, 60) << run;
  }
}

TEST(MixtureWeights, AreTheSharesOfExamplesWhereUnevenOnesCostMuch) {
  const MatrixXd counts{{30, 10}, {5, 15}};
  const Found found = search(counts, Eigen::Vector2d(0.1, 0.9), 1e12);
  EXPECT_NEAR(found.alpha[0], 40.0 / 60.0, 1e-8);
  EXPECT_NEAR(found.alpha[1], 20.0 / 60.0, 1e-8);
}

TEST(MixtureWeights, BringTheMixToTheTargetWhereItIsAmongTheNodes) {
  // Mixes of 3/4 and 1/4 of the first class: of a target of 1/2 each has half, whatever their sizes.
  const MatrixXd counts{{300, 100}, {10, 30}};
  const Found found = search(counts, Eigen::Vector2d(0.5, 0.5), 1e-3);
  EXPECT_NEAR(found.alpha[0], 0.5, 1e-3);  // lambda / n_k over |p_1 - p_2|^2
  // Beyond the mixes of all nodes the nearest has it all.
  EXPECT_NEAR(search(counts, Eigen::Vector2d(0.9, 0.1), 1e-3).alpha[0], 1.0, 1e-6);
}

TEST(MixtureWeights, AreFoundInAFewQuestionsForManyNodes) {
  Rng rng(4);
  MatrixXd counts(200, 10);
  VectorXd target = VectorXd::Zero(10);
  for (Index k = 0; k < 200; ++k)
    for (Index c = 0; c < 10; ++c) counts(k, c) = c == k % 10 ? 237.0 : 1.0;
  for (Index c = 0; c < 5; ++c) target[c] = rng.uniform();
  target /= target.sum();
  for (const double lambda : {1e-3, 1.0, 1e3, 1e6}) {
    const Found found = search(counts, target, lambda);
    EXPECT_LE(found.questions, 40) << lambda;
    EXPECT_NEAR(found.alpha.sum(), 1.0, 1e-6);
    for (Index k = 0; k < 200; ++k) EXPECT_NEAR(found.alpha[k], found.alpha[k % 10], 1e-12);
  }
}

TEST(MixtureWeights, AreGivenUpWhereAnswersMakeNoSense) {
  MixtureSearch search(Eigen::Vector2d(0.5, 0.5), 60.0, 1.0);
  Mixture::MixtureSums sums = Mixture::MixtureSums::zero(2);
  try {
    for (int i = 0; i < 1000; ++i) search.take(sums);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_THAT(error.what(), testing::HasSubstr("after 500 questions the nodes have no weights"));
  }
}

}  // namespace
}  // namespace labelshift
