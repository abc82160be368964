#pragma once

#include <vector>

#include "labelshift/federation/federated_data.hpp"

namespace labelshift {

/// (n) What the training examples of a node weigh where the nodes' label mixes are known (ratio.method = "true"):
/// r_k(y) = sum_j q_j(y) / p_k(y), by counting. Every node has examples of every class.
inline std::vector<float> true_weights(const FederatedData& data, Index k) {
  const auto shares = [&](const Dataset& set, const std::vector<Index>& rows) {
    std::vector<double> result(data.class_names.size());
    for (const Index row : rows)
      result[static_cast<std::size_t>(set.labels[row])] += 1.0 / static_cast<double>(rows.size());
    return result;
  };
  std::vector<double> ratio(data.class_names.size());
  for (const NodeData& node : data.nodes) {
    const std::vector<double> q = shares(*node.test, node.test_rows);
    for (std::size_t c = 0; c < ratio.size(); ++c) ratio[c] += q[c];
  }
  const NodeData& own = data.nodes[static_cast<std::size_t>(k)];
  const std::vector<double> p = shares(*own.train, own.train_rows);
  std::vector<float> weights;
  for (const Index row : own.train_rows) {
    const auto label = static_cast<std::size_t>(own.train->labels[row]);
    weights.push_back(static_cast<float>(ratio[label] / p[label]));
  }
  return weights;
}

}  // namespace labelshift
