#pragma once

#include <span>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/calibration/prediction_quality.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {

/// Rows a net is asked for at a time. Rows evaluated in pieces that are multiples of it have the same bits as rows
/// evaluated at once.
inline constexpr Index kEvaluationRows = 512;

/// The net's outputs (rows, m) in evaluation mode.
RowMajorMatrix<float> evaluate_logits(Net& net, const Dataset& data, std::span<const Index> rows);

/// The labels of `rows`. Throws Error{kInput} if the data set has none.
std::vector<int> labels_of(const Dataset& data, std::span<const Index> rows);

struct Evaluation {
  double accuracy = 0.0;
  PredictionQuality quality;
};

/// How well softmax(logits), calibrated, predicts the labels.
Evaluation evaluate(const RowMajorMatrix<float>& logits, std::span<const int> labels, const Calibration& calibration);

}  // namespace labelshift
