#include "labelshift/data/column_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "labelshift/core/error.hpp"
#include "labelshift/core/settings.hpp"
#include "labelshift/data/text_lines.hpp"

namespace labelshift {
namespace {

std::optional<Index> as_number(const std::string& column) {
  Index number = 0;
  const char* end = column.data() + column.size();
  const auto [last, error] = std::from_chars(column.data(), end, number);
  return error == std::errc{} && last == end && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

bool ColumnChoice::by_number() const {
  const auto is_number = [](const std::string& column) { return as_number(column).has_value(); };
  return std::all_of(keep.begin(), keep.end(), is_number) && std::all_of(ignore.begin(), ignore.end(), is_number);
}

std::vector<Index> chosen_columns(const ColumnChoice& choice, const std::vector<std::string>& column_names,
                                  Index columns, const std::string& table) {
  std::vector<std::string> names = column_names;
  for (std::size_t c = 0; c < names.size(); ++c)
    if (names[c].empty()) names[c] = fmt::format("Unnamed: {}", c);
  const auto position = [&](const std::string& column) -> std::optional<Index> {
    if (const auto named = std::find(names.begin(), names.end(), column); named != names.end())
      return named - names.begin();
    const auto number = as_number(column);
    if (number && *number < columns) return number;
    if (number)
      throw Error(ErrorKind::kUsage, fmt::format("{} has no column {}, expected 0 to {}", table, *number, columns - 1));
    return std::nullopt;
  };

  std::vector<Index> chosen;
  for (const std::string& column : choice.keep) {
    const auto at = position(column);
    if (!at && !names.empty())
      throw Error(ErrorKind::kUsage, fmt::format("{}: {}", table, unknown_name("column", column, names).what()));
    if (!at)
      throw Error(ErrorKind::kUsage, fmt::format("{} has no header, so no column is called {}; call columns by their "
                                                 "numbers from 0",
                                                 table, excerpt(column)));
    if (std::find(chosen.begin(), chosen.end(), *at) != chosen.end())
      throw Error(ErrorKind::kUsage, fmt::format("{}: the column {} was chosen twice", table, excerpt(column)));
    chosen.push_back(*at);
  }
  if (choice.keep.empty()) {
    chosen.resize(static_cast<std::size_t>(columns));
    std::iota(chosen.begin(), chosen.end(), Index{0});
  }
  for (const std::string& column : choice.ignore)
    if (const auto at = position(column)) std::erase(chosen, *at);
  if (chosen.empty()) throw Error(ErrorKind::kUsage, fmt::format("{}: no column is left to read", table));
  return chosen;
}

}  // namespace labelshift
