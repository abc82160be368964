#include "labelshift/data/files/column_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {
namespace {

std::optional<Index> as_number(const std::string& column) {
  Index number = 0;
  const char* end = column.data() + column.size();
  const auto [last, error] = std::from_chars(column.data(), end, number);
  return error == std::errc{} && last == end && number >= 0 ? std::optional(number) : std::nullopt;
}

/// Where a column is in a table, if it is there.
std::optional<Index> position(const std::string& column, const TableColumns& table) {
  if (const auto named = std::find(table.names.begin(), table.names.end(), column); named != table.names.end())
    return named - table.names.begin();
  const auto number = as_number(column);
  return number && *number < table.count ? number : std::nullopt;
}

[[noreturn]] void throw_no_header(const std::string& table, const std::string& column) {
  throw Error(ErrorKind::kUsage,
              fmt::format("{} has no header, so no column is called {}; call columns by their numbers from 0", table,
                          excerpt(column)));
}

}  // namespace

bool ColumnChoice::by_number() const {
  const auto is_number = [](const std::string& column) { return as_number(column).has_value(); };
  return std::all_of(keep.begin(), keep.end(), is_number) && std::all_of(ignore.begin(), ignore.end(), is_number);
}

TableColumns table_columns(const std::string& table, const std::vector<std::string>& header, Index columns) {
  TableColumns result{table, header, columns};
  for (std::size_t c = 0; c < header.size(); ++c)
    if (header[c].empty()) result.names[c] = fmt::format("Unnamed: {}", c);
  return result;
}

std::vector<Index> chosen_columns(const ColumnChoice& choice, const std::vector<std::string>& column_names,
                                  Index columns, const std::string& table) {
  const TableColumns known = table_columns(table, column_names, columns);
  std::vector<Index> chosen;
  for (const std::string& column : choice.keep) {
    const auto at = position(column, known);
    if (!at && as_number(column))
      throw Error(ErrorKind::kUsage, fmt::format("{} has no column {}, expected 0 to {}", table, column, columns - 1));
    if (!at && known.names.empty()) throw_no_header(table, column);
    if (!at)
      throw Error(ErrorKind::kUsage, fmt::format("{}: {}", table, unknown_name("column", column, known.names).what()));
    if (std::find(chosen.begin(), chosen.end(), *at) != chosen.end())
      throw Error(ErrorKind::kUsage, fmt::format("{}: the column {} was chosen twice", table, excerpt(column)));
    chosen.push_back(*at);
  }
  if (choice.keep.empty()) {
    chosen.resize(static_cast<std::size_t>(columns));
    std::iota(chosen.begin(), chosen.end(), Index{0});
  }
  for (const std::string& column : choice.ignore)
    if (const auto at = position(column, known)) std::erase(chosen, *at);
  if (chosen.empty()) throw Error(ErrorKind::kUsage, fmt::format("{}: no column is left to read", table));
  return chosen;
}

void check_ignored(const ColumnChoice& choice, std::span<const TableColumns> tables) {
  std::vector<std::string> names;
  Index most = 0;
  for (const TableColumns& table : tables) {
    for (const std::string& name : table.names)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    most = std::max(most, table.count);
  }
  for (const std::string& column : choice.ignore) {
    if (std::any_of(tables.begin(), tables.end(), [&](const auto& table) { return position(column, table); })) continue;
    if (as_number(column))
      throw Error(ErrorKind::kUsage,
                  fmt::format("there is no column {} to leave out, expected 0 to {}", column, most - 1));
    if (names.empty()) throw_no_header(tables.front().table, column);
    throw unknown_name("column to leave out", column, names);
  }
}

}  // namespace labelshift
