#pragma once

#include <string>

namespace labelshift {

/// "permission denied": what the C library says of an errno, to be the middle of a sentence.
std::string errno_text(int error);

}  // namespace labelshift
