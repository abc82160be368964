#pragma once

#include <vector>

#include "labelshift/core/cache_line_allocator.hpp"
#include "labelshift/core/likelihood_kernel.hpp"
#include "labelshift/core/matrix_view.hpp"

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

/// t[c * kBlockRows + b] = rows(b, c) for at most kBlockRows rows; the rest of each column becomes ones.
void load_rows(const MatrixView& rows, double* t);

}  // namespace labelshift
