#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/learning/net.hpp"
#include "labelshift/learning/tile_nets.hpp"
#include "labelshift/learning/torch_backend.hpp"

namespace labelshift {
namespace {

template <TorchBackend::Make* TorchBackend::*make>
std::unique_ptr<Net> by_torch(const NetSpec& spec, Settings& settings, std::uint64_t seed, Device device) {
  return (torch_backend().*make)(spec, settings, seed, device);
}

/// By hand on the processor, where LibTorch is not even loaded.
template <decltype(make_tile_lenet) by_hand, TorchBackend::Make* TorchBackend::*elsewhere>
std::unique_ptr<Net> by_tiles(const NetSpec& spec, Settings& settings, std::uint64_t seed, Device device) {
  return device == Device::kCpu ? by_hand(spec, seed, best_layers())
                                : by_torch<elsewhere>(spec, settings, seed, device);
}

/// The Hessian of log sum exp is at most 1/2, and the bias is one more column of ones.
double softmax_smoothness(double largest_square) {
  return 0.5 * (largest_square + 1.0);
}

constexpr NetEntry kNets[] = {
    {"logistic", "logistic regression", by_tiles<make_tile_logistic, &TorchBackend::make_logistic>, softmax_smoothness},
    {"mlp", "two hidden layers, ReLU and dropout (hidden=256, dropout=0.2)", by_torch<&TorchBackend::make_mlp>},
    {"lenet", "LeNet-5 for images of at least 16 x 16", by_tiles<make_tile_lenet, &TorchBackend::make_lenet>},
    {"resnet18", "ResNet-18 with a stem for small images (width=64, norm=batch or group)",
     by_torch<&TorchBackend::make_resnet18>},
};

}  // namespace

std::span<const NetEntry> nets() {
  return kNets;
}

std::unique_ptr<Net> make_net(const NetSpec& spec, std::uint64_t seed, Device device) {
  Settings settings(spec.settings);
  std::vector<std::string> known;
  for (const NetEntry& entry : kNets) {
    if (spec.name == entry.name) {
      if (device != Device::kCpu) torch_backend().check_device(device);
      auto net = entry.make(spec, settings, seed, device);
      settings.check_all_read(entry.name);
      return net;
    }
    known.emplace_back(entry.name);
  }
  std::error_code ignored;  // a name that is too long for a file is no file
  if (!std::filesystem::is_regular_file(spec.name, ignored)) {
    if (spec.name.find_first_of("./") != std::string::npos) InputFile{spec.name};  // throws why a path cannot be read
    known.emplace_back("the path of a TorchScript file");
    throw unknown_name("net", spec.name, known);
  }
  settings.check_all_read(spec.name);
  torch_backend().check_device(device);
  return torch_backend().load_torchscript(spec, device);
}

}  // namespace labelshift
