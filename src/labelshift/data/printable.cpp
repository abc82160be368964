#include "labelshift/data/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace labelshift {
namespace {

/// How many bytes from the beginning of `text` on are one character in UTF-8 that a terminal shows; 0: none.
std::size_t shown_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  std::uint32_t code = byte(0) & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0xa0, 0x800, 0x10000};  // below 0xa0 is another set of controls
  return code >= kSmallest[length] && code <= 0x10ffff ? length : 0;
}

}  // namespace

std::string printable(std::string_view text, std::string_view keep) {
  std::string result;
  while (!text.empty()) {
    std::size_t length = shown_character(text);
    if (length == 0 && keep.find(text[0]) != keep.npos) length = 1;
    if (length == 0) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    result += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace labelshift
