#include "labelshift/federation/shared_weights.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace labelshift {

void SharedWeights::Ranges::add(Range range) {
  size += range.size;
  if (!parts.empty() && parts.back().offset + parts.back().size == range.offset)
    parts.back().size += range.size;
  else
    parts.push_back(range);
}

void SharedWeights::Ranges::append(std::span<const float> from, std::vector<float>& to) const {
  for (const Range& range : parts)
    to.insert(to.end(), from.begin() + range.offset, from.begin() + range.offset + range.size);
}

std::span<const float> SharedWeights::Ranges::place(std::span<const float> from, std::span<float> to) const {
  for (const Range& range : parts) {
    std::copy_n(from.begin(), range.size, to.begin() + range.offset);
    from = from.subspan(range.size);
  }
  return from;
}

SharedWeights::SharedWeights(const Net& net, bool batch_norms) {
  for (const TensorPlace& place : net.tensors()) {
    const Range range{place.offset,
                      std::accumulate(place.shape.begin(), place.shape.end(), Index{1}, std::multiplies<>())};
    const bool shared = batch_norms || !place.batch_norm;
    if (shared && place.buffer && place.batch_norm && place.name.ends_with("running_var"))
      variances_.push_back({place.name, buffers_.size, range.size});
    if (place.buffer)
      (shared ? buffers_ : local_buffers_).add(range);
    else
      (shared ? parameters_ : local_parameters_).add(range);
  }
}

std::vector<PartLayout::Part> SharedWeights::variances() const {
  std::vector<PartLayout::Part> in_message = variances_;
  for (PartLayout::Part& part : in_message) part.offset += parameters();
  return in_message;
}

std::vector<float> SharedWeights::gather(std::span<const float> parameters, std::span<const float> buffers) const {
  std::vector<float> message;
  message.reserve(size());
  parameters_.append(parameters, message);
  buffers_.append(buffers, message);
  return message;
}

void SharedWeights::scatter(std::span<const float> message, std::span<float> parameters,
                            std::span<float> buffers) const {
  assert(std::ssize(message) >= size());
  buffers_.place(parameters_.place(message, parameters), buffers);
}

std::vector<float> SharedWeights::gather_local(std::span<const float> parameters,
                                               std::span<const float> buffers) const {
  std::vector<float> values;
  values.reserve(local_size());
  local_parameters_.append(parameters, values);
  local_buffers_.append(buffers, values);
  return values;
}

void SharedWeights::scatter_local(std::span<const float> values, std::span<float> parameters,
                                  std::span<float> buffers) const {
  assert(std::ssize(values) == local_size());
  local_buffers_.place(local_parameters_.place(values, parameters), buffers);
}

}  // namespace labelshift
