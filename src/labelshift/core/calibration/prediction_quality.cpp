#include "labelshift/core/calibration/prediction_quality.hpp"

#include <algorithm>
#include <cmath>

#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {

void PredictionQualitySum::add(double log_prob_of_label, double confidence, bool correct, double weight) {
  const auto at = static_cast<std::size_t>(confidence * static_cast<double>(bins_.size()));
  Bin& bin = bins_[std::min(at, bins_.size() - 1)];
  bin.excess += weight * (confidence - (correct ? 1.0 : 0.0));
  bin.weight += weight;
  bin.confidence += weight * confidence;
  ++bin.rows;
  log_loss_ -= weight * log_prob_of_label;
  weight_ += weight;
}

PredictionQuality PredictionQualitySum::quality() const {
  PredictionQuality result{.nll = log_loss_ / weight_};
  double error = 0.0;
  for (const Bin& bin : bins_) {
    error += std::abs(bin.excess);
    if (bin.weight > 0.0)
      result.bins.push_back({.share = bin.weight / weight_,
                             .confidence = bin.confidence / bin.weight,
                             .accuracy = (bin.confidence - bin.excess) / bin.weight,
                             .rows = bin.rows});
  }
  result.ece = error / weight_;
  return result;
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
