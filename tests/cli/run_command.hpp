#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/data/scratch.hpp"

namespace labelshift {

struct CommandResult {
  int status = 0;  // as a shell sees it: 128 + n after signal n
  std::string out;
  std::string err;
};

/// Tests that run the program itself, in a directory that holds nothing but `examples`.
class CommandTest : public Scratch {
 protected:
  CommandTest() { std::filesystem::create_directory_symlink(LABELSHIFT_EXAMPLES, path("examples")); }

  /// Runs a line of shell in the test's directory; "labelshift" there is the program under test.
  CommandResult shell(const std::string& line) const {
    const std::string program = std::filesystem::path(LABELSHIFT_COMMAND).parent_path();
    const std::string script = file("script", line);
    const std::string command = "cd '" + path("") + "' && PATH='" + program + "':$PATH bash script > stdout 2> stderr";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status)) << line;
    return {WEXITSTATUS(status), bytes_of(path("stdout")), bytes_of(path("stderr"))};
  }
  CommandResult labelshift(const std::string& arguments) const { return shell("labelshift " + arguments); }

  void expect_failure(const std::string& arguments, int status, const std::string& message) const {
    const CommandResult result = labelshift(arguments);
    EXPECT_EQ(result.status, status) << arguments;
    EXPECT_EQ(result.err, "error: " + message + "\n") << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }
};

inline constexpr int kUsage = 2;
inline constexpr int kInput = 3;
inline constexpr int kSystem = 5;

inline const std::string kTiny =
    " --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv"
    " --target-probs examples/tiny/target_probs.csv ";
inline const std::string kFashionSource =
    " --source-probs examples/fashion-mnist/source_probs.npy --source-labels examples/fashion-mnist/source_labels.csv"
    " --classes examples/fashion-mnist/classes.txt ";
inline const std::string kFashion = kFashionSource + "--target-probs examples/fashion-mnist/target_probs.npy ";

}  // namespace labelshift
