#include "labelshift/data/files/column_choice.hpp"

#include <gmock/gmock.h>

#include <sstream>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/csv_reader.hpp"
#include "labelshift/data/files/matrix_file.hpp"
#include "labelshift/data/files/matrix_writer.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

class ColumnChoiceTest : public Scratch {
 protected:
  static CsvMatrix read(const std::string& text, const ColumnChoice& choice) {
    std::istringstream in(text);
    RowReader reader(in, 0, "t.csv", choice);
    CsvMatrix result;
    for (std::vector<double> row; reader.next(row);) {
      result.values.conservativeResize(result.values.rows() + 1, static_cast<Index>(row.size()));
      for (std::size_t c = 0; c < row.size(); ++c)
        result.values(result.values.rows() - 1, static_cast<Index>(c)) = row[c];
    }
    result.column_names = reader.column_names();
    return result;
  }
};

TEST_F(ColumnChoiceTest, KeepsColumnsInTheOrderAskedForAndReadsNoOther) {
  const CsvMatrix matrix = read("id,a,b,note\nx1,1,2,new\nx2,3,4,\n", {.keep = {"b", "a"}});
  EXPECT_THAT(matrix.column_names, ElementsAre("b", "a"));
  EXPECT_EQ(matrix.values, (Eigen::MatrixXd(2, 2) << 2, 1, 4, 3).finished());
  EXPECT_EQ(read("id,a,b,note\nx1,1,2,new\nx2,3,4,\n", {.ignore = {"note", "0"}}).values,
            (Eigen::MatrixXd(2, 2) << 1, 2, 3, 4).finished());
}

TEST_F(ColumnChoiceTest, AFirstLineIsAHeaderByTheColumnsChosen) {
  EXPECT_EQ(read("x1,0.25,0.75\n", {.ignore = {"0"}}).values.rows(), 1);
  EXPECT_EQ(read("x,1,0\ny,0,1\n", {.ignore = {"0"}}).values.rows(), 2);  // an id of letters names no column
  EXPECT_EQ(read("id,1,0\nx,0.5,0.5\n", {.ignore = {"id"}}).values.rows(), 1);
}

TEST_F(ColumnChoiceTest, AnIndexOfPandasHasItsNameThere) {
  const std::string text = ",0,1,2\n0,0.5,0.25,0.25\n";
  EXPECT_THAT(read(text, {.ignore = {"Unnamed: 0"}}).column_names, ElementsAre("0", "1", "2"));
  EXPECT_THAT(read(text, {.keep = {"0", "1", "2"}}).column_names, ElementsAre("0", "1", "2"));  // names come first
  EXPECT_THAT(read(",a,b\n0,0.5,0.5\n", {.ignore = {"0"}}).column_names, ElementsAre("a", "b"));
}

TEST_F(ColumnChoiceTest, SaysWhatThereIsToChoose) {
  expect_error(ErrorKind::kUsage, "t.csv: unknown column \"c\" (known: a, b)",
               [&] { read("a,b\n1,2\n", {.keep = {"c"}}); });
  expect_error(ErrorKind::kUsage, "t.csv has no column 2, expected 0 to 1",
               [&] { read("a,b\n1,2\n", {.keep = {"2"}}); });
  expect_error(ErrorKind::kUsage,
               "t.csv has no header, so no column is called \"a\"; call columns by their numbers from 0",
               [&] { read("0.5,0.5\n", {.keep = {"a"}}); });
  expect_error(ErrorKind::kUsage, "t.csv: the column \"0\" was chosen twice", [&] {
    read("a,b\n1,2\n", {.keep = {"a", "0"}});
  });
  expect_error(ErrorKind::kUsage, "t.csv: no column is left to read", [&] {
    read("a,b\n1,2\n", {.ignore = {"a", "b"}});
  });
}

TEST_F(ColumnChoiceTest, NumbersThatAreNamesMakeAHeader) {
  for (const std::string text : {"0,1,2\n0.5,0.3,0.2\n", "id,0,1,2\nx,0.5,0.3,0.2\n", ",0,1,2\n0,0.5,0.3,0.2\n"}) {
    const CsvMatrix turned = read(text, {.keep = {"2", "1", "0"}});
    EXPECT_THAT(turned.column_names, ElementsAre("2", "1", "0")) << text;
    EXPECT_EQ(turned.values, (Eigen::MatrixXd(1, 3) << 0.2, 0.3, 0.5).finished()) << text;
  }
  EXPECT_THAT(read("0,1,2\n0.5,0.3,0.2\n", {.ignore = {"0"}}).column_names, ElementsAre("1", "2"));
  EXPECT_THAT(read("id,3,5,8\nx,0.5,0.3,0.2\n", {.keep = {"8", "5", "3"}}).column_names, ElementsAre("8", "5", "3"));
  // Rows: a certain prediction, with an id of 2 in the second.
  EXPECT_EQ(read("0,1\n1,0\n", {.keep = {"1", "0"}}).values.rows(), 2);
  EXPECT_EQ(read("2,1,0\n3,0,1\n", {.keep = {"1", "2"}}).values.rows(), 2);
}

TEST_F(ColumnChoiceTest, AColumnToIgnoreHasToBeInOneOfTheTables) {
  for (const std::string column : {"id", "2"}) {
    EXPECT_EQ(read("0.5,0.5\n", {.ignore = {column}}).values.cols(), 2);
    EXPECT_EQ(read("a,b\n0.5,0.5\n", {.ignore = {column}}).values.cols(), 2);
  }
  const std::vector<TableColumns> tables = {table_columns("s.npy", {}, 3), table_columns("t.csv", {"", "six", "9"}, 3)};
  EXPECT_NO_THROW(check_ignored({.ignore = {"six", "9", "Unnamed: 0", "2"}}, tables));
  expect_error(ErrorKind::kUsage,
               "unknown column to leave out \"sixx\"; did you mean \"six\"? (known: Unnamed: 0, six, 9)", [&] {
                 check_ignored({.ignore = {"six", "sixx"}}, tables);
               });
  expect_error(ErrorKind::kUsage, "there is no column 3 to leave out, expected 0 to 2",
               [&] { check_ignored({.ignore = {"3"}}, tables); });
  expect_error(ErrorKind::kUsage,
               "s.npy has no header, so no column is called \"id\"; call columns by their numbers from 0",
               [&] { check_ignored({.ignore = {"id"}}, std::span(tables).first(1)); });
}

TEST_F(ColumnChoiceTest, ChoosesColumnsOfAnArrayInItsPrecision) {
  for (const bool float32 : {true, false}) {
    MatrixWriter writer(path("a.npy"), {.rows = 2, .cols = 3, .float32 = float32});
    writer.append(Eigen::MatrixXd((Eigen::MatrixXd(2, 3) << 7, 0.25, 0.75, 8, 0.5, 0.5).finished()));
    writer.commit();
    const MatrixFile file = read_matrix(path("a.npy"), {.ignore = {"0"}});
    ASSERT_EQ(file.view().cols(), 2);
    EXPECT_EQ(file.view()(0, 1), 0.75);
    EXPECT_EQ(file.view()(1, 0), 0.5);
    EXPECT_EQ(file.view().visit([](const auto* data, Index, Index) { return sizeof *data; }), float32 ? 4U : 8U);
  }
}

}  // namespace
}  // namespace labelshift
