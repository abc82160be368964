#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

/// Runs with empty places of its own for data.
class DataCommand : public CommandTest {
 protected:
  CommandResult command(const std::string& arguments) const {
    return shell("export LABELSHIFT_DATA=$PWD/data HOME=$PWD/home; unset XDG_DATA_HOME; labelshift " + arguments);
  }
  CommandResult data(const std::string& arguments) const { return command("data " + arguments); }
  void expect_data_failure(const std::string& arguments, int status, const std::string& message) const {
    const CommandResult result = data(arguments);
    EXPECT_EQ(result.status, status) << arguments;
    EXPECT_EQ(result.err, "error: " + message + "\n") << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }
};

TEST_F(DataCommand, ListsWhatIsKnownAndWhereItLooked) {
  const CommandResult result = data("");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              testing::ContainsRegex("^data set       what it is +found  directory\n"
                                     "fashion-mnist  70,000 grey 28 x 28 pictures of clothes in ten classes +no     " +
                                     path("data/fashion-mnist") + "\n +no     " +
                                     path("home/.local/share/labelshift/fashion-mnist") +
                                     "\n +yes    /usr/share/datasets/fashion-mnist\nmnist          70,000 "));
  EXPECT_THAT(result.out, testing::ContainsRegex(" no     " + path("data/mnist") + "\n +no     " +
                                                 path("home/.local/share/labelshift/mnist") + "\ncifar-10 "));
  EXPECT_THAT(result.out, HasSubstr("\nTo get mnist: labelshift data get mnist\n"));
  const CommandResult homeless = shell("env -u LABELSHIFT_DATA -u XDG_DATA_HOME -u HOME $(command -v labelshift) data");
  EXPECT_THAT(homeless.out,
              testing::ContainsRegex("\nmnist +70,000 grey 28 x 28 pictures of handwritten digits +no\n"));
}

#ifdef LABELSHIFT_WITH_TORCH
TEST_F(DataCommand, SaysHowToGetWhatACommandLacks) {
  const CommandResult result = command("train --data mnist");
  EXPECT_EQ(result.status, kInput);
  EXPECT_EQ(result.err, "error: mnist is not in " + path("data/mnist") + " and " +
                            path("home/.local/share/labelshift/mnist") + "; \"labelshift data\" says how to get it\n");
}
#endif

TEST_F(DataCommand, ListsAsJson) {
  std::filesystem::create_directories(path("data/cifar-100"));
  file("data/cifar-100/train.bin", "");
  const Json sets = Json::parse(data("--format json").out)["datasets"];
  ASSERT_EQ(sets.size(), 4U);
  EXPECT_EQ(sets[0]["name"], "fashion-mnist");
  EXPECT_EQ(sets[0]["directory"], "/usr/share/datasets/fashion-mnist");
  EXPECT_EQ(sets[0]["looked_in"].size(), 3U);
  EXPECT_EQ(sets[3]["name"], "cifar-100");
  EXPECT_EQ(sets[3]["directory"], nullptr);
  EXPECT_EQ(sets[3]["looked_in"][0]["directory"], path("data/cifar-100"));
  EXPECT_EQ(sets[3]["looked_in"][0]["missing"], (Json{"test.bin", "fine_label_names.txt"}));
  EXPECT_THAT(data("").out, HasSubstr("  no, test.bin is missing  " + path("data/cifar-100") + "\n"));
}

TEST_F(DataCommand, GetsADataSetFromADirectory) {
  // The real files under another name: the numbers of examples are right and the checksums are not.
  const CommandResult result = data("get mnist --from /usr/share/datasets/fashion-mnist");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "mnist is now in " + path("data/mnist") + "\n");
  EXPECT_EQ(result.err, "warning: " + path("data/mnist") +
                            ": not the published files of mnist (train-images-idx3-ubyte has another checksum): its "
                            "pixels may have been changed\n");
  const CommandResult again = data("get mnist");
  EXPECT_EQ(again.out, "mnist is already in " + path("data/mnist") + "\n");
  EXPECT_EQ(again.err, result.err);
  expect_data_failure("get mnist --from /usr/share/datasets/fashion-mnist", kUsage,
                      path("data/mnist") + " is there already; remove it first to get mnist again");
}

TEST_F(DataCommand, DoesNotTakeBrokenFilesForTheDataSet) {
  std::filesystem::create_directories(path("data/cifar-100"));
  for (const char* name : {"train.bin", "test.bin", "fine_label_names.txt"})
    file(std::string("data/cifar-100/") + name, "cat\n");
  expect_data_failure("get cifar-100", kInput,
                      path("data/cifar-100/train.bin") +
                          ": found 4 bytes, expected records of 3074; it is cut off or no CIFAR-100 file, so copy it "
                          "again; remove " +
                          path("data/cifar-100") + " first to get cifar-100 again");
}

TEST_F(DataCommand, KnowsWhatIsAlreadyThere) {
  EXPECT_EQ(data("get fashion-mnist").out, "fashion-mnist is already in /usr/share/datasets/fashion-mnist\n");
}

TEST_F(DataCommand, LeavesNothingBehindWhenItIsInterrupted) {
  std::filesystem::create_directories(path("bin"));
  file("bin/npm", "#!/bin/sh\ntouch '" + path("started") + "'\nexec sleep 1000\n");
  std::filesystem::permissions(path("bin/npm"), std::filesystem::perms::owner_all);
  const CommandResult result = shell(
      "export LABELSHIFT_DATA=$PWD/data PATH=$PWD/bin:$PATH\n"
      "labelshift data get mnist & child=$!\n"
      "await [ -e started ]\n"
      "kill -TERM $child\nwait $child");
  EXPECT_EQ(result.status, 128 + SIGTERM);
  EXPECT_TRUE(std::filesystem::is_empty(path("data")));
}

TEST_F(DataCommand, SaysWhatToDoInOneSentence) {
  expect_data_failure("get", kUsage, "labelshift data get needs the name of a data set; labelshift data lists them");
  expect_data_failure("--from x", kUsage, "--from goes with labelshift data get NAME");
  expect_data_failure("get mnist --format json", kUsage, "--format is for the list of data sets; leave it out");
  expect_data_failure("fetch mnist", kUsage, "unknown action \"fetch\" (known: get)");
  expect_data_failure("get mnst", kUsage,
                      "unknown data set \"mnst\"; did you mean \"mnist\"? (known: fashion-mnist, mnist, cifar-10, "
                      "cifar-100)");
  expect_data_failure("get cifar-10", kUsage,
                      "nothing says where the files of cifar-10 are; give its archive cifar-10-binary.tar.gz or their "
                      "directory with --from");
  expect_data_failure("get cifar-10 --from nowhere.tar.gz", kInput,
                      "cannot read nowhere.tar.gz: no such file or directory; check the path");
  const CommandResult homeless =
      shell("env -u LABELSHIFT_DATA -u XDG_DATA_HOME -u HOME $(command -v labelshift) data get mnist");
  EXPECT_EQ(homeless.status, kSystem);
  EXPECT_EQ(homeless.err, "error: there is no place to put data, since neither LABELSHIFT_DATA nor HOME is set\n");
}

}  // namespace
}  // namespace labelshift
