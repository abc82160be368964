#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "labelshift/core/base/cache_line_allocator.hpp"
#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/core/likelihood/likelihood_kernel.hpp"

namespace labelshift {

/// Rows in a block. As columns of doubles they are an odd number of cache lines, so that columns do not compete for the
/// same cache sets.
inline constexpr Index kBlockRows = 248;

/// Zeros at the start of a cache line: a register that straddles two costs twice.
class AlignedDoubles {
 public:
  explicit AlignedDoubles(Index count = 0) : lines_(static_cast<std::size_t>((count + 7) / 8)) {}
  double* data() { return lines_.empty() ? nullptr : lines_.front().values; }
  const double* data() const { return lines_.empty() ? nullptr : lines_.front().values; }
  Index size() const { return static_cast<Index>(lines_.size()) * 8; }
  double& operator[](Index i) { return data()[i]; }
  double operator[](Index i) const { return data()[i]; }

 private:
  struct alignas(64) Line {
    double values[8] = {};
  };
  std::vector<Line, CacheLineAllocator<Line>> lines_;
};

/// t[c * stride + b] = rows(b, c) for at most `stride` rows; the rest of each column becomes ones.
void load_rows(const MatrixView& rows, double* t, Index stride = kBlockRows);

/// The largest entry of each of at most kBlockRows rows, the first of equals; t is for their columns.
void find_largest(const MatrixView& rows, double* t, double* value, std::int64_t* column);

/// Calls use(row, column, value) with the largest entry of each row, the first of equals.
template <typename Use>
void for_each_largest(const MatrixView& rows, const Use& use) {
  AlignedDoubles t(rows.cols() * kBlockRows);
  double value[kBlockRows];
  std::int64_t column[kBlockRows];
  for (Index first = 0; first < rows.rows(); first += kBlockRows) {
    const Index count = std::min(kBlockRows, rows.rows() - first);
    find_largest(rows.middle_rows(first, count), t.data(), value, column);
    for (Index b = 0; b < count; ++b) use(first + b, static_cast<Index>(column[b]), value[b]);
  }
}

}  // namespace labelshift
