#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/settings.hpp"
#include "labelshift/data/datasets/dataset.hpp"
#include "labelshift/data/datasets/normalisation.hpp"

namespace labelshift {

/// Rows of a data set and what each counts for.
struct Batch {
  const Dataset& data;
  std::span<const Index> rows;     // (B)
  std::span<const float> weights;  // (B) importance weights, or empty: all ones
};

/// An offset that leaves a class out of the softmax: its phi is 0, and so is the slope at its logit. It stands for log
/// 0, with which 0 log 0 would not be a number.
inline constexpr float kLeftOut = -1e30F;

/// Eq. (4): cross-entropy + zeta Omega, Omega = sum_c phi_c log phi_c.
struct Objective {
  double zeta = 0.0;
  std::span<const float> offsets = {};  // (m) added to the logits, or empty: zeros
};

/// Means over the batch size, each example times its weight; never divided by the sum of weights, see (IW-ERM).
struct BatchLoss {
  double cross_entropy = 0.0;
  double objective = 0.0;  // what the gradient is of
};

/// A named tensor of a net and where it lies.
struct TensorPlace {
  std::string name;  // as PyTorch's state_dict calls it
  std::vector<Index> shape;
  Index offset = 0;         // into parameters(), or into buffers()
  bool buffer = false;      // not trained: the running statistics of a batch norm
  bool batch_norm = false;  // belongs to a batch-norm layer, by module type: what FedBN keeps local
};

/// What a net is, without its weights.
struct NetSpec {
  std::string name;                             // a row of nets(), or the path of a TorchScript file
  std::map<std::string, std::string> settings;  // such as "width"
  ExampleShape shape;
  Index classes = 0;
  Normalisation normalisation;  // empty: the values as they are
};

/// A net and the memory its weights live in. This is all that training and evaluation know of one, so that kernels
/// written by hand for a net can stand beside LibTorch. Not to be used by two threads at once.
class Net {
 public:
  virtual ~Net() = default;

  virtual const NetSpec& spec() const = 0;
  virtual std::span<const TensorPlace> tensors() const = 0;
  virtual std::span<float> parameters() = 0;            // one buffer; what is written there is the net
  virtual std::span<float> buffers() = 0;               // one buffer
  virtual std::span<const float> gradient() const = 0;  // of the last loss_and_gradient

  /// The same, after which gradient() is of no use until the next. A net whose gradient is a vector saves the copy.
  virtual std::vector<float> take_gradient() { return {gradient().begin(), gradient().end()}; }

  /// The loss of a labelled batch in training mode; its gradient replaces gradient(). `noise` seeds dropout: the same
  /// number drops the same units.
  virtual BatchLoss loss_and_gradient(const Batch& batch, const Objective& objective, std::uint64_t noise) = 0;

  /// The net's outputs (B, m) in evaluation mode, whose softmax is f(x).
  virtual void logits(const Dataset& data, std::span<const Index> rows, std::span<float> out) = 0;
};

enum class Device { kCpu, kCuda };

struct NetEntry {
  const char* name;
  const char* summary;
  std::unique_ptr<Net> (*make)(const NetSpec& spec, Settings& settings, std::uint64_t seed, Device device);
  /// Of a net whose loss is convex: beta, from the largest |x|^2 of its normalised examples. nullptr of others.
  double (*smoothness)(double largest_square) = nullptr;
};

/// Every net that is built in. Help, completion and shared tests walk these rows.
std::span<const NetEntry> nets();

/// A net with fresh weights drawn from `seed`; a TorchScript file keeps the weights it holds. Throws Error{kUsage} for
/// a name that is neither a row nor a file, for a setting the net does not have and for a device that is not there, and
/// Error{kInput} if the net does not fit the examples or has not an output a class.
std::unique_ptr<Net> make_net(const NetSpec& spec, std::uint64_t seed, Device device = Device::kCpu);

}  // namespace labelshift
