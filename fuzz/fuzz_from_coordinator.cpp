#include <cstdint>

#include "fuzz/peer_messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  labelshift::fuzz::read_from_coordinator(std::as_bytes(std::span(data, size)));
  return 0;
}
