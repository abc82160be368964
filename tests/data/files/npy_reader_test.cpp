#include "labelshift/data/files/npy_reader.hpp"

#include <gmock/gmock.h>

#include <cstdint>

#include "labelshift/data/files/input_file.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

class NpyReader : public Scratch {
 protected:
  NpyFile open(const std::string& bytes) const { return NpyFile(InputFile(file("a.npy", bytes))); }
  void expect_refused(const std::string& message, const std::string& bytes) const {
    expect_error(ErrorKind::kInput, "DIR/a.npy: " + message, [&] { open(bytes); });
  }
  static std::string header(const std::string& dtype, const std::string& shape, const char* fortran = "False") {
    return "{'descr': '" + dtype + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  }
};

std::vector<double> entries(const MatrixView& view) {
  std::vector<double> result;
  for (Index i = 0; i < view.rows(); ++i)
    for (Index c = 0; c < view.cols(); ++c) result.push_back(view(i, c));
  return result;
}

template <typename Scalar>
bool holds(const MatrixView& view) {
  return view.visit([](const auto* data, Index, Index) { return std::is_same_v<decltype(data), const Scalar*>; });
}

// What numpy 1.24 writes for np.array([[1, 2, 3], [4, 5, 6]], '<f4'), byte by byte.
const std::string kNumpyHeader =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                                                       "
    "   \n";

TEST_F(NpyReader, ReadsWhatNumpyWrites) {
  ASSERT_EQ(kNumpyHeader.size(), 118U);
  const std::string bytes =
      std::string("\x93NUMPY\x01\x00v\x00", 10) + kNumpyHeader +
      std::string("\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x00\x00\xc0@", 24);
  const NpyFile array = open(bytes);
  const MatrixView view = array.view();
  EXPECT_EQ(view.rows(), 2);
  EXPECT_EQ(view.cols(), 3);
  EXPECT_TRUE(holds<float>(view));
  EXPECT_THAT(entries(view), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(NpyReader, ReadsFormatVersionsTwoAndThree) {
  for (const char version : {'\2', '\3'}) {
    const NpyFile array = open(npy_bytes(header("<f4", "(2, 3)") + "   \n", raw<float>({1, 2, 3, 4, 5, 6}), version));
    EXPECT_THAT(entries(array.view()), ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(NpyReader, ReadsFortranOrderAndDoubles) {
  const NpyFile array = open(npy_bytes(header("<f8", "(2, 3)", "True"), raw<double>({1, 4, 2, 5, 3, 6})));
  EXPECT_TRUE(holds<double>(array.view()));
  EXPECT_THAT(entries(array.view()), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(NpyReader, CopiesAnArrayThatIsNotAligned) {
  for (const int spaces : {0, 1, 2, 3, 4, 5, 6, 7}) {  // 10 + the header's length is at every remainder of 8 once
    const NpyFile array = open(npy_bytes(header("<f8", "(1, 2)") + std::string(static_cast<std::size_t>(spaces), ' '),
                                         raw<double>({0.25, 0.75})));
    array.view().visit(
        [](const auto* data, Index, Index) { EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % sizeof *data, 0U); });
    EXPECT_THAT(entries(array.view()), ElementsAre(0.25, 0.75));
  }
}

TEST_F(NpyReader, OutlivesTheFileItWasReadFrom) {
  const NpyFile array = open(npy_bytes(header("<f4", "(1, 2)"), raw<float>({0.25F, 0.75F})));
  const NpyFile copy = array;
  std::filesystem::remove(path("a.npy"));
  EXPECT_THAT(entries(copy.view()), ElementsAre(0.25, 0.75));
}

TEST_F(NpyReader, ReadsAMatrixWithoutRows) {
  const NpyFile array = open(npy_bytes(header("<f4", "(0, 3)"), ""));
  EXPECT_EQ(array.view().rows(), 0);
  EXPECT_EQ(array.view().cols(), 3);
}

TEST_F(NpyReader, ReadsColumnsOfEveryNumberType) {
  const auto column = [&](const std::string& dtype, const std::string& data) {
    return open(npy_bytes(header(dtype, "(2,)"), data)).column();
  };
  EXPECT_THAT(column("<f4", raw<float>({0.5F, 2})), ElementsAre(0.5, 2));
  EXPECT_THAT(column("<f8", raw<double>({0.1, 2})), ElementsAre(0.1, 2));
  EXPECT_THAT(column("|b1", raw<std::uint8_t>({0, 1})), ElementsAre(0, 1));
  EXPECT_THAT(column("|i1", raw<std::int8_t>({-1, 2})), ElementsAre(-1, 2));
  EXPECT_THAT(column("|u1", raw<std::uint8_t>({255, 2})), ElementsAre(255, 2));
  EXPECT_THAT(column("<i2", raw<std::int16_t>({-300, 2})), ElementsAre(-300, 2));
  EXPECT_THAT(column("<u2", raw<std::uint16_t>({65535, 2})), ElementsAre(65535, 2));
  EXPECT_THAT(column("<i4", raw<std::int32_t>({-70000, 2})), ElementsAre(-70000, 2));
  EXPECT_THAT(column("<u4", raw<std::uint32_t>({4000000000, 2})), ElementsAre(4e9, 2));
  EXPECT_THAT(column("<i8", raw<std::int64_t>({-5000000000, 2})), ElementsAre(-5e9, 2));
  EXPECT_THAT(column("<u8", raw<std::uint64_t>({std::uint64_t{1} << 63, 2})), ElementsAre(0x1p63, 2));
  EXPECT_THAT(open(npy_bytes(header("|u1", "(2, 1)"), "\x07\x08")).column(), ElementsAre(7, 8));
}

TEST_F(NpyReader, RefusesOtherShapes) {
  expect_error(
      ErrorKind::kInput,
      "DIR/a.npy: found shape (2,), expected two dimensions, (rows, classes); of the probabilities p of one of "
      "two classes save both: np.save(path, np.stack([1 - p, p], axis=1)); one row is a[None, :]",
      [&] {
        open(npy_bytes(header("<f4", "(2,)"), raw<float>({1, 2}))).view();
      });
  expect_error(ErrorKind::kInput,
               "DIR/a.npy: found shape (1, 2, 1), expected two dimensions, (rows, classes); save one row an example: "
               "np.save(path, a.reshape(len(a), -1)), or a.reshape(-1, a.shape[-1]) if the last dimension is that of "
               "classes",
               [&] {
                 open(npy_bytes(header("<f4", "(1, 2, 1)"), raw<float>({1, 2}))).view();
               });
  expect_error(ErrorKind::kInput, "DIR/a.npy: found shape (), expected two dimensions, (rows, classes)",
               [&] { open(npy_bytes(header("<f4", "()"), raw<float>({1}))).view(); });
  expect_error(ErrorKind::kInput,
               "DIR/a.npy: found shape (1, 2), expected one dimension, (rows,); of one-hot labels save the argmax: "
               "np.save(path, a.argmax(axis=1))",
               [&] {
                 open(npy_bytes(header("<f4", "(1, 2)"), raw<float>({1, 2}))).column();
               });
}

TEST_F(NpyReader, RefusesOtherNumberTypesAndSaysHowToConvertThem) {
  const std::string expected =
      ", expected '<f4' or '<f8' (for labels and weights also '|b1', '|i1', '|u1', '<i2', '<u2', '<i4', '<u4', '<i8', "
      "'<u8'); ";
  const auto refused = [&](const std::string& dtype, const std::string& found, const std::string& advice) {
    expect_refused("found dtype " + found + expected + advice, npy_bytes(header(dtype, "(1, 1)"), "1234"));
  };
  refused("<f2", "'<f2'", "convert it: np.save(path, a.astype(np.float32))");
  refused("<f16", "'<f16'", "convert it: np.save(path, a.astype(np.float32))");
  refused("<c8", "'<c8'", "convert it: np.save(path, a.astype(np.float32))");
  refused("", "''", "convert it: np.save(path, a.astype(np.float32))");
  refused(">f4", "'>f4', big-endian", "convert it: np.save(path, a.astype(np.float32))");
  refused(
      "|O", "'|O', Python objects",
      R"(convert numbers with np.save(path, a.astype(np.float32)), and write names as text: np.savetxt("labels.csv", a, fmt="%s"))");
  refused("<U5", "'<U5', text", R"(write names as text: np.savetxt("labels.csv", a, fmt="%s"))");
  expect_refused(
      "found dtype with named fields" + expected + R"(pick one field: np.save(path, a["field"].astype(np.float32)))",
      npy_bytes("{'descr': [('p', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"));
  expect_error(ErrorKind::kInput,
               "DIR/a.npy: found dtype '<i4', expected '<f4' or '<f8'; convert it: np.save(path, a.astype(np.float32))",
               [&] { open(npy_bytes(header("<i4", "(1, 1)"), "1234")).view(); });
}

TEST_F(NpyReader, RefusesDataThatIsNotWhatTheHeaderPromises) {
  expect_refused(
      "found 20 bytes of data, expected 24 for shape (2, 3) of '<f4'; it is cut off, so copy or save it again",
      npy_bytes(header("<f4", "(2, 3)"), raw<float>({1, 2, 3, 4, 5})));
  expect_refused(
      "found 28 bytes of data, expected 24 for shape (2, 3) of '<f4'; something follows the array, so copy or save it "
      "again",
      npy_bytes(header("<f4", "(2, 3)"), raw<float>({1, 2, 3, 4, 5, 6, 7})));
  expect_refused("the .npy header promises shape (4611686018427387904, 4), more than any memory holds",
                 npy_bytes(header("<f4", "(4611686018427387904, 4)"), ""));
  expect_refused(
      "the .npy header promises shape (9223372036854775807, 9223372036854775807), more than any memory holds",
      npy_bytes(header("<f8", "(9223372036854775807, 9223372036854775807)"), ""));
}

TEST_F(NpyReader, RefusesAFileThatEndsInItsHeader) {
  const std::string whole = npy_bytes(header("<f4", "(1, 2)"), raw<float>({1, 2}));
  for (const std::size_t size : {6U, 7U, 8U, 9U})
    expect_refused("the file ends inside the .npy header; it is cut off, so copy or save it again",
                   whole.substr(0, size));
  expect_refused("found 40 bytes, expected a .npy header of 59; it is cut off, so copy or save it again",
                 whole.substr(0, 50));
  expect_refused("found 67 bytes, expected a .npy header of 65535; it is cut off, so copy or save it again",
                 std::string(whole).replace(8, 2, "\xff\xff"));
  // Every shorter file is refused as well, without a read outside of it.
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_THROW(open(whole.substr(0, size)), Error) << size;
}

TEST_F(NpyReader, RefusesWhatIsNotAnArray) {
  const std::string not_npy = "this is not a .npy file, which starts with \\x93NUMPY; write it with np.save";
  expect_refused(not_npy, "");
  expect_refused(not_npy, "\x93NUMPX\x01");
  expect_refused("found .npy format version 4, expected 1, 2 or 3; write it with np.save", npy_bytes("{}", "", '\4'));
  expect_refused("found .npy format version 0, expected 1, 2 or 3; write it with np.save", npy_bytes("{}", "", '\0'));
}

TEST_F(NpyReader, RefusesEveryMalformedHeader) {
  const auto refused = [&](const std::string& text, const std::string& found, const std::string& expected) {
    expect_refused("found \"" + found + "\" in the .npy header, expected " + expected + "; write it with np.save",
                   npy_bytes(text, raw<float>({1, 2})));
  };
  const std::string keys = "each of the keys 'descr', 'fortran_order' and 'shape' once";
  const std::string number = "a number of at most 63 bits that is not negative";
  refused("", "", "{");
  refused("[]", "[]", "{");
  refused("{", "", "a quoted string");
  refused("{'descr", "'descr", "a quoted string");
  refused("{'descr' '<f4'}", "'<f4'}", ":");
  refused("{'descr': None}", "None}", "a quoted string");
  refused("{'descr': '<f4' 'shape': (1, 2)}", "'shape': (1, 2)}", "a comma or }");
  refused("{'descr': '<f4', 'descr': '<f8'}", "'<f8'}", keys);
  refused("{'color': 'red'}", "'red'}", keys);
  refused("{'descr': '<f4', 'fortran_order': 0}", "0}", "True or False");
  refused("{'descr': '<f4', }", "", "the keys 'descr', 'fortran_order' and 'shape'");
  refused("{'shape': 3}", "3}", "(");
  refused("{'shape': (3)}", ")}", "a comma");
  refused("{'shape': (3 2)}", "2)}", "a comma");
  refused("{'shape': (-3, 2)}", "-3, 2)}", number);
  refused("{'shape': (,)}", ",)}", number);
  refused("{'shape': (1.5, 2)}", ".5, 2)}", "a comma");
  refused("{'shape': (9223372036854775808, 2)}", "9223372036854775808, 2)}", number);
  refused(header("<f4", "(1, 2)") + "\n{}", "{}", "nothing after }");
  EXPECT_NO_THROW(open(npy_bytes(R"({"shape":(1,2),"fortran_order":True,"descr":"<f4"})", raw<float>({1, 2})))
                      .view());  // other quotes, another order, no spaces
}

}  // namespace
}  // namespace labelshift
