#include "labelshift/learning/net_kernels.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"

namespace labelshift {
namespace {

template <typename Scalar>
LABELSHIFT_INLINE inline void normalise(const Scalar* x, Index count, float mean, float scale, float* out) {
  for (Index i = 0; i < count; ++i) out[i] = (static_cast<float>(x[i]) - mean) * scale;
}

LABELSHIFT_INLINE inline void hash_mask(std::uint32_t key, std::uint32_t threshold, float keep, float* out,
                                        Index count) {
  for (Index i = 0; i < count; ++i) {
    // The finaliser of MurmurHash3, twice: once is too weak for neighbouring counters under one key.
    auto h = static_cast<std::uint32_t>(i) ^ key;
    for (int round = 0; round < 2; ++round) {
      h = (h ^ (h >> 16)) * 0x85ebca6bU;
      h = (h ^ (h >> 13)) * 0xc2b2ae35U;
      h = (h ^ (h >> 16)) + key;
    }
    out[i] = h < threshold ? 0.0F : keep;
  }
}

std::string described(const ExampleShape& shape) {
  return fmt::format("{} x {} x {}", shape.channels, shape.height, shape.width);
}

}  // namespace

void check_image(const NetSpec& spec) {
  constexpr Index kSmallest = 16;  // LeNet has one pixel left of it
  if (spec.shape.height < kSmallest || spec.shape.width < kSmallest)
    throw Error(ErrorKind::kInput, fmt::format("{} needs images of at least {} x {}, but the examples are {} x {}; use "
                                               "mlp or logistic",
                                               spec.name, kSmallest, kSmallest, spec.shape.height, spec.shape.width));
}

void gather_input(const NetSpec& spec, const Dataset& data, std::span<const Index> rows, float* out) {
  if (!(data.shape == spec.shape))
    throw Error(ErrorKind::kInput,
                fmt::format("the examples are {} (channels x height x width), but the net was made for {}; use data of "
                            "the shape it was trained on",
                            described(data.shape), described(spec.shape)));
  const Normalisation& normal = spec.normalisation;
  const Index size = data.shape.size();
  const auto parts = static_cast<Index>(normal.mean.size());  // 0: values as they are
  const Index each = parts == 0 ? size : size / parts;
  assert(normal.scale.size() == normal.mean.size() && (parts == 0 || each * parts == size));
  std::visit(
      [&](const auto& values) {
        for (const Index row : rows) {
          assert(row >= 0 && row < data.size());
          const auto* x = values.data() + row * size;
          if (parts > 0 && each == 1) {  // a table: every column has a mean of its own
            for (Index i = 0; i < size; ++i) out[i] = (static_cast<float>(x[i]) - normal.mean[i]) * normal.scale[i];
          } else {
            for (Index from = 0, part = 0; from < size; from += each, ++part)
              on_this_cpu([&]() LABELSHIFT_INLINE {
                normalise(x + from, each, parts ? normal.mean[part] : 0.0F, parts ? normal.scale[part] : 1.0F,
                          out + from);
              });
          }
          out += size;
        }
      },
      data.values);
}

BatchLoss loss_at_logits(const Batch& batch, const Objective& objective, Index classes, const float* logits,
                         float* gradient) {
  assert(batch.weights.empty() || batch.weights.size() == batch.rows.size());
  if (batch.data.labels.empty())
    throw Error(ErrorKind::kInput, "the data set has no labels, so nothing can be trained on it; give labelled data");
  const std::span<const float> offsets = objective.offsets;
  assert(offsets.empty() || std::ssize(offsets) == classes);
  const double share = 1.0 / static_cast<double>(batch.rows.size());
  std::vector<double> log_phi(classes);
  std::vector<float> moved(offsets.size());
  BatchLoss loss;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const int y = batch.data.labels[batch.rows[i]];
    if (y < 0 || y >= classes)
      throw Error(ErrorKind::kInput,
                  fmt::format("example {} has the label {}, but the net has {} classes, 0 to {}; make a net with an "
                              "output a class",
                              batch.rows[i], y, classes, classes - 1));
    const float* z = logits + static_cast<Index>(i) * classes;
    float* slope = gradient + static_cast<Index>(i) * classes;
    if (!offsets.empty()) {
      assert(offsets[y] > kLeftOut);
      for (Index c = 0; c < classes; ++c) moved[c] = z[c] + offsets[c];
      z = moved.data();
    }
    float top = z[0];
    for (Index c = 1; c < classes; ++c) top = std::max(top, z[c]);
    double sum = 0.0;
    for (Index c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(z[c] - top));
    const double log_sum = std::log(sum);
    double omega = 0.0;  // sum_c phi_c log phi_c
    for (Index c = 0; c < classes; ++c) {
      log_phi[c] = static_cast<double>(z[c] - top) - log_sum;
      omega += std::exp(log_phi[c]) * log_phi[c];
    }
    const double weight = share * (batch.weights.empty() ? 1.0 : static_cast<double>(batch.weights[i]));
    loss.cross_entropy -= weight * log_phi[y];
    loss.objective += weight * (objective.zeta * omega - log_phi[y]);
    // d(-log phi_y)/dz_c = phi_c - [c = y]; dOmega/dz_c = phi_c (log phi_c - Omega).
    for (Index c = 0; c < classes; ++c) {
      const double phi = std::exp(log_phi[c]);
      const double onehot = c == y ? 1.0 : 0.0;
      slope[c] = static_cast<float>(weight * (phi - onehot + objective.zeta * phi * (log_phi[c] - omega)));
    }
  }
  return loss;
}

void dropout_mask(double dropout, std::uint64_t noise, std::uint64_t layer, std::span<float> mask) {
  const auto key = static_cast<std::uint32_t>(Rng(noise, layer)());
  const auto threshold = static_cast<std::uint32_t>(dropout * 0x1p32);
  const auto keep = static_cast<float>(1.0 / (1.0 - dropout));
  on_this_cpu([&]()
                  LABELSHIFT_INLINE { hash_mask(key, threshold, keep, mask.data(), static_cast<Index>(mask.size())); });
}

}  // namespace labelshift
