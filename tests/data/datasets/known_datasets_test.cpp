#include "labelshift/data/datasets/known_datasets.hpp"

#include <gmock/gmock.h>

#include <optional>

#include "tests/data/scratch.hpp"
#include "tests/data/tiny_known_dataset.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using namespace std::string_literals;

/// An environment variable that has another value, or none, for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) {
    if (value)
      ::setenv(name_, value->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

class KnownDatasets : public Scratch {
 protected:
  std::string put(const TinyFiles& files, const std::string& directory = "tiny") const {
    std::filesystem::create_directories(path(directory));
    file(directory + "/train-images-idx3-ubyte", files.train_images);
    file(directory + "/train-labels-idx1-ubyte", files.train_labels);
    file(directory + "/t10k-images-idx3-ubyte.gz", gzipped(files.test_images));
    file(directory + "/t10k-labels-idx1-ubyte", files.test_labels);
    return path(directory);
  }

  Variable data_{"LABELSHIFT_DATA", path("data")};
  Variable xdg_{"XDG_DATA_HOME", std::nullopt};
  Variable home_{"HOME", path("home")};
};

TEST_F(KnownDatasets, EveryRowSaysAllThatIsNeeded) {
  for (const KnownDataset& known : known_datasets()) {
    EXPECT_EQ(&find_known_dataset(known.name), &known);
    EXPECT_FALSE(known.summary.empty()) << known.name;
    EXPECT_EQ(known.package.empty(), known.package_directory.empty()) << known.name;
    EXPECT_TRUE(known.class_names.empty() || std::ssize(known.class_names) == known.classes) << known.name;
    EXPECT_EQ(known.train_size % known.classes, 0) << known.name;
    EXPECT_EQ(!known.package_directory.empty() + !known.npm_package.empty() + !known.archive.empty(), 1) << known.name;
    for (const KnownFile& file : known.files)
      EXPECT_TRUE(file.sha256.size() == 64 || file.name.ends_with(".txt")) << file.name;
  }
  expect_error(
      ErrorKind::kUsage,
      R"(unknown data set "cifar10"; did you mean "cifar-10"? (known: fashion-mnist, mnist, cifar-10, cifar-100))",
      [] { find_known_dataset("cifar10"); });
}

TEST_F(KnownDatasets, FashionMnistIsWhereDebianPutsItAndIsThePublishedOne) {
  const LoadedDataset data = load_dataset("fashion-mnist");
  EXPECT_EQ(data.name, "fashion-mnist");
  EXPECT_EQ(data.parts.train.size(), 60'000);
  EXPECT_EQ(data.parts.test.size(), 10'000);
  EXPECT_EQ(data.parts.test.class_names[0], "T-shirt/top");
  EXPECT_EQ(data.note, "");
  const KnownDataset& known = find_known_dataset("fashion-mnist");
  EXPECT_EQ(first_unofficial_file(known, known.package_directory), "");
}

TEST_F(KnownDatasets, LooksInThreePlaces) {
  const auto directories = [](const std::string& name) {
    std::vector<std::string> result;
    for (const DatasetPlace& place : find_dataset(find_known_dataset(name))) result.push_back(place.directory);
    return result;
  };
  EXPECT_THAT(directories("fashion-mnist"),
              ElementsAre(path("data/fashion-mnist"), path("home/.local/share/labelshift/fashion-mnist"),
                          "/usr/share/datasets/fashion-mnist"));
  EXPECT_THAT(directories("mnist"), ElementsAre(path("data/mnist"), path("home/.local/share/labelshift/mnist")));
  const Variable xdg("XDG_DATA_HOME", path("xdg"));
  const Variable no_data("LABELSHIFT_DATA", std::nullopt);
  EXPECT_THAT(directories("mnist"), ElementsAre(path("xdg/labelshift/mnist")));
}

TEST_F(KnownDatasets, SaysWhatIsMissing) {
  expect_error(ErrorKind::kInput, "mnist is not in DIR/data/mnist and DIR/home/.local/share/labelshift/mnist",
               [] { load_dataset("mnist"); });
  std::filesystem::create_directories(path("data/cifar-100"));
  file("data/cifar-100/train.bin", "");
  EXPECT_THAT(find_dataset(find_known_dataset("cifar-100"))[0].missing,
              ElementsAre("test.bin", "fine_label_names.txt"));
  expect_error(ErrorKind::kInput,
               "cifar-100 is not in DIR/data/cifar-100 (which lacks test.bin) and "
               "DIR/home/.local/share/labelshift/cifar-100",
               [] { load_dataset("cifar-100"); });
  const Variable no_data("LABELSHIFT_DATA", std::nullopt);
  const Variable no_home("HOME", std::nullopt);
  expect_error(ErrorKind::kInput, "mnist is not in any place, since HOME is not set", [] { load_dataset("mnist"); });
}

TEST_F(KnownDatasets, SuggestsANameWhereThereIsNoSuchFile) {
  expect_error(ErrorKind::kInput,
               "there is no file fashion-mnst here; unknown data set \"fashion-mnst\"; did you mean "
               "\"fashion-mnist\"? (known: fashion-mnist, mnist, cifar-10, cifar-100)",
               [] { load_dataset("fashion-mnst"); });
  expect_error(ErrorKind::kInput, "cannot read mnist.csv: no such file or directory; check the path",
               [] { load_dataset("mnist.csv"); });
}

TEST_F(KnownDatasets, ReadsPublishedFilesWithoutANote) {
  const LoadedDataset data = load_known_dataset(tiny_known_dataset(), put({}));
  EXPECT_EQ(data.name, "tiny");
  EXPECT_THAT(data.parts.train.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(data.parts.test.labels, ElementsAre(0, 1));
  EXPECT_EQ(data.note, "");
}

TEST_F(KnownDatasets, FlagsFilesThatAreNotThePublishedOnes) {
  const LoadedDataset data =
      load_known_dataset(tiny_known_dataset(), put({.train_images = idx_bytes({2, 1, 1}, "aB")}));
  EXPECT_EQ(data.note,
            "not the published files of tiny (train-images-idx3-ubyte has another checksum): its pixels may have been "
            "changed");
  EXPECT_EQ(data.parts.train.size(), 2);
}

TEST_F(KnownDatasets, RefusesOtherNumbersOfExamples) {
  const auto expect_refused = [&](const TinyFiles& files, const std::string& message) {
    const std::string directory = put(files);
    expect_error(ErrorKind::kInput, "DIR/tiny: found " + message + " in tiny; get its published files",
                 [&] { load_known_dataset(tiny_known_dataset(), directory); });
  };
  expect_refused({.train_images = idx_bytes({3, 1, 1}, "abc"), .train_labels = idx_bytes({3}, "\x01\x00\x01"s)},
                 "3 training examples, expected 2");
  expect_refused({.test_labels = idx_bytes({2}, "\x01\x01"s)}, "0 test examples of class cat, expected 1");
  expect_refused({.test_labels = idx_bytes({2}, "\x01\x02"s)}, "3 classes, expected 2");
}

TEST_F(KnownDatasets, FlagsCifarByItsPathToo) {
  for (int batch = 1; batch <= 5; ++batch)
    file("data_batch_" + std::to_string(batch) + ".bin", cifar_record("\0"s, 'x'));
  file("test_batch.bin", cifar_record("\0"s, 'y'));
  file("batches.meta.txt", "cat\n");
  const LoadedDataset data = load_dataset(path(""));
  EXPECT_EQ(data.name, path(""));
  EXPECT_EQ(data.note,
            "not the published files of cifar-10 (data_batch_1.bin has another checksum): its pixels may have been "
            "changed");
  // Anybody may use the names of MNIST's files.
  EXPECT_EQ(load_dataset(put({})).note, "");
}

}  // namespace
}  // namespace labelshift
