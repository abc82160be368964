#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "labelshift/federation/federation_settings.hpp"

namespace labelshift {

/// Batches of a node's examples. They follow a random order of all examples; when it is used up, another is drawn. Only
/// as much of an order is shuffled as batches need.
class BatchOrder {
 public:
  BatchOrder(Index examples, std::uint64_t seed);

  /// The positions of the next `batch` examples, fewer if the node has no more; never the same one twice.
  std::span<const Index> next(Index batch);

  /// The same for one pass over all examples. Where one example would be left alone it joins the batch before it, since
  /// a batch norm needs a variance. Empty, once, at the end of each pass.
  std::span<const Index> next_of_epoch(Index batch);

 private:
  std::span<const Index> draw(Index count);
  std::vector<Index> order_;
  Index used_ = 0;
  std::uint64_t seed_;
  std::uint64_t orders_ = 0;
};

/// What a node's local loss is made of besides its net.
struct LocalLoss {
  const Dataset& data;
  std::span<const Index> rows;
  std::span<const float> class_weights;  // (m) (IW-ERM)'s r_k(y), or empty: all ones
  double zeta = 0.0;                     // of Eq. (4), for predictors
  std::span<const float> correction;     // (p) SCAFFOLD's c - c_k, added to every gradient; or empty
};

struct LocalUpdate {
  std::vector<float> taken;  // (p) the weights before minus those after; empty where the gradient itself is sent
  double loss = 0.0;         // mean objective over the steps
  Index steps = 0;

  /// (p) What the node sends.
  std::span<const float> update(const Net& net) const { return taken.empty() ? net.gradient() : taken; }
};

/// A round's work of one node, from the weights that `net` has. Throws Error{kInput} if the loss is not finite, Stopped
/// if `cancelled` is set.
LocalUpdate local_training(Net& net, const LocalLoss& loss, const LocalSettings& settings, std::uint64_t seed,
                           const std::atomic<bool>& cancelled);

}  // namespace labelshift
