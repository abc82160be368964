#include "labelshift/engine/masking/openssl_error.hpp"

#include <fmt/format.h>
#include <openssl/err.h>

namespace labelshift {

std::string openssl_reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  std::string text = reason != nullptr ? reason : "no reason given";
  ERR_clear_error();
  return text;
}

void openssl_failed(const char* doing) {
  throw Error(ErrorKind::kSystem,
              fmt::format("OpenSSL failed at {}: {}; is it installed as a whole, and does this machine have random "
                          "numbers?",
                          doing, openssl_reason()));
}

}  // namespace labelshift
