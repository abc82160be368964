#pragma once

#include "labelshift/engine/message.hpp"

namespace labelshift {

/// Stands between the parameters of an update and the wire: a node packs, the coordinator unpacks before it checks and
/// adds. Whatever else travels in an answer, statistics of batch norms for one, travels as it is.
class UpdateCodec {
 public:
  virtual ~UpdateCodec() = default;
  /// Takes the first `parameters` weights of an answer out of it and puts in what stands for them.
  virtual void pack(Answer& answer, Index parameters) const = 0;
  /// Puts so many weights back in front. Throws Error{kPeer} if what was packed does not stand for them.
  virtual void unpack(Answer& answer, Index parameters) const = 0;
};

/// Sends parameters as they are.
class IdentityCodec : public UpdateCodec {
 public:
  void pack(Answer&, Index) const override {}
  void unpack(Answer& answer, Index parameters) const override;
};

}  // namespace labelshift
