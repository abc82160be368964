#include "labelshift/federation/codecs/qsgd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"

namespace labelshift {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;  // as bits of a float
constexpr std::uint32_t kWithoutSign = 0x7fffffff;
constexpr auto kRunSize = static_cast<std::size_t>(Qsgd::kRun);

/// The largest size among the values, as bits of a float. These are in the order of the floats, and what is not finite
/// is beyond all others.
LABELSHIFT_INLINE inline std::uint32_t largest(const float* values, std::size_t size) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < size; ++i) most = std::max(most, std::bit_cast<std::uint32_t>(values[i]) & kWithoutSign);
  return most;
}

/// codes[i] = floor(x_i s / m + u_i) + s with u_i uniform on [0, 1), a hash of i under a key of 64 bits.
LABELSHIFT_INLINE inline void round_all(const float* values, std::size_t size, float scale, int levels,
                                        std::uint64_t key, std::uint16_t* codes) {
  const auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  const auto shift = static_cast<float>(levels);
  const int most = 2 * levels;
  for (std::size_t i = 0; i < size; ++i) {
    std::uint32_t hash = static_cast<std::uint32_t>(i) * 0x9e3779b9U + low;
    hash = (hash ^ (hash >> 16)) * 0x7feb352dU;
    hash = (hash ^ (hash >> 15) ^ high) * 0x846ca68bU;
    hash = (hash ^ (hash >> 16)) * 0x9e3779b1U;
    const float u = static_cast<float>(static_cast<int>(hash >> 8)) * 0x1p-24F;
    const int code = static_cast<int>(values[i] * scale + shift + u);  // not below 0, so this rounds down
    codes[i] = static_cast<std::uint16_t>(std::clamp(code, 0, most));
  }
}

LABELSHIFT_INLINE inline void unround_all(const std::uint16_t* codes, std::size_t size, float step, int levels,
                                          float* values) {
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(static_cast<int>(codes[i]) - levels) * step;
}

LABELSHIFT_INLINE inline std::uint16_t largest_code(const std::uint16_t* codes, std::size_t size) {
  std::uint16_t most = 0;
  for (std::size_t i = 0; i < size; ++i) most = std::max(most, codes[i]);
  return most;
}

std::size_t run_bytes(std::size_t size, int bits) {
  return (size * static_cast<std::size_t>(bits) + 7) / 8;
}

/// The codes one after another, the lowest bits first.
LABELSHIFT_INLINE inline void join(const std::uint16_t* codes, std::size_t size, int bits, std::byte* bytes) {
  if (bits == 4) {
    for (std::size_t i = 0; i < size / 2; ++i) bytes[i] = static_cast<std::byte>(codes[2 * i] | codes[2 * i + 1] << 4);
    if (size % 2 != 0) bytes[size / 2] = static_cast<std::byte>(codes[size - 1]);
    return;
  }
  if (bits == 8) {
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(codes[i]);
    return;
  }
  std::uint32_t held = 0;
  int holds = 0;
  for (std::size_t i = 0; i < size; ++i) {
    held |= static_cast<std::uint32_t>(codes[i]) << holds;
    for (holds += bits; holds >= 8; holds -= 8, held >>= 8) *bytes++ = static_cast<std::byte>(held);
  }
  if (holds > 0) *bytes = static_cast<std::byte>(held);
}

LABELSHIFT_INLINE inline void split(const std::byte* bytes, std::size_t size, int bits, std::uint16_t* codes) {
  if (bits == 4) {
    for (std::size_t i = 0; i < size / 2; ++i) {
      const auto both = static_cast<std::uint16_t>(bytes[i]);
      codes[2 * i] = both & 15;
      codes[2 * i + 1] = static_cast<std::uint16_t>(both >> 4);
    }
    if (size % 2 != 0) codes[size - 1] = static_cast<std::uint16_t>(bytes[size / 2]) & 15;
    return;
  }
  if (bits == 8) {
    for (std::size_t i = 0; i < size; ++i) codes[i] = static_cast<std::uint16_t>(bytes[i]);
    return;
  }
  const std::uint32_t mask = (1U << bits) - 1;
  std::uint32_t held = 0;
  int holds = 0;
  for (std::size_t i = 0; i < size; ++i) {
    for (; holds < bits; holds += 8) held |= static_cast<std::uint32_t>(*bytes++) << holds;
    codes[i] = static_cast<std::uint16_t>(held & mask);
    held >>= bits;
    holds -= bits;
  }
}

}  // namespace

Qsgd::Qsgd(const CompressionSettings& settings)
    : levels_(settings.levels), bits_(std::bit_width(2U * static_cast<unsigned>(settings.levels))) {}

std::size_t Qsgd::packed_size(std::size_t values) const {
  const std::size_t whole = values / kRunSize, rest = values % kRunSize;
  return whole * (sizeof(float) + run_bytes(kRunSize, bits_)) +
         (rest > 0 ? sizeof(float) + run_bytes(rest, bits_) : std::size_t{0});
}

Bytes Qsgd::pack(std::span<const float> values, std::uint64_t seed) const {
  Bytes packed(packed_size(values.size()));
  on_this_cpu([&]() LABELSHIFT_INLINE {
    std::byte* to = packed.data();
    std::uint16_t codes[kRunSize];
    Rng keys(seed);
    for (std::size_t at = 0; at < values.size(); at += kRunSize) {
      const std::size_t size = std::min(kRunSize, values.size() - at);
      const auto most = std::bit_cast<float>(largest(values.data() + at, size));
      const std::uint64_t key = keys();
      std::memcpy(to, &most, sizeof most);
      const float scale = static_cast<float>(levels_) / most;
      // Of what is not finite, or too small to divide by, the largest value tells the receiver enough.
      const bool usable = most > 0.0F && std::isfinite(most) && std::isfinite(scale);
      if (usable)
        round_all(values.data() + at, size, scale, levels_, key, codes);
      else
        std::fill_n(codes, size, static_cast<std::uint16_t>(levels_));
      join(codes, size, bits_, to + sizeof most);
      to += sizeof most + run_bytes(size, bits_);
    }
  });
  return packed;
}

void Qsgd::unpack(std::span<const std::byte> packed, std::span<float> values) const {
  if (packed.size() != packed_size(values.size()))
    throw Error(ErrorKind::kPeer,
                fmt::format("it sent {} bytes of packed weights, expected {}; does it run this version, with the same "
                            "model?",
                            packed.size(), packed_size(values.size())));
  bool finite = true;
  std::uint16_t most_code = 0;
  on_this_cpu([&]() LABELSHIFT_INLINE {
    const std::byte* from = packed.data();
    std::uint16_t codes[kRunSize];
    for (std::size_t at = 0; at < values.size(); at += kRunSize) {
      const std::size_t size = std::min(kRunSize, values.size() - at);
      std::uint32_t most = 0;
      std::memcpy(&most, from, sizeof most);
      // As many steps as there are levels may be more than the largest value, by rounding.
      const float step = std::bit_cast<float>(most) / static_cast<float>(levels_);
      finite = finite && most < kInfinity && std::isfinite(step * static_cast<float>(levels_));  // and not below 0
      split(from + sizeof most, size, bits_, codes);
      most_code = std::max(most_code, largest_code(codes, size));
      unround_all(codes, size, step, levels_, values.data() + at);
      from += sizeof most + run_bytes(size, bits_);
    }
  });
  if (!finite)
    throw Error(ErrorKind::kPeer,
                "the packed weights have a number that is not finite, or below 0; the training there has run away: use "
                "smaller learning rates, or less compression");
  if (most_code > 2 * levels_)
    throw Error(ErrorKind::kPeer, fmt::format("the packed weights have a level {}, expected at most {}; does it run "
                                              "this version?",
                                              most_code, 2 * levels_));
}

double Qsgd::variance(Index values) const {
  const auto run = static_cast<double>(std::min(values, Qsgd::kRun)), s = static_cast<double>(levels_);
  return std::min(run / (4.0 * s * s), std::sqrt(run) / s);
}

std::unique_ptr<UpdateCodec> make_qsgd(const CompressionSettings& settings) {
  return std::make_unique<Qsgd>(settings);
}

}  // namespace labelshift
