#pragma once

#include <string>
#include <string_view>

namespace labelshift {

/// The text with all that a terminal could obey instead of show written as \x1b: control characters, and bytes that are
/// no UTF-8. Names of files and classes are anybody's bytes. Those of `keep` stay.
std::string printable(std::string_view text, std::string_view keep = "");

}  // namespace labelshift
