#include "labelshift/data/files/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <thread>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

class OutputFileTest : public Scratch {
 protected:
  long files() const { return std::distance(std::filesystem::directory_iterator(path("")), {}); }
  static mode_t mode(const std::string& name) {
    struct stat status {};
    EXPECT_EQ(::stat(name.c_str(), &status), 0);
    return status.st_mode & 07777;
  }
};

TEST_F(OutputFileTest, AppearsInCommitWithAllItsBytes) {
  OutputFile out(path("x.svg"));
  out.write("one ");
  out.write("two");
  EXPECT_FALSE(std::filesystem::exists(path("x.svg")));
  out.commit();
  EXPECT_EQ(bytes_of(path("x.svg")), "one two");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, IsWholeButHasNoNameBetweenFinishAndCommit) {
  OutputFile out(path("x.svg"));
  out.write("all of it");
  out.finish();
  EXPECT_FALSE(std::filesystem::exists(path("x.svg")));
  out.commit();
  EXPECT_EQ(bytes_of(path("x.svg")), "all of it");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, LeavesNothingBehindWithoutCommit) {
  file("x.svg", "old");
  {
    OutputFile out(path("x.svg"));
    out.write("new");
  }
  EXPECT_EQ(bytes_of(path("x.svg")), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, HasTheModeTheUmaskAsksForOrTheOldFileHad) {
  const mode_t umask_before = ::umask(027);
  OutputFile(path("fresh")).commit();
  EXPECT_EQ(mode(path("fresh")), 0640U);
  ASSERT_EQ(::chmod(file("private", "old").c_str(), 0600), 0);
  OutputFile(path("private")).commit();
  EXPECT_EQ(mode(path("private")), 0600U);
  ::umask(umask_before);
}

TEST_F(OutputFileTest, FollowsASymbolicLink) {
  std::filesystem::create_symlink(file("real", "old"), path("link"));
  OutputFile out(path("link"));
  out.write("new");
  out.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(bytes_of(path("real")), "new");
}

TEST_F(OutputFileTest, AllowsTwoWritersOfOneFile) {
  OutputFile first(path("x"));
  OutputFile second(path("x"));
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(bytes_of(path("x")), "first");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, WritesDevicesAndPipesDirectly) {
  OutputFile null("/dev/null");
  null.write("gone");
  null.commit();

  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = bytes_of(path("pipe")); });
  OutputFile out(path("pipe"));
  out.write("through");
  out.commit();
  reader.join();
  EXPECT_EQ(received, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(OutputFileTest, AddsToTheFileBehindADescriptorInsteadOfReplacingIt) {
  const int descriptor = ::open(file("log", "before ").c_str(), O_WRONLY | O_APPEND);
  OutputFile out("/dev/fd/" + std::to_string(descriptor));
  out.write("during ");
  out.commit();
  ASSERT_EQ(::write(descriptor, "after", 5), 5);
  ::close(descriptor);
  EXPECT_EQ(bytes_of(path("log")), "before during after");
}

TEST_F(OutputFileTest, SaysWhyItCannotBeWritten) {
  const auto refused = [&](const std::string& message, const std::string& name) {
    expect_error(ErrorKind::kSystem, message, [&] { OutputFile out(name); });
  };
  refused("cannot write DIR/none/x.svg: no such directory; create it or choose another place", path("none/x.svg"));
  refused("cannot write : no such directory; create it or choose another place", "");
  const std::string plain = file("plain", "");
  refused("cannot write DIR/plain/x.svg: not a directory; choose another place", path("plain/x.svg"));
  std::filesystem::create_directory(path("inner"));
  refused("cannot write DIR/inner: it is a directory; name a file in it", path("inner"));
  expect_error(ErrorKind::kSystem, "cannot write /dev/full: no space left on device; free some or choose another place",
               [&] { OutputFile("/dev/full").write("x"); });

  ASSERT_EQ(::chmod(plain.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(path("").c_str(), 0555), 0);
  {
    const OrdinaryUser user;
    refused("cannot write DIR/x.svg: permission denied; choose another place", path("x.svg"));
    refused("cannot write DIR/plain: permission denied; choose another place", plain);
  }
  ASSERT_EQ(::chmod(path("").c_str(), 0755), 0);
  EXPECT_EQ(files(), 2);
}

TEST_F(OutputFileTest, RemovesWhatAProcessThatWasKilledLeft) {
  const std::string leftover = file("out.csv.12345-0.tmp", "half");
  const std::string others[] = {file("out.csv.tmp", ""), file("out.csv.1-x.tmp", ""),
                                file("other.csv.12345-0.tmp", "")};
  write_file(path("out.csv"), "whole");
  EXPECT_FALSE(std::filesystem::exists(leftover));
  for (const std::string& other : others) EXPECT_TRUE(std::filesystem::exists(other)) << other;
  EXPECT_EQ(bytes_of(path("out.csv")), "whole");
}

TEST_F(OutputFileTest, LeavesAloneWhatAnotherIsWriting) {
  OutputFile first(path("out.csv"));
  first.write("first");
  write_file(path("out.csv"), "second");
  EXPECT_EQ(bytes_of(path("out.csv")), "second");
  first.finish();  // still in use until it is committed
  write_file(path("out.csv"), "third");
  first.commit();
  EXPECT_EQ(bytes_of(path("out.csv")), "first");
}

}  // namespace
}  // namespace labelshift
