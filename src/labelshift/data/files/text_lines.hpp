#pragma once

#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// Bytes of a line of a file: more than a million columns need, and less than memory has.
inline constexpr std::size_t kLongestLine = std::size_t{64} << 20;

/// The lines of a text, without their ends (LF or CR LF), a byte order mark or blank lines at the end. Throws
/// Error{kInput} at a NUL byte, which no text has, at a blank line with more text below it, which could be a forgotten
/// value, and at a line that is too long; whoever goes on all the same gets the line after.
class Lines {
 public:
  /// `name` is what messages call the text, `longest` is how many bytes a line may have: of a stream that never ends a
  /// line memory must not grow with it.
  Lines(std::istream& in, std::string name, std::size_t longest = kLongestLine)
      : in_(in), name_(std::move(name)), longest_(longest) {}

  /// Moves to the next line, which stays valid until the call after; false at the end.
  bool next(std::string_view& line);
  Index number() const { return number_; }
  const std::string& name() const { return name_; }
  /// "probs.csv, line 3"
  std::string place() const;

 private:
  bool read_line();
  std::istream& in_;
  std::string name_;
  std::size_t longest_;
  std::string text_;
  Index number_ = 0;
  bool held_ = false;      // text_ is a line that next() has still to give
  bool too_long_ = false;  // the rest of a line is still to be dropped
};

/// What separates the cells of a text called `name` with this first line: a tab in *.tsv and *.tsv.gz, else the first
/// of tab, semicolon and comma that stands outside quotes, else spaces.
char find_delimiter(std::string_view first_line, std::string_view name);

/// The cells of the line that `lines` is at, without the spaces around them and without quotes ("" inside quotes is a
/// quote). A space as delimiter stands for any number of them.
class Cells {
 public:
  Cells(const Lines& lines, std::string_view line, char delimiter);

  /// Moves to the next cell, which stays valid until the call after; false at the end of the line. Throws
  /// Error{kInput} if a quote is not closed.
  bool next(std::string_view& cell);
  /// The number of cells so far, so the last one's column as people count.
  Index column() const { return column_; }

 private:
  std::string_view unquote();
  const Lines& lines_;
  const char* at_;
  const char* end_;
  char delimiter_;
  bool more_ = true;
  Index column_ = 0;
  std::string unquoted_;
};

/// Reads a whole cell as a number, NaN and infinities among them; false if it is none.
bool parse_number(std::string_view cell, double& value);

/// Whether the cells of the first line name columns: one is not a number and none is a number with a fraction, or they
/// count 0, 1, 2, ... to at least 2, as pandas does. A cell of the label column is no help if it is not a number, since
/// labels may be names.
bool is_header(const std::vector<std::string>& cells, std::optional<Index> label_column = std::nullopt);

/// The cell as a message shows it: quoted, shortened, control characters escaped.
std::string excerpt(std::string_view cell);

}  // namespace labelshift
