#pragma once

#include <cstdint>

#include "labelshift/core/base/rng.hpp"

namespace labelshift {

/// What the seed of a training is used for, so that no two uses draw the same numbers.
enum class TrainingStream : std::uint64_t {
  kOrder = 1,              // of the examples
  kNoise = 2,              // of dropout
  kHalves = 0x68616c66,    // which held-out examples fit a calibration and which judge it
  kTrials = 0x747269616c,  // the shifts that a predictor is judged on
};

}  // namespace labelshift
