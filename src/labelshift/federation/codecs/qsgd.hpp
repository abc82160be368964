#pragma once

#include "labelshift/federation/codec.hpp"

namespace labelshift {

/// Stochastic rounding to s levels on each side of 0 (Alistarh et al. 2017): of every run of 512 values the largest is
/// sent as it is, and the others in s-ths of it, each in the bits that 2 s + 1 levels need. A value between two levels
/// is rounded up with the probability that makes it right on average.
///
/// Levels are of the largest value m, not of the Euclidean norm: of 512 similar values the norm is about 8 times as
/// much, and so are the steps. A step is m / s, so a value's variance is at most m^2 / (4 s^2), and at most its size
/// times m / s; with m <= |x| and d values in a run q = min(d / (4 s^2), sqrt(d) / s).
class Qsgd : public UpdateCodec {
 public:
  static constexpr Index kRun = 512;

  explicit Qsgd(const CompressionSettings& settings);
  Bytes pack(std::span<const float> values, std::uint64_t seed) const override;
  void unpack(std::span<const std::byte> packed, std::span<float> values) const override;
  double variance(Index values) const override;

  int bits() const { return bits_; }

 private:
  std::size_t packed_size(std::size_t values) const;
  const int levels_;  // s
  const int bits_;    // of a value
};

std::unique_ptr<UpdateCodec> make_qsgd(const CompressionSettings& settings);

inline constexpr CodecEntry kQsgd{.name = "qsgd",
                                  .summary = "round at random to training.compression-levels levels on each side of 0",
                                  .make = make_qsgd};

}  // namespace labelshift
