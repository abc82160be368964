#pragma once

#include <span>
#include <vector>

#include "labelshift/federation/parts.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {

/// Which weights of a net travel: all, or all but those of batch norms, which FedBN keeps at their node. Batch norms
/// are found by the type of their module. In a message the shared parameters come first, then the shared buffers.
class SharedWeights {
 public:
  SharedWeights(const Net& net, bool batch_norms);

  Index parameters() const { return parameters_.size; }
  Index size() const { return parameters_.size + buffers_.size; }
  Index local_size() const { return local_parameters_.size + local_buffers_.size; }

  /// Where the running variances of shared batch norms lie in a message.
  std::vector<PartLayout::Part> variances() const;

  /// The shared part of full vectors of parameters and buffers.
  std::vector<float> gather(std::span<const float> parameters, std::span<const float> buffers) const;
  void scatter(std::span<const float> message, std::span<float> parameters, std::span<float> buffers) const;

  /// The part that stays.
  std::vector<float> gather_local(std::span<const float> parameters, std::span<const float> buffers) const;
  void scatter_local(std::span<const float> values, std::span<float> parameters, std::span<float> buffers) const;

 private:
  struct Range {
    Index offset;
    Index size;
  };
  struct Ranges {
    std::vector<Range> parts;
    Index size = 0;
    void add(Range range);
    void append(std::span<const float> from, std::vector<float>& to) const;
    std::span<const float> place(std::span<const float> from, std::span<float> to) const;  // what is left of `from`
  };
  Ranges parameters_, buffers_, local_parameters_, local_buffers_;
  std::vector<PartLayout::Part> variances_;  // in the shared buffers
};

}  // namespace labelshift
