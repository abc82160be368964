#include "fuzz/memory_file.hpp"
#include "fuzz/site_settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const labelshift::fuzz::MemoryFile model(nullptr, 0);
  labelshift::fuzz::read_site_settings(std::string(reinterpret_cast<const char*>(data), size), model.path());
  return 0;
}
