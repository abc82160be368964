#pragma once

#include <string>
#include <vector>

#include "labelshift/experiments/experiment_file.hpp"

namespace labelshift {

/// One combination of the values that a row is tuned over.
struct TuningCandidate {
  std::string text;  // "training.learning-rate = 0.001"
  ComparedRun run;   // with these values, and nothing left to tune
};

/// Every combination, the last key running fastest; the row itself if there is nothing to tune.
std::vector<TuningCandidate> candidates_of(const ComparedRun& run);

}  // namespace labelshift
