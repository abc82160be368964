#pragma once

#include <array>

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// Probabilities below this are taken to be this where their logarithm is needed: a classifier that says 0 has usually
/// rounded, and one infinite logarithm would otherwise hide every other row.
inline constexpr double kProbabilityFloor = 1e-12;

/// How well predicted probabilities agree with labels.
struct PredictionQuality {
  double nll = 0.0;  // mean of -log f_y(x), in nats
  double ece = 0.0;  // expected calibration error of the top label: mean |confidence - accuracy| over the bins
};

/// Adds up a PredictionQuality row by row, so that the rows need not be in memory together.
class PredictionQualitySum {
 public:
  /// `confidence` is the largest probability of the row, `correct` whether that is the label's.
  void add(double log_prob_of_label, double confidence, bool correct, double weight);
  PredictionQuality quality() const;

 private:
  // 15 bins of equal width, as Guo et al. (2017), "On calibration of modern neural networks", have them.
  std::array<double, 15> excess_{};  // sum of weight * (confidence - correct) in each bin
  double log_loss_ = 0.0;
  double weight_ = 0.0;
};

/// The quality of `sample.probs`, rows being probabilities. Throws Error{kInput} if they, the labels or the weights are
/// not what SourceSample says.
PredictionQuality prediction_quality(const SourceSample& sample);

}  // namespace labelshift
