#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;

class Manual : public CommandTest {
 protected:
  Manual() { EXPECT_EQ(shell("mkdir pages && labelshift manual pages").err, ""); }

  /// The commands of `labelshift --help`, and "" for the program itself.
  std::vector<std::string> commands() const {
    std::istringstream help(labelshift("--help").out);
    std::vector<std::string> names = {""};
    std::string line;
    while (std::getline(help, line) && !line.ends_with("ommands:")) continue;
    while (std::getline(help, line) && line.starts_with("  ")) names.push_back(line.substr(2, line.find(' ', 2) - 2));
    return names;
  }
  std::string page_of(const std::string& command) const {
    return path("pages/labelshift") + (command.empty() ? "" : "-") + command + ".1";
  }
  /// The words of a text, without the breaks of its layout and the colons of its headings.
  static std::set<std::string> words_of(const std::string& text) {
    std::istringstream in(text);
    std::set<std::string> words;
    for (std::string word; in >> word;) words.insert(word.substr(0, word.find_last_not_of(':') + 1));
    return words;
  }
};

TEST_F(Manual, HasAPageForEveryCommand) {
  EXPECT_GE(commands().size(), 8U);
  EXPECT_THAT(commands(), testing::Contains("estimate"));
  const std::string summary = bytes_of(page_of(""));
  for (const std::string& command : commands()) {
    EXPECT_TRUE(std::filesystem::exists(page_of(command))) << command;
    if (command.empty()) continue;
    EXPECT_THAT(summary, HasSubstr("labelshift\\-" + command + "\\fR(1)\n"));
  }
  EXPECT_FALSE(std::filesystem::exists(page_of("manual"))) << "help does not show this command";
}

TEST_F(Manual, SaysEveryWordOfHelpAndNothingThatManWarnsOf) {
  for (const std::string& command : commands()) {
    const CommandResult shown =
        shell("MANWIDTH=1000 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -P cat -l " + page_of(command));
    EXPECT_EQ(shown.status, 0) << command;
    EXPECT_EQ(shown.err, "") << command;
    std::set<std::string> expected = words_of(labelshift(command + " --help").out);
    for (const char* heading : {"Usage", "Options", "Commands", "Subcommands", "Positionals", "Example"})
      expected.erase(heading);
    for (const std::string& name : commands()) expected.erase(name);  // labelshift-NAME(1) there
    EXPECT_THAT(words_of(shown.out), IsSupersetOf(expected)) << command;
  }
}

}  // namespace
}  // namespace labelshift
