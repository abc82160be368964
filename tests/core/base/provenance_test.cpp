#include "labelshift/core/base/provenance.hpp"

#include <gmock/gmock.h>

#include <unistd.h>

#include "labelshift/core/base/version.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Provenance, SaysTheCommandTheVersionAndTheMachineOfThisProcess) {
  const Provenance here = provenance_here();
  EXPECT_THAT(here.command, StartsWith("core_tests"));
  EXPECT_EQ(here.version, version());
  EXPECT_THAT(here.machine, HasSubstr(" core"));
  EXPECT_THAT(here.machine, HasSubstr("GiB of memory"));
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  EXPECT_THAT(here.machine, testing::Not(HasSubstr(host)));  // a report is passed on
}

TEST(ShellWord, IsReadBackByAShellAsItWas) {
  EXPECT_EQ(shell_word("results/one-2.toml"), "results/one-2.toml");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace labelshift
