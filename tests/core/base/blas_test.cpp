#include "labelshift/core/base/blas.hpp"

#include <gtest/gtest.h>

namespace labelshift {
namespace {

using Eigen::MatrixXd;

TEST(Blas, UsesAsManyThreadsAsItIsTold) {
  const int before = blas_threads();
  for (const int threads : {2, 1}) {
    use_blas_threads(threads);
    EXPECT_EQ(blas_threads(), threads);
  }
  use_blas_threads(before);
}

TEST(Blas, IsBoundToOpenBlasAndKnowsItsProcessor) {
  EXPECT_NO_THROW(check_fast_blas());
  EXPECT_NE(blas_processor(), "");
}

TEST(Blas, FactorsAPositiveDefiniteMatrixByItsLowerTriangle) {
  // (2 0; 1 3) (2 1; 0 3) = (4 2; 2 10); the upper triangle is somebody else's.
  MatrixXd a{{4.0, -7.0}, {2.0, 10.0}};
  EXPECT_TRUE(factor_positive_definite(a));
  EXPECT_EQ(a, (MatrixXd{{2.0, -7.0}, {1.0, 3.0}}));
  MatrixXd indefinite{{1.0, 0.0}, {2.0, 1.0}};
  EXPECT_FALSE(factor_positive_definite(indefinite));
}

TEST(Blas, AddsOuterProductsTimesAFactorToTheLowerTriangle) {
  const MatrixXd block{{1.0, 2.0}, {3.0, -1.0}};
  MatrixXd lower{{100.0, 7.0}, {10.0, 1.0}};
  add_outer_products(block.data(), 2, 2, lower.data(), -2.0);
  EXPECT_EQ(lower, (MatrixXd{{80.0, 7.0}, {12.0, -9.0}}));  // less twice 10, -1 and 5
}

TEST(Blas, AddsAProductWithTheFirstFactorTurned) {
  const MatrixXd a{{1.0, 2.0, 0.0}, {3.0, -1.0, 1.0}};
  const MatrixXd b{{1.0, 4.0}, {2.0, 5.0}};
  MatrixXd sum = MatrixXd::Constant(3, 2, 100.0);
  add_product(a, b, sum);
  EXPECT_EQ(sum, (MatrixXd{{107.0, 119.0}, {100.0, 103.0}, {102.0, 105.0}}));
}

TEST(Blas, SolvesALowerTriangularSystemForEveryColumn) {
  const MatrixXd lower{{2.0, -7.0}, {1.0, 3.0}};
  MatrixXd b{{4.0, 2.0}, {8.0, -2.0}};  // L (2 1; 2 -1)
  solve_lower_triangular(lower, b);
  EXPECT_EQ(b, (MatrixXd{{2.0, 1.0}, {2.0, -1.0}}));
}

}  // namespace
}  // namespace labelshift
