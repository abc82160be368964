#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class Completion : public CommandTest {
 protected:
  /// What bash offers for the last of `words`, which it splits at "=" as it does on the command line.
  std::vector<std::string> offered(const std::string& words) const {
    const CommandResult result = shell("source <(labelshift completion bash)\nCOMP_WORDS=(" + words +
                                       ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_labelshift\n"
                                       "printf '%s\\n' \"${COMPREPLY[@]}\"");
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    std::istringstream lines(result.out);
    std::vector<std::string> words_offered;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) words_offered.push_back(line);
    return words_offered;
  }
};

TEST_F(Completion, OffersCommandsOptionsAndNames) {
  EXPECT_THAT(offered("labelshift est"), ElementsAre("estimate", "estimators"));
  EXPECT_THAT(offered("labelshift estimate --source-p"), ElementsAre("--source-probs", "--source-prior"));
  EXPECT_THAT(offered("labelshift estimate --estimator mlls-l"), ElementsAre("mlls-l1", "mlls-l2"));
  EXPECT_THAT(offered("labelshift adapt --logits --calibration ''"),
              ElementsAre("auto", "none", "ts", "bcts", "vs", "matrix"));
  EXPECT_THAT(offered("labelshift watch --format = j"), ElementsAre("json"));
  EXPECT_THAT(offered("labelshift estimate --format ="), ElementsAre("table", "json", "csv"));
  EXPECT_THAT(offered("labelshift completion ''"), Contains("zsh"));
  EXPECT_THAT(offered("labelshift ''"), Contains("--version"));
  EXPECT_THAT(offered("labelshift data get mn"), ElementsAre("mnist"));
}

TEST_F(Completion, LeavesFilesToBash) {
  EXPECT_THAT(offered("labelshift estimate --source-probs exa"), IsEmpty());
  EXPECT_THAT(offered("labelshift estimate --level 0"), IsEmpty());
}

TEST_F(Completion, ReachesEveryOptionThatHelpShows) {
  for (const char* command : {
           "estimate",
           "adapt",
           "watch",
           "data",
           "estimators",
           "completion",
           "certs",
#ifdef LABELSHIFT_WITH_TORCH
           "train",
           "predict",
#endif
#ifdef LABELSHIFT_WITH_SITES
           "coordinator",
           "node",
#endif
       }) {
    std::istringstream help(labelshift(std::string(command) + " --help").out);
    const std::string zsh = labelshift("completion zsh").out;
    const std::vector<std::string> words = offered(std::string("labelshift ") + command + " --");
    for (std::string word; help >> word;) {
      if (word == "Example:") break;
      if (const auto at = word.find("--"); at == std::string::npos || (at != 0 && word[at - 1] != ',')) continue;
      word = word.substr(word.find("--"));
      word = word.substr(0, word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"));
      EXPECT_THAT(words, Contains(word)) << command;
      EXPECT_THAT(zsh, testing::AnyOf(testing::HasSubstr(word + "["), testing::HasSubstr(word + "=["))) << command;
    }
  }
}

}  // namespace
}  // namespace labelshift
