#include "labelshift/core/estimators/shared_prior.hpp"

#include <gtest/gtest.h>

#include <boost/math/distributions/beta.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "labelshift/core/estimators/mlls_sqp.hpp"

namespace labelshift {
namespace {

using boost::math::digamma;
using Eigen::Index;
using Eigen::Vector2d;
using Eigen::Vector3d;
using Eigen::VectorXd;

constexpr Index kClasses = 5;
constexpr double kRadius = 0.8;

/// The likelihoods of examples around points on a circle, for draws of a class: the best classifier is right for about
/// half of an even mix.
RowMajorMatrix<float> examples_of(const std::vector<int>& labels, Rng& rng) {
  RowMajorMatrix<float> rows(std::ssize(labels), kClasses);
  const auto place = [](Index c) { return 6.283185307179586 * static_cast<double>(c) / kClasses; };
  for (Index i = 0; i < rows.rows(); ++i) {
    const double x = kRadius * std::cos(place(labels[i])) + rng.normal(),
                 y = kRadius * std::sin(place(labels[i])) + rng.normal();
    for (Index c = 0; c < kClasses; ++c)
      rows(i, c) = static_cast<float>(std::exp(
          -0.5 * (std::pow(x - kRadius * std::cos(place(c)), 2) + std::pow(y - kRadius * std::sin(place(c)), 2))));
  }
  return rows;
}

struct Node {
  RowMajorMatrix<float> rows;
  VectorXd law;     // (m) that its labels were drawn from
  VectorXd counts;  // (m) their shares
};

std::vector<Node> nodes_of(int nodes, int examples, Rng& rng, const std::function<VectorXd(int k)>& law_of) {
  std::vector<Node> result;
  for (int k = 0; k < nodes; ++k) {
    const VectorXd law = law_of(k);
    VectorXd counts = VectorXd::Zero(kClasses);
    std::vector<int> labels;
    for (int i = 0; i < examples; ++i) {
      double u = rng.uniform();
      int label = 0;
      while (label + 1 < kClasses && u >= law[label]) u -= law[label++];
      labels.push_back(label);
      counts[label] += 1.0 / examples;
    }
    result.push_back({examples_of(labels, rng), law, counts});
  }
  return result;
}

std::vector<Node> drawn_nodes(const VectorXd& alpha, int nodes, int examples, std::uint64_t seed) {
  Rng rng(seed);
  return nodes_of(nodes, examples, rng, [&](int) {
    VectorXd law(kClasses);
    for (Index c = 0; c < kClasses; ++c) law[c] = alpha[c] > 0.0 ? rng.gamma(alpha[c]) : 0.0;
    return VectorXd(law / law.sum());
  });
}

PooledMix pooled_of(const std::vector<Node>& nodes) {
  PooledMix pooled(kClasses);
  while (const auto mix = pooled.next()) {
    MixShares mean{VectorXd::Zero(kClasses), Eigen::MatrixXd::Zero(kClasses, kClasses)};
    for (const Node& node : nodes) {
      const MixShares of_one = mix_shares(node.rows, *mix);
      mean.shares += of_one.shares / static_cast<double>(nodes.size());
      mean.products += of_one.products / static_cast<double>(nodes.size());
    }
    pooled.take(mean);
  }
  return pooled;
}

struct Found {
  std::vector<MixPosterior> posteriors;
  VectorXd alpha;
};

Found shared(const std::vector<Node>& nodes) {
  VectorXd alpha = first_prior(pooled_of(nodes).mix());
  for (std::uint64_t step = 0; step < kPriorSteps; ++step) {
    VectorXd logs = VectorXd::Zero(kClasses);
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      Rng rng(1000 + k, step);
      logs += mix_posterior(nodes[k].rows, alpha, kSearchSweeps, rng).mean_log / static_cast<double>(nodes.size());
    }
    alpha = fit_dirichlet(logs, alpha);
  }
  Found found{.posteriors = {}, .alpha = alpha};
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    Rng rng(1000 + k, 99);
    found.posteriors.push_back(mix_posterior(nodes[k].rows, alpha, kFinalSweeps, rng));
  }
  return found;
}

VectorXd alone(const Node& node) {
  const VectorXd uniform = VectorXd::Constant(kClasses, 1.0 / kClasses);
  RowMajorMatrix<double> probs = node.rows.cast<double>();
  for (Index i = 0; i < probs.rows(); ++i) probs.row(i) /= probs.row(i).sum();
  return MllsSqp().estimate({.label_prior = uniform}, {.probs = Probabilities(probs)}).ratio.cwiseProduct(uniform);
}

struct Errors {
  double node = 0.0;  // mean |q_k - truth|_1
  double sum = 0.0;   // of the mean over nodes
};

Errors errors_of(const std::vector<Node>& nodes, const std::function<VectorXd(std::size_t)>& estimate) {
  Errors errors;
  VectorXd sum = VectorXd::Zero(kClasses);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const VectorXd off = estimate(k) - nodes[k].counts;
    errors.node += off.lpNorm<1>() / static_cast<double>(nodes.size());
    sum += off / static_cast<double>(nodes.size());
  }
  errors.sum = sum.lpNorm<1>();
  return errors;
}

TEST(SharedPrior, HasLessNoiseWhereAClassIsNowhere) {
  VectorXd alpha = VectorXd::Ones(kClasses);
  alpha.tail(2).setZero();
  const std::vector<Node> nodes = drawn_nodes(alpha, 100, 40, 7);
  const Found found = shared(nodes);
  const Errors with = errors_of(nodes, [&](std::size_t k) { return found.posteriors[k].mean; });
  const Errors without = errors_of(nodes, [&](std::size_t k) { return alone(nodes[k]); });
  // Alone every node gives some of its examples to classes that nobody meets, and these errors add up.
  EXPECT_GT(without.sum, 0.15);
  EXPECT_LT(with.sum, 0.4 * without.sum);
  EXPECT_LT(with.node, 0.8 * without.node);
  EXPECT_LT(found.alpha.tail(2).maxCoeff(), 0.05);
  for (const MixPosterior& one : found.posteriors) EXPECT_EQ(one.low[4], 0.0);
  for (Index c = 0; c < 3; ++c) EXPECT_NEAR(std::log(found.alpha[c]), 0.0, 0.7) << c;
}

TEST(SharedPrior, LeavesNodesThatDifferTheirOwnMixes) {
  // As in the paper's partition of 100 nodes.
  Rng rng(8);
  const std::vector<Node> nodes = nodes_of(100, 100, rng, [](int k) {
    VectorXd law = VectorXd::Constant(kClasses, 0.05 / (kClasses - 1));
    law[k % kClasses] = 0.95;
    return law;
  });
  const Found found = shared(nodes);
  const Errors with = errors_of(nodes, [&](std::size_t k) { return found.posteriors[k].mean; });
  const Errors without = errors_of(nodes, [&](std::size_t k) { return alone(nodes[k]); });
  EXPECT_LT(with.node, 0.85 * without.node);
  EXPECT_LT(with.sum, without.sum + 0.02);
  EXPECT_LT(found.alpha.sum(), 1.0);
}

TEST(SharedPrior, HasIntervalsThatHoldTheTruthAsOftenAsTheySay) {
  const std::vector<Node> nodes = drawn_nodes(VectorXd::Constant(kClasses, 0.8), 200, 40, 9);
  const Found found = shared(nodes);
  int held = 0;
  double width = 0.0;
  for (std::size_t k = 0; k < nodes.size(); ++k)
    for (Index c = 0; c < kClasses; ++c) {
      const MixPosterior& one = found.posteriors[k];
      held += static_cast<int>(one.low[c] <= nodes[k].law[c] && nodes[k].law[c] <= one.high[c]);
      width += (one.high[c] - one.low[c]) / 1000.0;
    }
  // 1,000 intervals of 200 independent nodes: one node's five hold together at worst, a standard error of 1.5 %.
  EXPECT_GE(held, 905);
  EXPECT_LE(held, 985);
  EXPECT_LT(width, 0.5);
}

TEST(SharedPrior, NodesCountTheSameInThePooledMix) {
  std::vector<Node> nodes = drawn_nodes(VectorXd::Ones(kClasses), 1, 400, 10);
  nodes.push_back(drawn_nodes(VectorXd::Constant(kClasses, 0.1), 1, 40, 11)[0]);
  const PooledMix pooled = pooled_of(nodes);
  // Of the mean over nodes of the mean over rows of log(a . q) the certificate is that of Eq. (3).
  VectorXd gradient = VectorXd::Zero(kClasses);
  for (const Node& node : nodes) gradient += 0.5 * mix_shares(node.rows, pooled.mix()).shares;
  gradient.array() /= pooled.mix().array();
  EXPECT_LE(gradient.maxCoeff() - 1.0, 1e-3);
  EXPECT_NEAR(pooled.mix().sum(), 1.0, 1e-12);
}

TEST(PooledMix, ComesToAnEndAtClassesThatNobodyMeets) {
  VectorXd alpha = VectorXd::Zero(kClasses);
  alpha[2] = 1.0;
  const std::vector<Node> nodes = drawn_nodes(alpha, 20, 40, 12);
  int asked = 0;
  PooledMix pooled(kClasses);
  while (const auto mix = pooled.next()) {
    ASSERT_LE(++asked, 8);
    ASSERT_GT(mix->minCoeff(), 0.0);
    MixShares mean{VectorXd::Zero(kClasses), Eigen::MatrixXd::Zero(kClasses, kClasses)};
    for (const Node& node : nodes) {
      mean.shares += mix_shares(node.rows, *mix).shares / 20.0;
      mean.products += mix_shares(node.rows, *mix).products / 20.0;
    }
    pooled.take(mean);
  }
  EXPECT_GT(pooled.mix()[2], 0.9);
}

TEST(MixShares, AreTheMeansOfResponsibilities) {
  RowMajorMatrix<float> rows(2, 2);
  rows << 1.0F, 0.0F, 0.5F, 1.0F;
  // Under (0.5, 0.5) the first row is of class 1, and the second of it with 1/3.
  const MixShares found = mix_shares(rows, Vector2d(0.5, 0.5));
  EXPECT_NEAR(found.shares[0], (1.0 + 1.0 / 3.0) / 2.0, 1e-12);
  EXPECT_NEAR(found.shares[1], (2.0 / 3.0) / 2.0, 1e-12);
  EXPECT_NEAR(found.products(0, 0), (1.0 + 1.0 / 9.0) / 2.0, 1e-12);
  EXPECT_NEAR(found.products(0, 1), (2.0 / 9.0) / 2.0, 1e-12);
  EXPECT_NEAR(found.products(1, 0), (2.0 / 9.0) / 2.0, 1e-12);
  EXPECT_NEAR(found.products(1, 1), (4.0 / 9.0) / 2.0, 1e-12);
}

TEST(FitDirichlet, FindsTheLawOfItsMeanLogarithms) {
  const Vector3d alpha(0.3, 2.0, 5.0);
  const VectorXd logs = alpha.unaryExpr([&](double a) { return digamma(a) - digamma(7.3); });
  EXPECT_LE((fit_dirichlet(logs, Vector3d::Ones()) - alpha).lpNorm<Eigen::Infinity>(), 1e-3);
  // A class that is nowhere keeps the least alpha, and a law without spread the largest.
  EXPECT_EQ(fit_dirichlet(Vector3d(-500.0, std::log(0.5), std::log(0.5)), Vector3d::Ones())[0], kLeastAlpha);
  EXPECT_TRUE(fit_dirichlet(Vector2d::Constant(std::log(0.5)), Vector2d::Ones()).allFinite());
}

TEST(MixPosterior, IsKnownWhereLabelsAre) {
  RowMajorMatrix<float> rows(10, 2);
  for (Index i = 0; i < 10; ++i) rows.row(i) << (i < 7 ? 1.0F : 0.0F), (i < 7 ? 0.0F : 1.0F);
  Rng rng(1);
  const MixPosterior found = mix_posterior(rows, Vector2d(1.5, 0.5), 4000, rng);
  EXPECT_NEAR(found.mean[0], 8.5 / 12.0, 1e-12);
  EXPECT_NEAR(found.mean_log[0], digamma(8.5) - digamma(12.0), 1e-12);
  EXPECT_NEAR(found.mean_log[1], digamma(3.5) - digamma(12.0), 1e-12);
  const boost::math::beta_distribution<> law(8.5, 3.5);
  // A quantile of 4,000 draws has a standard error of 0.156 / (density sqrt(4000)), 0.006 here.
  EXPECT_NEAR(found.low[0], quantile(law, 0.025), 0.025);
  EXPECT_NEAR(found.high[0], quantile(law, 0.975), 0.025);
}

TEST(MixPosterior, IsThePriorWhereRowsSayNothing) {
  Rng rng(2);
  const MixPosterior none = mix_posterior(RowMajorMatrix<float>(0, 2), Vector2d(4.0, 12.0), 200, rng);
  EXPECT_NEAR(none.mean[0], 0.25, 1e-12);
  EXPECT_NEAR(none.mean_log[0], digamma(4.0) - digamma(16.0), 1e-12);
  // Labels of rows that say nothing are noise: a standard error of about 0.005 after 4,000 sweeps.
  const MixPosterior nothing = mix_posterior(RowMajorMatrix<float>::Ones(3, 2), Vector2d(4.0, 12.0), 4000, rng);
  EXPECT_NEAR(nothing.mean[0], 0.25, 0.02);
}

}  // namespace
}  // namespace labelshift
