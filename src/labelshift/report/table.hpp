#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "labelshift/report/mean_deviation.hpp"

namespace labelshift {

/// The ends of an interval.
struct IntervalEnds {
  double low = 0.0;
  double high = 0.0;
};

/// What an exchange of messages took.
struct Transfer {
  std::int64_t rounds = 0;
  double up = 0.0;  // bytes
  double down = 0.0;
};

/// A value of a table, or nothing.
using Cell = std::variant<std::monostate, std::string, std::int64_t, double, MeanDeviation, IntervalEnds, Transfer>;

/// What a column has in all cells that are not empty. Programs see the parts of the last three as columns of their own.
enum class ColumnKind { kText, kCount, kNumber, kMeanDeviation, kInterval, kTransfer };

struct Column {
  std::string name;                     // what people read above it
  std::string key;                      // what programs call it: a to z, digits and _, and the name of a class as it is
  ColumnKind kind = ColumnKind::kText;  // numbers are aligned to the right
  int digits = 4;                       // that people see of a number, behind the point; programs see all
  bool significant = false;             // count these digits from the first that is not 0
  std::string unit;                     // of its numbers; empty: none, or one that the title or the name says
};

Column text_column(std::string name, std::string key);
Column count_column(std::string name, std::string key);
Column number_column(std::string name, std::string key, int digits = 4);
Column mean_column(std::string name, std::string key);
Column interval_column(std::string name, std::string key);
/// Its digits are counted from the first that is not 0.
Column significant_column(std::string name, std::string key, int digits, ColumnKind kind = ColumnKind::kNumber);

/// A table of results, before anybody decided how to show it.
struct Table {
  std::string title;  // may be empty
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each with a cell a column
  std::vector<std::string> notes;       // whole sentences to be read below it
};

/// For people: columns as wide as they need to be, then the notes. A number that is not known is "-", an empty cell is
/// blank. Names are made printable.
std::string table_text(const Table& table);

/// The same as a <table> of HTML, without the notes.
std::string table_html(const Table& table);

/// For programs: a line of keys, if it is wanted, and a line for each row. What is not known is empty. Of a mean there
/// are KEY and KEY_sd, of an interval KEY_low and KEY_high, of a transfer KEY_rounds, KEY_up and KEY_down.
std::string table_csv(const Table& table, bool with_keys = true);

/// An object with title, columns (key, name, unit), rows (objects by the keys of the CSV) and notes. What is not known
/// is null.
std::string table_json(const Table& table);

}  // namespace labelshift
