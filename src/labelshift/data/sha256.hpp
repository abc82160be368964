#pragma once

#include <string>

namespace labelshift {

/// The SHA-256 of a file's bytes, unpacked first if it is gzipped, as 64 hexadecimal digits. Throws Error{kInput} if it
/// cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace labelshift
