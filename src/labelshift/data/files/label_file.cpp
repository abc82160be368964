#include "labelshift/data/files/label_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/base/utf8.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/npy_reader.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

/// A column of labels as they are written, every spelling stored once.
struct Spellings {
  std::vector<std::string> distinct;  // in order of appearance
  std::vector<Index> first_row;       // of each, from 0
  std::vector<int> row;               // (n) which one each row holds

  void add(std::string_view spelling) {
    const auto [found, is_new] = index_.try_emplace(std::string(spelling), static_cast<int>(distinct.size()));
    if (is_new) {
      distinct.emplace_back(spelling);
      first_row.push_back(static_cast<Index>(row.size()));
    }
    row.push_back(found->second);
  }
  /// Takes a header out again, after everything was added.
  void drop_first_row() {
    row.erase(row.begin());
    distinct.erase(distinct.begin());
    first_row.erase(first_row.begin());
    for (int& r : row) --r;
    for (Index& r : first_row) --r;
  }

 private:
  std::unordered_map<std::string, int> index_;
};

std::optional<double> number(const std::string& spelling) {
  double value = 0.0;
  return parse_number(spelling, value) ? std::optional(value) : std::nullopt;
}

bool some_number(const Spellings& spellings) {
  return std::any_of(spellings.distinct.begin(), spellings.distinct.end(),
                     [](const auto& spelling) { return number(spelling).has_value(); });
}

/// The labels of `spellings` if all are numbers.
std::optional<std::vector<double>> numbers(const Spellings& spellings) {
  std::vector<double> values;
  for (const auto& spelling : spellings.distinct) {
    const auto value = number(spelling);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

/// The position of every spelling in `names` if all are there.
std::optional<std::vector<int>> positions(const Spellings& spellings, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, int> position;
  for (std::size_t c = 0; c < names.size(); ++c) position.emplace(names[c], static_cast<int>(c));
  std::vector<int> result;
  for (const auto& spelling : spellings.distinct) {
    const auto found = position.find(spelling);
    if (found == position.end()) return std::nullopt;
    result.push_back(found->second);
  }
  return result;
}

Spellings read_spellings(const std::string& path) {
  Spellings result;
  for_each_label(path, [&](std::string_view spelling, const auto&) { result.add(spelling); });
  return result;
}

/// Whether the first line names the column: it is no label itself, by what is known of labels, and occurs once.
bool has_header(const Spellings& spellings, const std::vector<std::string>& class_names, Index classes) {
  if (spellings.distinct.size() < 2 || number(spellings.distinct[0])) return false;
  if (std::count(spellings.row.begin(), spellings.row.end(), 0) != 1) return false;
  if (!class_names.empty())
    return std::find(class_names.begin(), class_names.end(), spellings.distinct[0]) == class_names.end();
  return some_number(spellings) || std::ssize(spellings.distinct) == classes + 1;
}

std::vector<int> check_numbers(const std::string& path, const Spellings& spellings, const std::vector<double>& values,
                               Index classes) {
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  const bool whole = std::all_of(values.begin(), values.end(), [](double v) { return v == std::floor(v); });
  if (whole && *least == 1.0 && *greatest == static_cast<double>(classes))
    throw Error(ErrorKind::kInput,
                fmt::format("{}: labels run from 1 to {}, expected 0 to {}; subtract 1 or name the columns", path,
                            classes, classes - 1));
  std::vector<int> result;
  for (std::size_t k = 0; k < values.size(); ++k) {
    // Written so that NaN fails too.
    if (!(values[k] >= 0.0 && values[k] < static_cast<double>(classes) && values[k] == std::floor(values[k])))
      throw Error(ErrorKind::kInput, fmt::format("{}, row {}: found label {}, expected 0 to {}", path,
                                                 spellings.first_row[k] + 1, spellings.distinct[k], classes - 1));
    result.push_back(static_cast<int>(values[k]));
  }
  return result;
}

/// Says what is wrong with spellings that are neither all numbers nor all known names.
[[noreturn]] void throw_unknown(const std::string& path, const Spellings& spellings,
                                const std::vector<std::string>& class_names, Index classes) {
  const auto& distinct = spellings.distinct;
  const auto is_known = [&](const std::string& name) {
    return std::find(class_names.begin(), class_names.end(), name) != class_names.end();
  };
  const bool want_numbers =
      some_number(spellings) && std::none_of(distinct.begin(), distinct.end(), is_known);  // else names
  for (std::size_t k = 0; k < distinct.size(); ++k) {
    const std::string place = fmt::format("{}, row {}: ", path, spellings.first_row[k] + 1);
    if (want_numbers && !number(distinct[k]))
      throw Error(ErrorKind::kInput, fmt::format("{}found label {}, expected a number from 0 to {} as in other rows",
                                                 place, excerpt(distinct[k]), classes - 1));
    if (!want_numbers && !class_names.empty() && !is_known(distinct[k]))
      throw Error(ErrorKind::kInput, place + unknown_name("label", distinct[k], class_names).what());
  }
  std::vector<std::string> shown(distinct.begin(),
                                 distinct.begin() + std::min<std::ptrdiff_t>(std::ssize(distinct), 12));
  for (auto& name : shown) name = excerpt(name);
  throw Error(ErrorKind::kInput,
              fmt::format("{}: found {} different names ({}{}), expected {}, one for each column of probabilities; "
                          "name the columns in the header of the probabilities",
                          path, distinct.size(), fmt::join(shown, ", "), distinct.size() > shown.size() ? ", ..." : "",
                          classes));
}

}  // namespace

void for_each_label(const std::string& path, const LabelVisitor& visit) {
  InputFile file(path);
  if (file.starts_with(kNpyMagic)) {
    Index row = 0;
    for (const double value : NpyFile(file).column()) {
      ++row;
      visit(fmt::format("{}", value), [&] { return fmt::format("{}, row {}", path, row); });
    }
    return;
  }
  UnpackedFile text(std::move(file));
  Lines lines(text, path);
  char delimiter = '\0';
  for (std::string_view line, cell, another; lines.next(line);) {
    if (delimiter == '\0') delimiter = find_delimiter(line, path);
    Cells cells(lines, line, delimiter == ' ' ? '\n' : delimiter);  // names may hold spaces
    cells.next(cell);
    visit(cell, [&] { return lines.place(); });
    while (cells.next(another)) continue;
    if (cells.column() != 1)
      throw Error(ErrorKind::kInput,
                  fmt::format("{} has {} columns, expected 1 label a line; keep the column of labels alone (pandas: "
                              "to_csv(path, index=False)), and quote names with commas",
                              lines.place(), cells.column()));
  }
}

Labels read_labels(const std::string& path, const std::vector<std::string>& class_names, Index classes) {
  Spellings spellings = read_spellings(path);
  if (has_header(spellings, class_names, classes)) spellings.drop_first_row();
  if (spellings.row.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}: found no labels, expected one a row", path));

  Labels result{.labels = {}, .class_names = class_names};
  std::optional<std::vector<int>> label_of = positions(spellings, class_names);
  if (!label_of) {
    if (const auto values = numbers(spellings)) label_of = check_numbers(path, spellings, *values, classes);
  }
  if (!label_of && class_names.empty() && std::ssize(spellings.distinct) == classes && !some_number(spellings)) {
    for (std::size_t k = 0; k < spellings.distinct.size(); ++k)
      if (!is_utf8(spellings.distinct[k]))
        throw Error(ErrorKind::kInput, fmt::format("{}, row {}: found a label that is not in UTF-8; save the file in "
                                                   "UTF-8",
                                                   path, spellings.first_row[k] + 1));
    result.class_names = spellings.distinct;
    std::sort(result.class_names.begin(), result.class_names.end());
    label_of = positions(spellings, result.class_names);
  }
  if (!label_of) throw_unknown(path, spellings, class_names, classes);
  result.labels.reserve(spellings.row.size());
  for (const int spelling : spellings.row) result.labels.push_back((*label_of)[static_cast<std::size_t>(spelling)]);
  return result;
}

}  // namespace labelshift
