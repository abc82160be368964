#pragma once

#include "labelshift/learning/net.hpp"

namespace labelshift {

/// All that is computed by LibTorch. It is in a module that is loaded when the first net needs it: LibTorch brings 160
/// libraries, and loading them takes half a second of processor time, which nothing else should pay for.
///
/// On Device::kCuda parameters, gradient and buffers still live in host memory and are copied at every step; that path
/// has never run, for want of a machine.
struct TorchBackend {
  using Make = std::unique_ptr<Net>(const NetSpec& spec, Settings& settings, std::uint64_t seed, Device device);

  Make* make_logistic;
  Make* make_mlp;
  Make* make_lenet;
  Make* make_resnet18;

  /// The TorchScript file at spec.name, with the weights it holds. It is given (B, channels, height, width), or (B,
  /// columns) of a table, and must return the logits (B, m). Dropout and other random operations inside take their
  /// numbers from `noise`.
  std::unique_ptr<Net> (*load_torchscript)(const NetSpec& spec, Device device);

  /// Throws Error{kUsage} if LibTorch cannot compute there.
  void (*check_device)(Device device);

  void (*use_one_thread)();
};

/// Loads the module at the first call. Throws Error{kSystem} if it is not beside the program or not installed.
const TorchBackend& torch_backend();

}  // namespace labelshift
