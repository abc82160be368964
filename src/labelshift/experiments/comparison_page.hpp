#pragma once

#include "labelshift/experiments/comparison.hpp"
#include "labelshift/report/page.hpp"

namespace labelshift {

/// A comparison, or a single run, to be looked at: did it work, why, how did it go, and how to get it again.
Page comparison_page(const Experiment& experiment, const ComparisonResult& result);

/// How exact the accuracy of a row is, at 95 %: over seeds where there are several, else over other test examples.
MeanInterval accuracy_interval(const Experiment& experiment, const RowResult& row);

}  // namespace labelshift
