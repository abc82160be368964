#pragma once

#include <span>
#include <vector>

#include "labelshift/data/dataset.hpp"

namespace labelshift {

/// x -> (x - mean) * scale, of a channel of images or a column of a table, in the units of the data set's values.
struct Normalisation {
  std::vector<float> mean;   // (channels), or (columns) of a table
  std::vector<float> scale;  // 1 / standard deviation; 1 where that is 0

  bool operator==(const Normalisation&) const = default;
};

/// Makes the mean of `rows` 0 and their standard deviation 1.
Normalisation fit_normalisation(const Dataset& data, std::span<const Index> rows);

}  // namespace labelshift
