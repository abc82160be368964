#pragma once

#include <gtest/gtest.h>

#include <string>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

/// The message of the error of this kind that `use` throws.
template <typename Use>
std::string error_of(ErrorKind kind, Use&& use) {
  try {
    use();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace labelshift
