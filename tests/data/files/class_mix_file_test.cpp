#include "labelshift/data/files/class_mix_file.hpp"

#include <gmock/gmock.h>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

const std::vector<std::string> kNames = {"cat", "dog, big", "eel"};

class ReadClassMix : public Scratch {};

TEST_F(ReadClassMix, ReadsWhatEstimateWritesAndPlainNumbers) {
  const std::string npy =
      npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", raw<double>({0.25, 0.75, 0.0}));
  for (const std::string& mix : {
           std::string("0.25,0.75,0"),
           file("row.csv", "0.25,0.75,0\n"),
           file("column.csv", "0.25\n0.75\n0\n"),
           file("named_column.csv", "share\n0.25\n0.75\n0\n"),
           file("mix.npy", npy),
           file("named_row.csv", "eel,cat,\"dog, big\"\n0,0.25,0.75\n"),
           file("pairs.csv", "eel,0\n\"dog, big\",0.75\ncat,0.25\n"),
           file("headed_pairs.csv", "class,share\neel,0\n\"dog, big\",0.75\ncat,0.25\n"),
           file("estimate.csv",
                "class,source_prior,target_prior,target_prior_low,target_prior_high\n"
                "eel,0.5,0,0,0.1\ncat,0.25,0.25,0.2,0.3\n\"dog, big\",0.25,0.75,0.7,0.8\n"),
           file("estimate.csv.gz", gzipped("class,source_prior,target_prior\n0,0.5,0.25\n1,0.25,0.75\n2,0.25,0\n")),
           file("estimate.json", R"({"classes": ["dog, big", "eel", "cat"], "source_prior": [0.2, 0.2, 0.6],
                                     "target_prior": [0.75, 0.0, 0.25]})"),
           file("numbers.json", R"({"classes": ["0", "1", "2"], "target_prior": [0.25, 0.75, 0]})"),
       }) {
    SCOPED_TRACE(mix);
    EXPECT_EQ(read_class_mix(mix, kNames), Eigen::Vector3d(0.25, 0.75, 0.0));
  }
  EXPECT_EQ(read_class_mix("0.25,0.7505,0", kNames)[2], 0.0);  // rounded numbers are scaled
  EXPECT_DOUBLE_EQ(read_class_mix("0.25,0.7505,0", kNames).sum(), 1.0);
  const std::vector<std::string> numbers = {"2", "1", "0"};  // a name goes before a number
  EXPECT_EQ(read_class_mix(file("pairs.csv", "0,0.5\n1,0.25\n2,0.25\n"), numbers), Eigen::Vector3d(0.25, 0.25, 0.5));
}

TEST_F(ReadClassMix, SaysWhatToMend) {
  const auto refused = [&](const std::string& name, const std::string& text, const std::string& message) {
    expect_error(ErrorKind::kInput, message, [&] { read_class_mix(file(name, text), kNames); });
  };
  expect_error(ErrorKind::kInput,
               "the mix \"0.5,0.4,0\": the shares sum to 0.9, expected 1 within 0.001; divide each by the sum of all",
               [&] { read_class_mix("0.5,0.4,0", kNames); });
  expect_error(ErrorKind::kInput, "the mix \"0.5,0.5\": found 2 shares, expected 3, one for each class",
               [&] { read_class_mix("0.5,0.5", kNames); });
  expect_error(ErrorKind::kInput,
               "the mix \"0.5,-0.5,1\": found -0.5 as the share of \"dog, big\", expected a number from 0 to 1",
               [&] { read_class_mix("0.5,-0.5,1", kNames); });
  refused("m.csv", "nan\n0.5\n0.5\n", "DIR/m.csv: found nan as the share of \"cat\", expected a number from 0 to 1");
  refused("m.csv", "cat,0.5\neel,0.5\n",
          "DIR/m.csv: found no share of \"dog, big\"; give every class one, and 0 to those that do not occur");
  refused("m.csv", "cat,0.5\neel,0.5\ncat,0\n", "DIR/m.csv, line 3: found a second share of \"cat\", expected one");
  refused("m.csv", "cat,0.5\neal,0.5\n",
          "DIR/m.csv, line 2: unknown class \"eal\"; did you mean \"eel\"? (known: cat, dog, big, eel)");
  refused("m.csv", "class,share\ncat,0.5\neel,half\n", "DIR/m.csv, line 3: found \"half\", expected a share");
  refused("m.csv", "0.1,0.2,0.3,0.4\n0.1,0.2,0.3,0.4\n",
          "DIR/m.csv: found 2 rows of 4 cells, expected what labelshift estimate writes as CSV or JSON, a row or a "
          "column of 3 shares, or a class and its share in each row");
  refused("m.csv", "1\n0\n0\n0\n0\n", "DIR/m.csv: found more than 3 rows, expected one for each class");
  refused("m.csv", "cat,0.5\neel\n", "DIR/m.csv, line 2: found 1 cells, expected 2 as in line 1");
  refused("m.csv", "", "DIR/m.csv: it is empty");
  const std::string lists =
      "DIR/m.json: it is JSON, but has no lists \"classes\" and \"target_prior\" as labelshift estimate writes them in "
      "JSON";
  refused("m.json", "{", lists);
  refused("m.json", R"({"classes": ["cat"]})", lists);
  refused("m.json", R"({"classes": ["cat"], "target_prior": [null]})", lists);
  refused("m.json", R"({"classes": ["cat"], "target_prior": [0.5, 0.5]})", "DIR/m.json: found 2 shares of 1 classes");
  expect_error(ErrorKind::kInput, "cannot read DIR/none.csv: no such file or directory; check the path",
               [&] { read_class_mix(path("none.csv"), kNames); });
}

}  // namespace
}  // namespace labelshift
