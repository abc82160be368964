#pragma once

#include <string>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// "0", "1", ...: what the classes are called where nothing names them.
std::vector<std::string> numbered_classes(Index classes);

/// Reads one name a line; blank lines at the end are none. Throws Error{kInput} if a name comes twice.
std::vector<std::string> read_class_names(const std::string& path);

}  // namespace labelshift
