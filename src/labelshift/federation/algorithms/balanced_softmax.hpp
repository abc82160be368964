#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FedAvg whose nodes add the logarithm of their own class shares to the logits in training: log p_k^tr(c) (Ren et al.
/// 2020). What the model then learns of a node's examples is which class they are where all are as common.
class BalancedSoftmax : public FedAvg {
 public:
  explicit BalancedSoftmax(const AlgorithmSetup& setup) : FedAvg(setup) {}
  std::vector<std::string> warnings() const override;

 protected:
  /// A class that the node lacks is left out of the softmax, as log 0 says.
  std::vector<float> logit_offsets(const LocalLoss& loss) const override;
};

inline constexpr AlgorithmEntry kBalancedSoftmax{.name = "balanced-softmax",
                                                 .summary = "fedavg with log p_k^tr added to the logits in training",
                                                 .make = make_one<BalancedSoftmax>,
                                                 .check = check_fedavg};

}  // namespace labelshift
