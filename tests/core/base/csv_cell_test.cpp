#include "labelshift/core/base/csv_cell.hpp"

#include <gtest/gtest.h>

namespace labelshift {
namespace {

TEST(CsvCell, IsQuotedOnlyWhereAReaderWouldTakeItApart) {
  EXPECT_EQ(csv_cell("cat"), "cat");
  EXPECT_EQ(csv_cell(""), "");
  EXPECT_EQ(csv_cell("T-shirt/top"), "T-shirt/top");
  EXPECT_EQ(csv_cell("a b"), "\"a b\"");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("a;b"), "\"a;b\"");
  EXPECT_EQ(csv_cell("a\nb"), "\"a\nb\"");
  EXPECT_EQ(csv_cell("say \"no\""), "\"say \"\"no\"\"\"");
}

}  // namespace
}  // namespace labelshift
