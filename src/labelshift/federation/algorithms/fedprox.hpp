#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FedAvg with mu / 2 |w - w_server|^2 in the local loss (Li et al. 2020).
class FedProx : public FedAvg {
 public:
  explicit FedProx(const AlgorithmSetup& setup) : FedAvg(setup) {}

 protected:
  LocalSettings local(const NodeRound& round) const override { return round.local; }
};

void check_fedprox(const FederationSettings& settings);

inline constexpr AlgorithmEntry kFedProx{.name = "fedprox",
                                         .summary = "fedavg with mu / 2 |w - w_server|^2 in the local loss",
                                         .make = make_one<FedProx>,
                                         .check = check_fedprox};

}  // namespace labelshift
