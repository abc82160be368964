#pragma once

#include <Eigen/Core>
#include <optional>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/calibration/calibration.hpp"

// A prior that the label mixes of many nodes share. The maximum-likelihood mix of a node with few test examples is
// noisy, and at classes that the node does not meet the noise has one sign only, since no share is below 0; in a sum
// over nodes it adds up. So the mixes q_k are taken to be draws from one Dirichlet law, whose parameters alpha maximise
// the likelihood of all nodes' data: where nodes differ much alpha is small and leaves each node its own mix, and where
// a class is nowhere its share of alpha vanishes. It is latent Dirichlet allocation with known topics, and it needs
// sums over nodes only. A row of `likelihoods` (n, m) is a_jc = f_jc / p_c, up to a factor a row.

namespace labelshift {

/// What a mix q makes of one node's rows: the means over them of r_jc = q_c a_jc / (a_j . q), and of r_jc r_jd.
struct MixShares {
  Eigen::VectorXd shares;    // (m)
  Eigen::MatrixXd products;  // (m, m)
};
MixShares mix_shares(const RowMajorMatrix<float>& likelihoods, const Eigen::VectorXd& mix);

/// The mix that all nodes' rows have together, every node counting the same: Newton's method on the simplex, where a
/// step needs the means over nodes of what mix_shares() says.
class PooledMix {
 public:
  explicit PooledMix(Eigen::Index classes);

  /// The mix to ask about; nothing once the certificate of Eq. (3) is small or enough was asked.
  std::optional<Eigen::VectorXd> next() const;
  void take(const MixShares& mean);
  const Eigen::VectorXd& mix() const { return mix_; }

 private:
  Eigen::VectorXd mix_;  // (m) without zeros
  int asked_ = 0;
  bool done_ = false;
};

inline constexpr int kPriorSteps = 12;     // of the search for alpha, after which it moves little
inline constexpr int kSearchSweeps = 45;   // of a node's draws in a step
inline constexpr int kFinalSweeps = 1000;  // once alpha is found: for quantiles

/// The least alpha of a class: its log-digamma stays in the range of sums over nodes, and what it adds to a mix is
/// small.
inline constexpr double kLeastAlpha = 0.01;

/// Where the search for alpha starts: draws with the pooled mix as their mean, each far from it.
Eigen::VectorXd first_prior(const Eigen::VectorXd& pooled_mix);

/// The (m) alpha whose Dirichlet law has these means of log q_c, at least kLeastAlpha; found from `alpha`.
Eigen::VectorXd fit_dirichlet(const Eigen::VectorXd& mean_logs, Eigen::VectorXd alpha);

/// What is known of a node's mix given its rows and the prior.
struct MixPosterior {
  Eigen::VectorXd mean;       // (m) of q
  Eigen::VectorXd mean_log;   // (m) of log q
  Eigen::VectorXd low, high;  // (m) 2.5 % and 97.5 % quantiles of q; low is 0 where that is no part of a row
};

/// By Gibbs sampling: a label for every row given q, then q given the labels. `sweeps` are kept, after a quarter as
/// many. Without rows it is the prior.
MixPosterior mix_posterior(const RowMajorMatrix<float>& likelihoods, const Eigen::VectorXd& alpha, int sweeps,
                           Rng& rng);

}  // namespace labelshift
