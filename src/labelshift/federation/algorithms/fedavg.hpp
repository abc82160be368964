#pragma once

#include "labelshift/federation/algorithm.hpp"
#include "labelshift/federation/server_step.hpp"

namespace labelshift {

/// Averages the nodes' gradients, or what their local steps changed, and steps along the mean at the server. Others are
/// made of its parts.
class FedAvg : public FederatedAlgorithm {
 public:
  FedAvg(const AlgorithmSetup& setup, bool batch_norms = true);

  void start(std::vector<float> weights) override;
  std::span<const float> weights() const override { return weights_; }
  void make_request(std::vector<float>& parts) const override;
  void server_update(const TrainingSums<double>& sums) override;
  AlgorithmState save() const override;
  void load(AlgorithmState state) override;
  TaskAnswer<Train> node_update(NodeRound& round) const override;

 protected:
  const FederationSettings& settings() const { return settings_; }
  const SharedWeights& shared() const { return shared_; }
  /// The node's own steps.
  virtual LocalSettings local() const;
  /// Local training from the weights of the request, `correction` (p) added to every gradient; or empty.
  LocalUpdate train_locally(NodeRound& round, std::span<const float> correction = {}) const;
  /// The first parts of an answer: the update, and buffers, times the node's weight.
  TaskAnswer<Train> answer_of(NodeRound& round, const LocalUpdate& update) const;

 private:
  const FederationSettings& settings_;
  const SharedWeights shared_;
  ServerStep server_;
  std::vector<float> weights_;  // shared parameters, then shared buffers
  std::vector<float> mean_;     // of the last answers; memory to use again
};

/// Throws SettingError for settings that no algorithm has but one of its own.
void check_fedavg(const FederationSettings& settings);

/// Throws SettingError if there is one local step, with which the algorithm would be fedavg.
void check_several_steps(const FederationSettings& settings);

/// Throws SettingError unless the server takes plain steps along the mean update.
void check_plain_server(const FederationSettings& settings);

/// Throws SettingError unless all nodes are in every round and count the same.
void check_everybody(const FederationSettings& settings);

template <typename Algorithm>
std::unique_ptr<FederatedAlgorithm> make_one(const AlgorithmSetup& setup) {
  return std::make_unique<Algorithm>(setup);
}

inline constexpr AlgorithmEntry kFedAvg{.name = "fedavg",
                                        .summary = "average the nodes' gradients, or what their local steps changed",
                                        .make = make_one<FedAvg>,
                                        .check = check_fedavg};

}  // namespace labelshift
