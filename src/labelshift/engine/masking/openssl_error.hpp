#pragma once

#include <string>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

/// What OpenSSL says went wrong last on this thread, in its words; its list of errors is empty afterwards.
std::string openssl_reason();

/// Throws Error{kSystem}: a call that fails only if the machine or the library is broken.
[[noreturn]] void openssl_failed(const char* doing);

}  // namespace labelshift
