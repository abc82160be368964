#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/federation/codec.hpp"

/// What the fuzzer does with an update that a node packed.
namespace labelshift::fuzz {

/// The first three bytes say by which codec, how finely, and how many values there are; the others are the update. It
/// is unpacked to finite numbers, or refused by Error{kPeer} and nothing else.
inline void read_packed(std::span<const std::byte> bytes) {
  if (bytes.size() < 3) return;
  const auto at = [&](std::size_t i) { return std::to_integer<int>(bytes[i]); };
  const CodecEntry& entry = codecs()[static_cast<std::size_t>(at(0)) % codecs().size()];
  const auto codec = entry.make({.codec = entry.name, .levels = 1 + at(1) / 2, .kept = (1 + at(1)) / 256.0});
  std::vector<float> values(static_cast<std::size_t>(5 * at(2)));  // more than a run of qsgd, too
  try {
    codec->unpack(bytes.subspan(3), values);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw std::logic_error("an error of the wrong kind");
    return;
  }
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    throw std::logic_error("a number that is not finite");
}

}  // namespace labelshift::fuzz
