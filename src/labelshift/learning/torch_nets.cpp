#include "labelshift/learning/torch_backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/net_kernels.hpp"

namespace labelshift {
namespace {

using torch::Tensor;

constexpr Index kEvaluationRows = 256;  // a batch of logits(); large enough for full speed, small enough for any memory

bool is_table(const ExampleShape& shape) {
  return shape.channels == 1 && shape.height == 1;
}

torch::Device torch_device(Device device) {
  return device == Device::kCuda ? torch::kCUDA : torch::kCPU;
}

/// A tensor of a module, before it is laid into the flat buffers.
struct ModuleTensor {
  std::string name;
  Tensor tensor;
  bool buffer = false;
  bool batch_norm = false;
};

/// All that the nets of LibTorch share: their tensors are views into three flat buffers.
class TorchNet : public Net {
 public:
  TorchNet(NetSpec spec, Device device) : spec_(std::move(spec)), device_(torch_device(device)) {}

  const NetSpec& spec() const override { return spec_; }
  std::span<const TensorPlace> tensors() const override { return places_; }
  std::span<float> parameters() override { return span_of(parameters_.host); }
  std::span<float> buffers() override { return span_of(buffers_.host); }
  std::span<const float> gradient() const override { return span_of(gradient_.host); }

  BatchLoss loss_and_gradient(const Batch& batch, const Objective& objective, std::uint64_t noise) override {
    to_device();
    set_training(true);
    const Tensor logits = forward(input(batch.data, batch.rows), noise);
    const Tensor host = logits.detach().to(torch::kCPU).contiguous();
    check_output(host, static_cast<Index>(batch.rows.size()));
    Tensor slope = torch::empty_like(host);
    const BatchLoss loss =
        loss_at_logits(batch, objective, spec_.classes, host.data_ptr<float>(), slope.data_ptr<float>());
    gradient_.used.zero_();  // backward adds
    logits.backward(slope.to(device_));
    from_device();
    return loss;
  }

  void logits(const Dataset& data, std::span<const Index> rows, std::span<float> out) override {
    assert(out.size() == rows.size() * static_cast<std::size_t>(spec_.classes));
    const torch::NoGradGuard no_gradient;
    to_device();
    set_training(false);
    for (std::size_t first = 0; first < rows.size(); first += kEvaluationRows) {
      const auto part = rows.subspan(first, std::min<std::size_t>(kEvaluationRows, rows.size() - first));
      const Tensor values = forward(input(data, part), /*noise=*/0).to(torch::kCPU).contiguous();
      check_output(values, static_cast<Index>(part.size()));
      std::copy_n(values.data_ptr<float>(), values.numel(), out.begin() + static_cast<Index>(first) * spec_.classes);
    }
  }

 protected:
  virtual Tensor forward(const Tensor& x, std::uint64_t noise) = 0;
  virtual void set_mode(bool training) = 0;

  /// Lays the tensors into the flat buffers, values kept. To be called once, at the end of construction.
  void adopt(const std::vector<ModuleTensor>& tensors) {
    const torch::NoGradGuard no_gradient;
    Index parameters = 0, buffers = 0;
    for (const ModuleTensor& item : tensors) {
      Index& end = item.buffer ? buffers : parameters;
      const auto sizes = item.tensor.sizes();
      places_.push_back({.name = item.name,
                         .shape = {sizes.begin(), sizes.end()},
                         .offset = end,
                         .buffer = item.buffer,
                         .batch_norm = item.batch_norm});
      end += item.tensor.numel();
    }
    parameters_ = Flat(parameters, device_);
    gradient_ = Flat(parameters, device_);
    buffers_ = Flat(buffers, device_);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Tensor tensor = tensors[i].tensor;
      const Flat& flat = tensors[i].buffer ? buffers_ : parameters_;
      const Tensor view = flat.used.narrow(0, places_[i].offset, tensor.numel()).view(tensor.sizes());
      view.copy_(tensor);
      tensor.set_data(view);
      if (!tensors[i].buffer)
        tensor.mutable_grad() = gradient_.used.narrow(0, places_[i].offset, tensor.numel()).view(tensor.sizes());
    }
    from_device();
    parameters_.host.copy_(parameters_.used);
  }

  /// Throws if the net did not return the logits (B, m).
  virtual void check_output(const Tensor& logits, Index rows) const {
    assert(logits.dim() == 2 && logits.size(0) == rows && logits.size(1) == spec_.classes);
    static_cast<void>(logits), static_cast<void>(rows);
  }

  Tensor input(const Dataset& data, std::span<const Index> rows) const {
    Tensor x = torch::empty(input_sizes(static_cast<Index>(rows.size())));
    gather_input(spec_, data, rows, x.data_ptr<float>());
    return x.to(device_);
  }

  std::vector<Index> input_sizes(Index rows) const {
    const ExampleShape& s = spec_.shape;
    return is_table(s) ? std::vector<Index>{rows, s.width} : std::vector<Index>{rows, s.channels, s.height, s.width};
  }

  void set_training(bool training) {
    // OpenMP counts threads for each calling thread: a worker's first call takes over what the program has chosen.
    static thread_local const bool ready = (at::init_num_threads(), true);
    static_cast<void>(ready);
    if (training_ != training) set_mode(training);
    training_ = training;
  }

 private:
  /// A buffer in host memory and the one that is computed with: the same tensor on a CPU.
  struct Flat {
    Flat() = default;
    Flat(Index size, torch::Device device) : host(torch::zeros({size})), used(host.to(device)) {}
    Tensor host, used;
  };

  static std::span<float> span_of(const Tensor& tensor) {
    return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
  }

  void to_device() {
    if (device_.is_cpu()) return;
    parameters_.used.copy_(parameters_.host);
    buffers_.used.copy_(buffers_.host);
  }

  void from_device() {
    if (device_.is_cpu()) return;
    gradient_.host.copy_(gradient_.used);
    buffers_.host.copy_(buffers_.used);
  }

  NetSpec spec_;
  torch::Device device_;
  std::vector<TensorPlace> places_;
  Flat parameters_, gradient_, buffers_;
  bool training_ = true;  // as every module starts
};

// ---- the nets that are built in

struct Layers : torch::nn::Module {
  virtual Tensor forward(const Tensor& x, std::uint64_t noise) = 0;
};

/// PyTorch's: kaiming_uniform with a = sqrt(5), which is uniform on +-1 / sqrt(fan_in), for weight and bias; and
/// torchvision's kaiming_normal over fan_out for the convolutions of a ResNet. From our own generator, so that a seed
/// means the same bits with every version of LibTorch.
void initialise(torch::nn::Module& layers, std::uint64_t seed, bool residual) {
  const torch::NoGradGuard no_gradient;
  std::uint64_t stream = 0;
  const auto fill = [&](const Tensor& tensor, const auto& draw) {
    Rng rng(seed, stream++);
    for (float& value : std::span(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())))
      value = static_cast<float>(draw(rng));
  };
  for (const auto& part : layers.modules(/*include_self=*/false)) {
    Tensor weight, bias;
    const auto* convolution = part->as<torch::nn::Conv2d>();
    if (convolution) {
      weight = convolution->weight;
      bias = convolution->bias;
    } else if (const auto* linear = part->as<torch::nn::Linear>()) {
      weight = linear->weight;
      bias = linear->bias;
    } else {
      continue;  // a batch norm starts as ones and zeros
    }
    const double fan_in = static_cast<double>(weight.numel() / weight.size(0));
    if (convolution && residual) {
      const double fan_out = static_cast<double>(weight.numel() / weight.size(1));
      fill(weight, [&](Rng& rng) { return std::sqrt(2.0 / fan_out) * rng.normal(); });
    } else {
      fill(weight, [&](Rng& rng) { return (2.0 * rng.uniform() - 1.0) / std::sqrt(fan_in); });
    }
    if (bias.defined()) fill(bias, [&](Rng& rng) { return (2.0 * rng.uniform() - 1.0) / std::sqrt(fan_in); });
  }
}

class BuiltInNet final : public TorchNet {
 public:
  struct Options {
    bool residual = false;  // weights drawn as torchvision's ResNet
  };

  BuiltInNet(const NetSpec& spec, Device device, std::shared_ptr<Layers> layers, std::uint64_t seed, Options options)
      : TorchNet(spec, device), layers_(std::move(layers)) {
    initialise(*layers_, seed, options.residual);
    std::vector<ModuleTensor> tensors;
    for (const auto& part : layers_->named_modules("", /*include_self=*/false)) {
      const bool batch_norm = part.value()->as<torch::nn::BatchNorm2d>() != nullptr;
      for (const auto& item : part.value()->named_parameters(/*recurse=*/false))
        tensors.push_back({part.key() + "." + item.key(), item.value(), false, batch_norm});
      for (const auto& item : part.value()->named_buffers(/*recurse=*/false))
        if (item.value().is_floating_point())  // not num_batches_tracked, which nothing here reads
          tensors.push_back({part.key() + "." + item.key(), item.value(), true, batch_norm});
    }
    adopt(tensors);
  }

 private:
  Tensor forward(const Tensor& x, std::uint64_t noise) override { return layers_->forward(x, noise); }
  void set_mode(bool training) override { layers_->train(training); }

  std::shared_ptr<Layers> layers_;
};

struct Logistic final : Layers {
  Logistic(Index inputs, Index classes) : fc(register_module("fc", torch::nn::Linear(inputs, classes))) {}
  Tensor forward(const Tensor& x, std::uint64_t) override { return fc(x.flatten(1)); }
  torch::nn::Linear fc;
};

struct Mlp final : Layers {
  Mlp(Index inputs, Index hidden, Index classes, double dropout_share)
      : fc1(register_module("fc1", torch::nn::Linear(inputs, hidden))),
        fc2(register_module("fc2", torch::nn::Linear(hidden, hidden))),
        fc3(register_module("fc3", torch::nn::Linear(hidden, classes))),
        dropout(dropout_share) {}

  Tensor forward(const Tensor& x, std::uint64_t noise) override {
    const Tensor first = drop(fc1(x.flatten(1)).relu_(), noise, 1);
    const Tensor second = drop(fc2(first).relu_(), noise, 2);
    return fc3(second);
  }

  Tensor drop(const Tensor& x, std::uint64_t noise, std::uint64_t layer) const {
    if (!is_training() || dropout == 0.0) return x;
    const Tensor mask = torch::empty(x.sizes());
    dropout_mask(dropout, noise, layer, {mask.data_ptr<float>(), static_cast<std::size_t>(mask.numel())});
    return x * mask.to(x.device());
  }

  torch::nn::Linear fc1, fc2, fc3;
  double dropout;
};

struct LeNet final : Layers {
  LeNet(const ExampleShape& shape, Index classes)
      : conv1(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.channels, 6, 5)))),
        conv2(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)))),
        fc1(register_module("fc1", torch::nn::Linear(16 * left_of(shape.height) * left_of(shape.width), 120))),
        fc2(register_module("fc2", torch::nn::Linear(120, 84))),
        fc3(register_module("fc3", torch::nn::Linear(84, classes))) {}

  /// Pixels along a side after both convolutions and both pools.
  static Index left_of(Index side) { return ((side - 4) / 2 - 4) / 2; }

  Tensor forward(const Tensor& x, std::uint64_t) override {
    const Tensor first = torch::avg_pool2d(conv1(x).tanh_(), 2);
    const Tensor second = torch::avg_pool2d(conv2(first).tanh_(), 2);
    return fc3(fc2(fc1(second.flatten(1)).tanh_()).tanh_());
  }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2, fc3;
};

torch::nn::Conv2d residual_conv(Index from, Index to, Index kernel, Index stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// Over groups of four channels or more, 32 groups at most: it knows nothing of the other examples of a batch.
torch::nn::GroupNorm group_norm(Index channels) {
  Index groups = std::clamp<Index>(channels / 4, 1, 32);
  while (channels % groups != 0) --groups;
  return torch::nn::GroupNorm(groups, channels);
}

/// What brings the values between the convolutions of a ResNet to one size.
torch::nn::AnyModule norm(Index channels, bool by_groups) {
  if (by_groups) return torch::nn::AnyModule(group_norm(channels));
  return torch::nn::AnyModule(torch::nn::BatchNorm2d(channels));
}

struct BasicBlock final : torch::nn::Module {
  BasicBlock(Index from, Index to, Index stride, bool by_groups)
      : conv1(residual_conv(from, to, 3, stride)),
        bn1(norm(to, by_groups)),
        conv2(residual_conv(to, to, 3, 1)),
        bn2(norm(to, by_groups)) {
    register_module("conv1", conv1);  // in torchvision's order
    register_module("bn1", bn1.ptr());
    register_module("conv2", conv2);
    register_module("bn2", bn2.ptr());
    if (stride == 1 && from == to) return;
    downsample = register_module("downsample", torch::nn::Sequential());
    downsample->push_back(residual_conv(from, to, 1, stride));
    downsample->push_back(norm(to, by_groups));
  }

  Tensor forward(const Tensor& x) {
    Tensor y = bn2.forward(conv2(bn1.forward(conv1(x)).relu_()));
    y += downsample.is_empty() ? x : downsample->forward(x);
    return y.relu_();
  }

  torch::nn::Conv2d conv1;
  torch::nn::AnyModule bn1;
  torch::nn::Conv2d conv2;
  torch::nn::AnyModule bn2;
  torch::nn::Sequential downsample{nullptr};
};

/// torchvision's names, with the stem for small images: 3 x 3, stride 1 and no max-pool.
struct ResNet18 final : Layers {
  ResNet18(Index channels, Index width, Index classes, bool by_groups)
      : conv1(residual_conv(channels, width, 3, 1)),
        bn1(norm(width, by_groups)),
        layer1(stage(width, width, 1, by_groups)),
        layer2(stage(width, 2 * width, 2, by_groups)),
        layer3(stage(2 * width, 4 * width, 2, by_groups)),
        layer4(stage(4 * width, 8 * width, 2, by_groups)),
        fc(torch::nn::Linear(8 * width, classes)),
        layout(width % 8 == 0 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous) {
    register_module("conv1", conv1);  // in torchvision's order
    register_module("bn1", bn1.ptr());
    register_module("layer1", layer1);
    register_module("layer2", layer2);
    register_module("layer3", layer3);
    register_module("layer4", layer4);
    register_module("fc", fc);
  }

  static torch::nn::Sequential stage(Index from, Index to, Index stride, bool by_groups) {
    return torch::nn::Sequential(BasicBlock(from, to, stride, by_groups), BasicBlock(to, to, 1, by_groups));
  }

  Tensor forward(const Tensor& x, std::uint64_t) override {
    Tensor y = bn1.forward(conv1(x.contiguous(layout))).relu_();
    for (auto* layer : {&layer1, &layer2, &layer3, &layer4}) y = (*layer)->forward(y);
    return fc(y.mean({2, 3}));
  }

  torch::nn::Conv2d conv1;
  torch::nn::AnyModule bn1;
  torch::nn::Sequential layer1, layer2, layer3, layer4;
  torch::nn::Linear fc;
  // Channels last is a tenth faster, but there oneDNN 2.6's AVX2 kernels write past a buffer for fewer than 8 channels.
  at::MemoryFormat layout;
};

// ---- TorchScript

/// The last line of what LibTorch says; those before it are the interpreter's stack.
std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

bool draws_random_numbers(const torch::jit::Block& block) {
  for (const auto* node : block.nodes()) {
    if (node->isNondeterministic()) return true;
    for (const auto* inner : node->blocks())
      if (draws_random_numbers(*inner)) return true;
  }
  return false;
}

class ScriptNet final : public TorchNet {
 public:
  ScriptNet(const NetSpec& spec, Device device) : TorchNet(spec, device) {
    try {
      module_ = torch::jit::load(spec.name, torch_device(device));
    } catch (const c10::Error&) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{} is not a TorchScript file; write one with torch.jit.script(model).save(\"{}\")",
                              spec.name, spec.name));
    }
    std::vector<ModuleTensor> tensors;
    for (const auto& part : module_.named_modules()) {
      const std::string prefix = part.name.empty() ? "" : part.name + ".";
      const bool batch_norm = part.value.type()->name()->name().find("BatchNorm") != std::string::npos;
      for (const auto& item : part.value.named_parameters(/*recurse=*/false))
        if (item.value.requires_grad()) tensors.push_back({prefix + item.name, item.value, false, batch_norm});
      for (const auto& item : part.value.named_buffers(/*recurse=*/false))
        if (item.value.is_floating_point()) tensors.push_back({prefix + item.name, item.value, true, batch_norm});
    }
    for (const ModuleTensor& item : tensors)
      if (item.tensor.scalar_type() != torch::kFloat)
        throw Error(ErrorKind::kInput, fmt::format("{}: {} is {}, not Float; export model.float()", spec.name,
                                                   item.name, c10::toString(item.tensor.scalar_type())));
    if (tensors.empty() || tensors[0].buffer)
      throw Error(ErrorKind::kInput,
                  fmt::format("{} has no parameters to train; save the model before torch.jit.freeze", spec.name));
    adopt(tensors);
    random_ = draws_random_numbers(
        *torch::jit::toGraphFunction(module_.get_method("forward").function()).optimized_graph()->block());
    // Two examples in evaluation mode, so that what does not fit is found here and not after an hour.
    const torch::NoGradGuard no_gradient;
    set_training(false);
    check_output(forward(torch::zeros(input_sizes(2), torch_device(device)), 0), 2);
  }

 private:
  Tensor forward(const Tensor& x, std::uint64_t noise) override {
    // The optimising executor changes the order of operations after some runs, and bits with it.
    const torch::jit::GraphOptimizerEnabledGuard plain(false);
    static std::mutex generator;  // LibTorch has one for all threads
    std::unique_lock lock(generator, std::defer_lock);
    if (random_) {
      lock.lock();
      torch::manual_seed(noise);
    }
    try {
      const auto result = module_.forward({x});
      if (!result.isTensor())
        throw Error(ErrorKind::kInput, fmt::format("{} returns {}, not one tensor of logits (B, {})", spec().name,
                                                   result.tagKind(), spec().classes));
      return result.toTensor();
    } catch (const Error&) {
      throw;
    } catch (const c10::Error& error) {
      throw failed(error.what_without_backtrace());
    } catch (const std::exception& error) {
      throw failed(error.what());
    }
  }

  void set_mode(bool training) override { module_.train(training); }

  void check_output(const Tensor& logits, Index rows) const override {
    if (logits.dim() == 2 && logits.size(0) == rows && logits.size(1) == spec().classes &&
        logits.scalar_type() == torch::kFloat)
      return;
    throw Error(ErrorKind::kInput,
                fmt::format("{} returns {} of shape ({}) for {} examples, not floats of shape ({}, {}); it must return "
                            "one logit a class",
                            spec().name, c10::toString(logits.scalar_type()), fmt::join(logits.sizes(), ", "), rows,
                            rows, spec().classes));
  }

  Error failed(const std::string& reason) const {
    return Error(ErrorKind::kInput,
                 fmt::format("{} cannot compute examples of shape ({}): {}; export a model that takes this shape",
                             spec().name, fmt::join(input_sizes(1), ", "), last_line(reason)));
  }

  torch::jit::Module module_;
  bool random_ = false;
};

// ---- the table of torch_backend.hpp

std::unique_ptr<Net> make_logistic(const NetSpec& spec, Settings&, std::uint64_t seed, Device device) {
  auto layers = std::make_shared<Logistic>(spec.shape.size(), spec.classes);
  return std::make_unique<BuiltInNet>(spec, device, std::move(layers), seed, BuiltInNet::Options{});
}

std::unique_ptr<Net> make_mlp(const NetSpec& spec, Settings& settings, std::uint64_t seed, Device device) {
  const int hidden = settings.integer("hidden", 256, 1, 16384);
  const double dropout = settings.number("dropout", 0.2, 0.0, 0.99);
  auto layers = std::make_shared<Mlp>(spec.shape.size(), hidden, spec.classes, dropout);
  return std::make_unique<BuiltInNet>(spec, device, std::move(layers), seed, BuiltInNet::Options{});
}

std::unique_ptr<Net> make_lenet(const NetSpec& spec, Settings&, std::uint64_t seed, Device device) {
  check_image(spec);
  auto layers = std::make_shared<LeNet>(spec.shape, spec.classes);
  return std::make_unique<BuiltInNet>(spec, device, std::move(layers), seed, BuiltInNet::Options{});
}

std::unique_ptr<Net> make_resnet18(const NetSpec& spec, Settings& settings, std::uint64_t seed, Device device) {
  check_image(spec);
  const int width = settings.integer("width", 64, 1, 1024);
  const bool by_groups = settings.choice("norm", {"batch", "group"}) == "group";
  auto layers = std::make_shared<ResNet18>(spec.shape.channels, width, spec.classes, by_groups);
  return std::make_unique<BuiltInNet>(spec, device, std::move(layers), seed, BuiltInNet::Options{.residual = true});
}

std::unique_ptr<Net> load_torchscript(const NetSpec& spec, Device device) {
  return std::make_unique<ScriptNet>(spec, device);
}

void check_device(Device device) {
  if (device == Device::kCuda && !torch::cuda::is_available())
    throw Error(ErrorKind::kUsage, "there is no CUDA device that this LibTorch can use", Remedy::kCpu);
}

constexpr TorchBackend kBackend = {
    .make_logistic = make_logistic,
    .make_mlp = make_mlp,
    .make_lenet = make_lenet,
    .make_resnet18 = make_resnet18,
    .load_torchscript = load_torchscript,
    .check_device = check_device,
    .use_one_thread = [] { at::set_num_threads(1); },
};

}  // namespace
}  // namespace labelshift

extern "C" const labelshift::TorchBackend* labelshift_torch_backend();
const labelshift::TorchBackend* labelshift_torch_backend() {
  return &labelshift::kBackend;
}
