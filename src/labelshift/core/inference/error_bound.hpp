#pragma once

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// What can be computed of Thm. 5.1. B and L are suprema over the whole parameter space of the predictor and Rad(F) is
/// a complexity of its class: they cannot be had from a sample, so nothing here is an interval (docs/notation.md).
struct ErrorBoundTerms {
  double mu = 0.0;             // smallest eigenvalue of E[f f^T], Assumption 5.2
  double p_min = 0.0;          // smallest entry of p_tr
  double scale = 0.0;          // 2 / (mu p_min), as the theorem has it; infinite if mu is 0
  double strict_scale = 0.0;   // 2 / (mu p_min^2): f . r <= 1 / p_min enters the curvature squared
  double sampling_term = 0.0;  // 4 sqrt(log(4 / delta) / n_te), which the theorem multiplies by B
  double delta = 0.05;         // the probability with which the bound may fail
};

/// `probs` (n, m) are the predictions that mu is computed on: the source's, or the target's where there are no others.
ErrorBoundTerms error_bound_terms(const Eigen::VectorXd& label_prior, const Probabilities& probs, double target_rows,
                                  double delta = 0.05);

}  // namespace labelshift
