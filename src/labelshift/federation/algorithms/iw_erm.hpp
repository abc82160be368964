#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

void check_iw_erm(const FederationSettings& settings);

/// (IW-ERM): FedAvg that must have importance weights. Every algorithm can have them; they are weights of classes in
/// the local loss.
inline constexpr AlgorithmEntry kIwErm{.name = "iw-erm",
                                       .summary = "fedavg with importance weights (sum_j q_j) / p_k^tr in the loss",
                                       .make = make_one<FedAvg>,
                                       .check = check_iw_erm,
                                       .theorem_step = sgd_theorem_step};

}  // namespace labelshift
