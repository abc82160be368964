#pragma once

#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// Which columns of a table to read. A column is called as the header calls it, or by its number from 0; a name comes
/// first. One without a name in the header is called "Unnamed: 0", by its number, as pandas calls it.
struct ColumnChoice {
  std::vector<std::string> keep;    // in this order; empty for all
  std::vector<std::string> ignore;  // of those, what to leave out; check_ignored is for what is not there

  bool all() const { return keep.empty() && ignore.empty(); }
  /// Whether every column is called by a number, so that a table needs no header.
  bool by_number() const;
};

/// The columns that a table has, chosen or not.
struct TableColumns {
  std::string table;               // what messages call it
  std::vector<std::string> names;  // as a ColumnChoice calls them; empty if there is no header
  Index count = 0;
};

/// The columns of a table with this header, or none.
TableColumns table_columns(const std::string& table, const std::vector<std::string>& header, Index columns);

/// The numbers of the columns chosen of a table called `table`. `column_names` is empty if it has no header. Throws
/// Error{kUsage} if a column to keep is not there or no column is left.
std::vector<Index> chosen_columns(const ColumnChoice& choice, const std::vector<std::string>& column_names,
                                  Index columns, const std::string& table);

/// Throws Error{kUsage} if a column to leave out is in none of the tables that were read with one choice.
void check_ignored(const ColumnChoice& choice, std::span<const TableColumns> tables);

}  // namespace labelshift
