#include "labelshift/learning/evaluation.hpp"

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {

RowMajorMatrix<float> evaluate_logits(Net& net, const Dataset& data, std::span<const Index> rows) {
  const auto n = static_cast<Index>(rows.size());
  const Index m = net.spec().classes;
  RowMajorMatrix<float> logits(n, m);
  for (Index first = 0; first < n; first += kEvaluationRows) {
    const Index count = std::min(kEvaluationRows, n - first);
    net.logits(data, rows.subspan(first, count), {logits.data() + first * m, static_cast<std::size_t>(count * m)});
  }
  return logits;
}

std::vector<int> labels_of(const Dataset& data, std::span<const Index> rows) {
  if (data.labels.empty()) throw Error(ErrorKind::kInput, "the data set has no labels, and this needs them");
  std::vector<int> labels;
  labels.reserve(rows.size());
  for (const Index row : rows) labels.push_back(data.labels[row]);
  return labels;
}

Evaluation evaluate(const RowMajorMatrix<float>& logits, std::span<const int> labels, const Calibration& calibration) {
  const CalibratedProbabilities probs = apply_calibration(calibration, {logits, /*logits=*/true});
  Index correct = 0;
  for (Index i = 0; i < logits.rows(); ++i) correct += arg_max(probs.view(), i) == labels[i];
  return {.accuracy = static_cast<double>(correct) / static_cast<double>(logits.rows()),
          .quality = prediction_quality({.probs = probs.view(), .labels = labels})};
}

}  // namespace labelshift
