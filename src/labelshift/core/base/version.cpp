#include "labelshift/core/base/version.hpp"

namespace labelshift {

const char* version() {
  return LABELSHIFT_VERSION;
}

}  // namespace labelshift
