#pragma once

#include <limits>
#include <vector>

namespace labelshift {

/// A mean over seeds, nodes or the like. NaN is unknown.
struct MeanDeviation {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();  // sample standard deviation; unknown of one value
};

/// Of the values that are known.
MeanDeviation mean_deviation(const std::vector<double>& values);

}  // namespace labelshift
