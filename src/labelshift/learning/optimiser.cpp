#include "labelshift/learning/optimiser.hpp"

#include <cassert>
#include <cmath>

#include "labelshift/core/base/cpu.hpp"

namespace labelshift {
namespace {

/// The numbers of one step, rounded to float once.
struct Step {
  float beta1, beta2, weight_decay, epsilon;
  float rate;  // the learning rate / (1 - beta1^t)
  float root;  // 1 / sqrt(1 - beta2^t)
};

Step next_step(const AdamSettings& settings, Adam::State& state) {
  const double t = static_cast<double>(++state.steps);
  return {.beta1 = static_cast<float>(settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .weight_decay = static_cast<float>(settings.weight_decay),
          .epsilon = static_cast<float>(settings.epsilon),
          .rate = static_cast<float>(settings.learning_rate / (1.0 - std::pow(settings.beta1, t))),
          .root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(settings.beta2, t)))};
}

LABELSHIFT_INLINE inline void update(const Step& step, std::size_t size, const float* __restrict g, float* __restrict w,
                                     float* __restrict m, float* __restrict v) {
  const auto [b1, b2, decay, epsilon, rate, root] = step;
  for (std::size_t i = 0; i < size; ++i) {
    const float slope = g[i] + decay * w[i];
    m[i] = b1 * m[i] + (1.0F - b1) * slope;
    v[i] = b2 * v[i] + (1.0F - b2) * slope * slope;
    w[i] -= rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
  }
}

LABELSHIFT_INLINE inline void update_yogi(const Step& step, std::size_t size, const float* __restrict g,
                                          float* __restrict w, float* __restrict m, float* __restrict v) {
  const auto [b1, b2, decay, epsilon, rate, root] = step;
  for (std::size_t i = 0; i < size; ++i) {
    const float slope = g[i] + decay * w[i];
    const float square = slope * slope;
    const float change = (1.0F - b2) * square;
    m[i] = b1 * m[i] + (1.0F - b1) * slope;
    v[i] += v[i] < square ? change : v[i] > square ? -change : 0.0F;
    w[i] -= rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
  }
}

}  // namespace

Adam::Adam(std::size_t parameters, const AdamSettings& settings)
    : settings_(settings),
      state_{.steps = 0, .mean = std::vector<float>(parameters), .squares = std::vector<float>(parameters)} {}

void Adam::restore(State state) {
  assert(state.mean.size() == state_.mean.size() && state.squares.size() == state_.squares.size());
  state_ = std::move(state);
}

void Adam::step(std::span<float> parameters, std::span<const float> gradient) {
  adam_step(settings_, state_, parameters, gradient);
}

void adam_step(const AdamSettings& settings, Adam::State& state, std::span<float> parameters,
               std::span<const float> gradient) {
  assert(parameters.size() == state.mean.size() && gradient.size() == state.mean.size());
  const Step step = next_step(settings, state);
  on_this_cpu([&]() LABELSHIFT_INLINE {
    update(step, parameters.size(), gradient.data(), parameters.data(), state.mean.data(), state.squares.data());
  });
}

void yogi_step(const AdamSettings& settings, Adam::State& state, std::span<float> parameters,
               std::span<const float> gradient) {
  assert(parameters.size() == state.mean.size() && gradient.size() == state.mean.size());
  const Step step = next_step(settings, state);
  on_this_cpu([&]() LABELSHIFT_INLINE {
    update_yogi(step, parameters.size(), gradient.data(), parameters.data(), state.mean.data(), state.squares.data());
  });
}

}  // namespace labelshift
