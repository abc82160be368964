#pragma once

#include <optional>

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// What is subtracted from Eq. (3), with r - 1 the departure from "no shift". The paper does not define its penalty; a
/// plain |r|_1 would be constant where p_tr is uniform.
enum class Penalty { kNone, kL1, kL2 };

struct MllsSqpOptions {
  double tolerance = 1e-9;   // on the gap
  int max_iterations = 200;  // passes over all rows
  Penalty penalty = Penalty::kNone;
  /// The factor of the penalty. The default makes the optimum the most probable r under a prior of scale 1 around "no
  /// shift": 1 / n for L1 (Laplace), 1 / (2 n) for L2 (Gaussian), n being the effective number of target rows. It
  /// fades as the data grow, so the penalised estimators stay consistent.
  std::optional<double> strength;
};

/// Maximises Eq. (3), less a penalty, over the simplex by sequential quadratic programming, as mix-SQP (Kim et al.
/// 2020) does: second-order, and certified by its gap. Two things make it fast: it starts on subsamples of the rows, so
/// that few passes over all of them are left, and it keeps a curvature matrix for as long as a new one would cost more
/// than the passes it saves.
class MllsSqp : public RatioEstimator {
 public:
  explicit MllsSqp(MllsSqpOptions options = {}) : options_(options) {}
  RatioEstimate estimate(const SourceSummary& source, const TargetSample& target,
                         const Observer& observer = {}) const override;

 private:
  MllsSqpOptions options_;
};

}  // namespace labelshift
