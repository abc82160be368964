#include "labelshift/data/datasets/table_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/base/utf8.hpp"
#include "labelshift/data/files/column_choice.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/label_file.hpp"
#include "labelshift/data/files/matrix_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

constexpr Index kMostClasses = 10'000;

/// Labels as they come in, every spelling stored once.
class LabelColumn {
 public:
  /// `place()` says where the label stands.
  template <typename Place>
  void add(std::string_view spelling, const Place& place) {
    double number = 0.0;
    const bool is_number = parse_number(spelling, number);
    if (spelling.empty() || (is_number && !std::isfinite(number)))
      throw Error(ErrorKind::kInput, fmt::format("{}: found {}, expected a label; fill it in or leave the row out",
                                                 place(), spelling.empty() ? "nothing" : excerpt(spelling)));
    // 1 and 1.0 are one class.
    const std::string name = is_number ? fmt::format("{}", number) : std::string(spelling);
    const auto [found, is_new] = index_.try_emplace(name, static_cast<int>(distinct_.size()));
    if (is_new) {
      if (std::ssize(distinct_) == kMostClasses)
        throw Error(ErrorKind::kInput, fmt::format("{}: found more than {} different labels, expected classes; check "
                                                   "that this is the column of labels",
                                                   place(), kMostClasses));
      if (!is_utf8(name))
        throw Error(ErrorKind::kInput,
                    fmt::format("{}: found a label that is not in UTF-8; save the file in UTF-8", place()));
      distinct_.push_back({name, is_number ? std::optional(number) : std::nullopt, place()});
    }
    rows_.push_back(found->second);
  }

  Index size() const { return std::ssize(rows_); }

  void move_to(Dataset& data, const std::vector<std::string>& class_names) {
    data.class_names = class_names.empty() ? sorted_names() : class_names;
    std::unordered_map<std::string_view, int> position;
    for (const std::string& name : data.class_names) position.emplace(name, static_cast<int>(position.size()));
    std::vector<int> label;
    for (const Distinct& distinct : distinct_) {
      const auto found = position.find(distinct.name);
      if (found == position.end())
        throw Error(ErrorKind::kInput, fmt::format("{}: {}", distinct.place,
                                                   unknown_name("label", distinct.name, data.class_names).what()));
      label.push_back(found->second);
    }
    data.labels = std::move(rows_);
    for (int& row : data.labels) row = label[static_cast<std::size_t>(row)];
  }

 private:
  struct Distinct {
    std::string name;
    std::optional<double> number;
    std::string place;  // of the first one
  };

  std::vector<std::string> sorted_names() const {
    std::vector<Distinct> sorted = distinct_;
    const bool numbers = std::all_of(sorted.begin(), sorted.end(), [](const auto& d) { return d.number.has_value(); });
    std::sort(sorted.begin(), sorted.end(),
              [&](const Distinct& a, const Distinct& b) { return numbers ? *a.number < *b.number : a.name < b.name; });
    std::vector<std::string> names;
    for (Distinct& distinct : sorted) names.push_back(std::move(distinct.name));
    return names;
  }

  std::vector<Distinct> distinct_;
  std::vector<int> rows_;
  std::unordered_map<std::string, int> index_;
};

/// A table as it is read.
struct Table {
  std::vector<float> values;
  Index columns = 0;  // of a row, the labels not counted
  std::vector<std::string> column_names;
  std::optional<LabelColumn> labels;
};

template <typename Place>
float checked_value(double value, const Place& place) {
  const float result = static_cast<float>(value);
  if (!std::isfinite(result))
    throw Error(ErrorKind::kInput, fmt::format("{}: found {}, expected a finite number of 32 bits; fill in missing "
                                               "values first",
                                               place(), value));
  return result;
}

std::optional<Index> column_number(const std::string& text) {
  Index number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

[[noreturn]] void throw_no_such_column(const std::string& path, const std::string& asked, Index columns) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: found {} columns, so the label column cannot be {}; expected a "
                                             "number from 0 to {}",
                                             path, columns, excerpt(asked), columns - 1));
}

/// Where the labels are among columns of these names, none if there is no header.
std::optional<Index> find_label_column(const std::string& path, const std::vector<std::string>& names, Index columns,
                                       const LabelOptions& options) {
  const std::string name = options.column.empty() && options.file.empty() ? "label" : options.column;
  const auto found = std::find(names.begin(), names.end(), name);
  const auto number = column_number(options.column);
  if (found != names.end() && !name.empty()) {
    if (number && *number < columns && *number != found - names.begin())
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: the label column {} may be the one called {} or the one called {}; "
                              "give the columns other names",
                              path, name, name, excerpt(names[static_cast<std::size_t>(*number)])));
    return found - names.begin();
  }
  if (options.column.empty()) return std::nullopt;
  if (!number && names.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{}: found no header in line 1, so the label column cannot be {}; give "
                                               "its number, from 0 to {}",
                                               path, excerpt(options.column), columns - 1));
  if (!number)
    throw Error(ErrorKind::kUsage, fmt::format("{}: {}", path, unknown_name("column", options.column, names).what()));
  if (*number >= columns) throw_no_such_column(path, options.column, columns);
  return number;
}

/// A column that nearly has the name that a column of labels is known by.
std::optional<Index> misnamed_label_column(const std::vector<std::string>& names) {
  for (std::size_t c = 0; c < names.size(); ++c) {
    std::string name = names[c];
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    if (name == "label" || name == "labels" || name == "class") return static_cast<Index>(c);
  }
  return std::nullopt;
}

/// The columns that are left out, one flag for each column. Throws Error{kUsage} for one that is not there, or that was
/// given as the labels'; the column "label" may be left out where nobody asked for it.
std::vector<bool> ignored_columns(const std::string& path, const std::vector<std::string>& names, Index columns,
                                  const LabelOptions& options, std::optional<Index>& label_column) {
  const ColumnChoice choice{.keep = {}, .ignore = options.ignore};
  std::vector<bool> result(static_cast<std::size_t>(columns), !options.ignore.empty());
  if (options.ignore.empty()) return result;
  const TableColumns table = table_columns(path, names, columns);
  check_ignored(choice, std::span(&table, 1));
  for (const Index kept : chosen_columns(choice, names, columns, path)) result[static_cast<std::size_t>(kept)] = false;
  if (label_column && result[static_cast<std::size_t>(*label_column)]) {
    if (!options.column.empty())
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: the column {} was named as that of the labels and as one to leave "
                              "out; name it once",
                              path, excerpt(options.column)));
    label_column.reset();
  }
  return result;
}

Table read_text(InputFile file, const LabelOptions& options) {
  const std::string path = file.path();
  UnpackedFile text(std::move(file));
  Lines lines(text, path);
  Table result;
  char delimiter = '\0';
  Index columns = 0;
  std::optional<Index> label_column, misnamed;
  std::vector<bool> ignored;
  bool first_row = true;
  for (std::string_view line; lines.next(line);) {
    if (delimiter == '\0') {
      delimiter = find_delimiter(line, path);
      Cells cells(lines, line, delimiter);
      std::vector<std::string> names;
      for (std::string_view cell; cells.next(cell);) names.emplace_back(cell);
      columns = cells.column();
      const bool header = is_header(names, column_number(options.column));
      if (!header) names.clear();
      label_column = find_label_column(path, names, columns, options);
      ignored = ignored_columns(path, names, columns, options, label_column);
      if (label_column) result.labels.emplace();
      if (!label_column && options.file.empty()) misnamed = misnamed_label_column(names);
      result.columns = std::count(ignored.begin(), ignored.end(), false) - (label_column ? 1 : 0);
      if (header) {
        for (Index c = 0; c < columns; ++c)
          if (c != label_column && !ignored[static_cast<std::size_t>(c)])
            result.column_names.push_back(std::move(names[static_cast<std::size_t>(c)]));
        continue;
      }
    }
    Cells cells(lines, line, delimiter);
    for (std::string_view cell; cells.next(cell);) {
      if (cells.column() > columns || ignored[static_cast<std::size_t>(cells.column() - 1)]) continue;
      const auto place = [&] { return fmt::format("{}, column {}", lines.place(), cells.column()); };
      if (label_column && cells.column() == *label_column + 1) {
        result.labels->add(cell, place);
        continue;
      }
      double value = 0.0;
      const bool number = parse_number(cell, value);
      if (!number && cells.column() - 1 == misnamed)
        throw Error(ErrorKind::kInput, fmt::format("{}: found {}, expected a number; if this column has the labels, "
                                                   "call it label in line 1",
                                                   place(), excerpt(cell)));
      if (!number)
        throw Error(ErrorKind::kInput, fmt::format("{}: found {}, expected a number", place(), excerpt(cell)),
                    first_row ? Remedy::kColumns : Remedy::kNone);  // later it is a slip
      result.values.push_back(checked_value(value, place));
    }
    if (cells.column() != columns)
      throw Error(ErrorKind::kInput, fmt::format("{} has {} column{}, expected {} as in line 1", lines.place(),
                                                 cells.column(), cells.column() == 1 ? "" : "s", columns));
    first_row = false;
  }
  return result;
}

Table read_array(const std::string& path, const LabelOptions& options) {
  const MatrixFile file = read_matrix(path);
  const MatrixView view = file.view();
  Table result;
  auto label_column = find_label_column(path, {}, view.cols(), options);
  const std::vector<bool> ignored = ignored_columns(path, {}, view.cols(), options, label_column);
  if (label_column) result.labels.emplace();
  result.columns = std::count(ignored.begin(), ignored.end(), false) - (label_column ? 1 : 0);
  result.values.reserve(static_cast<std::size_t>(view.rows() * result.columns));
  for (Index i = 0; i < view.rows(); ++i)
    for (Index c = 0; c < view.cols(); ++c) {
      if (ignored[static_cast<std::size_t>(c)]) continue;
      const double value = view(i, c);
      const auto place = [&] { return fmt::format("{}, row {}, column {}", path, i + 1, c + 1); };
      if (c == label_column)
        result.labels->add(fmt::format("{}", value), place);
      else
        result.values.push_back(checked_value(value, place));
    }
  return result;
}

/// One label a row of a text, with the header "label" or none, or of a .npy array.
LabelColumn read_label_file(const std::string& path) {
  LabelColumn result;
  bool first = true;
  for_each_label(path, [&](std::string_view spelling, const auto& place) {
    if (!first || spelling != "label") result.add(spelling, place);
    first = false;
  });
  return result;
}

}  // namespace

Dataset read_table(const std::string& path, const LabelOptions& options) {
  if (!options.column.empty() && !options.file.empty())
    throw Error(ErrorKind::kUsage, fmt::format("found both the label column {} and the file of labels {}; give one",
                                               excerpt(options.column), options.file));
  InputFile file(path);
  Table table = file.starts_with(kNpyMagic) ? read_array(path, options) : read_text(std::move(file), options);
  if (table.columns == 0 && table.labels)
    throw Error(ErrorKind::kInput, fmt::format("{}: found the column of labels alone, expected numbers too", path));
  if (table.values.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}: found no rows, expected at least one", path));
  Dataset result{.shape = {.channels = 1, .height = 1, .width = table.columns}, .values = std::move(table.values)};
  result.column_names = std::move(table.column_names);
  if (!options.file.empty()) {
    table.labels = read_label_file(options.file);
    if (table.labels->size() != result.size())
      throw Error(ErrorKind::kInput, fmt::format("{}: found {} labels, expected {}, one for each row of {}",
                                                 options.file, table.labels->size(), result.size(), path));
  }
  if (table.labels) table.labels->move_to(result, options.class_names);
  return result;
}

}  // namespace labelshift
