#include "labelshift/data/files/csv_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/utf8.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

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
      const bool missing = cell.empty() || cell == "NA" || cell == "N/A" || cell == "null";
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}, column {}: found {}, expected a number{}", lines_.place(), cells.column(), excerpt(cell),
                      decimal_comma ? "; write decimals with a point"
                      : missing     ? "; fill it in or remove the row"
                                    : ""),
          first_row_ && !decimal_comma && !missing ? Remedy::kColumns : Remedy::kNone);  // later it is a slip
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
  const bool header = names_columns(first);
  table_ = table_columns(lines_.name(), header ? first : std::vector<std::string>(), cells_);
  const std::vector<Index> chosen =
      chosen_columns(choice_, header ? first : std::vector<std::string>(), cells_, lines_.name());
  const bool wrong_columns = columns_given_ && std::ssize(chosen) != columns_;
  if (wrong_columns && (!header || columns_ == 1)) throw_wrong_columns(std::ssize(chosen), columns_);
  std::set<std::string_view> seen;
  for (const Index c : header ? chosen : std::vector<Index>()) {
    const std::string& name = first[static_cast<std::size_t>(c)];
    if (name.empty())
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}, column {}: found no name, expected one for every column; here it is called {}, as in pandas",
                      lines_.place(), c + 1, excerpt(table_.names[static_cast<std::size_t>(c)])),
          Remedy::kColumns);
    if (!is_utf8(name))
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, column {}: found a name that is not in UTF-8; save the file in UTF-8",
                              lines_.place(), c + 1));
    if (!seen.insert(name).second)
      throw Error(ErrorKind::kInput, fmt::format("{}, column {}: found the name {} again, expected every name once",
                                                 lines_.place(), c + 1, excerpt(name)));
  }
  if (wrong_columns) throw_wrong_columns(std::ssize(chosen), columns_);
  columns_ = std::ssize(chosen);
  slot_.assign(first.size(), -1);
  for (std::size_t k = 0; k < chosen.size(); ++k) slot_[static_cast<std::size_t>(chosen[k])] = static_cast<Index>(k);
  delimiter_ = delimiter;
  if (header)
    for (const Index c : chosen) column_names_.push_back(first[static_cast<std::size_t>(c)]);
  return header;
}

/// Whether the first line is a header.
bool RowReader::names_columns(const std::vector<std::string>& first) const {
  const auto times = [](const std::vector<std::string>& cells, const std::string& cell) {
    return std::count(cells.begin(), cells.end(), cell);
  };
  if (!choice_.by_number())
    return is_header(first) || std::any_of(first.begin(), first.end(), [&](const std::string& cell) {
             double number = 0.0;
             return !parse_number(cell, number) && (times(choice_.keep, cell) || times(choice_.ignore, cell));
           });
  // Names that are numbers: of a row, one cell may be an id and the others 0 and 1, so two have to be larger.
  const auto is_name = [&](const std::string& column) { return times(first, column) == 1; };
  const auto is_large = [](const std::string& column) { return column != "0" && column != "1"; };
  const auto& keep = choice_.keep;
  if (std::all_of(keep.begin(), keep.end(), is_name) && std::count_if(keep.begin(), keep.end(), is_large) >= 2)
    return true;
  std::vector<std::string> chosen, numbers;
  for (const Index c : chosen_columns(choice_, {}, cells_, lines_.name()))
    chosen.push_back(first[static_cast<std::size_t>(c)]);
  for (const std::string& cell : first)
    if (double number = 0.0; parse_number(cell, number)) numbers.push_back(cell);
  return is_header(chosen) || is_header(numbers);
}

void RowReader::throw_wrong_columns(Index found, Index expected) const {
  const bool too_many = columns_given_ && found > expected;
  throw Error(ErrorKind::kInput,
              fmt::format("{} has {} column{}, expected {}{}{}", lines_.place(), found, found == 1 ? "" : "s", expected,
                          columns_given_ ? "" : " as in line 1",
                          too_many && expected == 1 ? "; write it without an index (pandas: index=False)" : ""),
              too_many && expected > 1 && first_row_ ? Remedy::kColumns : Remedy::kNone);
}

CsvMatrix read_csv(InputFile file, const ColumnChoice& choice) {
  const std::string path = file.path();
  UnpackedFile text(std::move(file));
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
  result.table = reader.table();
  return result;
}

}  // namespace labelshift
