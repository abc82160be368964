#include "labelshift/data/files/matrix_writer.hpp"

#include <cmath>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/data/files/label_file.hpp"
#include "labelshift/data/files/matrix_file.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

class MatrixWriterTest : public Scratch {};

TEST_F(MatrixWriterTest, WritesWhatTheReaderReadsBitForBit) {
  Eigen::MatrixXd doubles(20000, 3);
  Rng rng(1);
  for (Index k = 0; k < doubles.size(); ++k) doubles.data()[k] = rng.uniform() * std::exp(40.0 * rng.normal());
  const Eigen::MatrixXf floats = doubles.cast<float>();
  const std::vector<std::string> names = {"a", "b c", "d\""};
  for (const std::string name : {"p.npy", "p.csv", "p.tsv", "p.csv.gz", "p.tsv.gz"}) {
    for (const bool float32 : {false, true}) {
      SCOPED_TRACE(name + (float32 ? ", float32" : ", float64"));
      const MatrixView values = float32 ? MatrixView(floats) : MatrixView(doubles);
      MatrixWriter writer(path(name), {.rows = 20000, .cols = 3, .float32 = float32, .column_names = names});
      writer.append(values.middle_rows(0, 7000));
      writer.append(values.middle_rows(7000, 13000));
      EXPECT_FALSE(std::filesystem::exists(path(name)));
      writer.commit();
      const MatrixFile back = read_matrix(path(name));
      ASSERT_EQ(back.view().rows(), 20000);
      ASSERT_EQ(back.view().cols(), 3);
      for (Index i = 0; i < 20000; ++i) {
        for (Index c = 0; c < 3; ++c) {
          const double found = back.view()(i, c);
          ASSERT_EQ(float32 ? static_cast<float>(found) : found, values(i, c));
        }
      }
      EXPECT_EQ(back.column_names(), name == "p.npy" ? std::vector<std::string>{} : names);
      std::filesystem::remove(path(name));
    }
  }
}

TEST_F(MatrixWriterTest, WritesTheBytesNumpyWould) {
  MatrixWriter writer(path("p.npy"), {.rows = 2, .cols = 3, .float32 = true, .column_names = {}});
  const Eigen::MatrixXd matrix{{1, 2, 3}, {4, 5, 6}};
  writer.append(matrix);
  writer.commit();
  // np.array([[1, 2, 3], [4, 5, 6]], '<f4') as numpy 1.24 saves it
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.append(117 - header.size(), ' ');
  EXPECT_EQ(bytes_of(path("p.npy")), npy_bytes(header + '\n', raw<float>({1, 2, 3, 4, 5, 6})));
}

TEST_F(MatrixWriterTest, WritesTextWithAndWithoutHeader) {
  const Eigen::MatrixXd matrix{{0.1, 1.0}, {1e-9, 0.5}};
  MatrixWriter plain(path("p.csv"), {.rows = 2, .cols = 2, .float32 = false, .column_names = {}});
  plain.append(matrix);
  plain.commit();
  EXPECT_EQ(bytes_of(path("p.csv")), "0.1,1\n1e-09,0.5\n");
  MatrixWriter named(path("p.tsv"), {.rows = 2, .cols = 2, .float32 = true, .column_names = {"x, y", "z"}});
  named.append(matrix);
  named.commit();
  EXPECT_EQ(bytes_of(path("p.tsv")), "\"x, y\"\tz\n0.1\t1\n1e-09\t0.5\n");
}

TEST_F(MatrixWriterTest, LeavesOutAHeaderThatWouldBeReadAsNumbers) {
  using Names = std::vector<std::string>;
  const auto names_read = [&](const Names& names) {
    const auto m = static_cast<Index>(names.size());
    MatrixWriter writer(path("p.csv"), {.rows = 2, .cols = m, .float32 = false, .column_names = names});
    writer.append(Eigen::MatrixXd(Eigen::MatrixXd::Ones(2, m)));
    writer.commit();
    const MatrixFile back = read_matrix(path("p.csv"));
    EXPECT_EQ(back.view().rows(), 2);
    return back.column_names();
  };
  for (const Names& names : {Names{"0", "1"}, {"1", "2", "3"}, {"-1", "1"}, {"0.5", "other"}, {"nan", "inf"}})
    EXPECT_EQ(names_read(names), Names()) << names[0];
  for (const Names& names : {Names{"0", "1", "2"}, {"1", "other"}, {"a", "b"}})
    EXPECT_EQ(names_read(names), names) << names[0];
}

TEST_F(MatrixWriterTest, LeavesNothingBehindWithoutCommit) {
  {
    MatrixWriter writer(path("p.csv.gz"), {.rows = 1, .cols = 2, .float32 = false, .column_names = {}});
    writer.append(Eigen::MatrixXd(Eigen::MatrixXd::Ones(1, 2)));
  }
  EXPECT_TRUE(std::filesystem::is_empty(path("")));
}

TEST_F(MatrixWriterTest, FilesThatBelongTogetherCanBeFinishedBeforeTheFirstAppears) {
  MatrixWriter rows(path("p.csv.gz"), {.rows = 1, .cols = 2, .float32 = false, .column_names = {}});
  rows.append(Eigen::MatrixXd(Eigen::MatrixXd::Ones(1, 2)));
  rows.finish();
  LabelWriter labels(path("y.csv"), std::vector<int>{1}, {});
  EXPECT_FALSE(std::filesystem::exists(path("p.csv.gz")));
  EXPECT_FALSE(std::filesystem::exists(path("y.csv")));
  rows.commit();
  labels.commit();
  EXPECT_EQ(read_matrix(path("p.csv.gz")).view()(0, 1), 1.0);
  EXPECT_EQ(bytes_of(path("y.csv")), "label\n1\n");
}

TEST_F(MatrixWriterTest, RefusesAnEndingItDoesNotKnow) {
  for (const std::string name : {"p.json", "p.gz", "p.npy.gz"})
    expect_error(
        ErrorKind::kUsage,
        "cannot tell the format of DIR/" + name + "; expected a name that ends in .npy, .csv, .tsv, .csv.gz or .tsv.gz",
        [&] { MatrixWriter(path(name), {.rows = 1, .cols = 1, .float32 = false, .column_names = {}}); });
  EXPECT_NO_THROW(write_labels("/dev/null", std::vector<int>{1}, {}));  // no ending: CSV
}

TEST_F(MatrixWriterTest, WritesLabelsThatTheReaderReads) {
  const std::vector<int> labels = {2, 0, 1, 1};
  const std::vector<std::string> names = {"cat", "big, old dog", "a \"fish\""};
  for (const std::string name : {"y.npy", "y.csv", "y.tsv.gz"}) {
    write_labels(path(name), labels, {});
    EXPECT_EQ(read_labels(path(name), {}, 3).labels, labels) << name;
    write_labels(path(name), labels, names);
    EXPECT_EQ(read_labels(path(name), names, 3).labels, labels) << name;
  }
  write_labels(path("y.csv"), labels, names);
  EXPECT_EQ(bytes_of(path("y.csv")), "label\n\"a \"\"fish\"\"\"\ncat\n\"big, old dog\"\n\"big, old dog\"\n");
}

}  // namespace
}  // namespace labelshift
