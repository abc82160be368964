#include "labelshift/core/estimators/shared_prior.hpp"

#include <algorithm>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <cmath>
#include <vector>

#include "labelshift/core/estimators/simplex.hpp"

namespace labelshift {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMostQuestions = 8;     // about the pooled mix
constexpr double kSmallGap = 1e-3;    // of its likelihood: alpha is looked for from there, and forgets where it began
constexpr double kLeastShare = 1e-4;  // while it is looked for
constexpr double kFirstTotal = 2.0;   // of alpha
constexpr double kMostAlpha = 1e4;    // of a class; mixes are all but equal then
constexpr double kNothing = 1e-3;     // of a row: a share that is none, as in core/inference/intervals.hpp

double digamma(double x) {
  return boost::math::digamma(x);
}

/// digamma(x) = y, by Newton's method from Minka's start.
double inverse_digamma(double y) {
  double x = y >= -2.22 ? std::exp(y) + 0.5 : -1.0 / (y - digamma(1.0));
  for (int i = 0; i < 6; ++i) x -= (digamma(x) - y) / boost::math::trigamma(x);
  return x;
}

/// E log q_c of a Dirichlet law.
ArrayXd mean_logs_of(const VectorXd& alpha) {
  const double total = digamma(alpha.sum());
  return alpha.array().unaryExpr([&](double a) { return digamma(a) - total; });
}

}  // namespace

MixShares mix_shares(const RowMajorMatrix<float>& likelihoods, const VectorXd& mix) {
  const Index m = mix.size();
  MixShares sums{VectorXd::Zero(m), MatrixXd::Zero(m, m)};
  VectorXd row(m);
  for (Index i = 0; i < likelihoods.rows(); ++i) {
    row = likelihoods.row(i).transpose().cast<double>().cwiseProduct(mix);
    row /= row.sum();
    sums.shares += row;
    sums.products.selfadjointView<Eigen::Lower>().rankUpdate(row);
  }
  const double n = std::max<double>(static_cast<double>(likelihoods.rows()), 1.0);
  sums.shares /= n;
  sums.products = MatrixXd(sums.products.selfadjointView<Eigen::Lower>()) / n;
  return sums;
}

PooledMix::PooledMix(Index classes) : mix_(VectorXd::Constant(classes, 1.0 / static_cast<double>(classes))) {}

std::optional<VectorXd> PooledMix::next() const {
  if (done_ || asked_ == kMostQuestions) return std::nullopt;
  return mix_;
}

void PooledMix::take(const MixShares& mean) {
  ++asked_;
  const VectorXd gradient = mean.shares.cwiseQuotient(mix_);
  done_ = gradient.maxCoeff() - 1.0 <= kSmallGap;
  if (done_) return;
  const VectorXd inverse = mix_.cwiseInverse();
  const MatrixXd curvature = inverse.asDiagonal() * mean.products * inverse.asDiagonal();
  const Index m = mix_.size();
  const SimplexProblem model{curvature, curvature * mix_ + gradient, VectorXd::Zero(m), VectorXd::Zero(m)};
  const VectorXd newton = SimplexSolver().solve(model, mix_);
  // A quadratic model of a logarithm is not to be trusted far: a share falls to a third or grows threefold at most.
  mix_ = newton.cwiseMax(mix_ / 3.0).cwiseMin(mix_ * 3.0).cwiseMax(kLeastShare);
  mix_ /= mix_.sum();
}

VectorXd first_prior(const VectorXd& pooled_mix) {
  return (kFirstTotal * pooled_mix).cwiseMax(kLeastAlpha);
}

VectorXd fit_dirichlet(const VectorXd& mean_logs, VectorXd alpha) {
  constexpr int kMost = 1000;
  constexpr double kSettled = 1e-6;
  for (int step = 0; step < kMost; ++step) {
    const double total = digamma(alpha.sum());
    const VectorXd next = mean_logs.unaryExpr(
        [&](double log) { return std::clamp(inverse_digamma(log + total), kLeastAlpha, kMostAlpha); });
    const double moved = ((next - alpha).array() / alpha.array()).abs().maxCoeff();
    alpha = next;
    if (moved < kSettled) break;
  }
  return alpha;
}

MixPosterior mix_posterior(const RowMajorMatrix<float>& likelihoods, const VectorXd& alpha, int sweeps, Rng& rng) {
  const Index n = likelihoods.rows();
  const Index m = alpha.size();
  const int burn_in = sweeps / 4;
  std::vector<double> counts(static_cast<std::size_t>(m)), cumulative(counts.size());
  ArrayXd q = alpha.array() / alpha.sum();
  MixPosterior posterior{.mean = VectorXd::Zero(m), .mean_log = VectorXd::Zero(m)};
  MatrixXd draws(sweeps, m);
  for (int sweep = -burn_in; sweep < sweeps; ++sweep) {
    std::fill(counts.begin(), counts.end(), 0.0);
    for (Index i = 0; i < n; ++i) {
      double sum = 0.0;
      for (Index c = 0; c < m; ++c) cumulative[c] = sum += q[c] * static_cast<double>(likelihoods(i, c));
      const double u = rng.uniform() * sum;
      const auto label = std::upper_bound(cumulative.begin(), cumulative.end() - 1, u) - cumulative.begin();
      counts[static_cast<std::size_t>(label)] += 1.0;
    }
    const VectorXd updated = alpha + Eigen::Map<const VectorXd>(counts.data(), m);
    for (Index c = 0; c < m; ++c) q[c] = std::max(rng.gamma(updated[c]), 1e-300);
    q /= q.sum();
    if (sweep < 0) continue;
    // Given the labels the law of q is known: its mean has less noise than a draw.
    posterior.mean += updated / updated.sum();
    posterior.mean_log += mean_logs_of(updated).matrix();
    draws.row(sweep) = q.matrix().transpose();
  }
  posterior.mean /= sweeps;
  posterior.mean_log /= sweeps;
  posterior.low.resize(m);
  posterior.high.resize(m);
  const auto tail = static_cast<Index>(0.025 * sweeps);
  for (Index c = 0; c < m; ++c) {
    std::sort(draws.col(c).begin(), draws.col(c).end());
    // A draw is above 0 however small the share is.
    posterior.low[c] = draws(tail, c) * std::max<double>(static_cast<double>(n), 1.0) < kNothing
                           ? 0.0
                           : std::min(draws(tail, c), posterior.mean[c]);
    posterior.high[c] = std::max(draws(sweeps - 1 - tail, c), posterior.mean[c]);
  }
  return posterior;
}

}  // namespace labelshift
