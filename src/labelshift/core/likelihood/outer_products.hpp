#pragma once

#include "labelshift/core/likelihood/row_block.hpp"

namespace labelshift {

/// sum_b t[c][b] t[d][b] over blocks of rows that load_rows() has turned into columns, for d <= c.
class OuterProducts {
 public:
  explicit OuterProducts(Index columns = 0);

  void add_block(const double* t);
  void add(const OuterProducts& other);

  double operator()(Index c, Index d) const;

 private:
  Index columns_;
  Index lanes_;  // partial sums of each number; 0 where BLAS adds them up
  AlignedDoubles sums_;
};

}  // namespace labelshift
