#pragma once

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

struct MllsEmOptions {
  double tolerance = 1e-9;    // on the gap
  int max_iterations = 1000;  // passes over the rows
  bool accelerate = false;    // SQUAREM: extrapolate along two EM steps (Varadhan and Roland 2008)
};

/// Maximises Eq. (3) by expectation-maximisation (Saerens et al. 2002), plain or accelerated.
class MllsEm : public RatioEstimator {
 public:
  explicit MllsEm(MllsEmOptions options = {}) : options_(options) {}
  RatioEstimate estimate(const SourceSummary& source, const TargetSample& target,
                         const Observer& observer = {}) const override;

 private:
  MllsEmOptions options_;
};

}  // namespace labelshift
