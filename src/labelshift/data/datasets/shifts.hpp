#pragma once

#include "labelshift/core/base/rng.hpp"
#include "labelshift/data/datasets/splits.hpp"

namespace labelshift {

// Every shift is a pure function of (data, settings, state of the Rng).

/// (m) A target prior from the symmetric Dirichlet distribution: the smaller `alpha`, the fewer classes hold the mass.
/// Entries may be 0 by underflow. Throws Error{kUsage} unless alpha is in [1e-6, 1e6] and there is a class.
Eigen::VectorXd dirichlet_prior(Index classes, double alpha, Rng& rng);

/// (m) A target prior that a user wrote down: `shares` divided by their sum, which may differ from 1 by rounding only.
/// Throws Error{kInput} if an entry is negative or not a number, or the sum is further than 1e-3 from 1.
Eigen::VectorXd explicit_prior(std::span<const double> shares);

/// (m) The label distribution of one node of a table, such as 0.95 for its majority class in the paper's.
/// Throws Error{kUsage} if there is no such node.
Eigen::VectorXd node_prior(const NodeDistributions& distributions, Index node);

struct ShiftedSample {
  std::vector<Index> rows;          // (n) in the order drawn, with repetitions
  std::vector<Index> class_counts;  // (m) how many of them each class has
  Eigen::VectorXd ratio;            // (m) (class_counts / n) / source_prior, the truth an estimate is judged by
};

/// A test set of `n` rows whose labels follow `target_prior`: for every row a class, then one of the rows of that
/// class, both independently, so counts are multinomial and rows repeat. With replacement because at alpha = 0.1 one
/// class can need more examples than there are. The first rows of a larger sample are a sample too. `by_class` (m) is
/// rows_by_class() of the rows to draw from. Throws Error{kInput} if a class with a positive target prior has no rows,
/// if a source prior is not positive, or if sizes do not fit.
ShiftedSample draw_shifted(const std::vector<std::vector<Index>>& by_class, const Eigen::VectorXd& target_prior,
                           const Eigen::VectorXd& source_prior, Index n, Rng& rng);

}  // namespace labelshift
