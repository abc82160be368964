#include "labelshift/data/datasets/table_reader.hpp"

#include <gmock/gmock.h>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TableReader : public Scratch {
 protected:
  Dataset table(const std::string& text, const LabelOptions& options = {}) const {
    return read_table(file("table.csv", text), options);
  }
  void expect_refused(const std::string& text, const std::string& message, const LabelOptions& options = {},
                      ErrorKind kind = ErrorKind::kInput) const {
    expect_error(kind, message, [&] { table(text, options); });
  }
};

const std::vector<float>& floats(const Dataset& data) {
  return std::get<1>(data.values);
}

TEST_F(TableReader, TakesTheColumnCalledLabel) {
  const Dataset data = table("x,label,y\n1,dog,2\n3,cat,4.5\n5,dog,6\n");
  EXPECT_EQ(data.shape, (ExampleShape{1, 1, 2}));
  EXPECT_EQ(data.size(), 3);
  EXPECT_THAT(floats(data), ElementsAre(1, 2, 3, 4.5, 5, 6));
  EXPECT_THAT(data.labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog"));
}

TEST_F(TableReader, FindsTheLabelColumnByNameOrNumber) {
  for (const char* column : {"kind", "2"}) {
    const Dataset data = table("x,y,kind\n1,2,b\n3,4,a\n", {.column = column});
    EXPECT_THAT(floats(data), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(data.labels, ElementsAre(1, 0));
  }
  // Without a header the label may still be a name.
  EXPECT_THAT(table("1,b\n2,a\n", {.column = "1"}).labels, ElementsAre(1, 0));
  EXPECT_THAT(table("1,2.5,b\n2,3.5,a\n", {.column = "2"}).labels, ElementsAre(1, 0));
}

TEST_F(TableReader, LeavesColumnsOut) {
  const std::string text = "id,x,label,y\np1,1,dog,2\np2,3,cat,4\n";
  for (const char* column : {"id", "0"}) {
    const Dataset data = table(text, {.ignore = {column}});
    EXPECT_EQ(data.shape, (ExampleShape{1, 1, 2}));
    EXPECT_THAT(floats(data), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(data.labels, ElementsAre(1, 0));
    EXPECT_THAT(data.column_names, ElementsAre("x", "y"));
  }
  EXPECT_THAT(floats(table("1,0.5,7\n2,0.25,8\n", {.ignore = {"0", "2"}})), ElementsAre(0.5, 0.25));
  EXPECT_THAT(table(text, {.ignore = {"id", "label"}}).labels, IsEmpty());
  expect_refused(text, "DIR/table.csv, line 2, column 1: found \"p1\", expected a number");
  expect_refused(text, "unknown column to leave out \"ids\"; did you mean \"id\"? (known: id, x, label, y)",
                 {.ignore = {"ids"}}, ErrorKind::kUsage);
  expect_refused(
      text, "DIR/table.csv: the column \"x\" was named as that of the labels and as one to leave out; name it once",
      {.column = "x", .ignore = {"x"}}, ErrorKind::kUsage);
}

TEST_F(TableReader, KnowsPandasHeaderBesideALabelColumnThatIsGivenByNumber) {
  for (const auto& [text, column] :
       {std::pair{"0,1,2,label\n5,6,7,b\n8,9,1,a\n", "3"}, {"0,1,2,3\n5,6,7,b\n8,9,1,a\n", "3"}}) {
    const Dataset data = table(text, {.column = column});
    EXPECT_THAT(floats(data), ElementsAre(5, 6, 7, 8, 9, 1)) << text;
    EXPECT_THAT(data.labels, ElementsAre(1, 0)) << text;
    EXPECT_THAT(data.column_names, ElementsAre("0", "1", "2")) << text;
  }
  // There, a number may be the name of another column.
  EXPECT_THAT(table("label,0,1,2\nb,5,6,7\na,8,9,1\n").labels, ElementsAre(1, 0));
  expect_refused("label,0,1,2\n4,5,6,7\n",
                 "DIR/table.csv: the label column 0 may be the one called 0 or the one called \"label\"; give the "
                 "columns other names",
                 {.column = "0"}, ErrorKind::kUsage);
  EXPECT_EQ(table("0,1,b\n5,6,a\n", {.column = "2"}).size(), 2);  // two numbers count nothing
  EXPECT_EQ(table("0,1,2,7\n5,6,7,8\n", {.column = "3"}).size(), 2);
}

TEST_F(TableReader, KeepsTheNamesOfColumnsThatAreNoLabels) {
  EXPECT_THAT(table("x,label,y\n1,dog,2\n").column_names, ElementsAre("x", "y"));
  EXPECT_THAT(table("x,y\n1,2\n").column_names, ElementsAre("x", "y"));
  EXPECT_THAT(table("1,dog,2\n", {.column = "1"}).column_names, IsEmpty());
}

TEST_F(TableReader, HasNoLabelsWhereNothingSaysSo) {
  const Dataset data = table("1,2\n3,4\n");
  EXPECT_THAT(floats(data), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(data.labels, IsEmpty());
  EXPECT_EQ(data.classes(), 0);
  EXPECT_THAT(floats(table("0,1,2\n5,6,7\n")), ElementsAre(5, 6, 7));  // the header that pandas writes
}

TEST_F(TableReader, OrdersNumbersBySizeAndNamesByAlphabet) {
  EXPECT_THAT(table("x,label\n1,10\n1,9\n1,9.0\n").class_names, ElementsAre("9", "10"));
  EXPECT_THAT(table("x,label\n1,10\n1,9\n1,9.0\n").labels, ElementsAre(1, 0, 0));
  EXPECT_THAT(table("x,label\n1,10\n1,9\n1,other\n").class_names, ElementsAre("10", "9", "other"));
}

TEST_F(TableReader, HoldsLabelsToTheClassesItIsGiven) {
  const LabelOptions options{.class_names = {"dog", "cat", "fish"}};
  const Dataset data = table("x,label\n1,cat\n", options);
  EXPECT_THAT(data.labels, ElementsAre(1));
  EXPECT_THAT(data.class_names, ElementsAre("dog", "cat", "fish"));
  expect_refused("x,label\n1,cat\n2,cta\n",
                 R"(DIR/table.csv, line 3, column 2: unknown label "cta"; did you mean "cat"? (known: dog, cat, fish))",
                 options);
}

TEST_F(TableReader, TakesLabelsFromAnotherFile) {
  const std::string named = file("labels.csv", "label\ndog\nred panda\n");
  const Dataset data = table("x\n1\n2\n", {.file = named});
  EXPECT_THAT(data.labels, ElementsAre(0, 1));
  EXPECT_THAT(data.class_names, ElementsAre("dog", "red panda"));
  const std::string array = file(
      "labels.npy", npy_bytes("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", raw<std::int32_t>({7, 3})));
  EXPECT_THAT(table("1\n2\n", {.file = array}).class_names, ElementsAre("3", "7"));
  // A column called "label" is then one like any other.
  expect_refused("x,label\n1,a\n2,b\n", "DIR/table.csv, line 2, column 2: found \"a\", expected a number",
                 {.file = named});
  expect_refused("1\n2\n3\n", "DIR/labels.csv: found 2 labels, expected 3, one for each row of DIR/table.csv",
                 {.file = named});
  const std::string wide = file("wide.csv", "a,b\n");
  expect_refused("1\n",
                 "DIR/wide.csv, line 1 has 2 columns, expected 1 label a line; keep the column of labels alone "
                 "(pandas: to_csv(path, index=False)), and "
                 "quote names with commas",
                 {.file = wide});
  expect_refused("1\n", "found both the label column \"x\" and the file of labels DIR/wide.csv; give one",
                 {.column = "x", .file = wide}, ErrorKind::kUsage);
}

TEST_F(TableReader, AsksForTheNameThatAColumnOfLabelsIsKnownBy) {
  for (const char* name : {"Label", "labels", "Class"})
    expect_refused(
        std::string("x,") + name + "\n1,a\n2,b\n",
        "DIR/table.csv, line 2, column 2: found \"a\", expected a number; if this column has the labels, call "
        "it label in line 1");
}

TEST_F(TableReader, ReadsNpyArrays) {
  const std::string array = file("table.npy", npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                                                        raw<float>({1, 0.5F, 2, 0, 1.5F, 3})));
  const Dataset data = read_table(array, {.column = "0"});
  EXPECT_THAT(floats(data), ElementsAre(0.5F, 2, 1.5F, 3));
  EXPECT_THAT(data.labels, ElementsAre(1, 0));
  EXPECT_THAT(data.class_names, ElementsAre("0", "1"));
  EXPECT_EQ(read_table(array).shape.width, 3);
  expect_error(ErrorKind::kUsage,
               "DIR/table.npy: found 3 columns, so the label column cannot be \"3\"; expected a number from 0 to 2",
               [&] { read_table(array, {.column = "3"}); });
  expect_error(ErrorKind::kUsage,
               "DIR/table.npy: found no header in line 1, so the label column cannot be \"kind\"; give its number, "
               "from 0 to 2",
               [&] { read_table(array, {.column = "kind"}); });
  const std::string holes = file(
      "holes.npy", npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }", raw<double>({1, 1e300})));
  expect_error(ErrorKind::kInput,
               "DIR/holes.npy, row 1, column 2: found 1e+300, expected a finite number of 32 bits; fill in missing "
               "values first",
               [&] { read_table(holes); });
}

TEST_F(TableReader, RefusesWhatIsNoTableOfNumbers) {
  expect_refused("1,2\n3\n", "DIR/table.csv, line 2 has 1 column, expected 2 as in line 1");
  expect_refused("1,2\n3,4,5\n", "DIR/table.csv, line 2 has 3 columns, expected 2 as in line 1");
  expect_refused("1.5,x\n", "DIR/table.csv, line 1, column 2: found \"x\", expected a number");
  expect_refused("1,2\n3,nan\n",
                 "DIR/table.csv, line 2, column 2: found nan, expected a finite number of 32 bits; fill in missing "
                 "values first");
  expect_refused("", "DIR/table.csv: found no rows, expected at least one");
  expect_refused("x,y\n", "DIR/table.csv: found no rows, expected at least one");
  expect_refused("label\na\n", "DIR/table.csv: found the column of labels alone, expected numbers too");
}

TEST_F(TableReader, RefusesLabelsThatAreNone) {
  expect_refused("x,label\n1,\n",
                 "DIR/table.csv, line 2, column 2: found nothing, expected a label; fill it in or leave the row out");
  expect_refused("x,label\n1,nan\n",
                 "DIR/table.csv, line 2, column 2: found \"nan\", expected a label; fill it in or leave the row out");
  std::string many = "x,label\n";
  for (int i = 0; i <= 10'000; ++i) many += "1," + std::to_string(i) + "\n";
  expect_refused(many,
                 "DIR/table.csv, line 10002, column 2: found more than 10000 different labels, expected classes; check "
                 "that this is the column of labels");
  expect_refused("x,y\n1,2\n", R"(DIR/table.csv: unknown column "kind" (known: x, y))", {.column = "kind"},
                 ErrorKind::kUsage);
}

TEST_F(TableReader, RefusesLabelsThatAreNotUtf8) {
  expect_refused("x,label\n1,a\n2,caf\xe9\n",
                 "DIR/table.csv, line 3, column 2: found a label that is not in UTF-8; save the file in UTF-8");
}

}  // namespace
}  // namespace labelshift
