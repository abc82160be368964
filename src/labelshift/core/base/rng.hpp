#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace labelshift {

/// A seeded random stream that gives the same bits with every compiler and standard library (std::*_distribution does
/// not). SplitMix64: one 64-bit counter, so a stream per (seed, stream) costs nothing and streams do not overlap in
/// practice.
class Rng {
 public:
  using result_type = std::uint64_t;

  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) : state_(mix(seed ^ mix(stream + kGamma))) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  result_type operator()() { return mix(state_ += kGamma); }

  /// Uniform on [0, 1), 53 bits.
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

  /// Uniform on {0, ..., n - 1}; n > 0. The bias of the multiplication is below n / 2^64.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((static_cast<unsigned __int128>((*this)()) * static_cast<std::uint64_t>(n)) >> 64);
  }

  /// Standard normal, by Box and Muller.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

  /// Gamma(shape, 1), by Marsaglia and Tsang; a Dirichlet draw is a row of these divided by its sum.
  double gamma(double shape) {
    if (shape < 1.0) return gamma(shape + 1.0) * std::pow(1.0 - uniform(), 1.0 / shape);
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
      const double x = normal();
      const double v = std::pow(1.0 + c * x, 3.0);
      if (v > 0.0 && std::log1p(-uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  static constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;
  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

/// The seed of one use of a seed; the uses are an enumeration.
template <typename Stream>
requires std::is_enum_v<Stream> std::uint64_t stream_seed(std::uint64_t seed, Stream stream) {
  return Rng(seed, static_cast<std::uint64_t>(stream))();
}

}  // namespace labelshift
