#pragma once

#include <cstdint>
#include <memory>

#include "labelshift/federation/shared_weights.hpp"

namespace labelshift {

/// A net of a worker, which many nodes use in turn, and which of its weights travel.
class SharedNet {
 public:
  SharedNet(std::unique_ptr<Net> net, bool batch_norms);

  Net& net() { return *net_; }
  const SharedWeights& shared() const { return shared_; }
  /// What stays at a node, as it was before any training.
  std::span<const float> fresh() const { return fresh_; }

  /// Gives the net the weights of a message, of the call with this serial. Where the net still has them, nothing is
  /// copied. Throws Error{kPeer} if they are not as many as travel.
  void take(std::span<const float> message, std::uint64_t serial);
  /// To be called by whoever changes weights that travel.
  void changed() { held_ = 0; }

 private:
  std::unique_ptr<Net> net_;
  SharedWeights shared_;
  std::vector<float> fresh_;
  std::uint64_t held_ = 0;  // the serial of the call whose weights it has; serials are counted from 1
};

}  // namespace labelshift
