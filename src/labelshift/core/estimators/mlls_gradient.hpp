#pragma once

#include <cstdint>

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

struct MllsCgOptions {
  double tolerance = 1e-9;    // on the gap
  int max_iterations = 1000;  // passes over the rows
};

/// Maximises Eq. (3) by nonlinear conjugate gradients (Polak and Ribiere, restarted) over u with q = softmax(u), which
/// keeps q inside the simplex without a constraint; an absent class is approached and never reached.
class MllsCg : public RatioEstimator {
 public:
  explicit MllsCg(MllsCgOptions options = {}) : options_(options) {}
  RatioEstimate estimate(const SourceSummary& source, const TargetSample& target,
                         const Observer& observer = {}) const override;

 private:
  MllsCgOptions options_;
};

struct MllsSgdOptions {
  int epochs = 50;  // passes over the rows
  int batch = 64;
  double step = 0.5;  // of the first batches; falls as 1 / sqrt(1 + steps / one epoch)
  std::uint64_t seed = 0;
};

/// Maximises Eq. (3) by stochastic natural gradient: q_c <- q_c (1 + step (g_c - 1)) on mini-batches in random order,
/// averaged over the second half of the run. Never certain to have converged; its gap is that of the average.
class MllsSgd : public RatioEstimator {
 public:
  explicit MllsSgd(MllsSgdOptions options = {}) : options_(options) {}
  RatioEstimate estimate(const SourceSummary& source, const TargetSample& target,
                         const Observer& observer = {}) const override;

 private:
  MllsSgdOptions options_;
};

}  // namespace labelshift
