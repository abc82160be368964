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
    bool operator==(const State&) const = default;
  };

  Adam(std::size_t parameters, const AdamSettings& settings);

  void step(std::span<float> parameters, std::span<const float> gradient);

  const State& state() const { return state_; }
  void restore(State state);

 private:
  AdamSettings settings_;
  State state_;
};

/// One step of Adam from a state to the next one: all that Adam::step() does.
void adam_step(const AdamSettings& settings, Adam::State& state, std::span<float> parameters,
               std::span<const float> gradient);

/// The same with the second moment of Yogi (Zaheer et al. 2018, as a server's step Reddi et al. 2021): v - (1 - beta2)
/// sign(v - g^2) g^2. It is corrected for its start at zero as Adam's is; in the papers it starts at a small number
/// instead and is not corrected.
void yogi_step(const AdamSettings& settings, Adam::State& state, std::span<float> parameters,
               std::span<const float> gradient);

}  // namespace labelshift
