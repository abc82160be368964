#include "labelshift/core/version.hpp"

namespace labelshift {

const char* version() {
  return LABELSHIFT_VERSION;
}

}  // namespace labelshift
