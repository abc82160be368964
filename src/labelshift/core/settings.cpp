#include "labelshift/core/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "labelshift/core/error.hpp"

namespace labelshift {
namespace {

std::string lower_case(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

/// How many letters have to be inserted, left out, replaced or swapped with a neighbour to make one of the other,
/// whatever their case.
std::size_t edit_distance(const std::string& one, const std::string& other) {
  const std::string a = lower_case(one);
  const std::string b = lower_case(other);
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      auto& best = distance[i][j];
      best = i == 0 || j == 0 ? i + j : distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      if (i > 0) best = std::min(best, distance[i - 1][j] + 1);
      if (j > 0) best = std::min(best, distance[i][j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = std::min(best, distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

/// The known name that could have been meant, or nullptr: a slip in every third letter at most, and something has to be
/// left of it. Long names, which are somebody's data, are not compared: it costs the product of their lengths.
const std::string* find_close(const std::string& name, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 100;
  const std::string* closest = nullptr;
  std::size_t least = kLongest;
  for (const std::string& candidate : known) {
    if (name.size() > kLongest || candidate.size() > kLongest) continue;
    const std::size_t shorter = std::min(name.size(), candidate.size());
    const std::size_t distance = edit_distance(name, candidate);
    const bool close = distance == 0 || (distance < shorter && distance <= std::max<std::size_t>(1, shorter / 3));
    if (!close || distance >= least) continue;
    closest = &candidate;
    least = distance;
  }
  return closest;
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

Error unknown_name(const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  const std::string* close = find_close(name, known);
  return Error(ErrorKind::kUsage,
               fmt::format("unknown {} \"{}\"{} (known: {})", kind, name,
                           close ? fmt::format("; did you mean \"{}\"?", *close) : "", fmt::join(known, ", ")));
}

}  // namespace labelshift
