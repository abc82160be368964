#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/await.hpp"
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

  /// Runs a line of shell in the test's directory; "labelshift" there is the program under test. `await CONDITION`
  /// waits until a command succeeds, and fails the test if it does not do so soon.
  CommandResult shell(const std::string& line) const {
    const std::string program = std::filesystem::path(LABELSHIFT_COMMAND).parent_path();
    file("script", fmt::format(kAwait, kPatience, kWaitedInVain) + line);
    const int status = std::system(fmt::format("cd '{}' && PATH='{}':$PATH timeout --kill-after=5 {} bash script "
                                               "> stdout 2> stderr",
                                               path(""), program, kDeadline)
                                       .c_str());
    EXPECT_TRUE(WIFEXITED(status)) << line;
    CommandResult result{WEXITSTATUS(status), bytes_of(path("stdout")), bytes_of(path("stderr"))};
    EXPECT_NE(result.status, kWaitedInVain) << line << "\n" << result.err;
    EXPECT_NE(result.status, kTimedOut) << line << "\ndid not end within " << kDeadline << " s\n" << result.err;
    return result;
  }
  CommandResult labelshift(const std::string& arguments) const { return shell("labelshift " + arguments); }

  void expect_failure(const std::string& arguments, int status, const std::string& message) const {
    const CommandResult result = labelshift(arguments);
    EXPECT_EQ(result.status, status) << arguments;
    EXPECT_EQ(result.err, "error: " + message + "\n") << arguments;
    EXPECT_EQ(result.out, "") << arguments;
  }

 private:
  static constexpr int kDeadline = LABELSHIFT_TEST_DEADLINE - 20;  // s: before that of the test itself
  static constexpr int kTimedOut = 124;                            // as timeout says it
  static constexpr int kWaitedInVain = 99;
  static constexpr const char* kAwait = R"(await() {{
  local deadline=$((SECONDS + {}))
  until "$@" > /dev/null 2>&1; do
    sleep 0.01
    if [ $SECONDS -ge $deadline ]; then echo "waited in vain for: $*" >&2; kill $(jobs -p); exit {}; fi
  done
}}
)";
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
