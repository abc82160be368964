#pragma once

#include <Eigen/Core>
#include <span>

namespace labelshift {

using Eigen::Index;

/// A float or double matrix somewhere in memory, in C or Fortran order: a memory-mapped .npy file, every tenth row of
/// it, an Eigen matrix. Owns nothing, so float32 input stays float32; whoever reads a value gets a double.
class MatrixView {
 public:
  MatrixView(const float* data, Index rows, Index cols, Index row_stride, Index col_stride)
      : floats_(data), rows_(rows), cols_(cols), row_stride_(row_stride), col_stride_(col_stride) {}
  MatrixView(const double* data, Index rows, Index cols, Index row_stride, Index col_stride)
      : doubles_(data), rows_(rows), cols_(cols), row_stride_(row_stride), col_stride_(col_stride) {}
  template <typename Scalar, int Options>
  MatrixView(const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Options>& matrix)
      : MatrixView(matrix.data(), matrix.rows(), matrix.cols(), matrix.rowStride(), matrix.colStride()) {}

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }

  double operator()(Index row, Index col) const {
    const Index at = row * row_stride_ + col * col_stride_;
    return floats_ ? static_cast<double>(floats_[at]) : doubles_[at];
  }

  /// Calls use(data, row_stride, col_stride) with the typed pointer, for kernels.
  template <typename Use>
  decltype(auto) visit(Use&& use) const {
    return floats_ ? use(floats_, row_stride_, col_stride_) : use(doubles_, row_stride_, col_stride_);
  }

  /// Rows [first, first + count).
  MatrixView middle_rows(Index first, Index count) const {
    MatrixView part = *this;
    if (floats_) part.floats_ += first * row_stride_;
    if (doubles_) part.doubles_ += first * row_stride_;
    part.rows_ = count;
    return part;
  }

  /// Rows 0, step, 2 step, ...
  MatrixView every(Index step) const {
    MatrixView part = *this;
    part.rows_ = (rows_ + step - 1) / step;
    part.row_stride_ *= step;
    return part;
  }

 private:
  const float* floats_ = nullptr;  // exactly one of the two is set
  const double* doubles_ = nullptr;
  Index rows_, cols_, row_stride_, col_stride_;
};

}  // namespace labelshift
