#include "labelshift/data/datasets/dataset_reader.hpp"

#include <gmock/gmock.h>

#include <map>

#include "tests/data/dataset_bytes.hpp"
#include "tests/data/image_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using namespace std::string_literals;

class DatasetReader : public Scratch {
 protected:
  void put_idx_files() const {
    file("train-images-idx3-ubyte", idx_bytes({2, 1, 1}, "ab"));
    file("train-labels-idx1-ubyte.gz", gzipped(idx_bytes({2}, "\x01\x00"s)));
    file("t10k-images-idx3-ubyte.gz", gzipped(idx_bytes({1, 1, 1}, "c")));
    file("t10k-labels-idx1-ubyte", idx_bytes({1}, "\x02"s));
  }
};

TEST_F(DatasetReader, ReadsTheSmallFashionMnist) {
  const TrainAndTest data = read_dataset(LABELSHIFT_EXAMPLES "/small-fashion-mnist");
  EXPECT_EQ(data.train.shape, (ExampleShape{1, 28, 28}));
  EXPECT_EQ(data.test.shape, (ExampleShape{1, 28, 28}));
  for (const auto& [part, of_each_class] : {std::pair{&data.train, 40}, std::pair{&data.test, 20}}) {
    EXPECT_EQ(part->size(), 10 * of_each_class);
    EXPECT_EQ(part->class_names[9], "Ankle boot");
    std::map<int, int> counts;
    for (const int label : part->labels) ++counts[label];
    for (int c = 0; c < 10; ++c) EXPECT_EQ(counts[c], of_each_class) << c;
  }
}

TEST_F(DatasetReader, ReadsADirectoryOfIdxFilesPackedOrNot) {
  put_idx_files();
  const TrainAndTest data = read_dataset(path(""));
  EXPECT_THAT(std::get<0>(data.train.values), ElementsAre('a', 'b'));
  EXPECT_THAT(data.train.labels, ElementsAre(1, 0));
  EXPECT_THAT(data.test.labels, ElementsAre(2));
  EXPECT_THAT(data.train.class_names, ElementsAre("0", "1", "2"));  // of both parts
  file("classes.txt", "zero\none\ntwo\nthree\n");
  EXPECT_THAT(read_dataset(path("")).test.class_names, ElementsAre("zero", "one", "two", "three"));
}

TEST_F(DatasetReader, RefusesIdxFilesThatDoNotGoTogether) {
  put_idx_files();
  file("classes.txt", "zero\none\n");
  expect_error(ErrorKind::kInput, "DIR/classes.txt has 2 names, expected 3, one for each label from 0 to 2",
               [&] { read_dataset(path("").substr(0, path("").size() - 1)); });
  file("t10k-images-idx3-ubyte", idx_bytes({1, 2, 1}, "cd"));
  expect_error(ErrorKind::kInput, "DIR: found test images of 2 x 1, expected 1 x 1 as in the training images",
               [&] { read_dataset(path("").substr(0, path("").size() - 1)); });
  std::filesystem::remove(path("t10k-labels-idx1-ubyte"));
  expect_error(ErrorKind::kInput, "cannot read DIR/t10k-labels-idx1-ubyte: no such file or directory; check the path",
               [&] { read_dataset(path("").substr(0, path("").size() - 1)); });
}

TEST_F(DatasetReader, KnowsCifarByItsFiles) {
  for (int batch = 1; batch <= 5; ++batch)
    file("data_batch_" + std::to_string(batch) + ".bin", cifar_record("\0"s, 'x'));
  file("test_batch.bin", cifar_record("\0"s, 'y'));
  file("batches.meta.txt", "cat\n");
  EXPECT_EQ(read_dataset(path("")).train.size(), 5);
}

TEST_F(DatasetReader, KnowsCifar100ByItsFilesPackedOrNot) {
  file("train.bin.gz", gzipped(cifar_record("\0\0"s, 'x') + cifar_record("\0\0"s, 'y')));
  file("test.bin", cifar_record("\0\0"s, 'x'));
  file("fine_label_names.txt.gz", gzipped("cat\n"));
  EXPECT_EQ(read_dataset(path("")).train.size(), 2);
}

TEST_F(DatasetReader, ReadsFoldersOfImages) {
  for (const char* folder : {"train/cat", "train/dog", "test/dog"}) {
    std::filesystem::create_directories(path(folder));
    file(std::string(folder) + "/a.png", grey_png(1, 1, 5));
  }
  const TrainAndTest both = read_dataset(path(""));
  EXPECT_THAT(both.train.labels, ElementsAre(0, 1));
  EXPECT_THAT(both.test.labels, ElementsAre(1));
  const TrainAndTest one = read_dataset(path("train"));
  EXPECT_EQ(one.train.size(), 2);
  EXPECT_EQ(one.test.size(), 0);
}

TEST_F(DatasetReader, ReadsFiles) {
  const std::string images = file("images", idx_bytes({2, 1, 1}, "ab"));
  EXPECT_TRUE(read_dataset(images).train.labels.empty());
  const std::string labels = file("labels", idx_bytes({2}, "\x01\x00"s));
  EXPECT_THAT(read_dataset(images, {.file = labels}).train.labels, ElementsAre(1, 0));
  const std::string packed = file("digits.idx.gz", gzipped(idx_bytes({2, 1, 1}, "ab")));
  EXPECT_EQ(read_dataset(packed).train.size(), 2);
  const std::string swapped =
      "DIR/labels: found an IDX array of 1 dimension, expected 3; check that images and labels are not swapped";
  expect_error(ErrorKind::kInput, swapped, [&] { read_dataset(labels); });
  const std::string table = file("table.csv", "x,y\n1,2\n");
  EXPECT_EQ(read_dataset(table).train.shape.width, 2);
  EXPECT_THAT(read_dataset(table, {.column = "y"}).train.class_names, ElementsAre("2"));
}

TEST_F(DatasetReader, HoldsImagesToTheClassesItIsGiven) {
  std::filesystem::create_directories(path("images/dog"));
  file("images/dog/a.png", grey_png(1, 1, 5));
  const Dataset folder = read_dataset(path("images"), {.class_names = {"dog", "cat"}}).train;
  EXPECT_THAT(folder.labels, ElementsAre(0));
  EXPECT_THAT(folder.class_names, ElementsAre("dog", "cat"));
  expect_error(ErrorKind::kInput, R"(DIR/images/dog: unknown class "dog" (known: a, b))", [&] {
    read_dataset(path("images"), {.class_names = {"a", "b"}});
  });

  const std::string images = file("digits", idx_bytes({2, 1, 1}, "ab"));
  const std::string labels = file("labels", idx_bytes({2}, "\x01\x00"s));
  const auto idx = [&](const std::vector<std::string>& names) {
    return read_dataset(images, {.file = labels, .class_names = names}).train;
  };
  EXPECT_THAT(idx({"cat", "dog", "fish"}).labels, ElementsAre(1, 0));
  EXPECT_THAT(idx({"cat", "dog", "fish"}).class_names, ElementsAre("cat", "dog", "fish"));
  EXPECT_THAT(idx({"2", "1", "0"}).labels, ElementsAre(1, 2));  // a number is a name where names are numbers
  expect_error(ErrorKind::kInput, "DIR/labels, row 1: found label 1, expected one of the classes cat",
               [&] { idx({"cat"}); });
  expect_error(ErrorKind::kInput, "DIR/labels, row 2: found label 0, expected one of the classes 1, 2", [&] {
    idx({"1", "2"});
  });

  put_idx_files();  // with labels from 0 to 2
  EXPECT_THAT(read_dataset(path(""), {.class_names = {"a", "b", "c", "d"}}).test.class_names,
              ElementsAre("a", "b", "c", "d"));
  file("classes.txt", "zero\none\ntwo\nthree\n");
  EXPECT_THAT(read_dataset(path(""), {.class_names = {"a", "b", "c", "d"}}).test.class_names,
              ElementsAre("zero", "one", "two", "three"));
}

TEST_F(DatasetReader, SaysIfADirectoryCannotBeRead) {
  std::filesystem::create_directories(path("data/train"));
  std::filesystem::permissions(path(""), std::filesystem::perms::all);
  std::filesystem::permissions(path("data"), std::filesystem::perms::none);
  {
    const OrdinaryUser user;
    expect_error(ErrorKind::kInput, "cannot read DIR/data: permission denied; check the path",
                 [&] { read_dataset(path("data")); });
  }
  std::filesystem::permissions(path("data"), std::filesystem::perms::owner_all);
}

TEST_F(DatasetReader, RefusesALabelColumnOfADirectory) {
  expect_error(ErrorKind::kUsage,
               "DIR/: a directory has its labels in it; a label column or a file of labels goes with a table",
               [&] { read_dataset(path(""), {.column = "label"}); });
}

}  // namespace
}  // namespace labelshift
