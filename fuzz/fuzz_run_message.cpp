#include <cstdint>

#include "fuzz/run_messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  labelshift::fuzz::read_run_message(std::as_bytes(std::span(data, size)));
  return 0;
}
