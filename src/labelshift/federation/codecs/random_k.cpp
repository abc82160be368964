#include "labelshift/federation/codecs/random_k.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/float_loops.hpp"

namespace labelshift {
namespace {

/// Calls `take` with k of the positions from 0 to n - 1, in ascending order.
template <typename Take>
void draw(Index n, Index k, std::uint64_t seed, const Take& take) {
  Rng rng(seed);
  for (Index i = 0; k > 0; ++i) {
    if (rng.below(n - i) >= k) continue;
    take(i);
    --k;
  }
}

}  // namespace

Index RandomK::kept(Index values) const {
  return std::clamp<Index>(std::llround(kept_ * static_cast<double>(values)), 1, std::max<Index>(values, 1));
}

Bytes RandomK::pack(std::span<const float> values, std::uint64_t seed) const {
  const Index n = std::ssize(values), k = std::min(kept(n), n);
  Bytes packed(sizeof seed + static_cast<std::size_t>(k) * sizeof(float));
  std::memcpy(packed.data(), &seed, sizeof seed);
  std::byte* to = packed.data() + sizeof seed;
  const float scale = k > 0 ? static_cast<float>(static_cast<double>(n) / static_cast<double>(k)) : 0.0F;
  draw(n, k, seed, [&](Index i) {
    const float value = values[static_cast<std::size_t>(i)] * scale;
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  });
  return packed;
}

void RandomK::unpack(std::span<const std::byte> packed, std::span<float> values) const {
  const Index n = std::ssize(values), k = std::min(kept(n), n);
  std::uint64_t seed = 0;
  const std::size_t expected = sizeof seed + static_cast<std::size_t>(k) * sizeof(float);
  if (packed.size() != expected)
    throw Error(ErrorKind::kPeer,
                fmt::format("it sent {} bytes of packed weights, expected {}; does it run this version, with the same "
                            "model?",
                            packed.size(), expected));
  std::memcpy(&seed, packed.data(), sizeof seed);
  const std::byte* from = packed.data() + sizeof seed;
  std::fill(values.begin(), values.end(), 0.0F);
  draw(n, k, seed, [&](Index i) {
    std::memcpy(&values[static_cast<std::size_t>(i)], from, sizeof(float));
    from += sizeof(float);
  });
  if (!all_finite(values))
    throw Error(ErrorKind::kPeer,
                "the packed weights have a number that is not finite; the training there has run away: use smaller "
                "learning rates, or less compression");
}

double RandomK::variance(Index values) const {
  return static_cast<double>(values) / static_cast<double>(kept(values)) - 1.0;
}

std::unique_ptr<UpdateCodec> make_random_k(const CompressionSettings& settings) {
  return std::make_unique<RandomK>(settings);
}

}  // namespace labelshift
