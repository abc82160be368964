#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/data/files/input_file.hpp"

namespace labelshift {

/// The first bytes of every .npy file.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// A NumPy array in a .npy file (format 1, 2 or 3), memory-mapped: nothing is read before it is used and nothing is
/// copied. The file must not be cut short while the array is in use. Copies of this handle share the mapping.
class NpyFile {
 public:
  /// Throws Error{kInput} if the file is not a well-formed array of numbers with exactly the bytes its header promises.
  explicit NpyFile(const InputFile& file);

  /// The array as a matrix, valid as long as a copy of this handle. Throws Error{kInput} unless it is two-dimensional
  /// and float32 or float64.
  MatrixView view() const;
  /// The numbers of an array of shape (n,) or (n, 1), of any number type. Throws Error{kInput} for other shapes.
  std::vector<double> column() const;

 private:
  std::string shape_text() const;
  std::string path_;
  std::string dtype_;  // as in the header: '<f4', '|u1', ...
  bool fortran_order_ = false;
  std::vector<Index> shape_;
  std::shared_ptr<const void> owner_;  // the mapping, or an aligned copy
  const void* data_ = nullptr;
};

}  // namespace labelshift
