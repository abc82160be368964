#include "labelshift/data/csv_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "labelshift/core/error.hpp"

namespace labelshift {

RowReader::RowReader(std::istream& in, Index columns, std::string name, std::size_t longest_line)
    : lines_(in, std::move(name), longest_line), columns_(columns), columns_given_(columns != 0) {}

bool RowReader::next(std::vector<double>& row) {
  std::string_view line;
  if (!lines_.next(line)) return false;
  if (delimiter_ == '\0' && read_header(line) && !lines_.next(line)) return false;
  row.resize(static_cast<std::size_t>(columns_));
  Cells cells(lines_, line, delimiter_);
  std::string_view cell;
  double* out = row.data();
  while (cells.next(cell)) {
    if (cells.column() > columns_) continue;
    if (!parse_number(cell, *out++)) {
      const bool decimal_comma = delimiter_ != ',' && cell.find(',') != cell.npos;
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, column {}: found {}, expected a number{}", lines_.place(), cells.column(),
                              excerpt(cell), decimal_comma ? "; write decimals with a point" : ""));
    }
  }
  if (cells.column() != columns_) throw_wrong_columns(cells.column());
  return true;
}

/// Settles delimiter and columns by the first line, unless it throws; true if it is a header.
bool RowReader::read_header(std::string_view line) {
  char delimiter = find_delimiter(line, lines_.name());
  if (delimiter == ' ' && columns_ == 1) delimiter = '\n';  // a lone column's name may hold spaces
  Cells cells(lines_, line, delimiter);
  std::vector<std::string> names;
  for (std::string_view cell; cells.next(cell);) names.emplace_back(cell);
  if (!columns_given_) columns_ = cells.column();
  const bool header = is_header(names);
  if (!header && cells.column() != columns_) throw_wrong_columns(cells.column());
  if (!header) {
    delimiter_ = delimiter;
    return false;
  }
  std::set<std::string_view> seen;
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (names[c].empty())
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, column {}: found no name, expected one for every column; leave an index column out "
                              "(pandas: to_csv(path, index=False))",
                              lines_.place(), c + 1));
    if (!seen.insert(names[c]).second)
      throw Error(ErrorKind::kInput, fmt::format("{}, column {}: found the name {} again, expected every name once",
                                                 lines_.place(), c + 1, excerpt(names[c])));
  }
  if (cells.column() != columns_) throw_wrong_columns(cells.column());
  delimiter_ = delimiter;
  column_names_ = std::move(names);
  return true;
}

void RowReader::throw_wrong_columns(Index found) const {
  throw Error(ErrorKind::kInput, fmt::format("{} has {} column{}, expected {}{}", lines_.place(), found,
                                             found == 1 ? "" : "s", columns_, columns_given_ ? "" : " as in line 1"));
}

CsvMatrix read_csv(InputFile file) {
  const std::string path = file.path();
  TextFile text(std::move(file));
  RowReader reader(text, 0, path);
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
