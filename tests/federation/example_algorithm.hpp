#pragma once

#include <cmath>

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FedAvg whose nodes send no update longer than 1, so that nobody moves the model far (McMahan et al. 2018).
class FedClip : public FedAvg {
 public:
  explicit FedClip(const AlgorithmSetup& setup) : FedAvg(setup) {}

  TaskAnswer<Train> node_update(NodeRound& round) const override {
    TaskAnswer<Train> answer = FedAvg::node_update(round);
    const std::span<float> update = answer_parts().of(answer.sums.parts, "update");
    double squares = 0.0;
    for (const float value : update) squares += static_cast<double>(value) * value;
    const double norm = std::sqrt(squares) / round.weight;  // an answer is multiplied by the node's weight
    if (norm > 1.0)
      for (float& value : update) value = static_cast<float>(value / norm);
    return answer;
  }
};

inline constexpr AlgorithmEntry kFedClip{.name = "fedclip",
                                         .summary = "fedavg whose updates are no longer than 1",
                                         .make = make_one<FedClip>,
                                         .check = check_fedavg};

}  // namespace labelshift
