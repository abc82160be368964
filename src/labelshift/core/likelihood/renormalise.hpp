#pragma once

#include <string>

#include "labelshift/core/calibration/calibration.hpp"

namespace labelshift {

/// Every row divided by its sum, in the precision of `probs`: for probabilities that lost digits on their way through a
/// file. Throws Error{kInput} naming `name` and row if an entry is not finite or negative, or a row sums to 0.
CalibratedProbabilities renormalise_rows(const MatrixView& probs, const std::string& name);

}  // namespace labelshift
