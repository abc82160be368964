#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FedAvg whose local steps are corrected by control variates c - c_k (Karimireddy et al. 2020). c is the mean of the
/// c_k that count, over all nodes that take part, whoever is in a round.
class Scaffold : public FedAvg {
 public:
  explicit Scaffold(const AlgorithmSetup& setup);

  bool has_memory() const override { return true; }
  bool adds_up() const override { return true; }
  void begin_anew(Index nodes) override;
  void start(std::vector<float> weights) override;
  void make_request(std::vector<float>& parts) const override;
  void server_update(const TrainingSums<double>& sums) override;
  AlgorithmState save() const override;
  void load(AlgorithmState state) override;
  TaskAnswer<Train> node_update(NodeRound& round) const override;

 private:
  const Index parameters_;      // p
  Index nodes_;                 // that take part
  std::vector<float> control_;  // (p) c
};

void check_scaffold(const FederationSettings& settings);

inline constexpr AlgorithmEntry kScaffold{.name = "scaffold",
                                          .summary = "fedavg whose local steps are corrected by control variates",
                                          .make = make_one<Scaffold>,
                                          .check = check_scaffold};

}  // namespace labelshift
