#include "labelshift/core/base/utf8.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace labelshift {
namespace {

TEST(Utf8, ReadsCharactersOfEveryLength) {
  const struct {
    const char* text;
    char32_t code;
    std::size_t bytes;
  } cases[] = {{"a", 'a', 1},
               {"\x7f", 0x7f, 1},
               {"\u0080", 0x80, 2},
               {"\u07ff", 0x7ff, 2},
               {"\u0800", 0x800, 3},
               {"\ud7ff", 0xd7ff, 3},
               {"\ue000", 0xe000, 3},
               {"\uffff", 0xffff, 3},
               {"\U00010000", 0x10000, 4},
               {"\U0010ffff", 0x10ffff, 4}};
  for (const auto& [text, code, bytes] : cases) {
    const Utf8Character found = first_character(std::string(text) + "rest");
    EXPECT_EQ(found.code, code);
    EXPECT_EQ(found.bytes, bytes) << static_cast<std::uint32_t>(code);
  }
}

TEST(Utf8, RefusesBytesThatStartNoCharacter) {
  for (const char* text : {"\x80", "\xff", "\xe9", "\xc3", "\xc3(", "\xe2\x80", "\xe2\x80(",  // cut off or not followed
                           "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",        // overlong
                           "\xed\xa0\x80", "\xed\xbf\xbf",                                    // surrogates
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})                           // beyond U+10FFFF
    EXPECT_EQ(first_character(text).bytes, 0u) << text;
}

TEST(IsUtf8, LooksAtEveryCharacter) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("caf\xc3\xa9"));
  EXPECT_FALSE(is_utf8("caf\xe9"));
  EXPECT_FALSE(
      is_utf8("\xe9"
              "cole"));
}

}  // namespace
}  // namespace labelshift
