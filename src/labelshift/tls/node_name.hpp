#pragma once

#include <string>
#include <string_view>

namespace labelshift {

/// What a node may be called: letters, digits, dashes, dots and underscores, 1 to 64 of them, of which the first is a
/// letter or a digit, so that a name is also that of a folder, a word of a command and a line of a log.
bool is_node_name(std::string_view name);

/// Throws Error{kUsage} if it is none.
void check_node_name(const std::string& name);

}  // namespace labelshift
