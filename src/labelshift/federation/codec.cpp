#include "labelshift/federation/codec.hpp"

#include <fmt/format.h>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/federation/codecs/qsgd.hpp"
#include "labelshift/federation/codecs/random_k.hpp"

namespace labelshift {
namespace {

constexpr CodecEntry kCodecs[] = {kQsgd, kRandomK};

}  // namespace

std::span<const CodecEntry> codecs() {
  return kCodecs;
}

std::unique_ptr<UpdateCodec> make_codec(const CompressionSettings& settings) {
  if (!settings.compressed()) return nullptr;
  return find_entry(kCodecs, "compression", settings.codec, {CompressionSettings().codec}).make(settings);
}

std::vector<float> pack_update(const UpdateCodec& codec, Answer& answer, Index parameters, std::uint64_t seed) {
  std::vector<float> sent(static_cast<std::size_t>(parameters));
  answer.packed = codec.pack(std::span<const float>(answer.weights).first(sent.size()), seed);
  codec.unpack(answer.packed, sent);
  answer.weights.erase(answer.weights.begin(), answer.weights.begin() + parameters);
  return sent;
}

void unpack_update(const UpdateCodec* codec, Answer& answer, Index parameters) {
  if (!codec) {
    if (!answer.packed.empty())
      throw Error(ErrorKind::kPeer,
                  fmt::format("it sent {} bytes of packed weights, expected none: nothing is compressed in this run",
                              answer.packed.size()));
    return;
  }
  std::vector<float> weights(static_cast<std::size_t>(parameters));
  codec->unpack(answer.packed, weights);
  weights.insert(weights.end(), answer.weights.begin(), answer.weights.end());
  answer.weights = std::move(weights);
  answer.packed.clear();
}

double largest_scale(const CompressionSettings& settings, Index values) {
  if (settings.codec != kRandomK.name) return 1.0;
  return RandomK(settings).variance(values) + 1.0;
}

}  // namespace labelshift
