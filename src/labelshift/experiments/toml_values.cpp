#include "labelshift/experiments/toml_values.hpp"

#include <sstream>

namespace labelshift {

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
