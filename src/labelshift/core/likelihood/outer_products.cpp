#include "labelshift/core/likelihood/outer_products.hpp"

#include "labelshift/core/base/blas.hpp"

namespace labelshift {
namespace {

constexpr Index kLargestInLanes = 128;  // columns; with more of them BLAS is faster than the kernel

}  // namespace

OuterProducts::OuterProducts(Index columns)
    : columns_(columns),
      lanes_(columns <= kLargestInLanes ? best_kernel().lanes : 0),
      sums_(columns * columns * (lanes_ > 0 ? lanes_ : 1)) {}

void OuterProducts::add_block(const double* t) {
  if (lanes_ > 0)
    best_kernel().outer_products(t, columns_, kBlockRows, sums_.data());
  else
    add_outer_products(t, kBlockRows, columns_, sums_.data());
}

void OuterProducts::add(const OuterProducts& other) {
  for (Index i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
}

double OuterProducts::operator()(Index c, Index d) const {
  if (lanes_ == 0) return sums_[d * columns_ + c];  // BLAS: column by column
  return Eigen::Map<const Eigen::ArrayXd>(sums_.data() + (c * columns_ + d) * lanes_, lanes_).sum();
}

}  // namespace labelshift
