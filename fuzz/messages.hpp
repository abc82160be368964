#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>

#include "labelshift/core/base/error.hpp"
#include "labelshift/engine/masking/masked_request.hpp"
#include "labelshift/engine/mpi/mpi_messages.hpp"
#include "labelshift/engine/tasks.hpp"

/// What the fuzzer and the test of its corpus do with bytes from a peer.
namespace labelshift::fuzz {

/// Reads the bytes as one kind of message, or lets them be refused by Error{kPeer} and nothing else. There is one way
/// to write a message, so what was read must be encoded as the very same bytes.
template <typename Message>
void read_as(std::span<const std::byte> bytes) {
  try {
    if (!std::ranges::equal(to_bytes(from_bytes<Message>(bytes)), bytes))
      throw std::logic_error("a message of other bytes");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw std::logic_error("an error of the wrong kind");
  }
}

/// What a task sends besides sums.
template <typename... Tasks>
void read_parts_of(std::span<const std::byte> bytes) {
  (read_as<typename Tasks::Request>(bytes), ...);
  (read_as<typename Tasks::Own>(bytes), ...);
  (read_as<typename Tasks::Report>(bytes), ...);
}

inline void read_message(std::span<const std::byte> bytes) {
  read_as<Request>(bytes);
  read_as<Addressee>(bytes);
  read_as<Answer>(bytes);
  read_as<MaskedExchange>(bytes);
  read_as<MaskOffer>(bytes);
  read_as<MaskedRequest>(bytes);
  read_as<MpiCall>(bytes);
  read_as<MpiReply>(bytes);
  read_parts_of<Hello, Join, Agree, Target, Share, Assess, Ratio, TrainPredictor, HeldOut, Calibrate, TargetTogether,
                SharedMix, SharedTarget, Mixture, Train, Evaluate>(bytes);
}

}  // namespace labelshift::fuzz
