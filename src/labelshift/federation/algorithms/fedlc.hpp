#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FedAvg whose nodes take a margin of tau n_c^(-1/4) off the logit of class c in training, n_c being the node's own
/// examples of it, so that a rare class has to win by more (Zhang et al. 2022).
class FedLc : public FedAvg {
 public:
  explicit FedLc(const AlgorithmSetup& setup) : FedAvg(setup) {}
  std::vector<std::string> warnings() const override;

 protected:
  /// The margin of a class that the node lacks has no bound, so the class is left out of the softmax. (The authors put
  /// 1e-8 in place of n_c = 0. That is a margin of 100 tau, which comes to the same unless tau is small.)
  std::vector<float> logit_offsets(const LocalLoss& loss) const override;
};

inline constexpr AlgorithmEntry kFedLc{.name = "fedlc",
                                       .summary = "fedavg with tau n_c^(-1/4) taken off the logits in training",
                                       .make = make_one<FedLc>,
                                       .check = check_fedavg};

}  // namespace labelshift
