#pragma once

#include <string>
#include <string_view>

namespace labelshift {

struct Utf8Character;

/// Whether it is shown and nothing else: not the two sets of controls, and not what turns the direction of the text
/// around it or breaks its line.
bool is_shown(const Utf8Character& character);

/// The text with all that a terminal could obey instead of show written as \x1b: control characters, those that turn
/// the direction of writing, and bytes that are no UTF-8. Names of files and classes are anybody's bytes. Those of
/// `keep` stay.
std::string printable(std::string_view text, std::string_view keep = "");

/// The same of JSON, in which they are written as \u001b, so that it says what it said. Line ends stay.
std::string printable_json(std::string_view text);

}  // namespace labelshift
