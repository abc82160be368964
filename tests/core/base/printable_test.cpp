#include "labelshift/core/base/printable.hpp"

#include <gtest/gtest.h>

namespace labelshift {
namespace {

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\x1b[2J\x7f\n"), "a\\x1b[2J\\x7f\\x0a");
  EXPECT_EQ(printable("a\n\tb", "\n\t"), "a\n\tb");
  EXPECT_EQ(printable("\xc2\x9b \x9b"), "\\xc2\\x9b \\x9b");
}

TEST(Printable, EscapesWhatTurnsTheDirectionOfWriting) {
  EXPECT_EQ(printable("\u202egnp"), "\\xe2\\x80\\xaegnp");
  for (const char* control : {"\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff"})
    EXPECT_EQ(printable(control).substr(0, 2), "\\x") << printable(control);
}

TEST(Printable, LeavesLettersOfAnyLanguage) {
  for (const char* text : {"b\u00fcro", "\u05d0\u05d1", "\u732b", "\U0001f431", "\u00a0", "\u200d", "\u2027\u202f"})
    EXPECT_EQ(printable(text), text);
}

TEST(PrintableJson, EscapesAsJsonDoes) {
  EXPECT_EQ(printable_json("{\"b\u00fc\u202e\xc2\x9b\x7f\": 1}\n"), "{\"b\u00fc\\u202e\\u009b\\u007f\": 1}\n");
  EXPECT_EQ(printable_json("\"\xff\""), "\"\\ufffd\"");
}

}  // namespace
}  // namespace labelshift
