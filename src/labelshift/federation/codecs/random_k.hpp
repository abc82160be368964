#pragma once

#include "labelshift/federation/codec.hpp"

namespace labelshift {

/// Sends k of n values, drawn at random without replacement, times n / k; all others are 0. Which they are follows from
/// a seed that travels with them. q = n / k - 1.
class RandomK : public UpdateCodec {
 public:
  explicit RandomK(const CompressionSettings& settings) : kept_(settings.kept) {}
  Bytes pack(std::span<const float> values, std::uint64_t seed) const override;
  void unpack(std::span<const std::byte> packed, std::span<float> values) const override;
  double variance(Index values) const override;

 private:
  /// k
  Index kept(Index values) const;
  const double kept_;  // the part of the values that is sent
};

std::unique_ptr<UpdateCodec> make_random_k(const CompressionSettings& settings);

inline constexpr CodecEntry kRandomK{
    .name = "random-k",
    .summary = "send the part training.compression-kept of the values, drawn at random",
    .make = make_random_k};

}  // namespace labelshift
