#pragma once

#include <memory>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"
#include "labelshift/experiments/ratio_figures.hpp"

namespace labelshift {

/// One estimate.
struct TrialRow {
  int method = 0;  // into the panel's methods
  int predictor = 0;
  int trial = 0;
  double mse = 0.0;  // mean_c (estimated r_c - true r_c)^2
};

/// How good a predictor is, on the test set.
struct PredictorQuality {
  Zeta zeta;
  int predictor = 0;
  double accuracy = 0.0;
  double calibration_error = 0.0;  // ECE, uncalibrated
};

/// The methods of a panel, each with its predictors' calibrated probabilities of the test set: all of a trial that does
/// not depend on the trial.
class PanelMethods {
 public:
  /// The predictors must have been trained and asked.
  PanelMethods(const RatioPanel& panel, PredictorStore& store);

  /// All trials at one point. Every method sees the same test sets, so that differences between them are paired. A pure
  /// function of the point, `stream` and the seed. Sorted by method, predictor, trial. Throws Stopped if the observer
  /// says so.
  std::vector<TrialRow> run(double alpha, Index size, int trials, std::uint64_t seed, std::uint64_t stream,
                            const Observer& observer = {}) const;

  const std::vector<PredictorQuality>& quality() const { return quality_; }

 private:
  /// What one predictor says after one calibration.
  struct CalibratedRows {
    Zeta zeta;
    std::string calibration;
    RowMajorMatrix<float> test;  // (n, m)
    SourceSummary source;
  };
  struct Method {
    std::size_t rows = 0;  // into those of each predictor
    std::unique_ptr<RatioEstimator> estimator;
  };
  std::vector<std::vector<CalibratedRows>> predictors_;
  std::vector<Method> methods_;
  std::vector<std::vector<Index>> by_class_;  // rows of the test set
  std::vector<PredictorQuality> quality_;
};

/// What a trial draws its prior and its test set from. `stream` is that of its point.
Rng trial_rng(std::uint64_t seed, std::uint64_t stream, int predictor, int trial);

/// The predictors that the methods of a panel need.
std::vector<PredictorKey> predictors_of(const RatioPanel& panel);

}  // namespace labelshift
