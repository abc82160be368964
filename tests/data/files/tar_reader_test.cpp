#include "labelshift/data/files/tar_reader.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "tests/data/dataset_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

class TarReaderTest : public Scratch {
 protected:
  /// "NAME=CONTENTS" of every file.
  std::vector<std::string> files(const std::string& bytes) const {
    TarReader tar(file("archive.tar", bytes));
    std::vector<std::string> result;
    while (tar.next()) {
      result.push_back(tar.name() + "=");
      std::vector<char> chunk(300);
      while (const std::size_t count = tar.read(chunk)) result.back().append(chunk.data(), count);
      EXPECT_EQ(result.back().size(), tar.name().size() + 1 + tar.size());
    }
    return result;
  }
  void expect_refused(const std::string& bytes, const std::string& message) const {
    expect_error(ErrorKind::kInput, "DIR/archive.tar: " + message, [&] { files(bytes); });
  }
};

TEST_F(TarReaderTest, GivesRegularFilesAndPassesOverTheRest) {
  const std::string large(1500, 'x');
  const std::string archive = tar_file("dir/", "", '5') + tar_file("dir/one", "1") + tar_file("long", "a name", 'L') +
                              tar_file("two", large) + tar_file("link", "", '2') + tar_file("empty", "") + kTarEnd;
  EXPECT_THAT(files(archive), ElementsAre("dir/one=1", "two=" + large, "empty="));
  EXPECT_THAT(files(gzipped(archive)), ElementsAre("dir/one=1", "two=" + large, "empty="));
}

TEST_F(TarReaderTest, PassesOverFilesThatNobodyReads) {
  TarReader tar(file("archive.tar", tar_file("one", "1") + tar_file("two", "2") + kTarEnd));
  EXPECT_TRUE(tar.next());
  EXPECT_TRUE(tar.next());
  EXPECT_EQ(tar.name(), "two");
  EXPECT_FALSE(tar.next());
}

TEST_F(TarReaderTest, CanBeStoppedBetweenEntriesAndInsideThem) {
  const auto calls_until_the_end = [&](const std::string& bytes) {
    int calls = 0;
    TarReader tar(file("archive.tar", bytes), [&] { ++calls; });
    while (tar.next()) continue;
    return calls;
  };
  const int small = calls_until_the_end(tar_file("one", "1") + kTarEnd);
  EXPECT_GT(calls_until_the_end(tar_file("one", "1") + tar_file("dir", "", '5') + kTarEnd), small);
  EXPECT_GE(calls_until_the_end(tar_file("one", std::string(1 << 20, 'x')) + kTarEnd), small + 10);
  TarReader stopped(path("archive.tar"), [] { throw Error(ErrorKind::kSystem, "enough"); });
  expect_error(ErrorKind::kSystem, "enough", [&] { stopped.next(); });
}

TEST_F(TarReaderTest, PassesOverSoManyBytesAndNoMore) {
  const std::uint64_t most = TarReader::kMostPassedOver;
  const std::string too_much = "found more than 4 GiB that nobody asked for; check that it is the right archive";
  expect_refused(tar_file("dir", "", '5', most) + kTarEnd, too_much);
  TarReader tar(file("archive.tar", tar_file("large", "", '0', most) + kTarEnd));
  EXPECT_TRUE(tar.next());
  expect_error(ErrorKind::kInput, "DIR/archive.tar: " + too_much, [&] { tar.next(); });
}

TEST_F(TarReaderTest, ReadsWhatGnuTarWrites) {
  file("hello", "world");
  ASSERT_EQ(std::system(("tar czf '" + path("gnu.tar.gz") + "' -C '" + path("") + "' hello").c_str()), 0);
  EXPECT_THAT(files(bytes_of(path("gnu.tar.gz"))), ElementsAre("hello=world"));
}

TEST_F(TarReaderTest, RefusesNamesThatLeadOutside) {
  for (const std::string name : {"../x", "a/../../x", "/etc/x", ".."})
    expect_refused(tar_file(name, "x") + kTarEnd,
                   "found the file name \"" + name + "\", which leads out of the archive; do not trust it");
}

TEST_F(TarReaderTest, RefusesDamagedArchives) {
  const std::string cut = "the tar archive is cut off before its end; copy it again";
  expect_refused("", cut);
  expect_refused(tar_file("one", "1"), cut);
  expect_refused(tar_file("one", "1").substr(0, 512), cut);
  expect_refused(tar_file("one", "1").substr(0, 600), cut);
  const std::string no_header =
      "found something else than the header of a file in a tar archive (ustar); check that it is one";
  expect_refused(std::string(512, 'x'), no_header);
  std::string damaged = tar_file("one", "1");
  damaged[0] = 'O';  // the checksum is another one now
  expect_refused(damaged, no_header);
}

}  // namespace
}  // namespace labelshift
