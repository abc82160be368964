#include "labelshift/federation/algorithms/fedlc.hpp"

#include <cmath>

#include "labelshift/data/datasets/splits.hpp"

namespace labelshift {

std::vector<float> FedLc::logit_offsets(const LocalLoss& loss) const {
  const double tau = settings().fedlc_tau;
  if (tau == 0.0) return {};
  const std::vector<Index> counts = class_counts(loss.data.labels, loss.rows, loss.data.classes());
  std::vector<float> offsets;
  for (const Index n : counts)
    offsets.push_back(n > 0 ? static_cast<float>(-tau * std::pow(static_cast<double>(n), -0.25)) : kLeftOut);
  return offsets;
}

std::vector<std::string> FedLc::warnings() const {
  return warnings_of_offsets();
}

}  // namespace labelshift
