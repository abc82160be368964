#pragma once

#include <cstdint>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/core/base/rng.hpp"

namespace labelshift {

/// What the seed of a run is used for, so that no two uses draw the same numbers.
enum class Stream : std::uint64_t {
  kModel = 0x696e6974,                  // initial weights of the model
  kFederatedPredictor = 0x696e697470,   // initial weights of a predictor that all train
  kCohort = 0x636f686f7274,             // who trains in a round
  kPredictorCohort = 0x636f686f727470,  // who trains that predictor in a round
  kParts = 0x7061727473,                // which of a node's examples are held out
  kLocalPredictor = 0x70726564,         // all of a node's own predictor
  kModelRounds = 0x6d6f64656c,          // batches and dropout of a round
  kCoin = 0x636f696e,                   // how many steps a round has, where chance decides
  kCompression = 0x71756e74,            // what is random about a compressed update
  kFolds = 0x666f6c64,                  // which held-out examples are cross-validated together
  kSharedPrior = 0x7072696f72,          // what a node draws to know its mix under the prior that all share
  kPredictorRounds = 0x70726f756e,      // the same for the predictor that all train
};

/// What the seed of a federation's data is mixed with for each use of it.
inline constexpr std::uint64_t kTrainSalt = 0x7472;     // which training examples go to which node
inline constexpr std::uint64_t kTestSalt = 0x7465;      // the same for test examples
inline constexpr std::uint64_t kDealSalt = 0x6465616c;  // the order in which examples are dealt

/// For one node in one round.
inline std::uint64_t node_seed(std::uint64_t seed, Stream stream, Index node, std::uint64_t round = 0) {
  return Rng(Rng(stream_seed(seed, stream), round)(), static_cast<std::uint64_t>(node))();
}

}  // namespace labelshift
