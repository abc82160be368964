#include "labelshift/core/likelihood/renormalise.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

void expect_error(const RowMajorMatrix<double>& rows, const std::string& message) {
  try {
    renormalise_rows(rows, "probs.csv");
    FAIL() << "expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.what(), message);
  }
}

TEST(Renormalise, DividesEveryRowByItsSum) {
  RowMajorMatrix<double> rows(2, 2);
  rows << 1.0, 3.0, 0.2, 0.2;
  const auto result = renormalise_rows(rows, "probs.csv");
  EXPECT_EQ(result.view()(0, 0), 0.25);
  EXPECT_EQ(result.view()(0, 1), 0.75);
  EXPECT_EQ(result.view()(1, 0), 0.5);
}

TEST(Renormalise, KeepsFloatsFloatAndReadsFortranOrder) {
  Eigen::MatrixXf columns(2, 2);
  columns << 1.0F, 3.0F, 2.0F, 6.0F;
  const auto result = renormalise_rows(columns, "probs.npy");
  ASSERT_TRUE(std::holds_alternative<RowMajorMatrix<float>>(result.values));
  EXPECT_EQ(result.view()(1, 0), 0.25);
  EXPECT_EQ(result.view()(1, 1), 0.75);
}

TEST(Renormalise, NamesTheEntryThatIsNoProbabilityAtAnyScale) {
  RowMajorMatrix<double> rows = RowMajorMatrix<double>::Constant(2, 2, 0.5);
  rows(1, 0) = -0.5;
  expect_error(rows, "probs.csv, row 2, column 1: found -0.5, expected a finite number that is not negative");
  rows(1, 0) = std::numeric_limits<double>::infinity();
  expect_error(rows,
               "probs.csv, row 2, column 1: found inf, expected a finite number that is not negative; remove the row "
               "or repair it");
}

TEST(Renormalise, NamesTheRowThatHasNothingToDivideBy) {
  RowMajorMatrix<double> rows = RowMajorMatrix<double>::Zero(1, 3);
  expect_error(rows, "probs.csv, row 1: the row sums to 0, expected a positive finite sum to divide it by");
}

}  // namespace
}  // namespace labelshift
