#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "labelshift/engine/message.hpp"
#include "labelshift/federation/federation_settings.hpp"

namespace labelshift {

/// Stands between the parameters of an update and the wire: a node packs, the coordinator unpacks before it checks and
/// adds. Whatever else travels in an answer, statistics of batch norms for one, travels as it is.
///
/// What is unpacked, Q(x), is random with E Q(x) = x and E |Q(x) - x|^2 <= q |x|^2, given that x is finite.
class UpdateCodec {
 public:
  virtual ~UpdateCodec() = default;
  /// Bytes that stand for these values. The seed decides what is random about them.
  virtual Bytes pack(std::span<const float> values, std::uint64_t seed) const = 0;
  /// Throws Error{kPeer} if these bytes do not stand for so many values.
  virtual void unpack(std::span<const std::byte> packed, std::span<float> values) const = 0;
  /// q, for so many values.
  virtual double variance(Index values) const = 0;
};

struct CodecEntry {
  const char* name;
  const char* summary;
  std::unique_ptr<UpdateCodec> (*make)(const CompressionSettings& settings);
};

/// Every codec there is. Help, suggestions and shared tests walk these rows.
std::span<const CodecEntry> codecs();

/// Nothing where nothing is compressed. Throws Error{kUsage} with a suggestion if there is no such codec.
std::unique_ptr<UpdateCodec> make_codec(const CompressionSettings& settings);

/// By how much a codec makes one of so many values larger at most, where it sends it in the place of others that it
/// leaves out.
double largest_scale(const CompressionSettings& settings, Index values);

/// Packs the first `parameters` weights of an answer, and returns what the coordinator will read in their place.
std::vector<float> pack_update(const UpdateCodec& codec, Answer& answer, Index parameters, std::uint64_t seed);

/// Puts so many weights back in front, where there is a codec. Throws Error{kPeer} if what was packed does not stand
/// for them.
void unpack_update(const UpdateCodec* codec, Answer& answer, Index parameters);

}  // namespace labelshift
