#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace labelshift {

struct AdamSettings {
  double learning_rate = 1e-3;
  double weight_decay = 1e-6;  // added to the gradient, as in PyTorch's Adam
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// Adam over one flat buffer of parameters, in one loop.
class Adam {
 public:
  /// All there is to go on from later.
  struct State {
    std::int64_t steps = 0;
    std::vector<float> mean;     // (p) of the gradient
    std::vector<float> squares;  // (p) mean square of the gradient
  };

  Adam(std::size_t parameters, const AdamSettings& settings);

  void step(std::span<float> parameters, std::span<const float> gradient);

  const State& state() const { return state_; }
  void restore(State state);

 private:
  AdamSettings settings_;
  State state_;
};

}  // namespace labelshift
