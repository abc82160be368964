#pragma once

#include <memory>
#include <span>
#include <vector>

#include "labelshift/federation/federation_settings.hpp"

namespace labelshift {

/// The weights that come out of one unit of a layer: a row of a matrix, a filter of a convolution.
struct WeightGroup {
  Index offset = 0;  // into the parameters that travel
  Index size = 0;
};

/// R of a composite objective mean_k F_k(w) + R(w), by its proximal operator.
struct RegulariserEntry {
  const char* name;
  const char* summary;
  /// Replaces w by argmin_u R(u) + |u - w|^2 / (2 step), of one group.
  void (*prox)(const RegulariserSettings& settings, double step, std::span<float> group);
};

/// Every regulariser there is. Help, suggestions and shared tests walk these rows.
std::span<const RegulariserEntry> regularisers();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const RegulariserEntry& find_regulariser(const std::string& name);

/// A regulariser of the weights of a net's layers. Biases, which have one dimension, and batch norms are left alone.
class Regulariser {
 public:
  /// `batch_norms` as of SharedWeights: whether they are among the parameters that travel.
  Regulariser(const RegulariserSettings& settings, const Net& net, bool batch_norms);

  /// Replaces the parameters that travel by argmin_u R(u) + |u - w|^2 / (2 step). Nothing changes without a
  /// regulariser.
  void prox(std::span<float> parameters, double step) const;

  const std::vector<WeightGroup>& groups() const { return groups_; }

 private:
  RegulariserSettings settings_;
  const RegulariserEntry* entry_ = nullptr;
  std::vector<WeightGroup> groups_;
};

}  // namespace labelshift
