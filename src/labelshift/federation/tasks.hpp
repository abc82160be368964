#pragma once

#include <cstdint>

namespace labelshift {

/// What run_federation() asks of nodes, and how messages are laid out. W stands for the shared weights of a net
/// (SharedWeights), m for the number of classes, parts for the channels or columns of an example.
enum class Task : std::uint32_t {
  /// -> numbers: classes held, 1 or 0 (m); the same of the test set's true classes (m, all 0 if unlabelled); training
  /// examples by class (m); values (1); their sums (parts); their squares (parts). Report: training examples, test
  /// examples, classes not held...
  kJoin,
  /// numbers: mean (parts), scale (parts), of the normalisation all agreed on.
  kAgree,
  /// numbers: TargetKind (1). -> numbers: q_k (m). Report: |q_k - truth|_1 or NaN, seconds.
  kTarget,
  /// Pairwise only. -> weights: the local predictor. numbers: its source prior (m), scale (m) and bias (m) of its
  /// calibration. Report: seconds.
  kShare,
  /// Pairwise only. numbers: k (1), then the same numbers and weights of predictor k. -> numbers: q_j (m) as that
  /// predictor sees it. Report: for node k itself |q_k - truth|_1, else NaN.
  kAssess,
  /// numbers: RatioKind (1), values (m). Report: largest weight, training examples, effective training examples.
  kRatio,
  /// weights: W, SCAFFOLD's c (p). -> weights: update of the parameters times node weight, buffers times node weight,
  /// change of c_k (p). numbers: node weight, node weight times loss.
  kTrain,
  /// The same for the federated predictor, without c; numbers: zeta (1).
  kTrainPredictor,
  /// numbers: what a class counts for at each of its holders (m), scales (g). weights: W of the predictor. -> numbers:
  /// weight (1), NLL of held-out examples under each scale, times weight (g).
  kTemperature,
  /// numbers: scale (1), the predictor's source prior (m). weights: W of the predictor. -> as kTarget.
  kTargetTogether,
  /// weights: W. Report: test examples, correct, sum of NLL, reweighted accuracy, its low and high end, effective
  /// number.
  kEvaluate,
};

enum class TargetKind {
  kEstimate,
  kTruth,
  kSource,
  kKeptEstimate,  // what the node remembers, or else kEstimate
};

/// What kRatio's values are.
enum class RatioKind {
  kNumerator,  // to be divided by the node's source prior
  kRatio,      // as it is
  kBalance,    // kNumerator, for the examples that a federated predictor is trained on
};

}  // namespace labelshift
