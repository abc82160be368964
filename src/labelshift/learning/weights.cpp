#include "labelshift/learning/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

std::span<float> memory_of(Net& net, const TensorPlace& place) {
  const Index count = std::accumulate(place.shape.begin(), place.shape.end(), Index{1}, std::multiplies<>());
  return (place.buffer ? net.buffers() : net.parameters()).subspan(place.offset, count);
}

}  // namespace

std::vector<NamedTensor> weights_of(Net& net) {
  std::vector<NamedTensor> weights;
  for (const TensorPlace& place : net.tensors()) weights.push_back({place.name, place.shape, memory_of(net, place)});
  return weights;
}

void load_weights(const SafetensorsFile& file, Net& net) {
  for (const TensorPlace& place : net.tensors()) {
    const std::span<const float> values = file.tensor(place.name, place.shape);
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: tensor \"{}\" holds a number that is not finite", file.path(), place.name));
    std::copy(values.begin(), values.end(), memory_of(net, place).begin());
  }
}

WeightSnapshot::WeightSnapshot(Net& net)
    : parameters_(net.parameters().begin(), net.parameters().end()),
      buffers_(net.buffers().begin(), net.buffers().end()) {}

void WeightSnapshot::restore(Net& net) const {
  std::copy(parameters_.begin(), parameters_.end(), net.parameters().begin());
  std::copy(buffers_.begin(), buffers_.end(), net.buffers().begin());
}

}  // namespace labelshift
