#include "labelshift/data/csv_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "labelshift/core/error.hpp"

namespace labelshift {

RowReader::RowReader(std::istream& in, Index columns, std::string name, ColumnChoice choice, std::size_t longest_line)
    : lines_(in, std::move(name), longest_line),
      choice_(std::move(choice)),
      columns_(columns),
      columns_given_(columns != 0) {}

bool RowReader::next(std::vector<double>& row) {
  std::string_view line;
  if (!lines_.next(line)) return false;
  if (delimiter_ == '\0' && read_header(line) && !lines_.next(line)) return false;
  row.resize(static_cast<std::size_t>(columns_));
  Cells cells(lines_, line, delimiter_);
  std::string_view cell;
  while (cells.next(cell)) {
    if (cells.column() > cells_) continue;
    const Index slot = slot_[static_cast<std::size_t>(cells.column() - 1)];
    if (slot >= 0 && !parse_number(cell, row[static_cast<std::size_t>(slot)])) {
      const bool decimal_comma = delimiter_ != ',' && cell.find(',') != cell.npos;
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, column {}: found {}, expected a number{}", lines_.place(), cells.column(),
                              excerpt(cell), decimal_comma ? "; write decimals with a point" : ""),
                  first_row_ && !decimal_comma ? Remedy::kColumns : Remedy::kNone);  // later it is a slip
    }
  }
  if (cells.column() != cells_) throw_wrong_columns(cells.column(), cells_);
  first_row_ = false;
  return true;
}

/// Settles delimiter and columns by the first line, unless it throws; true if it is a header.
bool RowReader::read_header(std::string_view line) {
  char delimiter = find_delimiter(line, lines_.name());
  if (delimiter == ' ' && columns_ == 1) delimiter = '\n';  // a lone column's name may hold spaces
  Cells cells(lines_, line, delimiter);
  std::vector<std::string> first;
  for (std::string_view cell; cells.next(cell);) first.emplace_back(cell);
  cells_ = cells.column();
  const auto cells_of = [&](const std::vector<Index>& columns) {
    std::vector<std::string> result;
    for (const Index c : columns) result.push_back(first[static_cast<std::size_t>(c)]);
    return result;
  };
  const bool header = choice_.by_number()
                          ? is_header(cells_of(chosen_columns(choice_, {}, cells_, lines_.name())))
                          : is_header(first) || std::any_of(first.begin(), first.end(), [&](const std::string& cell) {
                              const auto names = [&](const auto& of) { return std::count(of.begin(), of.end(), cell); };
                              double number = 0.0;
                              return !parse_number(cell, number) && (names(choice_.keep) || names(choice_.ignore));
                            });
  const std::vector<Index> chosen =
      chosen_columns(choice_, header ? first : std::vector<std::string>(), cells_, lines_.name());
  if (columns_given_ && std::ssize(chosen) != columns_) throw_wrong_columns(std::ssize(chosen), columns_);
  columns_ = std::ssize(chosen);
  slot_.assign(first.size(), -1);
  for (std::size_t k = 0; k < chosen.size(); ++k) slot_[static_cast<std::size_t>(chosen[k])] = static_cast<Index>(k);
  if (!header) {
    delimiter_ = delimiter;
    return false;
  }
  std::set<std::string_view> seen;
  for (const Index c : chosen) {
    const std::string& name = first[static_cast<std::size_t>(c)];
    if (name.empty())
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, column {}: found no name, expected one for every column; an index column of pandas "
                              "has none, and is called \"Unnamed: {}\"",
                              lines_.place(), c + 1, c),
                  Remedy::kColumns);
    if (!seen.insert(name).second)
      throw Error(ErrorKind::kInput, fmt::format("{}, column {}: found the name {} again, expected every name once",
                                                 lines_.place(), c + 1, excerpt(name)));
  }
  delimiter_ = delimiter;
  column_names_ = cells_of(chosen);
  return true;
}

void RowReader::throw_wrong_columns(Index found, Index expected) const {
  throw Error(ErrorKind::kInput, fmt::format("{} has {} column{}, expected {}{}", lines_.place(), found,
                                             found == 1 ? "" : "s", expected, columns_given_ ? "" : " as in line 1"));
}

CsvMatrix read_csv(InputFile file, const ColumnChoice& choice) {
  const std::string path = file.path();
  TextFile text(std::move(file));
  RowReader reader(text, 0, path, choice);
  CsvMatrix result;
  std::vector<double> row;
  Index rows = 0;
  while (reader.next(row)) {
    if (rows == result.values.rows()) {
      // A row-major matrix grows by realloc, which moves pages rather than bytes: the matrix is in memory only once.
      result.values.conservativeResize(std::max<Index>(64, rows + rows / 2), static_cast<Index>(row.size()));
    }
    std::copy(row.begin(), row.end(), result.values.row(rows++).data());
  }
  if (rows == 0)
    throw Error(ErrorKind::kInput, fmt::format("{}: found {}, expected at least one row of numbers", path,
                                               reader.column_names().empty() ? "an empty file" : "only a header"));
  result.values.conservativeResize(rows, Eigen::NoChange);
  result.column_names = reader.column_names();
  return result;
}

}  // namespace labelshift
