#include "labelshift/federation/model_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace labelshift {

std::string model_schema(const Net& net, const FederatedAlgorithm& algorithm) {
  std::string text;
  for (const TensorPlace& tensor : net.tensors())
    text += fmt::format("{} {}, ", tensor.name, fmt::join(tensor.shape, "x"));
  return fmt::format("{}asked for {}, answering {}", text, algorithm.request_parts().describe(),
                     algorithm.answer_parts().describe());
}

bool have_same_tensors(const Net& one, const Net& other) {
  const auto these = one.tensors(), those = other.tensors();
  return std::equal(these.begin(), these.end(), those.begin(), those.end(),
                    [](const TensorPlace& a, const TensorPlace& b) { return a.name == b.name && a.shape == b.shape; });
}

}  // namespace labelshift
