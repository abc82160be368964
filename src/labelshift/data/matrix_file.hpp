#pragma once

#include <string>
#include <variant>
#include <vector>

#include "labelshift/core/matrix_view.hpp"
#include "labelshift/data/csv_reader.hpp"
#include "labelshift/data/npy_reader.hpp"

namespace labelshift {

/// A matrix from a file: a mapped .npy array, which stays float32 if it is, or the doubles of a text.
class MatrixFile {
 public:
  explicit MatrixFile(NpyFile array) : contents_(std::move(array)) {}
  explicit MatrixFile(CsvMatrix matrix) : contents_(std::move(matrix)) {}

  /// Valid until this object, or the one it was moved to, is gone.
  MatrixView view() const;
  /// The class names of a text's header; empty if there are none.
  const std::vector<std::string>& column_names() const;

 private:
  std::variant<NpyFile, CsvMatrix> contents_;
};

/// Reads a matrix of numbers: .npy by its first bytes, everything else as text (.csv, .tsv, .txt, also gzipped). Throws
/// Error{kInput} if it cannot be read. Whether the numbers are probabilities is check_probabilities' business.
MatrixFile read_matrix(const std::string& path);

}  // namespace labelshift
