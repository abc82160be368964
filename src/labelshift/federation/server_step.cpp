#include "labelshift/federation/server_step.hpp"

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"

namespace labelshift {
namespace {

AdamSettings adam_settings(const ServerSettings& settings) {
  return {.learning_rate = settings.learning_rate,
          .weight_decay = settings.weight_decay,
          .beta1 = settings.beta1,
          .beta2 = settings.beta2,
          .epsilon = settings.epsilon};
}

/// As PyTorch's SGD: b = momentum b + g, w -= rate b.
void sgd(const ServerSettings& settings, Adam::State& state, std::span<float> parameters,
         std::span<const float> gradient) {
  ++state.steps;
  const auto rate = static_cast<float>(settings.learning_rate);
  const auto decay = static_cast<float>(settings.weight_decay);
  const auto momentum = static_cast<float>(settings.momentum);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    float slope = gradient[i] + decay * parameters[i];
    if (!state.mean.empty()) slope = state.mean[i] = momentum * state.mean[i] + slope;
    parameters[i] -= rate * slope;
  }
}

void adam(const ServerSettings& settings, Adam::State& state, std::span<float> parameters,
          std::span<const float> gradient) {
  adam_step(adam_settings(settings), state, parameters, gradient);
}

void yogi(const ServerSettings& settings, Adam::State& state, std::span<float> parameters,
          std::span<const float> gradient) {
  yogi_step(adam_settings(settings), state, parameters, gradient);
}

constexpr ServerOptimiserEntry kServerOptimisers[] = {
    {.name = "sgd", .summary = "gradient steps, with momentum if asked for", .adaptive = false, .step = sgd},
    {.name = "adam", .summary = "Adam, as in the paper", .adaptive = true, .step = adam},
    {.name = "yogi",
     .summary = "Adam whose second moment changes by (1 - beta2) g^2 at most",
     .adaptive = true,
     .step = yogi},
};

}  // namespace

std::span<const ServerOptimiserEntry> server_optimisers() {
  return kServerOptimisers;
}

const ServerOptimiserEntry& find_server_optimiser(const std::string& name) {
  return find_entry(kServerOptimisers, "server optimiser", name);
}

ServerStep::ServerStep(std::size_t parameters, const ServerSettings& settings)
    : settings_(settings), optimiser_(find_server_optimiser(settings.optimiser)), parameters_(parameters) {
  if (optimiser_.adaptive || settings.momentum != 0.0) state_.mean.resize(parameters);
  if (optimiser_.adaptive) state_.squares.resize(parameters);
}

void ServerStep::step(std::span<float> parameters, std::span<const float> update) {
  assert(parameters.size() == parameters_ && update.size() == parameters_);
  optimiser_.step(settings_, state_, parameters, update);
}

void ServerStep::restore(State state) {
  if (state.steps < 0 || state.mean.size() != state_.mean.size() || state.squares.size() != state_.squares.size())
    throw Error(
        ErrorKind::kInput,
        fmt::format("the saved state of the server's optimiser has {} steps, {} means and {} squares, expected 0 "
                    "or more, {} and {} for {} with {} parameters",
                    state.steps, state.mean.size(), state.squares.size(), state_.mean.size(), state_.squares.size(),
                    optimiser_.name, parameters_));
  state_ = std::move(state);
}

}  // namespace labelshift
