#pragma once

#include "labelshift/core/base/error.hpp"

namespace labelshift::cli {

/// What to type: the only table from remedy to options. It goes on from the message.
const char* advice(Remedy remedy);

}  // namespace labelshift::cli
