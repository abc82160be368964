#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace labelshift {

// All that ever travels between the coordinator and a node: numbers, in a form that does not depend on the engine, so
// that bytes counted in one process are the bytes of a network.

/// What the coordinator asks of a node.
struct Request {
  std::uint32_t task = 0;  // what these numbers mean is between coordinator and node; an engine does not look
  std::uint64_t round = 0;
  std::vector<double> numbers;
  std::vector<float> weights;

  bool operator==(const Request&) const = default;
};

/// What a node answers.
struct Update {
  std::vector<double> numbers;  // added up over the cohort; nobody sees those of a single node
  std::vector<float> weights;   // the same
  std::vector<double> report;   // shown as it is: what a node agrees to disclose about itself

  bool operator==(const Update&) const = default;
};

std::vector<std::byte> encode(const Request& request);
std::vector<std::byte> encode(const Update& update);

/// Throw Error{kPeer} unless the bytes are one whole message; lengths are checked before anything is allocated.
Request decode_request(std::span<const std::byte> bytes);
Update decode_update(std::span<const std::byte> bytes);

/// The number of bytes that encode() makes.
std::uint64_t encoded_size(const Request& request);
std::uint64_t encoded_size(const Update& update);

}  // namespace labelshift
