#pragma once

#include <Eigen/Core>

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// Eq. (3) in target-prior form q_c = p_tr(c) r_c, where it is the likelihood of mixture proportions on the simplex,
/// with s_jc = a_jc / (a_j . q) and a_jc = f_c(x_j) / p_tr(c).
struct LikelihoodValue {
  double mean_log_likelihood = 0.0;  // mean_j log f(x_j)^T r; minus infinity if the target rules q out
  Eigen::VectorXd gradient;          // (m)    g = mean_j s_j; q . g = 1
  Eigen::MatrixXd curvature;         // (m, m) mean_j s_j s_j^T, which is minus the Hessian; empty unless asked for

  /// How far mean_log_likelihood can be below its maximum over the simplex, at most: it is concave, so no q' gains
  /// more than g . (q' - q) <= max_c g_c - 1.
  double gap() const { return gradient.maxCoeff() - 1.0; }
};

enum class Derivatives { kGradient, kCurvature };

/// The target sample seen through Eq. (3). One call of `at` is one pass over the rows: no copy of them is made and
/// every sum is in double. Above kParallelElements the pass uses all cores; the chunks of rows and the order of their
/// sums depend on the shape of the sample only, so the bits do not depend on the number of cores.
class Likelihood {
 public:
  static constexpr Index kParallelElements = 10'000'000;

  /// Throws Error{kInput} if the target does not fit the source. Keeps references. The observer is told at every pass,
  /// which throws Stopped if it says so.
  Likelihood(const Eigen::VectorXd& label_prior, const TargetSample& target, Observer observer = {});

  Index rows() const { return target_.probs.rows(); }
  Index classes() const { return label_prior_.size(); }
  const Eigen::VectorXd& label_prior() const { return label_prior_; }

  /// The sum of the rows' weights; positive but for a subsample of rows without weight.
  double total_weight() const;

  /// `threads` is for callers that know better than kParallelElements; 0 leaves it to that rule.
  LikelihoodValue at(const Eigen::VectorXd& target_prior, Derivatives derivatives, unsigned threads = 0) const;

  /// mean_j v_j s_j s_j^T with v_j = w_j^2 / (mean w)^2 instead of w_j: the covariance of a weighted mean of scores,
  /// times n. Equal to the curvature where all weights are equal.
  Eigen::MatrixXd score_covariance(const Eigen::VectorXd& target_prior) const;

  /// The likelihood of every step-th row, to start from: an optimum of it is a good guess at the whole one's.
  Likelihood every(Index step) const;

 private:
  enum class Weighting { kPlain, kSquared };
  struct Unchecked {};
  Likelihood(Unchecked, const Likelihood& whole, const TargetSample& target, Index weight_stride)
      : label_prior_(whole.label_prior_), target_(target), observer_(whole.observer_), weight_stride_(weight_stride) {}
  LikelihoodValue pass(const Eigen::VectorXd& target_prior, Derivatives derivatives, Weighting weighting,
                       unsigned threads) const;

  Eigen::VectorXd label_prior_;  // (m)
  TargetSample target_;
  Observer observer_;
  Index weight_stride_ = 1;  // weights of row j are at j * weight_stride_
};

}  // namespace labelshift
