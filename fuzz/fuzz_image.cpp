#include "fuzz/memory_file.hpp"
#include "fuzz/readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  labelshift::fuzz::read_image(labelshift::fuzz::MemoryFile(data, size).path());
  return 0;
}
