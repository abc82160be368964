#include "labelshift/core/base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace labelshift {
namespace {

/// A character in UTF-8 at the beginning of a text.
struct Character {
  std::size_t length = 0;  // bytes; 0: there is none
  std::uint32_t code = 0;

  explicit Character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    code = byte(0);
    if (code < 0x80) {
      length = 1;
      return;
    }
    const std::size_t expected = code >= 0xf0 ? 4 : code >= 0xe0 ? 3 : 2;
    if (code < 0xc2 || code > 0xf4 || text.size() < expected) return;
    code &= 0xffu >> (expected + 1);
    for (std::size_t i = 1; i < expected; ++i) {
      if (byte(i) >> 6 != 2) return;
      code = code << 6 | (byte(i) & 0x3fu);
    }
    constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code >= kSmallest[expected] && code <= 0x10ffff) length = expected;
  }

  /// Whether a terminal shows it: not the two sets of controls, and not what turns the direction of the text around it
  /// or breaks its line.
  bool is_shown() const {
    constexpr struct {
      std::uint32_t first, last;
    } kObeyed[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},  {0x200e, 0x200f},
                   {0x2028, 0x202e}, {0x2066, 0x206f}, {0xfeff, 0xfeff}};
    return length > 0 &&
           std::ranges::none_of(kObeyed, [&](const auto& range) { return range.first <= code && code <= range.last; });
  }
};

}  // namespace

std::string printable(std::string_view text, std::string_view keep) {
  std::string result;
  while (!text.empty()) {
    const Character character(text);
    std::size_t length = character.is_shown() ? character.length : 0;
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
    const Character character(text);
    const std::size_t length = std::max<std::size_t>(character.length, 1);
    if (character.is_shown() || text[0] == '\n')
      result += text.substr(0, length);
    else
      result += fmt::format("\\u{:04x}", character.length > 0 ? character.code : 0xfffd);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace labelshift
