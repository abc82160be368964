#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "labelshift/core/base/cpu.hpp"

namespace {

char message_at_the_deadline[1024];

extern "C" void at_the_deadline(int) {
  // Nothing but what a signal handler may call. The alarm came too late for anything else.
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, message_at_the_deadline, std::strlen(message_at_the_deadline));
  ::abort();
}

/// Gives every test a home directory and XDG folders of its own, which are empty when it starts and gone when it ended,
/// and a deadline. So no test sees what the user has at home or can wait for ever, also where no ctest starts it.
class HomeAndDeadline : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    std::string pattern = testing::TempDir() + "labelshift-home-XXXXXX";
    if (!::mkdtemp(pattern.data())) ::abort();
    home_ = pattern;
    ::setenv("HOME", home_.c_str(), 1);
    for (const auto& [name, folder] : {std::pair{"XDG_DATA_HOME", ".local/share"},
                                       {"XDG_STATE_HOME", ".local/state"},
                                       {"XDG_CACHE_HOME", ".cache"},
                                       {"XDG_CONFIG_HOME", ".config"},
                                       {"XDG_RUNTIME_DIR", ".run"}})
      ::setenv(name, (home_ + "/" + folder).c_str(), 1);
    ::unsetenv("XDG_DATA_DIRS");
    ::unsetenv("XDG_CONFIG_DIRS");
    ::unsetenv("LABELSHIFT_DATA");
    const std::string message = std::string(test.test_suite_name()) + "." + test.name() + " did not end within " +
                                std::to_string(LABELSHIFT_TEST_DEADLINE) + " s, its deadline; it is stopped\n";
    std::strncpy(message_at_the_deadline, message.c_str(), sizeof message_at_the_deadline - 1);
    ::alarm(LABELSHIFT_TEST_DEADLINE);
  }
  void OnTestEnd(const testing::TestInfo&) override {
    ::alarm(0);
    std::filesystem::remove_all(home_);
  }

  std::string home_;
};

}  // namespace

int main(int argc, char** argv) {
  labelshift::start_with_cpu(argv);
  testing::InitGoogleMock(&argc, argv);
  ::signal(SIGALRM, at_the_deadline);
  testing::UnitTest::GetInstance()->listeners().Append(new HomeAndDeadline);
  return RUN_ALL_TESTS();
}
