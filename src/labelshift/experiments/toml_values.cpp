#include "labelshift/experiments/toml_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {
namespace {

/// Where TOML has something beyond ASCII outside of strings and comments, where it cannot be; its size: nowhere. Of
/// text that is not TOML this is right up to the first fault.
std::size_t first_beyond_ascii(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const auto skip_to = [&](std::string_view end) { at = std::min(text.find(end, at), text.size()); };
  while (at < text.size()) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) > 0x7F) return at;
    if (c == '#') {
      skip_to("\n");
    } else if (c == '"' || c == '\'') {
      const bool long_one = text.substr(at, 3) == std::string(3, c);
      const std::string quotes(long_one ? 3 : 1, c);
      at += quotes.size();
      while (at < text.size() && !text.substr(at).starts_with(quotes) && (long_one || text[at] != '\n'))
        at += c == '"' && text[at] == '\\' ? 2 : 1;
      at += quotes.size();
      for (int more = 0; long_one && more < 2 && at < text.size() && text[at] == c; ++more) ++at;  // which it ends with
    } else {
      ++at;
    }
  }
  return text.size();
}

}  // namespace

toml::table parse_toml(const std::string& text, const std::string& name, const std::string& what) {
  constexpr std::ptrdiff_t kMostDots = 20'000;
  if (text.size() > kLongestToml)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} bytes, expected {} of at most {}", name, text.size(), what, kLongestToml));
  // toml++ limits how deep values nest, but not keys, and takes the stack for each of their parts.
  if (const auto dots = std::count(text.begin(), text.end(), '.'); dots > kMostDots)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} dots, expected {} with at most {}", name, dots, what, kMostDots));
  // toml++ takes what it has no case for there as something that cannot happen.
  if (const std::size_t at = first_beyond_ascii(text); at < text.size()) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw Error(ErrorKind::kUsage, fmt::format("{}, line {}: found {} outside of quotes; put it in quotes", name, line,
                                               excerpt(text.substr(at, text.find_first_of(" \t\n", at) - at))));
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}, line {}: {}", name, error.source().begin.line, error.description()));
  }
}

std::string toml_text(const toml::node& value) {
  using enum toml::format_flags;
  std::ostringstream out;
  out << toml::toml_formatter(value, allow_unicode_strings | indent_array_elements);
  return out.str();
}

std::string plain_text(const toml::node& value) {
  return value.is_string() ? value.as_string()->get() : toml_text(value);
}

}  // namespace labelshift
