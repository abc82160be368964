#include "labelshift/federation/model_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace labelshift {

std::string model_schema(const Net& net, const FederatedAlgorithm& algorithm) {
  std::string text;
  for (const TensorPlace& tensor : net.tensors())
    text += fmt::format("{} {}, ", tensor.name, fmt::join(tensor.shape, "x"));
  return fmt::format("{}asked for {}, answering {}", text, algorithm.request_parts().describe(),
                     algorithm.answer_parts().describe());
}

}  // namespace labelshift
