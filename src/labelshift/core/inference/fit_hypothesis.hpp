#pragma once

#include <Eigen/Core>
#include <optional>
#include <span>
#include <vector>

#include "labelshift/core/estimators/ratio_estimator.hpp"
#include "labelshift/core/inference/hypothesis.hpp"

namespace labelshift {

/// Cells (predicted class, confidence bin), numbered predicted class by predicted class, by increasing confidence
/// within one. The edges are quantiles of the source's confidences, in thousandths, and use no label.
class ConfidenceCells {
 public:
  explicit ConfidenceCells(const Probabilities& source_probs);

  Index classes() const { return static_cast<Index>(edges_.size()); }
  Index size() const { return first_.back(); }
  Index first_of(Index predicted) const { return first_[static_cast<std::size_t>(predicted)]; }
  Index cell_of(Index predicted, double confidence) const;

 private:
  std::vector<std::vector<double>> edges_;  // per predicted class, increasing
  std::vector<Index> first_;                // (m + 1) number of the first cell of each predicted class
};

/// Tests the label-shift assumption itself: is the target's distribution of f(x) a mixture of the source's
/// class-conditional ones? A small p-value says that p(x | y) has moved too, or that the target holds a class the
/// source does not know, so that no ratio r can explain it and the estimates are not to be trusted.
///
/// It compares how often each of the ConfidenceCells occurs: pi in the target, M(:, c) among the source
/// rows of class c. Under label shift pi = M q for the target's prior q, whatever f is, calibrated or not; q is fitted
/// by minimum chi-squared and not by Eq. (3), which a miscalibrated f biases, over the simplex: a mix with a share
/// below 0 explains nothing. A share that is held at 0 is a degree of freedom more, given which the law of the
/// statistic is chi-squared also where a class is absent from the target. The variances of pi and of M both count.
///
/// In simulations a 5 % test rejects a true hypothesis in 2 to 8 % of samples of 500 rows or more a side; with classes
/// of fewer than about 40 source rows it rejects less often still, and loses power. Classes without a source row are
/// taken not to occur. The rows must not be ones that f was trained on. Empty if there are not more cells than classes:
/// too few rows, or too few different confidences. Throws Error{kInput} if columns, labels or weights do not fit.
std::optional<HypothesisTest> label_shift_fit_test(const SourceSample& source, const TargetSample& target);

/// The same for a target that comes in batches: it keeps counts, however many rows were seen, and a copy of none.
class LabelShiftFitTest {
 public:
  explicit LabelShiftFitTest(const SourceSample& source);

  /// Adds target rows; empty weights mean all ones.
  void add(const Probabilities& target_probs, std::span<const double> weights = {});

  /// Multiplies the weight of every target row seen so far, for exponential forgetting.
  void scale(double factor);

  /// What the rows seen so far say.
  std::optional<HypothesisTest> current() const;

 private:
  ConfidenceCells cells_;
  Eigen::MatrixXd source_weight_;          // (cells, m) sum w of the source rows of each class
  Eigen::VectorXd source_squared_weight_;  // (m) sum w^2 of them
  double source_rows_;                     // effective
  Eigen::VectorXd target_weight_;          // (cells) sum w
  double target_squared_weight_ = 0.0;     // sum w^2
};

}  // namespace labelshift
