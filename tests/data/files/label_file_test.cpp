#include "labelshift/data/files/label_file.hpp"

#include <gmock/gmock.h>

#include <cstdint>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kPets = {"dog", "cat", "fish"};

class ReadLabels : public Scratch {
 protected:
  Labels read(const std::string& text, const std::vector<std::string>& class_names = {}, Index classes = 3) const {
    return read_labels(file("y.csv", text), class_names, classes);
  }
  void expect_refused(const std::string& message, const std::string& text,
                      const std::vector<std::string>& class_names = {}, Index classes = 3) const {
    expect_error(ErrorKind::kInput, message, [&] { read(text, class_names, classes); });
  }
};

TEST_F(ReadLabels, ReadsIntegersWithAndWithoutHeader) {
  for (const std::string text : {"2\n0\n1\n1\n", "label\n2\n0\n1\n1\n", "my label\r\n2\r\n0\r\n1\r\n1\r\n\r\n",
                                 "2.0\n0.0\n1.0\n1.0\n", "\"y\"\n\"2\"\n0\n1e0\n1\n"}) {
    SCOPED_TRACE(text);
    const Labels labels = read(text);
    EXPECT_THAT(labels.labels, ElementsAre(2, 0, 1, 1));
    EXPECT_THAT(labels.class_names, IsEmpty());
    EXPECT_THAT(read(text, kPets).class_names, ElementsAre("dog", "cat", "fish"));  // integers beside a header
  }
  EXPECT_THAT(read(gzipped("2\n0\n")).labels, ElementsAre(2, 0));
  EXPECT_THAT(read("0\n0\n").labels, ElementsAre(0, 0));  // not every class need occur
}

TEST_F(ReadLabels, ReadsNumpyArrays) {
  const auto npy = [](const std::string& dtype, const std::string& data) {
    return npy_bytes("{'descr': '" + dtype + "', 'fortran_order': False, 'shape': (3,), }", data);
  };
  EXPECT_THAT(read(npy("<i8", raw<std::int64_t>({2, 0, 1}))).labels, ElementsAre(2, 0, 1));
  EXPECT_THAT(read(npy("|b1", raw<std::uint8_t>({1, 0, 1}))).labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(read(npy("<f4", raw<float>({2, 0, 1}))).labels, ElementsAre(2, 0, 1));
  expect_refused("DIR/y.csv, row 2: found label -1, expected 0 to 2", npy("|i1", raw<std::int8_t>({2, -1, 1})));
  expect_refused("DIR/y.csv, row 3: found label 1.8446744073709552e+19, expected 0 to 2",
                 npy("<u8", raw<std::uint64_t>({2, 0, ~std::uint64_t{0}})));
}

TEST_F(ReadLabels, MatchesNamesWithTheColumns) {
  for (const std::string text : {"cat\nfish\ncat\n", "label\ncat\nfish\ncat\n", "pet name\n cat \n\"fish\"\ncat\n"}) {
    const Labels labels = read(text, kPets);
    EXPECT_THAT(labels.labels, ElementsAre(1, 2, 1));
    EXPECT_THAT(labels.class_names, ElementsAre("dog", "cat", "fish"));
  }
  EXPECT_THAT(read("dog\n", kPets).labels, ElementsAre(0));
  EXPECT_THAT(read("7\n3\n7\n", {"3", "5", "7"}).labels, ElementsAre(2, 0, 2));  // names that look like numbers
}

TEST_F(ReadLabels, SortsNamesWhereTheColumnsHaveNone) {
  for (const std::string text : {"dog\nfish\ncat\ndog\n", "label\ndog\nfish\ncat\ndog\n"}) {
    const Labels labels = read(text);
    EXPECT_THAT(labels.labels, ElementsAre(1, 2, 0, 1));
    EXPECT_THAT(labels.class_names, ElementsAre("cat", "dog", "fish"));
  }
}

TEST_F(ReadLabels, KeepsSpacesInNamesAndCommasInQuotes) {
  EXPECT_THAT(read("\"T-shirt, top\"\nAnkle boot\nBag\n").class_names,
              ElementsAre("Ankle boot", "Bag", "T-shirt, top"));
}

TEST_F(ReadLabels, NamesTheRowOfALabelOutOfRange) {
  expect_refused("DIR/y.csv, row 2: found label 3, expected 0 to 2", "0\n3\n1\n");
  expect_refused("DIR/y.csv, row 2: found label 3, expected 0 to 2", "label\n0\n3\n1\n");
  expect_refused("DIR/y.csv, row 1: found label -1, expected 0 to 2", "-1\n0\n");
  expect_refused("DIR/y.csv, row 1: found label 1.5, expected 0 to 2", "1.5\n0\n");
  expect_refused("DIR/y.csv, row 2: found label nan, expected 0 to 2", "1\nnan\n");
  expect_refused("DIR/y.csv, row 2: found label 1e300, expected 0 to 2", "1\n1e300\n");
}

TEST_F(ReadLabels, SaysThatLabelsStartAtOne) {
  expect_refused("DIR/y.csv: labels run from 1 to 3, expected 0 to 2; subtract 1 or name the columns", "1\n3\n2\n");
}

TEST_F(ReadLabels, SuggestsTheNameThatWasMeant) {
  expect_refused("DIR/y.csv, row 3: unknown label \"fsh\"; did you mean \"fish\"? (known: dog, cat, fish)",
                 "cat\ndog\nfsh\n", kPets);
  expect_refused("DIR/y.csv, row 2: unknown label \"elephant\" (known: dog, cat, fish)", "pet\ncat\nelephant\n", kPets);
}

TEST_F(ReadLabels, RefusesNamesAmongNumbers) {
  expect_refused("DIR/y.csv, row 3: found label \"cat\", expected a number from 0 to 2 as in other rows",
                 "0\n1\ncat\n");
  expect_refused("DIR/y.csv, row 2: found label \"bird\", expected a number from 0 to 2 as in other rows",
                 "label\n1\nbird\n", kPets);
  expect_refused("DIR/y.csv, row 2: unknown label \"1\" (known: dog, cat, fish)", "cat\n1\n", kPets);
}

TEST_F(ReadLabels, RefusesMoreOrFewerNamesThanColumns) {
  const std::string advice =
      ", one for each column of probabilities; name the columns in the header of the probabilities";
  expect_refused("DIR/y.csv: found 2 different names (\"cat\", \"dog\"), expected 3" + advice, "cat\ndog\n");
  expect_refused("DIR/y.csv: found 3 different names (\"a\", \"b\", \"c\"), expected 2" + advice, "a\nb\nc\na\n", {},
                 2);
  std::string many;
  for (char c = 'a'; c < 'o'; ++c) many += std::string(1, c) + "\n";
  expect_refused(
      "DIR/y.csv: found 14 different names (\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", "
      "\"k\", "
      "\"l\", ...), expected 2" +
          advice,
      many, {}, 2);
}

TEST_F(ReadLabels, RefusesOtherColumnsAndEmptyFiles) {
  expect_refused(
      "DIR/y.csv, line 1 has 2 columns, expected 1 label a line; keep the column of labels alone (pandas: to_csv(path, "
      "index=False)), and quote names with "
      "commas",
      "id,label\n1,0\n");
  expect_refused("DIR/y.csv: found no labels, expected one a row", "");
  expect_error(ErrorKind::kInput, "cannot read DIR/none.csv: no such file or directory; check the path",
               [&] { read_labels(path("none.csv"), {}, 3); });
}

}  // namespace
}  // namespace labelshift
