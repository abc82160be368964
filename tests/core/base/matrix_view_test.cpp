#include "labelshift/core/base/matrix_view.hpp"

#include <gtest/gtest.h>

namespace labelshift {
namespace {

TEST(MatrixView, ReadsEveryLayoutAndTypeInPlace) {
  const Eigen::MatrixXd columns = (Eigen::MatrixXd(2, 3) << 1, 2, 3, 4, 5, 6).finished();
  const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows = columns.cast<float>();
  for (const MatrixView& view : {MatrixView(columns), MatrixView(rows)}) {
    ASSERT_EQ(view.rows(), 2);
    ASSERT_EQ(view.cols(), 3);
    for (Index i = 0; i < 2; ++i)
      for (Index c = 0; c < 3; ++c) EXPECT_EQ(view(i, c), columns(i, c));
  }
  const void* seen = MatrixView(rows).visit([](const auto* data, Index row_stride, Index col_stride) -> const void* {
    EXPECT_EQ(row_stride, 3);
    EXPECT_EQ(col_stride, 1);
    return data;
  });
  EXPECT_EQ(seen, rows.data());
}

TEST(MatrixView, CutsRows) {
  Eigen::MatrixXd matrix(10, 2);
  for (Index i = 0; i < 10; ++i) matrix.row(i) << static_cast<double>(i), -static_cast<double>(i);
  const MatrixView view(matrix);
  EXPECT_EQ(view.middle_rows(3, 4).rows(), 4);
  EXPECT_EQ(view.middle_rows(3, 4)(1, 1), -4.0);
  EXPECT_EQ(view.every(3).rows(), 4);  // 0, 3, 6, 9
  EXPECT_EQ(view.every(4).rows(), 3);  // 0, 4, 8
  EXPECT_EQ(view.every(3)(3, 0), 9.0);
  EXPECT_EQ(view.every(2).middle_rows(1, 3).every(2)(1, 0), 6.0);
}

}  // namespace
}  // namespace labelshift
