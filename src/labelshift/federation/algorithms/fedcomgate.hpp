#pragma once

#include "labelshift/federation/algorithms/fedcom.hpp"

namespace labelshift {

/// Compressed local SGD with gradient tracking, FedCOMGATE (Haddadpour et al. 2021, Alg. 3). Node k steps along
/// g - delta_k, where delta_k is by how much its gradients have differed from the mean of all so far:
///
///     delta_k <- delta_k + (Q(Delta_k) - mean_j Q(Delta_j)) / (tau eta),
///
/// with Delta_k = w_server - w_k after tau local steps of eta, as the server reads it. So a node needs the mean, which
/// comes with the next request, and what it sent. The delta_k add up to 0, which needs everybody in every round.
class FedComGate : public FedAvg {
 public:
  explicit FedComGate(const AlgorithmSetup& setup);

  bool has_memory() const override { return true; }
  MissingNodes when_missing() const override { return MissingNodes::kRepeat; }
  std::vector<std::string> warnings() const override;
  void start(std::vector<float> weights) override;
  void make_request(std::vector<float>& parts) const override;
  void server_update(const TrainingSums<double>& sums) override;
  AlgorithmState save() const override;
  void load(AlgorithmState state) override;
  void node_settle(NodeRound& round) const override;
  TaskAnswer<Train> node_update(NodeRound& round) const override;
  void node_sent(NodeRound& round, std::span<const float> update) const override;

 private:
  const Index parameters_;        // p
  std::vector<float> aggregate_;  // (p) the mean of what nodes sent in the last round
};

void check_fedcomgate(const FederationSettings& settings);

inline constexpr AlgorithmEntry kFedComGate{.name = "fedcomgate",
                                            .summary = "fedcom whose nodes track the gradient of all",
                                            .make = make_one<FedComGate>,
                                            .check = check_fedcomgate,
                                            .theorem_step = compressed_theorem_step};

}  // namespace labelshift
