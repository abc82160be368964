#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
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
  std::span<const float> offsets = {};   // (m) added to the logits, see Objective; or empty
};

/// Stochastic gradients of a node's local loss in one round.
class LocalGradients {
 public:
  LocalGradients(Net& net, const LocalLoss& loss, std::uint64_t seed, const std::atomic<bool>& cancelled);

  /// The loss on the next batch at the weights that the net has; its gradient is net.gradient() then. Throws
  /// Error{kInput} if the loss is not finite, Stopped if it was cancelled.
  double next(Index batch);
  /// The same, for one pass over all examples; nothing at its end.
  std::optional<double> next_of_epoch(Index batch);
  /// The same batch again, and the same noise, at the weights that the net has now.
  double again();

 private:
  double take(std::span<const Index> chosen);
  Net& net_;
  const LocalLoss& loss_;
  const std::atomic<bool>& cancelled_;
  BatchOrder order_;
  const std::uint64_t noise_seed_;
  std::uint64_t batches_ = 0;
  std::vector<Index> rows_;     // of the batch
  std::vector<float> weights_;  // of the batch
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
