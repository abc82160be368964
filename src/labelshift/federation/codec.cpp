#include "labelshift/federation/codec.hpp"

#include <fmt/format.h>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

void IdentityCodec::unpack(Answer& answer, Index) const {
  if (!answer.packed.empty())
    throw Error(ErrorKind::kPeer,
                fmt::format("it sent {} bytes of packed weights, expected none: nothing is compressed in this run",
                            answer.packed.size()));
}

}  // namespace labelshift
