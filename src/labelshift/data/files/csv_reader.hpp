#pragma once

#include <Eigen/Core>
#include <istream>
#include <string>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/data/files/column_choice.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {

/// Rows of numbers from a text, one after another: as soon as a line is there its row is, so that a pipe can be
/// watched. Cells are separated as find_delimiter says. The first line is a header if is_header says so of the columns
/// chosen, or a column is chosen by a name that is in it, or it counts 0, 1, 2, ... as pandas does. What the other
/// columns hold does not matter.
class RowReader {
 public:
  /// `columns` is how many columns must be chosen, 0 to go by the first line. `name` is what messages call the text,
  /// `longest_line` is how many bytes a line may have.
  explicit RowReader(std::istream& in, Index columns = 0, std::string name = "standard input", ColumnChoice choice = {},
                     std::size_t longest_line = kLongestLine);

  /// Reads the next row into `row`, resizing it; false at the end. Throws Error{kInput} naming line and column if a
  /// cell is not a number or a line is too short or too long, and may then be asked for the row after. NaN and
  /// infinities are numbers here.
  bool next(std::vector<double>& row);
  /// The header's names of the columns chosen, once the first row was asked for; empty if there is no header.
  const std::vector<std::string>& column_names() const { return column_names_; }
  /// All columns, once the first row was asked for.
  const TableColumns& table() const { return table_; }
  /// The line the last row came from.
  Index line() const { return lines_.number(); }

 private:
  bool read_header(std::string_view line);
  bool names_columns(const std::vector<std::string>& first) const;
  [[noreturn]] void throw_wrong_columns(Index found, Index expected) const;
  Lines lines_;
  ColumnChoice choice_;
  Index columns_;
  bool columns_given_;
  Index cells_ = 0;          // of a line
  std::vector<Index> slot_;  // (cells) where each cell goes in a row; -1 for nowhere
  bool first_row_ = true;
  char delimiter_ = '\0';
  std::vector<std::string> column_names_;
  TableColumns table_;
};

/// A matrix read from text.
struct CsvMatrix {
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> values;
  std::vector<std::string> column_names;  // empty if there is no header
  TableColumns table;
};

/// Reads .csv, .tsv, .txt, also gzipped. Throws Error{kInput} as RowReader does, and if there is no row.
CsvMatrix read_csv(InputFile file, const ColumnChoice& choice = {});

}  // namespace labelshift
