#include "labelshift/federation/algorithms/balanced_softmax.hpp"

#include <cmath>

#include "labelshift/data/datasets/splits.hpp"

namespace labelshift {

std::vector<float> BalancedSoftmax::logit_offsets(const LocalLoss& loss) const {
  const std::vector<Index> counts = class_counts(loss.data.labels, loss.rows, loss.data.classes());
  std::vector<float> offsets;
  for (const Index n : counts) {  // log n_c - log n
    const double share = static_cast<double>(n) / static_cast<double>(loss.rows.size());
    offsets.push_back(n > 0 ? static_cast<float>(std::log(share)) : kLeftOut);
  }
  return offsets;
}

std::vector<std::string> BalancedSoftmax::warnings() const {
  return warnings_of_offsets();
}

}  // namespace labelshift
