#include "labelshift/report/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "labelshift/core/base/csv_cell.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/printable.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {
namespace {

// --- text
// -------------------------------------------------------------------------------------------------------------

std::string number_text(const Column& column, double value) {
  if (std::isnan(value)) return "-";
  return column.significant ? fmt::format("{:.{}g}", value, column.digits)
                            : fmt::format("{:.{}f}", value, column.digits);
}

std::string bytes_text(double bytes) {
  if (bytes < 10'000.0) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e7) return fmt::format("{:.0f} kB", bytes / 1e3);
  return bytes < 1e10 ? fmt::format("{:.0f} MB", bytes / 1e6) : fmt::format("{:.0f} GB", bytes / 1e9);
}

std::string value_text(const Column& column, const Cell& cell) {
  const auto number = [&](double value) { return number_text(column, value); };
  if (const auto* text = std::get_if<std::string>(&cell)) return printable(*text);
  if (const auto* count = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *count);
  if (const auto* value = std::get_if<double>(&cell)) return number(*value);
  if (const auto* mean = std::get_if<MeanDeviation>(&cell))
    return std::isnan(mean->deviation) ? number(mean->mean)
                                       : fmt::format("{} +- {}", number(mean->mean), number(mean->deviation));
  if (const auto* range = std::get_if<IntervalEnds>(&cell))
    return fmt::format("{} to {}", number(range->low), number(range->high));
  if (const auto* sent = std::get_if<Transfer>(&cell))
    return fmt::format("{}, {} / {}", sent->rounds, bytes_text(sent->up), bytes_text(sent->down));
  return "";
}

std::string cell_text(const Column& column, const Cell& cell) {
  const std::string text = value_text(column, cell);
  return text.empty() || text == "-" || column.unit.empty() ? text : fmt::format("{} {}", text, column.unit);
}

/// In characters: bytes that do not continue one, in UTF-8.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

// --- programs
// ---------------------------------------------------------------------------------------------------------

std::vector<std::string> keys_of(const Column& column) {
  switch (column.kind) {
    case ColumnKind::kMeanDeviation:
      return {column.key, column.key + "_sd"};
    case ColumnKind::kInterval:
      return {column.key + "_low", column.key + "_high"};
    case ColumnKind::kTransfer:
      return {column.key + "_rounds", column.key + "_up", column.key + "_down"};
    case ColumnKind::kText:
    case ColumnKind::kCount:
    case ColumnKind::kNumber:
      break;
  }
  return {column.key};
}

/// A value for each of the keys.
std::vector<Json> values_of(const Column& column, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return {*text};
  if (const auto* count = std::get_if<std::int64_t>(&cell)) return {*count};
  if (const auto* value = std::get_if<double>(&cell)) return {json_number(*value)};
  if (const auto* mean = std::get_if<MeanDeviation>(&cell))
    return {json_number(mean->mean), json_number(mean->deviation)};
  if (const auto* range = std::get_if<IntervalEnds>(&cell)) return {json_number(range->low), json_number(range->high)};
  if (const auto* sent = std::get_if<Transfer>(&cell))
    return {sent->rounds, json_number(sent->up), json_number(sent->down)};
  return std::vector<Json>(keys_of(column).size());
}

/// The shortest that reads back.
std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "";
}

/// The values of a cell with commas between them. Not from values_of(): tables of runs have 100,000 rows.
std::string csv_values(const Column& column, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return csv_cell(*text);
  if (const auto* count = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *count);
  if (const auto* value = std::get_if<double>(&cell)) return csv_number(*value);
  if (const auto* mean = std::get_if<MeanDeviation>(&cell))
    return fmt::format("{},{}", csv_number(mean->mean), csv_number(mean->deviation));
  if (const auto* range = std::get_if<IntervalEnds>(&cell))
    return fmt::format("{},{}", csv_number(range->low), csv_number(range->high));
  if (const auto* sent = std::get_if<Transfer>(&cell))
    return fmt::format("{},{},{}", sent->rounds, csv_number(sent->up), csv_number(sent->down));
  return std::string(keys_of(column).size() - 1, ',');
}

/// Cells are of the kind that their column says, and there is one for each.
[[maybe_unused]] bool is_consistent(const Table& table) {
  const auto fits = [](const Column& column, const Cell& cell) {
    return cell.index() == 0 || cell.index() == static_cast<std::size_t>(column.kind) + 1;
  };
  return std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<Cell>& row) {
    return row.size() == table.columns.size() &&
           std::equal(table.columns.begin(), table.columns.end(), row.begin(), fits);
  });
}

}  // namespace

Column text_column(std::string name, std::string key) {
  return {.name = std::move(name), .key = std::move(key)};
}

Column count_column(std::string name, std::string key) {
  return {.name = std::move(name), .key = std::move(key), .kind = ColumnKind::kCount};
}

Column number_column(std::string name, std::string key, int digits) {
  return {.name = std::move(name), .key = std::move(key), .kind = ColumnKind::kNumber, .digits = digits};
}

Column mean_column(std::string name, std::string key) {
  return {.name = std::move(name), .key = std::move(key), .kind = ColumnKind::kMeanDeviation};
}

Column interval_column(std::string name, std::string key) {
  return {.name = std::move(name), .key = std::move(key), .kind = ColumnKind::kInterval};
}

Column significant_column(std::string name, std::string key, int digits, ColumnKind kind) {
  return {.name = std::move(name), .key = std::move(key), .kind = kind, .digits = digits, .significant = true};
}

std::string table_text(const Table& table) {
  assert(is_consistent(table));
  std::vector<std::vector<std::string>> lines{{}};
  for (const Column& column : table.columns) lines[0].push_back(printable(column.name));
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t k = 0; k < row.size(); ++k) line.push_back(cell_text(table.columns[k], row[k]));
  }
  std::vector<std::size_t> widths(table.columns.size());
  for (const auto& line : lines)
    for (std::size_t k = 0; k < line.size(); ++k) widths[k] = std::max(widths[k], width_of(line[k]));
  std::string text = table.title.empty() ? "" : printable(table.title) + '\n';
  for (const auto& line : lines) {
    std::string whole;
    for (std::size_t k = 0; k < line.size(); ++k) {
      const std::string padding(widths[k] - width_of(line[k]), ' ');
      if (k > 0) whole += "  ";
      whole += table.columns[k].kind == ColumnKind::kText ? line[k] + padding : padding + line[k];
    }
    whole.erase(whole.find_last_not_of(' ') + 1);
    text += whole + '\n';
  }
  for (const std::string& note : table.notes) text += note + '\n';
  return text;
}

std::string table_html(const Table& table) {
  assert(is_consistent(table));
  const auto add_line = [&](const char* element, const auto& text_of) {
    std::string line = "<tr>";
    for (std::size_t k = 0; k < table.columns.size(); ++k)
      line += fmt::format("<{0}{1}>{2}</{0}>", element,
                          table.columns[k].kind == ColumnKind::kText ? "" : " class=\"n\"", xml_escaped(text_of(k)));
    return line + "</tr>\n";
  };
  std::string text = "<table>\n";
  if (!table.title.empty()) text += fmt::format("<caption>{}</caption>\n", xml_escaped(table.title));
  text +=
      fmt::format("<thead>{}</thead>\n<tbody>\n", add_line("th", [&](std::size_t k) { return table.columns[k].name; }));
  for (const std::vector<Cell>& row : table.rows)
    text += add_line("td", [&](std::size_t k) {
      std::string cell = cell_text(table.columns[k], row[k]);
      if (std::holds_alternative<MeanDeviation>(row[k]))
        if (const std::size_t at = cell.find("+-"); at != std::string::npos) cell.replace(at, 2, "\u00b1");
      return cell;
    });
  return text + "</tbody>\n</table>\n";
}

std::string table_csv(const Table& table, bool with_keys) {
  assert(is_consistent(table));
  std::string text;
  const auto add_line = [&](const auto& values) {
    for (std::size_t k = 0; k < table.columns.size(); ++k) {
      if (k > 0) text += ',';
      text += values(k);
    }
    text += '\n';
  };
  if (with_keys)
    add_line([&](std::size_t k) {
      std::vector<std::string> keys = keys_of(table.columns[k]);
      for (std::string& key : keys) key = csv_cell(key);
      return fmt::format("{}", fmt::join(keys, ","));
    });
  for (const std::vector<Cell>& row : table.rows)
    add_line([&](std::size_t k) { return csv_values(table.columns[k], row[k]); });
  return text;
}

std::string table_json(const Table& table) {
  assert(is_consistent(table));
  Json json{{"title", table.title}, {"columns", Json::array()}, {"rows", Json::array()}, {"notes", table.notes}};
  for (const Column& column : table.columns)
    json["columns"].push_back({{"key", column.key}, {"name", column.name}, {"unit", column.unit}});
  for (const std::vector<Cell>& row : table.rows) {
    Json object = Json::object();
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::vector<std::string> keys = keys_of(table.columns[k]);
      const std::vector<Json> values = values_of(table.columns[k], row[k]);
      for (std::size_t part = 0; part < keys.size(); ++part) object[keys[part]] = values[part];
    }
    json["rows"].push_back(std::move(object));
  }
  return json_text(json);
}

}  // namespace labelshift
