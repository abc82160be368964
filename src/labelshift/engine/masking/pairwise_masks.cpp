#include "labelshift/engine/masking/pairwise_masks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

/// What a node signs. It begins with what it is for, so that the signature is of no use anywhere else, TLS included.
struct Statement {
  std::string purpose = "labelshift key for masks, version 1";
  const MaskedExchange& exchange;
  const std::string& name;
  const Bytes& key;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.purpose, self.exchange, self.name, self.key);
  }
};

/// What the key of a pair's stream is bound to, `low` being the name that comes first.
struct PairFacts {
  std::string purpose = "labelshift masks of a pair, version 1";
  const std::string &low, &high;
  const Bytes &low_key, &high_key;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.purpose, self.low, self.high, self.low_key, self.high_key);
  }
};

Bytes statement_of(const MaskedExchange& exchange, const std::string& name, const Bytes& key) {
  return to_bytes(Statement{.exchange = exchange, .name = name, .key = key});
}

}  // namespace

void PairwiseMasks::apply(std::uint64_t vector, std::span<std::uint64_t> words) {
  if (last_ && vector <= *last_)
    throw Error(ErrorKind::kPeer,
                fmt::format("vector {} of an exchange was asked for after vector {}: no mask is used twice; start the "
                            "phase again",
                            vector, *last_));
  if (pairs_.empty()) throw std::logic_error("masks were moved away, and words would go out as they are");
  last_ = vector;
  for (const Pair& pair : pairs_) add_stream(pair.key, vector, pair.sign, words);
}

MaskKeys::MaskKeys(const NodeIdentity& identity, MaskedExchange exchange)
    : identity_(identity), exchange_(std::move(exchange)) {
  const std::vector<std::string>& nodes = exchange_.nodes;
  if (nodes.size() < kFewestNodes)
    throw Error(ErrorKind::kUsage, fmt::format("masks need {} nodes or more, and there are {}: with fewer a node could "
                                               "take its own numbers off the sum and know another's",
                                               kFewestNodes, nodes.size()));
  for (std::size_t i = 1; i < nodes.size(); ++i)
    if (!(nodes[i - 1] < nodes[i]))
      throw Error(ErrorKind::kPeer, fmt::format("the nodes of an exchange have {} after {}, expected ascending names, "
                                                "each once",
                                                nodes[i], nodes[i - 1]));
  if (!std::binary_search(nodes.begin(), nodes.end(), identity_.name()))
    throw Error(ErrorKind::kPeer, fmt::format("{} is not among the nodes of an exchange", identity_.name()));
  pair_.emplace();
  const PublicKey key = pair_->public_key();
  offer_ = {.name = identity_.name(), .key = {key.begin(), key.end()}, .certificate = identity_.certificate()};
  offer_.signature = identity_.sign(statement_of(exchange_, offer_.name, offer_.key));
}

PairwiseMasks MaskKeys::agree(const std::vector<MaskOffer>& offers) && {
  if (!pair_) throw std::logic_error("the keys of an exchange were used for another");
  const std::optional<KeyPair> pair = std::exchange(pair_, std::nullopt);
  std::set<std::string> seen;
  for (const MaskOffer& offer : offers) {
    if (!std::binary_search(exchange_.nodes.begin(), exchange_.nodes.end(), offer.name))
      throw Error(ErrorKind::kPeer, fmt::format("there is a key of {}, who is no node of the exchange", offer.name));
    if (!seen.insert(offer.name).second)
      throw Error(ErrorKind::kPeer, fmt::format("there are two keys of {}", offer.name));
  }
  for (const std::string& name : exchange_.nodes)
    if (!seen.contains(name)) throw Error(ErrorKind::kPeer, fmt::format("the key of {} is missing", name));
  const Bytes salt = to_bytes(exchange_);
  PairwiseMasks masks;
  for (const MaskOffer& offer : offers) {
    if (offer.name == offer_.name) {
      if (offer.key != offer_.key)
        throw Error(ErrorKind::kPeer, fmt::format("there is a key of {} that it did not send", offer.name));
      continue;
    }
    PublicKey key;
    if (offer.key.size() != key.size())
      throw Error(ErrorKind::kPeer,
                  fmt::format("the key of {} has {} bytes, expected {}", offer.name, offer.key.size(), key.size()));
    identity_.verify(offer.name, offer.certificate, statement_of(exchange_, offer.name, offer.key), offer.signature);
    std::copy(offer.key.begin(), offer.key.end(), key.begin());
    // The stream of a pair is added by the one and subtracted by the other.
    const bool first = offer_.name < offer.name;
    const MaskOffer& low = first ? offer_ : offer;
    const MaskOffer& high = first ? offer : offer_;
    const Bytes info =
        to_bytes(PairFacts{.low = low.name, .high = high.name, .low_key = low.key, .high_key = high.key});
    masks.pairs_.push_back(
        {first ? MaskSign::kAdd : MaskSign::kSubtract, derive_key(pair->shared_with(key).bytes(), salt, info)});
  }
  return masks;
}

}  // namespace labelshift
