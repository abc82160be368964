#pragma once

#include "labelshift/federation/algorithm.hpp"
#include "labelshift/federation/regulariser.hpp"
#include "labelshift/federation/server_step.hpp"

namespace labelshift {

/// Averages the nodes' gradients, or what their local steps changed, and steps along the mean at the server. Others are
/// made of its parts.
class FedAvg : public FederatedAlgorithm {
 public:
  FedAvg(const AlgorithmSetup& setup, bool batch_norms = true) : FedAvg(setup, setup.settings.server, batch_norms) {}
  FedAvg(const AlgorithmSetup& setup, const ServerSettings& server, bool batch_norms = true);

  void start(std::vector<float> weights) override;
  std::span<const float> weights() const override { return weights_; }
  std::vector<std::string> warnings() const override;
  void make_request(std::vector<float>& parts) const override;
  void server_update(const TrainingSums<double>& sums) override;
  AlgorithmState save() const override;
  void load(AlgorithmState state) override;
  TaskAnswer<Train> node_update(NodeRound& round) const override;

 protected:
  const FederationSettings& settings() const { return settings_; }
  const SharedWeights& shared() const { return shared_; }
  /// The node's own steps.
  virtual LocalSettings local(const NodeRound& round) const;
  /// (m) What the node's loss adds to the logits, see Objective; or empty.
  virtual std::vector<float> logit_offsets(const LocalLoss& /*loss*/) const { return {}; }
  /// How far the server has gone along a gradient in a round: the step of a regulariser's proximal operator.
  virtual double proximal_step() const;
  /// A server that goes where the mean of its nodes is.
  static ServerSettings plain_steps() { return {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0}; }

  /// (p) What a node keeps under a name, zeros at first. Throws Error{kInput} if it is of another model.
  std::vector<float>& memory_part(NodeRound& round, const char* name) const;
  /// Throws Error{kInput} unless what was kept has this many values.
  static void check_kept(const std::vector<float>& values, Index expected);

  /// Warns, for an algorithm whose nodes track what they sent, of a codec that makes what it sends much larger: what
  /// nodes track is multiplied by 1 - 1 / kept then, and runs away whatever the step size is.
  std::vector<std::string> warnings_of_tracking() const;

  /// Warns, for an algorithm whose logit_offsets() allow for a node's label mix, of importance weights that do it
  /// again.
  std::vector<std::string> warnings_of_offsets() const;

  /// Gives the round's model the weights of the request.
  void take_weights(NodeRound& round) const;
  /// Local training from the weights of the request, `correction` (p) added to every gradient; or empty.
  LocalUpdate train_locally(NodeRound& round, std::span<const float> correction = {}) const;
  /// The first parts of an answer: the update, and buffers, times the node's weight.
  TaskAnswer<Train> answer_of(NodeRound& round, const LocalUpdate& update) const;

 private:
  const FederationSettings& settings_;
  const SharedWeights shared_;
  ServerStep server_;
  const Regulariser regulariser_;
  std::vector<float> weights_;  // shared parameters, then shared buffers
  std::vector<float> mean_;     // of the last answers; memory to use again
};

/// Throws SettingError for settings that no algorithm has but one of its own.
void check_fedavg(const FederationSettings& settings);

/// Throws SettingError if there is one local step, with which the algorithm would be fedavg.
void check_several_steps(const FederationSettings& settings);

/// Throws SettingError if the server has momentum or weight decay.
void check_no_server_extras(const FederationSettings& settings);

/// Throws SettingError unless the server takes plain steps along the mean update.
void check_plain_server(const FederationSettings& settings);

/// Throws SettingError unless all nodes are in every round and count the same.
void check_everybody(const FederationSettings& settings);

/// Thm. 5.5: min{1 / (r_max beta), (sigma^2 r_max beta T)^(-1/2)}, of the server along the mean of gradients. The
/// theorem is about one node.
double sgd_theorem_step(const FederationSettings& settings, const StepFacts& facts, double steepest);

template <typename Algorithm>
std::unique_ptr<FederatedAlgorithm> make_one(const AlgorithmSetup& setup) {
  return std::make_unique<Algorithm>(setup);
}

inline constexpr AlgorithmEntry kFedAvg{.name = "fedavg",
                                        .summary = "average the nodes' gradients, or what their local steps changed",
                                        .make = make_one<FedAvg>,
                                        .check = check_fedavg,
                                        .theorem_step = sgd_theorem_step};

}  // namespace labelshift
