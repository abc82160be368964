#include "labelshift/core/likelihood/row_block.hpp"

#include <type_traits>

#include "labelshift/core/base/cpu.hpp"

namespace labelshift {

const LikelihoodKernel& best_kernel() {
#ifdef __x86_64__
  if (cpu() == Cpu::kAvx512) return kKernelAvx512;
  if (cpu() == Cpu::kAvx2) return kKernelAvx2;
#endif
  return kKernelGeneric;
}

void load_rows(const MatrixView& rows, double* t, Index stride) {
  rows.visit([&](const auto* data, Index row_stride, Index col_stride) {
    if constexpr (std::is_same_v<decltype(data), const float*>)
      best_kernel().load_floats(data, row_stride, col_stride, rows.rows(), rows.cols(), stride, t);
    else
      best_kernel().load_doubles(data, row_stride, col_stride, rows.rows(), rows.cols(), stride, t);
  });
}

void find_largest(const MatrixView& rows, double* t, double* value, std::int64_t* column) {
  const LikelihoodKernel& kernel = best_kernel();
  rows.visit([&](const auto* data, Index row_stride, Index col_stride) {
    if (rows.cols() <= LikelihoodKernel::kFewColumns || col_stride != 1) {
      load_rows(rows, t);
      kernel.largest(t, rows.cols(), kBlockRows, value, column);
    } else if constexpr (std::is_same_v<decltype(data), const float*>) {
      kernel.wide_largest_floats(data, row_stride, rows.rows(), rows.cols(), value, column);
    } else {
      kernel.wide_largest_doubles(data, row_stride, rows.rows(), rows.cols(), value, column);
    }
  });
}

}  // namespace labelshift
