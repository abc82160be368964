#include "labelshift/data/files/vector_file.hpp"

#include <gmock/gmock.h>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

class ReadWeights : public Scratch {};

TEST_F(ReadWeights, ReadsTextAndArrays) {
  EXPECT_THAT(read_weights(file("w.csv", "1\n0.5\n0\n"), 3), ElementsAre(1, 0.5, 0));
  EXPECT_THAT(read_weights(file("w.csv", "my weight\n1\n0.5\n0\n"), 3), ElementsAre(1, 0.5, 0));
  EXPECT_THAT(read_weights(file("w.csv", gzipped("1\n2\n")), 2), ElementsAre(0.5, 1));
  const std::string npy = npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", raw<float>({0.5F, 2}));
  EXPECT_THAT(read_weights(file("w.npy", npy), 2), ElementsAre(0.25, 1));
}

TEST_F(ReadWeights, KeepsWhatIsRelativeOfThem) {
  EXPECT_THAT(read_weights(file("w.csv", "1e308\n1e308\n0\n"), 3), testing::Each(testing::Le(2.0)));
  EXPECT_THAT(read_weights(file("w.csv", "5e-324\n0\n"), 2), ElementsAre(1, 0));
}

TEST_F(ReadWeights, RefusesOtherThings) {
  const auto refused = [&](const std::string& message, const std::string& text) {
    expect_error(ErrorKind::kInput, message, [&] { read_weights(file("w.csv", text), 2); });
  };
  refused("DIR/w.csv has 3 weights for 2 rows; check that both are of the same rows", "1\n2\n3\n");
  refused("DIR/w.csv has 0 weights for 2 rows", "");
  refused("DIR/w.csv, line 1 has 2 columns, expected 1; write it without an index (pandas: index=False)", "1,2\n");
  refused("DIR/w.csv, line 2, column 1: found \"x\", expected a number", "1\nx\n");
  refused("DIR/w.csv, row 2: found weight -1, expected a finite number that is not negative", "1\n-1\n");
  refused("DIR/w.csv, row 1: found weight nan, expected a finite number that is not negative", "nan\n1\n");
}

class ReadPrior : public Scratch {};

TEST_F(ReadPrior, ReadsNumbersAndFiles) {
  const std::string npy =
      npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", raw<double>({0.1, 0.2, 0.7}));
  for (const std::string& prior :
       {std::string("0.1,0.2,0.7"), std::string(" 0.1, 0.2, 0.7"), file("row.csv", "0.1,0.2,0.7\n"),
        file("named.csv", "a,b,c\n0.1,0.2,0.7\n"), file("column.csv", "0.1\n0.2\n0.7\n"),
        file("named_column.csv", "prior\n0.1\n0.2\n0.7\n"), file("p.npy", npy), file("a,b.csv", "0.1 0.2 0.7\n")}) {
    SCOPED_TRACE(prior);
    const Eigen::VectorXd p = read_prior(prior, 3);
    ASSERT_EQ(p.size(), 3);
    EXPECT_DOUBLE_EQ(p[0], 0.1);
    EXPECT_DOUBLE_EQ(p[1], 0.2);
    EXPECT_DOUBLE_EQ(p[2], 0.7);
  }
}

TEST_F(ReadPrior, RefusesAHeaderOfOtherClassesOrOfAnotherOrder) {
  const std::vector<std::string> names = {"a", "b", "c"};
  EXPECT_DOUBLE_EQ(read_prior(file("same.csv", "a,b,c\n0.1,0.2,0.7\n"), 3, names)[2], 0.7);
  EXPECT_DOUBLE_EQ(read_prior(file("column.csv", "prior\n0.1\n0.2\n0.7\n"), 3, names)[2], 0.7);
  const std::string other = file("other.csv", "a,c,b\n0.1,0.2,0.7\n");
  expect_error(
      ErrorKind::kInput,
      "DIR/other.csv, column 2: found the name \"c\", expected \"b\"; give the classes the same names and order as the "
      "other files do, or no names",
      [&] { read_prior(other, 3, names); });
}

TEST_F(ReadPrior, ScalesARoundedPriorToSumToOne) {
  // Dividing three numbers by their sum rounds each once: within 3 half units in the last place of 1.
  EXPECT_NEAR(read_prior("0.333,0.333,0.333", 3).sum(), 1.0, 4e-16);
}

TEST_F(ReadPrior, RefusesOtherThings) {
  const auto refused = [&](const std::string& message, const std::string& prior) {
    expect_error(ErrorKind::kInput, message, [&] { read_prior(prior, 3); });
  };
  refused("the prior \"0.5,0.5\" has 2 numbers, expected 3, one for each class", "0.5,0.5");
  refused("the prior \"0.5,0.5,0\", class 2: found 0, expected a probability above 0", "0.5,0.5,0");
  refused("the prior \"0.5,nan,0.5\", class 1: found nan, expected a probability above 0", "0.5,nan,0.5");
  refused("the prior \"0.5,0.5,0.5\": the probabilities sum to 1.5, expected 1 within 0.001", "0.5,0.5,0.5");
  refused("the prior \"0.5,inf,0.5\": the probabilities sum to inf, expected 1 within 0.001", "0.5,inf,0.5");
  refused("the prior \"0.5,0.2,0.3x\", line 1, column 3: found \"0.3x\", expected a number", "0.5,0.2,0.3x");
  refused("cannot read DIR/p.csv: no such file or directory; check the path", path("p.csv"));
  refused("DIR/p.csv: found 2 rows of 3 numbers, expected one row or one column", file("p.csv", "1,2,3\n4,5,6\n"));
}

}  // namespace
}  // namespace labelshift
