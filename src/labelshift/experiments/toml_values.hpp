#pragma once

#include <memory>
#include <string>

// toml++ asserts that the name of a table begins as one may, and refuses it only where that assertion does nothing.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

namespace labelshift {

using TomlValue = std::unique_ptr<toml::node>;

template <typename Node>
TomlValue toml_value(Node value) {
  return std::make_unique<Node>(std::move(value));
}

inline TomlValue text_value(const std::string& text) {
  return toml_value(toml::value(text));
}

inline constexpr std::size_t kLongestToml = 10'000'000;  // bytes

/// Throws Error{kUsage} with `name` and line for text that is not TOML, or more of it than anybody writes; `what` is
/// expected of it, such as "an experiment file".
toml::table parse_toml(const std::string& text, const std::string& name, const std::string& what);

/// A value as it stands in a file. All strings are of one kind, in one pair of quotes: toml++ writes others that it
/// reads as something else, such as one that begins with a line end.
std::string toml_text(const toml::node& value);

/// The same, but a string is what it says.
std::string plain_text(const toml::node& value);

}  // namespace labelshift
