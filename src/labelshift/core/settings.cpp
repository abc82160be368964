#include "labelshift/core/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "labelshift/core/error.hpp"

namespace labelshift {
namespace {

/// Levenshtein's distance, for "did you mean".
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

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

Error unknown_name(const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  const auto closest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, name) < edit_distance(b, name);
  });
  const bool close = closest != known.end() && edit_distance(*closest, name) <= 1 + name.size() / 3;
  return Error(ErrorKind::kUsage,
               fmt::format("unknown {} \"{}\"{} (known: {})", kind, name,
                           close ? fmt::format("; did you mean \"{}\"?", *closest) : "", fmt::join(known, ", ")));
}

}  // namespace labelshift
