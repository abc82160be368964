#include "labelshift/data/files/csv_reader.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "labelshift/data/files/input_file.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CsvReader : public Scratch {
 protected:
  CsvMatrix read(const std::string& text, const std::string& name = "p.csv") const {
    return read_csv(InputFile(file(name, text)));
  }
  void expect_refused(const std::string& message, const std::string& text, const std::string& name = "p.csv") const {
    expect_error(ErrorKind::kInput, message, [&] { read(text, name); });
  }
};

std::vector<double> entries(const CsvMatrix& matrix) {
  return {matrix.values.data(), matrix.values.data() + matrix.values.size()};
}

TEST_F(CsvReader, ReadsNumbersRowByRow) {
  const CsvMatrix matrix = read("0.25,0.75\n1,0\n");
  EXPECT_EQ(matrix.values.rows(), 2);
  EXPECT_THAT(entries(matrix), ElementsAre(0.25, 0.75, 1, 0));
  EXPECT_THAT(matrix.column_names, IsEmpty());
}

TEST_F(CsvReader, GivesUpOnALineThatNeverEnds) {
  expect_refused("DIR/p.csv, line 1: found more than 67108864 bytes without a line end, expected one after every row",
                 std::string(kLongestLine + 5000, '1'));
}

TEST_F(CsvReader, ReadsEverySpellingOfANumber) {
  const CsvMatrix matrix = read("1e-3,+2.5E+2, -.5 ,3.,\"4\",1e-400,-0,inf,-1e400\n");
  EXPECT_THAT(entries(matrix), ElementsAre(1e-3, 250, -0.5, 3, 4, 0, 0, INFINITY, -INFINITY));
  EXPECT_TRUE(std::isnan(read("0.5,NaN").values(0, 1)));
}

TEST_F(CsvReader, ReadsTheSameMatrixFromEveryDialect) {
  const std::string mark = "\xef\xbb\xbf";
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {"a,b\n1,2\n3,4\n", "p.csv"},
           {"a,b\r\n1,2\r\n3,4\r\n\r\n \n", "p.csv"},  // Windows, blank lines at the end
           {mark + "a,b\n1,2\n3,4", "p.csv"},          // byte order mark, no line end at the end
           {"a;b\n1;2\n3;4\n", "p.csv"},               // where the comma is the decimal sign
           {"a\tb\n1\t2\n3\t4\n", "p.tsv"},
           {"a\tb\n1\t2\n3\t4\n", "p.txt"},
           {"a b\n1 2\n3 4\n", "p.txt"},
           {"  a   b\n 1   2  \n 3\t 4\n", "p.txt"},  // aligned
           {" a , \"b\" \n 1, 2\n\"3\" ,4 \n", "p.csv"},
           {gzipped("a,b\n1,2\n3,4\n"), "p.csv.gz"},
           {gzipped("a\tb\n1\t2\n3\t4\n"), "p.tsv.gz"},
           {gzipped("a,b\n1,2\n") + gzipped("3,4\n"), "p.csv"},  // two members, known by the first bytes alone
       }) {
    SCOPED_TRACE(name + ": " + text);
    const CsvMatrix matrix = read(text, name);
    EXPECT_THAT(matrix.column_names, ElementsAre("a", "b"));
    EXPECT_THAT(entries(matrix), ElementsAre(1, 2, 3, 4));
  }
}

TEST_F(CsvReader, KeepsDelimitersAndQuotesInQuotedNames) {
  EXPECT_THAT(read("\"T-shirt, top\",\"the \"\"bag\"\"\",Ankle boot\n0,0,1\n").column_names,
              ElementsAre("T-shirt, top", "the \"bag\"", "Ankle boot"));
  EXPECT_THAT(read("a,b\tc;d\n0\t1\n", "p.tsv").column_names, ElementsAre("a,b", "c;d"));
}

TEST_F(CsvReader, TellsAHeaderFromARowOfNumbers) {
  EXPECT_THAT(read("0,1,other\n0,0,1\n").column_names, ElementsAre("0", "1", "other"));
  EXPECT_THAT(read("0,1,2\n0.5,0.5,0\n").column_names, ElementsAre("0", "1", "2"));  // as pandas names them
  EXPECT_THAT(read("0,1\n0.5,0.5\n").column_names, IsEmpty());                       // a sure prediction
  EXPECT_THAT(read("3,1,2\n0.5,0.5,0\n").column_names, IsEmpty());
}

TEST_F(CsvReader, KeepsALongFileWhole) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + "," + std::to_string(2 * i) + "\n";
  for (const auto& bytes : {text, gzipped(text)}) {
    const CsvMatrix matrix = read(bytes);
    ASSERT_EQ(matrix.values.rows(), 50000);
    for (int i = 0; i < 50000; ++i) {
      ASSERT_EQ(matrix.values(i, 0), i);
      ASSERT_EQ(matrix.values(i, 1), 2 * i);
    }
  }
}

TEST_F(CsvReader, NamesLineAndColumnOfACellThatIsNoNumber) {
  expect_refused("DIR/p.csv, line 3, column 2: found \"x\", expected a number", "a,b\n1,2\n3,x\n");
  expect_refused("DIR/p.csv, line 2, column 1: found \"\", expected a number; fill it in or remove the row",
                 "1,2\n,3\n");
  expect_refused("DIR/p.csv, line 2, column 2: found \"NA\", expected a number; fill it in or remove the row",
                 "1,2\n3,NA\n");
  expect_refused("DIR/p.csv, line 1, column 2: found \"0.x\", expected a number", "0.5,0.x\n1,2\n");
  expect_refused("DIR/p.csv, line 2, column 2: found \"1 2\", expected a number", "1,2\n3,1 2\n");
  expect_refused("DIR/p.csv, line 2, column 1: found \"+-1\", expected a number", "1,2\n+-1,2\n");
  expect_refused("DIR/p.csv, line 2, column 2: found \"0x1\", expected a number", "1,2\n3,0x1\n");
  expect_refused("DIR/p.csv, line 2, column 1: found \"0,5\", expected a number; write decimals with a point",
                 "a;b\n0,5;0,5\n");
  expect_refused("DIR/p.csv, line 2, column 1: found \"\\x07" + std::string(39, 'y') + "...\", expected a number",
                 "1,2\n\x07" + std::string(100, 'y') + ",2\n");
}

TEST_F(CsvReader, NamesTheLineWithTheWrongNumberOfColumns) {
  expect_refused("DIR/p.csv, line 2 has 2 columns, expected 3 as in line 1", "1,2,3\n4,5\n");
  expect_refused("DIR/p.csv, line 3 has 4 columns, expected 3 as in line 1", "a,b,c\n1,2,3\n4,5,6,7\n");
  expect_refused("DIR/p.csv, line 2 has 3 columns, expected 2 as in line 1", "1,2\n3,4,\n");
  expect_refused("DIR/p.csv, line 2 has 1 column, expected 2 as in line 1", "1,2\n3\n");
}

TEST_F(CsvReader, RefusesNamesThatDoNotNameTheColumns) {
  expect_refused(
      "DIR/p.csv, line 1, column 1: found no name, expected one for every column; here it is called \"Unnamed: 0\", as "
      "in pandas",
      ",0,1,2\n0,0.5,0.5,0\n");
  expect_refused("DIR/p.csv, line 1, column 3: found the name \"cat\" again, expected every name once",
                 "cat,dog,cat\n1,0,0\n");
}

TEST_F(CsvReader, RefusesQuotesThatDoNotMatch) {
  for (const std::string cell : {"\"1", "\"", "\"1\"2\"", "\"1\"\""}) {
    expect_refused("DIR/p.csv, line 2, column 2: found \"" + cell + "\", expected one quote at each end of the cell",
                   "1,2\n3," + cell);
  }
}

TEST_F(CsvReader, RefusesTextWithoutRows) {
  expect_refused("DIR/p.csv: found an empty file, expected at least one row of numbers", "");
  expect_refused("DIR/p.csv: found an empty file, expected at least one row of numbers", "\n\n");
  expect_refused("DIR/p.csv: found only a header, expected at least one row of numbers", "a,b\n");
}

TEST_F(CsvReader, RefusesABlankLineInTheMiddle) {
  expect_refused("DIR/p.csv, line 2: found a blank line, expected data as in line 4; fill it in or remove it",
                 "1,2\n\n\n3,4\n");
}

TEST_F(CsvReader, RefusesBinaryData) {
  const std::string advice =
      ": found binary data, expected text in UTF-8 or a .npy array; export it as CSV or with "
      "np.save";
  expect_refused("DIR/p.csv, line 2" + advice, std::string("1,2\n3\0,4\n", 9));
  expect_refused("DIR/p.csv, line 1" + advice, std::string("\xff\xfe\x31\0,\0\x32\0", 8));  // UTF-16
  expect_refused(
      "DIR/p.npy.gz: found a .npy array, which cannot be read here; give the path of its file, not packed, or send CSV",
      gzipped(npy_bytes("{}", "")), "p.npy.gz");
}

TEST_F(CsvReader, RefusesDamagedGzip) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * 7919 % 1000) + ",1\n";
  const std::string whole = gzipped(text);
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{10}, std::size_t{5}})
    expect_refused("DIR/p.csv.gz: the gzip data is cut off before its end; copy or compress it again",
                   whole.substr(0, size), "p.csv.gz");
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  expect_refused("DIR/p.csv.gz: the gzip data is damaged; copy or compress it again", damaged, "p.csv.gz");
}

TEST_F(CsvReader, RefusesGzipWithALaterMemberDamaged) {
  std::string second = gzipped("3,4\n");
  EXPECT_EQ(read(gzipped("1,2\n") + std::string(600, '\0') + second, "p.csv.gz").values.rows(),
            2);     // padded to a block
  second[0] = 'x';  // a reader that takes this for the end would lose a row in silence
  expect_refused("DIR/p.csv.gz: the gzip data is damaged; copy or compress it again", gzipped("1,2\n") + second,
                 "p.csv.gz");
  second = gzipped("3,4\n").substr(0, 1);
  expect_refused("DIR/p.csv.gz: the gzip data is cut off before its end; copy or compress it again",
                 gzipped("1,2\n") + second, "p.csv.gz");
}

TEST_F(CsvReader, ReadsFromAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "0.5,0.5\n", 8), 8);
  ::close(ends[1]);
  EXPECT_THAT(entries(read_csv(InputFile("/dev/fd/" + std::to_string(ends[0])))), ElementsAre(0.5, 0.5));
  ::close(ends[0]);
}

class RowReaderTest : public Scratch {
 protected:
  void expect_refused(const std::string& message, const std::string& text) const {
    expect_error(ErrorKind::kInput, message, [&] {
      std::istringstream in(text);
      RowReader reader(in, 2);
      for (std::vector<double> row; reader.next(row);) continue;
    });
  }
};

TEST_F(RowReaderTest, GivesOneRowALine) {
  for (const std::string text :
       {"1,2\n3,4\n", "1\t2\n3\t4", "1;2\r\n3;4\r\n\r\n", "1 2\n 3  4 \n", "a,b\n1,2\n3,4\n"}) {
    SCOPED_TRACE(text);
    std::istringstream in(text);
    RowReader reader(in, 2);
    std::vector<double> row;
    ASSERT_TRUE(reader.next(row));
    EXPECT_THAT(row, ElementsAre(1, 2));
    ASSERT_TRUE(reader.next(row));
    EXPECT_THAT(row, ElementsAre(3, 4));
    EXPECT_EQ(reader.line(), text[0] == 'a' ? 3 : 2);
    EXPECT_FALSE(reader.next(row));
    EXPECT_EQ(reader.column_names().empty(), text[0] != 'a');
  }
}

TEST_F(RowReaderTest, GivesARowBeforeTheNextOneIsWritten) {
  std::stringstream in;
  in << "0.5,0.5\n";
  RowReader reader(in, 2);
  std::vector<double> row;
  ASSERT_TRUE(reader.next(row));
  in << "0.25,0.75\n";
  ASSERT_TRUE(reader.next(row));
  EXPECT_THAT(row, ElementsAre(0.25, 0.75));
}

TEST_F(RowReaderTest, NamesTheLineOfAnError) {
  expect_refused("standard input, line 2, column 1: found \"x\", expected a number", "1,2\nx,4\n");
  expect_refused("standard input, line 1 has 3 columns, expected 2", "1,2,3\n");
  expect_refused("standard input, line 1 has 3 columns, expected 2", "a,b,c\n1,2\n");
  expect_refused("standard input, line 2 has 1 column, expected 2", "1,2\n3\n");
  expect_refused("standard input, line 1: found a blank line, expected data as in line 2; fill it in or remove it",
                 "\n1,2\n");
}

TEST_F(RowReaderTest, SaysWhenReadingFails) {
  struct Broken : std::streambuf {
    int_type underflow() override { throw std::runtime_error("device lost"); }
  } broken;
  std::istream in(&broken);
  RowReader reader(in, 2);
  std::vector<double> row;
  expect_error(ErrorKind::kInput, "standard input: reading failed after line 0", [&] { reader.next(row); });
}

TEST(RowReader, GoesOnAfterABadLine) {
  std::istringstream text("x\n1;2\n\n3;4;5\n6;seven\n8;9\n" + std::string(5000, '1') + "\n10;11\n" +
                          std::string(50, '2'));
  RowReader reader(text, 2, "text", {}, 40);
  std::vector<double> row;
  std::vector<std::vector<double>> rows;
  std::vector<std::string> errors;
  for (bool more = true; more;) {
    try {
      more = reader.next(row);
      if (more) rows.push_back(row);
    } catch (const Error& error) {
      errors.emplace_back(error.what());
    }
  }
  EXPECT_THAT(rows, ElementsAre(ElementsAre(1, 2), ElementsAre(8, 9), ElementsAre(10, 11)));
  EXPECT_THAT(errors,
              ElementsAre("text, line 1 has 1 column, expected 2",
                          "text, line 3: found a blank line, expected data as in line 4; fill it in or remove it",
                          "text, line 4 has 3 columns, expected 2",
                          "text, line 5, column 2: found \"seven\", expected a number",
                          "text, line 7: found more than 40 bytes without a line end, expected one after every row",
                          "text, line 9: found more than 40 bytes without a line end, expected one after every row"));
}

TEST(RowReader, ReadsLinesOfEveryLength) {
  std::string text;
  for (const std::size_t length : {1, 4094, 4095, 4096, 8190, 8191, 20000}) text += std::string(length, '1') + ",2\n";
  std::istringstream in(text.substr(0, text.size() - 1));  // no line end at the end
  RowReader reader(in, 2);
  std::vector<double> row;
  int rows = 0;
  for (; reader.next(row); ++rows) EXPECT_EQ(row[1], 2.0) << rows;
  EXPECT_EQ(rows, 7);
}

}  // namespace
}  // namespace labelshift
