#include "labelshift/core/likelihood/likelihood.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/parallel.hpp"
#include "labelshift/core/likelihood/outer_products.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

/// Sums over some rows; the three of LikelihoodValue before they are divided by the total weight.
struct PassSums {
  double log_likelihood = 0.0;
  AlignedDoubles gradient;  // (m, lanes)
  OuterProducts curvature;  // (m, m) or empty

  void add(const PassSums& other) {
    log_likelihood += other.log_likelihood;
    for (Index i = 0; i < gradient.size(); ++i) gradient[i] += other.gradient[i];
    curvature.add(other.curvature);
  }
};

double sum_of_lanes(const AlignedDoubles& sums, Index at, Index lanes) {
  return Eigen::Map<const Eigen::ArrayXd>(sums.data() + at * lanes, lanes).sum();
}

double sum_of_logs(const LikelihoodKernel& kernel, const double* mixture, const double* root_weight, Index count,
                   bool weighted) {
  if (!weighted && count % LikelihoodKernel::kRowMultiple == 0) return kernel.sum_of_logs(mixture, count);
  double total = 0.0;
  for (Index b = 0; b < count; ++b)
    if (root_weight[b] > 0.0) total += root_weight[b] * root_weight[b] * std::log(mixture[b]);
  return total;
}

/// kernel.scores of a block of rows, by the shortest way there is.
void score_rows(const LikelihoodKernel& kernel, const MatrixView& rows, const double* ratio, const double* root_weight,
                double* mixture, double* gradient, double* t) {
  const Index m = rows.cols();
  const bool as_they_lie = rows.visit([&](const auto* data, Index row_stride, Index col_stride) {
    constexpr bool floats = std::is_same_v<decltype(data), const float*>;
    if (rows.rows() != kBlockRows || col_stride != 1) return false;
    if (m <= LikelihoodKernel::kFewColumns) {
      if constexpr (floats)
        kernel.few_scores_floats(data, row_stride, ratio, root_weight, m, kBlockRows, mixture, gradient, t);
      else
        kernel.few_scores_doubles(data, row_stride, ratio, root_weight, m, kBlockRows, mixture, gradient, t);
      return true;
    }
    if (gradient == nullptr) return false;
    if constexpr (floats)
      kernel.wide_gradient_floats(data, row_stride, ratio, root_weight, m, kBlockRows, mixture, gradient, t);
    else
      kernel.wide_gradient_doubles(data, row_stride, ratio, root_weight, m, kBlockRows, mixture, gradient, t);
    return true;
  });
  if (as_they_lie) return;
  load_rows(rows, t);
  kernel.scores(t, ratio, root_weight, m, kBlockRows, mixture, gradient);
}

}  // namespace

Likelihood::Likelihood(const Eigen::VectorXd& label_prior, const TargetSample& target, Observer observer)
    : label_prior_(label_prior), target_(target), observer_(std::move(observer)) {
  if (label_prior.size() != target.probs.cols())
    throw Error(ErrorKind::kInput,
                fmt::format("the source prior has {} classes, the target probabilities have {} columns",
                            label_prior.size(), target.probs.cols()));
  if (!(label_prior.minCoeff() >= kLeastPrior) || !(std::abs(label_prior.sum() - 1.0) <= kRowSumTolerance))
    throw Error(ErrorKind::kInput,
                fmt::format("the source prior must be positive for every class and sum to 1, with no share below {}",
                            kLeastPrior));
  check_weights(target.weights, target.probs.rows(), "target weights");
}

double Likelihood::total_weight() const {
  if (target_.weights.empty()) return static_cast<double>(rows());
  double total = 0.0;
  for (Index j = 0; j < rows(); ++j) total += target_.weights[static_cast<std::size_t>(j * weight_stride_)];
  return total;
}

LikelihoodValue Likelihood::at(const Eigen::VectorXd& target_prior, Derivatives derivatives, unsigned threads) const {
  return pass(target_prior, derivatives, Weighting::kPlain, threads);
}

Eigen::MatrixXd Likelihood::score_covariance(const Eigen::VectorXd& target_prior) const {
  return pass(target_prior, Derivatives::kCurvature, Weighting::kSquared, 0).curvature;
}

Likelihood Likelihood::every(Index step) const {
  return Likelihood(Unchecked{}, *this, {target_.probs.every(step), target_.weights}, weight_stride_ * step);
}

LikelihoodValue Likelihood::pass(const Eigen::VectorXd& target_prior, Derivatives derivatives, Weighting weighting,
                                 unsigned threads) const {
  tell(observer_, kEstimating);
  const MatrixView& f = target_.probs;                                    // (n, m)
  const Eigen::VectorXd r = target_prior.array() / label_prior_.array();  // (m)
  const Index m = classes();
  const Index n = rows();
  const bool weighted = !target_.weights.empty();
  const bool curved = derivatives == Derivatives::kCurvature;
  const LikelihoodKernel& kernel = best_kernel();
  const Index chunk = kBlockRows * (m <= 32 ? 256 : 16);

  const auto weight = [&](Index j) { return target_.weights[static_cast<std::size_t>(j * weight_stride_)]; };
  const double total = total_weight();
  const double mean_weight = total / static_cast<double>(n);

  const auto work = [&](Index which, PassSums& sums) {
    AlignedDoubles t(m * kBlockRows), mixture(kBlockRows), root_weight(kBlockRows);
    std::fill_n(root_weight.data(), kBlockRows, 1.0);
    const Index end = std::min(n, (which + 1) * chunk);
    for (Index first = which * chunk; first < end; first += kBlockRows) {
      const Index count = std::min(kBlockRows, end - first);
      for (Index b = 0; weighted && b < count; ++b) {
        const double w = weight(first + b);
        root_weight[b] = weighting == Weighting::kPlain ? std::sqrt(w) : w / std::sqrt(mean_weight);
      }
      std::fill(root_weight.data() + count, root_weight.data() + kBlockRows, 0.0);
      score_rows(kernel, f.middle_rows(first, count), r.data(), root_weight.data(), mixture.data(),
                 curved ? nullptr : sums.gradient.data(), t.data());
      sums.log_likelihood += sum_of_logs(kernel, mixture.data(), root_weight.data(), count, weighted);
      if (curved) sums.curvature.add_block(t.data());
    }
  };

  PassSums zero;
  zero.gradient = AlignedDoubles(m * kernel.lanes);
  if (curved) zero.curvature = OuterProducts(m);
  const Index chunks = (n + chunk - 1) / chunk;
  if (threads == 0) threads = n * m <= kParallelElements ? 1u : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min(threads, static_cast<unsigned>(chunks));
  const PassSums sums = sum_in_order(chunks, threads, zero, work);

  LikelihoodValue value;
  value.mean_log_likelihood = sums.log_likelihood / total;
  const auto p = label_prior_.array();
  value.gradient.resize(m);
  for (Index c = 0; !curved && c < m; ++c)
    value.gradient[c] = sum_of_lanes(sums.gradient, c, kernel.lanes) / (total * p[c]);
  if (!curved) return value;
  value.curvature.resize(m, m);
  for (Index c = 0; c < m; ++c) {
    for (Index d = 0; d <= c; ++d) {
      const double sum = sums.curvature(c, d);
      value.curvature(c, d) = value.curvature(d, c) = sum / (total * p[c] * p[d]);
    }
  }
  value.gradient = value.curvature * target_prior;  // since s_j . q = 1
  return value;
}

}  // namespace labelshift
