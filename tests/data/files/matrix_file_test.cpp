#include "labelshift/data/files/matrix_file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ReadMatrix : public Scratch {};

TEST_F(ReadMatrix, GoesByTheContentsNotTheName) {
  const std::string npy =
      npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", raw<float>({0.25F, 0.75F}));
  const MatrixFile array = read_matrix(file("p.csv", npy));
  EXPECT_EQ(array.view()(0, 1), 0.75);
  EXPECT_TRUE(array.view().visit([](const auto* data, Index, Index) { return sizeof *data == sizeof(float); }));
  EXPECT_THAT(array.column_names(), IsEmpty());

  for (const auto& text : {std::string("cat,dog\n0.25,0.75\n"), gzipped("cat,dog\n0.25,0.75\n")}) {
    const MatrixFile matrix = read_matrix(file("p.npy", text));
    EXPECT_EQ(matrix.view()(0, 1), 0.75);
    EXPECT_THAT(matrix.column_names(), ElementsAre("cat", "dog"));
  }
}

TEST_F(ReadMatrix, RefusesAnArrayThatIsNoMatrixAtOnce) {
  const std::string npy = npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", raw<float>({1, 2}));
  expect_error(
      ErrorKind::kInput,
      "DIR/p.npy: found shape (2,), expected two dimensions, (rows, classes); of the probabilities p of one of "
      "two classes save both: np.save(path, np.stack([1 - p, p], axis=1)); one row is a[None, :]",
      [&] { read_matrix(file("p.npy", npy)); });
}

TEST_F(ReadMatrix, SaysWhyAFileCannotBeOpened) {
  expect_error(ErrorKind::kInput, "cannot read DIR/p.csv: no such file or directory; check the path",
               [&] { read_matrix(path("p.csv")); });
  expect_error(ErrorKind::kInput, "cannot read DIR: it is a directory; name a file in it",
               [&] { read_matrix(path("").substr(0, path("").size() - 1)); });
  const std::string locked = file("locked.csv", "0.5,0.5\n");
  expect_error(ErrorKind::kInput, "cannot read DIR/locked.csv/p.csv: not a directory; check the path",
               [&] { read_matrix(locked + "/p.csv"); });
  ASSERT_EQ(::chmod(path("").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(locked.c_str(), 0), 0);
  const OrdinaryUser user;
  expect_error(ErrorKind::kInput,
               "cannot read DIR/locked.csv: permission denied; ask its owner for permission to read it",
               [&] { read_matrix(locked); });
}

}  // namespace
}  // namespace labelshift
