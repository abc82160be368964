#include "labelshift/experiments/toml_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

toml::table parse_toml(const std::string& text, const std::string& name, const std::string& what) {
  constexpr std::ptrdiff_t kMostDots = 20'000;
  if (text.size() > kLongestToml)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} bytes, expected {} of at most {}", name, text.size(), what, kLongestToml));
  // toml++ limits how deep values nest, but not keys, and takes the stack for each of their parts.
  if (const auto dots = std::count(text.begin(), text.end(), '.'); dots > kMostDots)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} dots, expected {} with at most {}", name, dots, what, kMostDots));
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
