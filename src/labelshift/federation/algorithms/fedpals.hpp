#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FedAvg whose nodes weigh what brings the mix of their training data to that of the target, sum_j q_j (Listo Zec et
/// al. 2024; federation/mixture_weights.hpp). Their losses have no importance weights. In a round of some nodes the
/// weights of these are taken, made to sum to 1.
class FedPals : public FedAvg {
 public:
  explicit FedPals(const AlgorithmSetup& setup) : FedAvg(setup) {}
  std::optional<double> mixture_penalty() const override { return settings().fedpals_lambda; }
  void server_update(const TrainingSums<double>& sums) override;
};

void check_fedpals(const FederationSettings& settings);

inline constexpr AlgorithmEntry kFedPals{
    .name = "fedpals",
    .summary = "fedavg whose nodes weigh what brings the mix of their data to the target",
    .make = make_one<FedPals>,
    .check = check_fedpals};

}  // namespace labelshift
