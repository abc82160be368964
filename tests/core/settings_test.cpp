#include "labelshift/core/settings.hpp"

#include <gtest/gtest.h>

#include "labelshift/core/error.hpp"

namespace labelshift {
namespace {

template <typename Use>
std::string usage_error(Use&& use) {
  try {
    use();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "nothing was thrown";
}

Settings setting(const std::string& name, const std::string& value) {
  Settings settings;
  settings.set(name, value);
  return settings;
}

TEST(Settings, GivesTheValueOrTheFallback) {
  Settings settings = setting("step", "2.5e-1");
  EXPECT_EQ(settings.number("step", 1.0, 0.0, 1.0), 0.25);
  EXPECT_EQ(settings.number("other", 1.5, 0.0, 1.0), 1.5);
  EXPECT_EQ(setting("epochs", "12").integer("epochs", 1, 1, 20), 12);
  EXPECT_EQ(setting("acceleration", "squarem").choice("acceleration", {"none", "squarem"}), "squarem");
  EXPECT_EQ(Settings().choice("acceleration", {"none", "squarem"}), "none");
}

TEST(Settings, RefusesWhatIsNotANumberInRange) {
  for (const char* text : {"", "x", "1x", " 1", "nan", "inf", "-inf", "1e999", "-0.5", "1.5"}) {
    EXPECT_EQ(usage_error([&] { setting("step", text).number("step", 0.5, 0.0, 1.0); }),
              "step is \"" + std::string(text) + "\", not a number from 0 to 1");
  }
  EXPECT_EQ(usage_error([] { setting("epochs", "1.5").integer("epochs", 1, 1, 20); }),
            "epochs is 1.5, not a whole number");
}

TEST(Settings, RefusesASettingNobodyReadAndSuggestsOneThatWas) {
  Settings settings = setting("max-iteration", "3");
  settings.number("tolerance", 1.0, 0.0, 1.0);
  settings.integer("max-iterations", 1, 1, 9);
  EXPECT_EQ(usage_error([&] { settings.check_all_read("mlls-em"); }),
            "unknown setting of mlls-em \"max-iteration\"; did you mean \"max-iterations\"? (known: tolerance, "
            "max-iterations)");
  EXPECT_EQ(usage_error([] { setting("alpha", "1").check_all_read("bbse"); }),
            "bbse has no settings, so \"alpha\" cannot be set");
  settings = setting("tolerance", "0.5");
  settings.number("tolerance", 1.0, 0.0, 1.0);
  EXPECT_NO_THROW(settings.check_all_read("mlls-em"));
}

TEST(Settings, SuggestsNothingWhereNothingIsClose) {
  EXPECT_EQ(usage_error([] {
              setting("kind", "zebra").choice("kind", {"none", "ts"});
            }),
            "unknown kind \"zebra\" (known: none, ts)");
}

}  // namespace
}  // namespace labelshift
