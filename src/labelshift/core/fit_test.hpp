#pragma once

#include <optional>

#include "labelshift/core/hypothesis_test.hpp"
#include "labelshift/core/ratio_estimator.hpp"

namespace labelshift {

/// Tests the label-shift assumption itself: is the target's distribution of f(x) a mixture of the source's
/// class-conditional ones? A small p-value says that p(x | y) has moved too, or that the target holds a class the
/// source does not know, so that no ratio r can explain it and the estimates are not to be trusted.
///
/// It compares how often each cell (predicted class, confidence bin) occurs: pi in the target, M(:, c) among the source
/// rows of class c. Under label shift pi = M q for the target's prior q, whatever f is, calibrated or not; q is fitted
/// by minimum chi-squared and not by Eq. (3), which a miscalibrated f biases, and is not kept >= 0, so that the law of
/// the statistic is chi-squared also where a class is absent from the target. The variances of pi and of M both count.
///
/// In simulations a 5 % test rejects a true hypothesis in 2 to 8 % of samples of 500 rows or more a side; with classes
/// of fewer than about 40 source rows it rejects less often still, and loses power. Classes without a source row are
/// taken not to occur. The rows must not be ones that f was trained on. Empty if there are not more cells than classes:
/// too few rows, or too few different confidences. Throws Error{kInput} if columns, labels or weights do not fit.
std::optional<HypothesisTest> label_shift_fit_test(const SourceSample& source, const TargetSample& target);

}  // namespace labelshift
