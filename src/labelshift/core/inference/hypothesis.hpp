#pragma once

namespace labelshift {

/// The outcome of a test: a small p-value speaks against the hypothesis.
struct HypothesisTest {
  double statistic = 0.0;           // on the chi-squared scale: about degrees_of_freedom when the hypothesis is true
  double p_value = 1.0;             // of the statistic's distribution in samples of this size
  double degrees_of_freedom = 0.0;  // 0 where the samples are too small or too uniform to compare anything
};

}  // namespace labelshift
