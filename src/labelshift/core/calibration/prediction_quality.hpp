#pragma once

#include <array>
#include <vector>

#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// Probabilities below this are taken to be this where their logarithm is needed: a classifier that says 0 has usually
/// rounded, and one infinite logarithm would otherwise hide every other row.
inline constexpr double kProbabilityFloor = 1e-12;

/// The rows whose largest probability lies in one part of 0 to 1: a point of a reliability diagram.
struct ConfidenceBin {
  double share = 0.0;       // of the rows, as they are weighted
  double confidence = 0.0;  // mean of their largest probabilities
  double accuracy = 0.0;    // share of them whose largest probability is that of their label
  Index rows = 0;
};

/// How well predicted probabilities agree with labels.
struct PredictionQuality {
  double nll = 0.0;  // mean of -log f_y(x), in nats
  double ece = 0.0;  // expected calibration error of the top label: mean |confidence - accuracy| over the bins
  std::vector<ConfidenceBin> bins = {};  // those that have rows, from the least confidence up
};

/// Adds up a PredictionQuality row by row, so that the rows need not be in memory together.
class PredictionQualitySum {
 public:
  /// `confidence` is the largest probability of the row, `correct` whether that is the label's.
  void add(double log_prob_of_label, double confidence, bool correct, double weight);
  PredictionQuality quality() const;

 private:
  // 15 bins of equal width, as Guo et al. (2017), "On calibration of modern neural networks", have them.
  struct Bin {
    double excess = 0.0;  // sum of weight * (confidence - correct)
    double weight = 0.0, confidence = 0.0;
    Index rows = 0;
  };
  std::array<Bin, 15> bins_{};
  double log_loss_ = 0.0;
  double weight_ = 0.0;
};

/// The quality of `sample.probs`, rows being probabilities. Throws Error{kInput} if they, the labels or the weights are
/// not what SourceSample says.
PredictionQuality prediction_quality(const SourceSample& sample);

}  // namespace labelshift
