#include "labelshift/core/base/named_entries.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

Error unknown_name(const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  const std::string* close = find_close(name, known);
  return Error(ErrorKind::kUsage,
               fmt::format("unknown {} \"{}\"{} (known: {})", kind, name,
                           close ? fmt::format("; did you mean \"{}\"?", *close) : "", fmt::join(known, ", ")));
}

}  // namespace labelshift
