#pragma once

#include <string>
#include <variant>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/data/files/csv_reader.hpp"
#include "labelshift/data/files/npy_reader.hpp"

namespace labelshift {

/// A matrix from a file: a mapped .npy array, which stays float32 if it is, or the doubles of a text. Where columns
/// were chosen of an array they are a copy.
class MatrixFile {
 public:
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  MatrixFile(std::variant<NpyFile, CsvMatrix, Floats> contents, TableColumns table)
      : contents_(std::move(contents)), table_(std::move(table)) {}

  /// Valid until this object, or the one it was moved to, is gone.
  MatrixView view() const;
  /// The class names of a text's header; empty if there are none.
  const std::vector<std::string>& column_names() const;
  /// All columns of the file.
  const TableColumns& table() const { return table_; }

 private:
  std::variant<NpyFile, CsvMatrix, Floats> contents_;
  TableColumns table_;
};

/// Reads a matrix of numbers: .npy by its first bytes, everything else as text (.csv, .tsv, .txt, also gzipped). Throws
/// Error{kInput} if it cannot be read. Whether the numbers are probabilities is for Scores to check.
MatrixFile read_matrix(const std::string& path, const ColumnChoice& choice = {});

}  // namespace labelshift
