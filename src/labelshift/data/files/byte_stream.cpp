#include "labelshift/data/files/byte_stream.hpp"

#include <algorithm>

namespace labelshift {

std::vector<std::uint8_t> read_bytes(std::istream& in, std::size_t most) {
  constexpr std::size_t kFirst = 1 << 16;
  std::vector<std::uint8_t> bytes;
  for (std::size_t found = 0; found == bytes.size() && found < most;) {
    bytes.resize(std::min(most, std::max(kFirst, 2 * found)));
    in.read(reinterpret_cast<char*>(bytes.data()) + found, static_cast<std::streamsize>(bytes.size() - found));
    found += static_cast<std::size_t>(in.gcount());
    if (found < bytes.size()) {
      bytes.resize(found);
      break;
    }
  }
  return bytes;
}

}  // namespace labelshift
