#pragma once

namespace labelshift {

/// The version of the library and of the command, "major.minor.patch".
const char* version();

}  // namespace labelshift
