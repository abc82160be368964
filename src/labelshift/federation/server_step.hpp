#pragma once

#include <span>
#include <string>

#include "labelshift/learning/optimiser.hpp"

namespace labelshift {

struct ServerSettings {
  std::string optimiser = "adam";  // a row of server_optimisers()
  double learning_rate = 1e-3;
  double weight_decay = 1e-6;  // added to the gradient, as in PyTorch's Adam
  double momentum = 0.0;       // of sgd
  double beta1 = 0.9;          // of adam and yogi
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

struct ServerOptimiserEntry {
  const char* name;
  const char* summary;
  bool adaptive;  // keeps a mean and squares; otherwise a mean if there is momentum
  void (*step)(const ServerSettings& settings, Adam::State& state, std::span<float> parameters,
               std::span<const float> gradient);
};

/// Every optimiser there is for the server. Help, suggestions and shared tests walk these rows.
std::span<const ServerOptimiserEntry> server_optimisers();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const ServerOptimiserEntry& find_server_optimiser(const std::string& name);

/// The server's step from the averaged update of the nodes: a gradient, or what their local steps took away from the
/// weights (a pseudo-gradient; then sgd with learning rate 1 is plain FedAvg).
class ServerStep {
 public:
  /// All there is to go on from later. Vectors an optimiser does not need are empty.
  using State = Adam::State;

  /// Throws as find_server_optimiser() does.
  ServerStep(std::size_t parameters, const ServerSettings& settings);

  /// `update` (p) is the mean over the nodes. With adam this is Adam of learning/optimiser.hpp, bit for bit.
  void step(std::span<float> parameters, std::span<const float> update);

  const State& state() const { return state_; }
  /// Throws Error{kInput} if the state is of another number of parameters or of another optimiser.
  void restore(State state);
  /// Swaps its state for one of the same shape, which costs nothing however many parameters there are.
  void exchange(State& state) { std::swap(state_, state); }

 private:
  ServerSettings settings_;
  const ServerOptimiserEntry& optimiser_;
  std::size_t parameters_;
  State state_;
};

}  // namespace labelshift
