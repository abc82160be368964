#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// Compressed local SGD, FedCOM (Haddadpour et al. 2021, Alg. 1; Thm. F.1): FedAvg whose updates are compressed, and
/// whose server steps by gamma (training.learning-rate) along their mean.
void check_fedcom(const FederationSettings& settings);

/// Thm. F.1: eta = 1 / (2 r_max beta gamma tau (q / K + 1)), with gamma >= K. Where nodes send gradients the server
/// steps, by gamma eta.
double compressed_theorem_step(const FederationSettings& settings, const StepFacts& facts, double steepest);

inline constexpr AlgorithmEntry kFedCom{.name = "fedcom",
                                        .summary = "local SGD whose updates are compressed",
                                        .make = make_one<FedAvg>,
                                        .check = check_fedcom,
                                        .theorem_step = compressed_theorem_step};

}  // namespace labelshift
