#include <cstdint>

#include "fuzz/packed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  labelshift::fuzz::read_packed(std::as_bytes(std::span(data, size)));
  return 0;
}
