#pragma once

#include <Eigen/Core>
#include <span>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/engine/tasks.hpp"

// Adapting at the node: a node that knows its own label mix corrects what the global model says for it. It is
// personalisation, and no number of the model.

namespace labelshift {

/// (n q_k + s p) / (n + s), with q_k estimated from n examples, p the mix that the model is trained towards and s = m:
/// the posterior mean of a Dirichlet distribution with one example a class, after n labels. Of all strengths it loses
/// least where it is wrong (docs/notation.md). For this use only: in the sum over nodes the biases would add up.
Eigen::VectorXd shrunk_mix(const Eigen::VectorXd& estimate, const Eigen::VectorXd& trained_mix, double examples);

/// How many labels the model is right on once its probabilities are multiplied by mix / trained_mix. A class that the
/// model is not trained towards at all is never predicted.
Index right_for_mix(const RowMajorMatrix<float>& logits, std::span<const int> labels, const Eigen::VectorXd& mix,
                    const Eigen::VectorXd& trained_mix);

/// How many labels are of the class that has the largest share of a mix, the first of several.
Index right_by_majority(std::span<const int> labels, const Eigen::VectorXd& mix);

}  // namespace labelshift
