#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FedAvg whose batch norms, parameters and statistics, stay at their node (Li et al. 2021).
class FedBn : public FedAvg {
 public:
  explicit FedBn(const AlgorithmSetup& setup) : FedAvg(setup, /*batch_norms=*/false) {}

  bool shares_batch_norms() const override { return false; }
  bool has_memory() const override { return shared().local_size() > 0; }
  std::vector<std::string> warnings() const override;
  TaskAnswer<Train> node_update(NodeRound& round) const override;
  void personalise(SharedNet& model, const NamedParts& memory) const override;
};

inline constexpr AlgorithmEntry kFedBn{.name = "fedbn",
                                       .summary = "fedavg whose batch norms stay at their node",
                                       .make = make_one<FedBn>,
                                       .check = check_fedavg};

}  // namespace labelshift
