#include "labelshift/core/row_block.hpp"

#include <type_traits>

namespace labelshift {

const LikelihoodKernel& best_kernel() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return kKernelAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kKernelAvx2;
#endif
  return kKernelGeneric;
}

void load_rows(const MatrixView& rows, double* t) {
  rows.visit([&](const auto* data, Index row_stride, Index col_stride) {
    if constexpr (std::is_same_v<decltype(data), const float*>)
      best_kernel().load_floats(data, row_stride, col_stride, rows.rows(), rows.cols(), kBlockRows, t);
    else
      best_kernel().load_doubles(data, row_stride, col_stride, rows.rows(), rows.cols(), kBlockRows, t);
  });
}

}  // namespace labelshift
