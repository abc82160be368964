#include "labelshift/core/base/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"

namespace labelshift {
const std::string* Settings::find(const std::string& name) {
  asked_.push_back(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

double Settings::number(const std::string& name, double fallback, double low, double high) {
  const std::string* text = find(name);
  if (!text) return fallback;
  double value = 0.0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || !(value >= low && value <= high))
    throw Error(ErrorKind::kUsage, fmt::format("{} is \"{}\", not a number from {} to {}", name, *text, low, high));
  return value;
}

int Settings::integer(const std::string& name, int fallback, int low, int high) {
  const double value = number(name, fallback, low, high);
  if (value != std::floor(value))
    throw Error(ErrorKind::kUsage, fmt::format("{} is {}, not a whole number", name, value));
  return static_cast<int>(value);
}

std::uint64_t Settings::seed(const std::string& name, std::uint64_t fallback) {
  const std::string* text = find(name);
  if (!text) return fallback;
  std::uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end)
    throw Error(ErrorKind::kUsage, fmt::format("{} is \"{}\", not a whole number from 0 to {}", name, *text,
                                               std::numeric_limits<std::uint64_t>::max()));
  return value;
}

std::string Settings::choice(const std::string& name, const std::vector<std::string>& choices) {
  const std::string* text = find(name);
  if (!text) return choices[0];
  if (std::find(choices.begin(), choices.end(), *text) == choices.end()) throw unknown_name(name, *text, choices);
  return *text;
}

void Settings::check_all_read(const std::string& reader) const {
  for (const auto& [name, value] : values_) {
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    if (asked_.empty())
      throw Error(ErrorKind::kUsage, fmt::format("{} has no settings, so \"{}\" cannot be set", reader, name));
    throw unknown_name("setting of " + reader, name, asked_);
  }
}

}  // namespace labelshift
