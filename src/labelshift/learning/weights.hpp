#pragma once

#include <span>
#include <vector>

#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {

/// The weights of a net under the names of PyTorch's state_dict; views of the net's memory.
std::vector<NamedTensor> weights_of(Net& net);

/// Gives the net the weights of a file. Throws Error{kInput} if one is missing, has another shape or is not finite;
/// then the net's weights are of no use.
void load_weights(const SafetensorsFile& file, Net& net);

/// A copy of the weights of a net, to go back to.
class WeightSnapshot {
 public:
  explicit WeightSnapshot(Net& net);
  void restore(Net& net) const;

 private:
  std::vector<float> parameters_;
  std::vector<float> buffers_;
};

}  // namespace labelshift
