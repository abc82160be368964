#pragma once

#include <cstddef>
#include <string_view>

namespace labelshift {

/// A character at the beginning of a text.
struct Utf8Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // that it takes; 0: the text does not begin with a character in UTF-8
};

/// The first character of a text that is not empty. Overlong forms and surrogates are no UTF-8.
Utf8Character first_character(std::string_view text);

/// Whether all of a text is UTF-8.
bool is_utf8(std::string_view text);

}  // namespace labelshift
