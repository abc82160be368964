#include "labelshift/core/base/json.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace labelshift {
namespace {

TEST(Json, HasNullForWhatIsNoNumber) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(json_line(json_numbers(Eigen::Vector4d(0.5, infinite, -infinite, std::nan("")))), "[0.5,null,null,null]");
}

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(json_text({{"b", 1}, {"a", "x"}}), "{\n  \"b\": 1,\n  \"a\": \"x\"\n}\n");
}

TEST(Json, TakesAnybodysBytes) {
  const Json names = {"b\u00fcro", "caf\xe9"};  // UTF-8, Latin-1
  EXPECT_EQ(json_line(names), "[\"b\u00fcro\",\"caf\uFFFD\"]");
  EXPECT_EQ(json_line(names, JsonLetters::kAscii), "[\"b\\u00fcro\",\"caf\\ufffd\"]");
  EXPECT_EQ(json_text(names), "[\n  \"b\u00fcro\",\n  \"caf\uFFFD\"\n]\n");
}

}  // namespace
}  // namespace labelshift
