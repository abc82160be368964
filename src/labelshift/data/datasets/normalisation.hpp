#pragma once

#include <span>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"

namespace labelshift {

/// x -> (x - mean) * scale, of a channel of images or a column of a table, in the units of the data set's values.
struct Normalisation {
  std::vector<float> mean;   // (channels), or (columns) of a table
  std::vector<float> scale;  // 1 / standard deviation; 1 where that is 0

  bool operator==(const Normalisation&) const = default;
};

/// Sums over examples that a normalisation is made of. Those of nodes can be added up, so that all agree on one without
/// showing an example.
struct ValueSums {
  double count = 0.0;           // of values behind each sum
  std::vector<double> sum;      // (channels), or (columns) of a table
  std::vector<double> squares;  // the same
};

ValueSums value_sums(const Dataset& data, std::span<const Index> rows);
Normalisation normalisation_of(const ValueSums& sums);

/// The largest |x|^2 of these examples once they are normalised; 0 where there is none.
double largest_square(const Dataset& data, std::span<const Index> rows, const Normalisation& normalisation);

/// Makes the mean of `rows` 0 and their standard deviation 1.
Normalisation fit_normalisation(const Dataset& data, std::span<const Index> rows);

}  // namespace labelshift
