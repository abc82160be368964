#include "labelshift/core/base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "labelshift/core/base/utf8.hpp"

namespace labelshift {

bool is_shown(const Utf8Character& character) {
  constexpr struct {
    char32_t first, last;
  } kObeyed[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},  {0x200e, 0x200f},
                 {0x2028, 0x202e}, {0x2066, 0x206f}, {0xfeff, 0xfeff}};
  return character.bytes > 0 && std::ranges::none_of(kObeyed, [&](const auto& range) {
           return range.first <= character.code && character.code <= range.last;
         });
}

std::string printable(std::string_view text, std::string_view keep) {
  std::string result;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    std::size_t length = is_shown(character) ? character.bytes : 0;
    if (length == 0 && keep.find(text[0]) != keep.npos) length = 1;
    if (length == 0) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    result += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string printable_json(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const std::size_t length = std::max<std::size_t>(character.bytes, 1);
    if (is_shown(character) || text[0] == '\n')
      result += text.substr(0, length);
    else
      result += fmt::format("\\u{:04x}", character.bytes > 0 ? static_cast<std::uint32_t>(character.code) : 0xfffdu);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace labelshift
