#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>

#include "labelshift/core/error.hpp"
#include "labelshift/engine/message.hpp"

/// What the fuzzer and the test of its corpus do with bytes from a peer.
namespace labelshift::fuzz {

/// Reads the bytes as one kind of message, or lets them be refused by Error{kPeer} and nothing else. There is one way
/// to write a message, so what was read must be encoded as the very same bytes.
template <typename Decode>
void read_message(std::span<const std::byte> bytes, const Decode& decode) {
  try {
    if (!std::ranges::equal(encode(decode(bytes)), bytes)) throw std::logic_error("a message of other bytes");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw std::logic_error("an error of the wrong kind");
  }
}

inline void read_message(std::span<const std::byte> bytes) {
  read_message(bytes, decode_request);
  read_message(bytes, decode_update);
}

}  // namespace labelshift::fuzz
