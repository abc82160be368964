#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/learning/net.hpp"
#include "labelshift/learning/optimiser.hpp"

namespace labelshift {

/// What a net is trained on.
struct TrainingExamples {
  const Dataset& data;
  std::span<const Index> rows;
  std::span<const float> weights;  // of each of `rows`: importance or class-balancing weights; empty: all ones
};

struct TrainingSettings {
  double zeta = 1.0;  // of Eq. (4)
  int epochs = 10;    // at most
  // Training ends after an epoch whose mean cross-entropy, without zeta Omega, is below this. 0: never.
  double stop_below = 0.0;
  Index batch = 64;
  AdamSettings adam;
  std::uint64_t seed = 0;  // of the order of the examples and of dropout
};

/// All there is to go on from later, but the net's own weights.
struct TrainingState {
  std::vector<double> cross_entropy;  // mean over each epoch done, while the weights moved
  Adam::State adam;
};

enum class TrainingStop { kEpochs, kThreshold };

struct TrainingResult {
  TrainingState state;
  TrainingStop stopped_by = TrainingStop::kEpochs;
};

struct TrainingHooks {
  /// After each step, with how much of settings.epochs is done.
  Observer progress;
  /// After each epoch; the net is as it is then.
  std::function<void(const TrainingState& state)> epoch;
};

/// Trains `net` by Eq. (4) with Adam, from its weights and `start` on. The order of an epoch depends on the seed and
/// the number of the epoch alone, the noise of a step on the seed and the number of the step: a training that goes on
/// from the state and the weights after any epoch ends in the same bits as one that never stopped.
///
/// Throws Error{kInput} naming the step if the loss or, after an epoch, a weight is not finite; the observer has not
/// been told of that epoch. Throws Stopped if the observer says so.
TrainingResult train_predictor(Net& net, const TrainingExamples& examples, const TrainingSettings& settings,
                               const TrainingHooks& hooks = {}, TrainingState start = {});

/// What the paper trains this net with: a smaller step and more decay for ResNet-18.
AdamSettings adam_settings_for(const std::string& net);

}  // namespace labelshift
