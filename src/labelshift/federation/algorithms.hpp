#pragma once

#include <span>
#include <string>

namespace labelshift {

/// A federated algorithm: which of the shared parts it is made of. Every algorithm can have importance weights; iw-erm
/// is fedavg that must have them.
struct AlgorithmEntry {
  const char* name;
  const char* summary;
  bool proximal;          // local loss + mu / 2 |w - w_server|^2
  bool local_batch_norm;  // batch norms stay at their node
  bool control_variates;  // local steps corrected by c - c_k
  bool weighted;          // needs a ratio
  bool several_steps;     // means something for tau > 1 only
};

/// Every algorithm there is. Help, suggestions and shared tests walk these rows.
std::span<const AlgorithmEntry> algorithms();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const AlgorithmEntry& find_algorithm(const std::string& name);

}  // namespace labelshift
