#include "labelshift/core/base/settings.hpp"

#include <gtest/gtest.h>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "tests/core/error_of.hpp"

namespace labelshift {
namespace {

template <typename Use>
std::string usage_error(Use&& use) {
  return error_of(ErrorKind::kUsage, use);
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

TEST(Settings, KeepsEveryBitOfASeed) {
  EXPECT_EQ(setting("seed", "18446744073709551615").seed("seed", 0), 18446744073709551615U);
  EXPECT_EQ(setting("seed", "9007199254740993").seed("seed", 0), 9007199254740993U);  // 2^53 + 1 is no double
  EXPECT_EQ(Settings().seed("seed", 7), 7U);
  for (const char* text : {"", "-1", "1.5", "1e3", "18446744073709551616"}) {
    EXPECT_EQ(usage_error([&] { setting("seed", text).seed("seed", 0); }),
              "seed is \"" + std::string(text) + "\", not a whole number from 0 to 18446744073709551615");
  }
}

TEST(Settings, SuggestsANameWhateverItsCase) {
  EXPECT_STREQ(unknown_name("estimator", "MLLS-EM", {"mlls-sqp", "mlls-em"}).what(),
               "unknown estimator \"MLLS-EM\"; did you mean \"mlls-em\"? (known: mlls-sqp, mlls-em)");
  EXPECT_STREQ(unknown_name("label", "a", {"A", "b"}).what(), "unknown label \"a\"; did you mean \"A\"? (known: A, b)");
  EXPECT_STREQ(unknown_name("format", "josn", {"json", "csv"}).what(),
               "unknown format \"josn\"; did you mean \"json\"? (known: json, csv)");
}

TEST(Settings, SuggestsANameWithASlipInEveryThirdLetterOfTheShorterOneAtMost) {
  const std::string longest(100, 'a'), too_long(101, 'a');
  const struct {
    std::string name, known;
    bool close;
  } pairs[] = {
      {"rlls-", "rlls-2", true},
      {"rlls", "rlls-2", false},
      {"rlls-2", "rlls", false},
      {"tolera", "tolerant", true},
      {"toler", "toleran", false},
      {"toleran", "toler", false},
      {"tolrenat", "tolerant", true},
      {"ab", "ac", true},
      {"a", "b", false},
      {std::string(100, 'A'), longest, true},
      {std::string(101, 'A'), too_long, false},
      {longest, too_long, false},
  };
  for (const auto& [name, known, close] : pairs)
    EXPECT_EQ(unknown_name("kind", name, {known}).what(), "unknown kind \"" + name + "\"" +
                                                              (close ? "; did you mean \"" + known + "\"?" : "") +
                                                              " (known: " + known + ")");
  EXPECT_STREQ(unknown_name("kind", "abcdef", {"abcxyf", "abcdex", "abxdef"}).what(),  // two slips, one and one
               "unknown kind \"abcdef\"; did you mean \"abcdex\"? (known: abcxyf, abcdex, abxdef)");
}

TEST(Settings, SuggestsNothingWhereNothingIsClose) {
  for (const std::string name : {"x", "cats", "vrls", "mlls", "none at all"})
    EXPECT_EQ(std::string(unknown_name("kind", name, {"none", "ts", "bcts", "vs", "mlls-sqp", "rlls-2"}).what()),
              "unknown kind \"" + name + "\" (known: none, ts, bcts, vs, mlls-sqp, rlls-2)");

  EXPECT_EQ(usage_error([] {
              setting("kind", "zebra").choice("kind", {"none", "ts"});
            }),
            "unknown kind \"zebra\" (known: none, ts)");
}

}  // namespace
}  // namespace labelshift
