#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <vector>

namespace labelshift {

/// The next `most` bytes, fewer if the stream ends before. Memory grows with what is there, not with what a header
/// promises.
std::vector<std::uint8_t> read_bytes(std::istream& in, std::size_t most);

}  // namespace labelshift
