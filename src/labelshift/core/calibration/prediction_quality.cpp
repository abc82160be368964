#include "labelshift/core/calibration/prediction_quality.hpp"

#include <algorithm>
#include <cmath>

#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {

void PredictionQualitySum::add(double log_prob_of_label, double confidence, bool correct, double weight) {
  const std::size_t last = excess_.size() - 1;
  const auto bin = static_cast<std::size_t>(confidence * static_cast<double>(excess_.size()));
  excess_[std::min(bin, last)] += weight * (confidence - (correct ? 1.0 : 0.0));
  log_loss_ -= weight * log_prob_of_label;
  weight_ += weight;
}

PredictionQuality PredictionQualitySum::quality() const {
  double error = 0.0;
  for (const double excess : excess_) error += std::abs(excess);
  return {.nll = log_loss_ / weight_, .ece = error / weight_};
}

PredictionQuality prediction_quality(const SourceSample& sample) {
  check_labels(sample.labels, sample.probs.rows(), sample.probs.cols(), "labels");
  check_weights(sample.weights, sample.probs.rows(), "weights");
  PredictionQualitySum sum;
  for (Index i = 0; i < sample.probs.rows(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int y = sample.labels[at];
    const int top = arg_max(sample.probs, i);
    sum.add(std::log(std::max(sample.probs(i, y), kProbabilityFloor)), sample.probs(i, top), top == y,
            sample.weights.empty() ? 1.0 : sample.weights[at]);
  }
  return sum.quality();
}

}  // namespace labelshift
