#pragma once

#include <vector>

namespace labelshift {

/// A mean with Student's 95 % interval.
struct MeanInterval {
  double mean = 0.0;
  double low = 0.0;
  double high = 0.0;
};

/// The mean of `values`, each a mean of its own. Of one value the interval has no width.
MeanInterval mean_interval(const std::vector<double>& values);

/// The same for the geometric mean, by logarithms.
MeanInterval geometric_interval(std::vector<double> values);

}  // namespace labelshift
