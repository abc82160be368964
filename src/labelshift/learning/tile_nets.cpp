#include "labelshift/learning/tile_nets.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "labelshift/core/base/cache_line_allocator.hpp"
#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/net_kernels.hpp"

namespace labelshift {

const TileLayers& best_layers() {
#ifdef __x86_64__
  if (cpu() == Cpu::kAvx512) return kLayersAvx512;
  if (cpu() == Cpu::kAvx2) return kLayersAvx2;
#endif
  return kLayersGeneric;
}

namespace {

using Tiles = std::vector<Tile, CacheLineAllocator<Tile>>;

/// All that these nets share: a batch goes through forward and backward a tile at a time, so that a tile's activations
/// stay in the cache and memory does not grow with the batch.
class TileNet : public Net {
 public:
  const NetSpec& spec() const override { return spec_; }
  std::span<const TensorPlace> tensors() const override { return places_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> buffers() override { return {}; }
  std::span<const float> gradient() const override { return gradient_; }
  std::vector<float> take_gradient() override { return std::exchange(gradient_, {}); }

  BatchLoss loss_and_gradient(const Batch& batch, const Objective& objective, std::uint64_t) override {
    const Index m = spec_.classes;
    gradient_.assign(parameters_.size(), 0.0F);
    begin_gradient();
    BatchLoss loss;
    for (std::size_t first = 0; first < batch.rows.size(); first += Tile::kExamples) {
      const std::size_t count = std::min<std::size_t>(Tile::kExamples, batch.rows.size() - first);
      const Batch part{batch.data, batch.rows.subspan(first, count),
                       batch.weights.empty() ? batch.weights : batch.weights.subspan(first, count)};
      forward_rows(part.data, part.rows, rows_of_logits_.data());
      const BatchLoss mean = loss_at_logits(part, objective, m, rows_of_logits_.data(), rows_of_slopes_.data());
      const double share = static_cast<double>(count) / static_cast<double>(batch.rows.size());
      loss.cross_entropy += share * mean.cross_entropy;
      loss.objective += share * mean.objective;
      for (Index c = 0; c < m; ++c)
        for (std::size_t e = 0; e < Tile::kExamples; ++e)
          logits_[c].of[e] = e < count ? static_cast<float>(share * rows_of_slopes_[e * m + c]) : 0.0F;
      backward(logits_);
    }
    end_gradient();
    return loss;
  }

  void logits(const Dataset& data, std::span<const Index> rows, std::span<float> out) override {
    assert(out.size() == rows.size() * static_cast<std::size_t>(spec_.classes));
    for (std::size_t first = 0; first < rows.size(); first += Tile::kExamples)
      forward_rows(data, rows.subspan(first, std::min<std::size_t>(Tile::kExamples, rows.size() - first)),
                   out.data() + first * spec_.classes);
  }

 protected:
  /// `used` is the upper left part of every image that the net looks at.
  TileNet(const NetSpec& spec, const ExampleShape& used, std::uint64_t seed, const TileLayers& layers)
      : layers_(layers),
        input_(used.size()),
        spec_(spec),
        used_(used),
        seed_(seed),
        rows_(Tile::kExamples * spec.shape.size()),
        logits_(spec.classes),
        rows_of_logits_(Tile::kExamples * spec.classes),
        rows_of_slopes_(rows_of_logits_.size()) {}

  virtual void forward(const Tiles& input, Tiles& logits) = 0;
  virtual void backward(const Tiles& slopes) = 0;  // adds to the gradient; the slopes are those at the logits
  virtual void begin_gradient() {}
  virtual void end_gradient() {}

  /// A weight (outputs, ...) and a bias (outputs), drawn as LibTorch's nets draw theirs (torch_nets.cpp): the same
  /// bits.
  void add_layer(const std::string& name, std::vector<Index> shape) {
    const Index outputs = shape[0];
    Index size = 1;
    for (const Index side : shape) size *= side;
    const double bound = std::sqrt(static_cast<double>(size / outputs));
    for (const bool bias : {false, true}) {
      Rng rng(seed_, places_.size());
      places_.push_back({.name = name + (bias ? ".bias" : ".weight"),
                         .shape = bias ? std::vector{outputs} : shape,
                         .offset = static_cast<Index>(parameters_.size())});
      for (Index i = 0; i < (bias ? outputs : size); ++i)
        parameters_.push_back(static_cast<float>((2.0 * rng.uniform() - 1.0) / bound));
    }
    gradient_.resize(parameters_.size());
  }

  /// What a layer, counted from 0, has of the parameters or of the gradient.
  float* weights_of(std::size_t layer, std::vector<float>& buffer) { return buffer.data() + places_[2 * layer].offset; }
  float* bias_of(std::size_t layer, std::vector<float>& buffer) { return weights_of(layer, buffer) + bias_at(layer); }

  void linear(std::size_t layer, const Tiles& in, Tiles& out) {
    layers_.linear(size_of(in), size_of(out), weights_of(layer, parameters_), bias_of(layer, parameters_), in.data(),
                   out.data());
  }

  void linear_back(std::size_t layer, const Tiles& in, const Tiles& slopes, Tile* in_slopes) {
    layers_.linear_back(size_of(in), size_of(slopes), weights_of(layer, parameters_), in.data(), slopes.data(),
                        weights_of(layer, gradient_), bias_of(layer, gradient_), in_slopes);
  }

  static Index size_of(const Tiles& tiles) { return static_cast<Index>(tiles.size()); }

  const TileLayers& layers_;
  std::vector<float> parameters_, gradient_;
  Tiles input_;  // of the tile that forward has seen last

 private:
  Index bias_at(std::size_t layer) const { return places_[2 * layer + 1].offset - places_[2 * layer].offset; }

  /// At most a tile of rows; their logits (rows, m).
  void forward_rows(const Dataset& data, std::span<const Index> rows, float* out) {
    const Index size = spec_.shape.size(), m = spec_.classes;
    gather_input(spec_, data, rows, rows_.data());
    std::fill(rows_.begin() + static_cast<Index>(rows.size()) * size, rows_.end(), 0.0F);
    Tile* to = input_.data();
    for (Index channel = 0; channel < used_.channels; ++channel)
      for (Index y = 0; y < used_.height; ++y) {
        const float* from = rows_.data() + (channel * spec_.shape.height + y) * spec_.shape.width;
        for (Index x = 0; x < used_.width; ++x, ++to)
          for (Index e = 0; e < Tile::kExamples; ++e) to->of[e] = from[e * size + x];
      }
    forward(input_, logits_);
    for (std::size_t e = 0; e < rows.size(); ++e)
      for (Index c = 0; c < m; ++c) out[static_cast<Index>(e) * m + c] = logits_[c].of[e];
  }

  NetSpec spec_;
  ExampleShape used_;
  std::uint64_t seed_;
  std::vector<TensorPlace> places_;
  std::vector<float> rows_;  // a tile's examples as gather_input gives them
  Tiles logits_;
  std::vector<float> rows_of_logits_, rows_of_slopes_;
};

class Logistic final : public TileNet {
 public:
  Logistic(const NetSpec& spec, std::uint64_t seed, const TileLayers& layers)
      : TileNet(spec, spec.shape, seed, layers) {
    add_layer("fc", {spec.classes, spec.shape.size()});
  }

 private:
  void forward(const Tiles& input, Tiles& logits) override { linear(0, input, logits); }
  void backward(const Tiles& slopes) override { linear_back(0, input_, slopes, nullptr); }
};

class LeNet final : public TileNet {
 public:
  LeNet(const NetSpec& spec, std::uint64_t seed, const TileLayers& layers)
      : TileNet(spec, {spec.shape.channels, seen(spec.shape.height), seen(spec.shape.width)}, seed, layers),
        first_{spec.shape.channels, 6, seen(spec.shape.height) - 4, seen(spec.shape.width) - 4},
        second_{6, 16, first_.rows / 2 - 4, first_.columns / 2 - 4},
        lanes_(6 * (25 * spec.shape.channels + 1) + 16 * (25 * 6 + 1)) {
    add_layer("conv1", {6, spec.shape.channels, 5, 5});
    add_layer("conv2", {16, 6, 5, 5});
    const Index left = 16 * (second_.rows / 2) * (second_.columns / 2);
    add_layer("fc1", {120, left});
    add_layer("fc2", {84, 120});
    add_layer("fc3", {spec.classes, 84});
    maps1_.resize(6 * first_.rows * first_.columns);
    maps2_.resize(16 * second_.rows * second_.columns);
    for (auto* side : {&values_, &slopes_}) {
      side->pooled1.resize(maps1_.size() / 4);
      side->pooled2.resize(left);
      side->hidden1.resize(120);
      side->hidden2.resize(84);
    }
  }

 private:
  enum : std::size_t { kConv1, kConv2, kFc1, kFc2, kFc3 };

  /// What a pool leaves out at the edge, nothing after it sees: the side of the image that counts, of which both
  /// convolutions and both pools leave a whole number of pixels.
  static Index seen(Index side) { return 4 * (((side - 4) / 2 - 4) / 2) + 12; }

  void forward(const Tiles& input, Tiles& logits) override {
    auto& [pooled1, pooled2, hidden1, hidden2] = values_;
    layers_.convolve(first_, weights_of(kConv1, parameters_), bias_of(kConv1, parameters_), input.data(), maps1_.data(),
                     pooled1.data());
    layers_.convolve(second_, weights_of(kConv2, parameters_), bias_of(kConv2, parameters_), pooled1.data(),
                     maps2_.data(), pooled2.data());
    linear(kFc1, pooled2, hidden1);
    layers_.tanh(size_of(hidden1), hidden1.data());
    linear(kFc2, hidden1, hidden2);
    layers_.tanh(size_of(hidden2), hidden2.data());
    linear(kFc3, hidden2, logits);
  }

  void backward(const Tiles& slopes) override {
    auto& [pooled1, pooled2, hidden1, hidden2] = slopes_;
    linear_back(kFc3, values_.hidden2, slopes, hidden2.data());
    layers_.tanh_back(size_of(hidden2), values_.hidden2.data(), hidden2.data());
    linear_back(kFc2, values_.hidden1, hidden2, hidden1.data());
    layers_.tanh_back(size_of(hidden1), values_.hidden1.data(), hidden1.data());
    linear_back(kFc1, values_.pooled2, hidden1, pooled2.data());
    const auto convolve_back = [&](std::size_t layer, const Convolution& shape, const Tiles& in, Tiles& out,
                                   const Tiles& pooled, Tile* in_slopes) {
      // The gradient of the convolutions lies at the front of the gradient, and so do their lanes.
      layers_.convolve_back(shape, weights_of(layer, parameters_), in.data(), out.data(), pooled.data(),
                            lanes_.data() + (weights_of(layer, gradient_) - gradient_.data()),
                            lanes_.data() + (bias_of(layer, gradient_) - gradient_.data()), in_slopes);
    };
    convolve_back(kConv2, second_, values_.pooled1, maps2_, pooled2, pooled1.data());
    convolve_back(kConv1, first_, input_, maps1_, pooled1, nullptr);
  }

  void begin_gradient() override { std::ranges::fill(lanes_, Tile{}); }
  void end_gradient() override { layers_.sum(size_of(lanes_), lanes_.data(), gradient_.data()); }

  struct Units {
    Tiles pooled1, pooled2, hidden1, hidden2;
  };

  Convolution first_, second_;
  Tiles maps1_, maps2_;  // before the pools
  Units values_, slopes_;
  Tiles lanes_;  // what each lane gives to the gradient of the convolutions; added up once a batch
};

}  // namespace

std::unique_ptr<Net> make_tile_logistic(const NetSpec& spec, std::uint64_t seed, const TileLayers& layers) {
  return std::make_unique<Logistic>(spec, seed, layers);
}

std::unique_ptr<Net> make_tile_lenet(const NetSpec& spec, std::uint64_t seed, const TileLayers& layers) {
  check_image(spec);
  return std::make_unique<LeNet>(spec, seed, layers);
}

}  // namespace labelshift
