#include "labelshift/federation/algorithms.hpp"

#include "labelshift/core/settings.hpp"

namespace labelshift {
namespace {

constexpr AlgorithmEntry kAlgorithms[] = {
    {.name = "fedavg", .summary = "average the nodes' gradients, or what their local steps changed"},
    {.name = "fedprox",
     .summary = "fedavg with mu / 2 |w - w_server|^2 in the local loss",
     .proximal = true,
     .several_steps = true},
    {.name = "fedbn", .summary = "fedavg whose batch norms stay at their node", .local_batch_norm = true},
    {.name = "scaffold",
     .summary = "fedavg whose local steps are corrected by control variates",
     .control_variates = true,
     .several_steps = true},
    {.name = "iw-erm", .summary = "fedavg with importance weights (sum_j q_j) / p_k^tr in the loss", .weighted = true},
};

}  // namespace

std::span<const AlgorithmEntry> algorithms() {
  return kAlgorithms;
}

const AlgorithmEntry& find_algorithm(const std::string& name) {
  return find_entry(kAlgorithms, "algorithm", name);
}

}  // namespace labelshift
