#include "labelshift/federation/regulariser.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "labelshift/core/base/named_entries.hpp"

namespace labelshift {
namespace {

/// R(w) = strength |w|_1: every weight goes towards 0 by step strength, and no further.
void l1(const RegulariserSettings& settings, double step, std::span<float> group) {
  const auto threshold = static_cast<float>(step * settings.strength);
  for (float& w : group) w = std::copysign(std::max(std::abs(w) - threshold, 0.0F), w);
}

/// R(w) = strength sum_g sqrt(|g|) |w_g|_2 (Yuan & Lin 2006): every group is shortened by as much, and no further.
void group_l1(const RegulariserSettings& settings, double step, std::span<float> group) {
  double squares = 0.0;
  for (const float w : group) squares += static_cast<double>(w) * w;
  const double threshold = step * settings.strength * std::sqrt(static_cast<double>(group.size()));
  const double norm = std::sqrt(squares);
  const auto kept = static_cast<float>(norm > threshold ? 1.0 - threshold / norm : 0.0);
  for (float& w : group) w *= kept;
}

/// R(w) = 0 where every |w_i| <= bound, else infinite: the nearest point of the box.
void box(const RegulariserSettings& settings, double /*step*/, std::span<float> group) {
  const auto bound = static_cast<float>(settings.bound);
  for (float& w : group) w = std::clamp(w, -bound, bound);
}

constexpr RegulariserEntry kRegularisers[] = {
    {.name = "l1", .summary = "strength |w|_1: weights that hardly matter become 0", .prox = l1},
    {.name = "group-l1",
     .summary = "strength sum of sqrt(size) |w_g|_2 over the units g of layers: units that hardly matter become 0",
     .prox = group_l1},
    {.name = "box", .summary = "no weight is larger than bound", .prox = box},
};

}  // namespace

std::span<const RegulariserEntry> regularisers() {
  return kRegularisers;
}

const RegulariserEntry& find_regulariser(const std::string& name) {
  return find_entry(kRegularisers, "regulariser", name, {RegulariserSettings().name});
}

Regulariser::Regulariser(const RegulariserSettings& settings, const Net& net, bool batch_norms) : settings_(settings) {
  if (!settings.regularised()) return;
  entry_ = &find_regulariser(settings.name);
  Index offset = 0;  // among the parameters that travel
  for (const TensorPlace& place : net.tensors()) {
    if (place.buffer || (place.batch_norm && !batch_norms)) continue;
    const Index size = std::accumulate(place.shape.begin(), place.shape.end(), Index{1}, std::multiplies<>());
    if (!place.batch_norm && place.shape.size() > 1)
      for (Index unit = 0; unit < place.shape.front(); ++unit)
        groups_.push_back({offset + unit * (size / place.shape.front()), size / place.shape.front()});
    offset += size;
  }
}

void Regulariser::prox(std::span<float> parameters, double step) const {
  for (const WeightGroup& group : groups_) entry_->prox(settings_, step, parameters.subspan(group.offset, group.size));
}

}  // namespace labelshift
