#include "labelshift/tls/node_name.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kLongestName = 64;  // also the most that a certificate's common name may have

// Not isalnum(), which depends on the locale.
constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view kOthers = "-._";

}  // namespace

bool is_node_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && kFirst.find(name.front()) != kFirst.npos &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return kFirst.find(c) != kFirst.npos || kOthers.find(c) != kOthers.npos; });
}

void check_node_name(const std::string& name) {
  if (!is_node_name(name))
    throw Error(ErrorKind::kUsage,
                fmt::format("the name of a node is {}, expected at most {} letters (a to z), digits, dashes, dots and "
                            "underscores, beginning with a letter or a digit",
                            excerpt(name), kLongestName));
}

}  // namespace labelshift
