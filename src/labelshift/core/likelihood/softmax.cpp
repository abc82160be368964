#include "labelshift/core/likelihood/softmax.hpp"

#include <algorithm>
#include <vector>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/vector_math.hpp"

namespace labelshift {
namespace {

LABELSHIFT_INLINE inline void softmax(Index rows, Index cols, double* f, double* log_normaliser, double* sum) {
  double* top = log_normaliser;  // subtracted first, so that exp cannot overflow
  for (Index i = 0; i < rows; ++i) top[i] = f[i];
  for (Index c = 1; c < cols; ++c)
    for (Index i = 0; i < rows; ++i) top[i] = f[c * rows + i] > top[i] ? f[c * rows + i] : top[i];
  for (Index c = 0; c < cols; ++c)
    for (Index i = 0; i < rows; ++i) {
      const double e = vector_exp(f[c * rows + i] - top[i]);
      f[c * rows + i] = e;
      sum[i] += e;
    }
  for (Index i = 0; i < rows; ++i) {
    log_normaliser[i] = top[i] + vector_log(sum[i]);
    sum[i] = 1.0 / sum[i];
  }
  for (Index c = 0; c < cols; ++c)
    for (Index i = 0; i < rows; ++i) f[c * rows + i] *= sum[i];
}

}  // namespace

void log_of_floored(double floor, Index count, double* x) {
  on_this_cpu([=]() LABELSHIFT_INLINE {
    for (Index i = 0; i < count; ++i) x[i] = vector_log(x[i] > floor ? x[i] : floor);
  });
}

void softmax_rows(Index rows, Index cols, double* f, double* log_normaliser) {
  std::vector<double> sum(static_cast<std::size_t>(rows));
  on_this_cpu([=, sums = sum.data()]() LABELSHIFT_INLINE { softmax(rows, cols, f, log_normaliser, sums); });
}

}  // namespace labelshift
