#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "labelshift/engine/masking/mask_primitives.hpp"
#include "labelshift/engine/masking/node_identity.hpp"
#include "labelshift/engine/wire.hpp"

// Masks under which a node's words look random and the sum of all nodes' words is what it would be without them.
// docs/privacy.md says what they are worth. They take two messages:
//
//   1. every node:       MaskKeys keys(identity, exchange);   keys.offer() goes to the coordinator
//   2. the coordinator:  hands the offers of all nodes to every node
//      every node:       PairwiseMasks masks = std::move(keys).agree(offers);
//                        masks.apply(0, words of the first vector);   masks.apply(1, words of the second); ...
//
// Nothing is recovered from a node that falls out: the others' words stay random, and an exchange with another serial
// starts from fresh keys. An answer that is lost on its way is sent again as it was, never masked anew.

namespace labelshift {

/// For whom and what masks are. All nodes have to mean the same, in every field.
struct MaskedExchange {
  std::string run;                 // which run this is
  std::uint64_t serial = 0;        // of the exchange, no two of a run
  std::vector<std::string> nodes;  // the common names of all that take part, in ascending order

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.run, self.serial, self.nodes);
  }
  bool operator==(const MaskedExchange&) const = default;
};

/// A node's public key for one exchange, which only that node can have signed.
struct MaskOffer {
  std::string name;
  Bytes key;                // 32 bytes
  Bytes signature;          // over exchange, name and key
  std::string certificate;  // PEM

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.name, self.key, self.signature, self.certificate);
  }
  bool operator==(const MaskOffer&) const = default;
};

/// What a node shares with every other node of an exchange. It can be moved, not copied, and masks each vector once.
class PairwiseMasks {
 public:
  PairwiseMasks(PairwiseMasks&&) noexcept = default;
  PairwiseMasks& operator=(PairwiseMasks&&) noexcept = default;

  /// Adds the masks of one vector of the exchange, mod 2^64. Every node numbers vectors alike, and they have the same
  /// lengths. Numbers ascend: Error{kPeer} for one that is not above the last, since two vectors under one mask would
  /// show their difference.
  void apply(std::uint64_t vector, std::span<std::uint64_t> words);

 private:
  friend class MaskKeys;
  PairwiseMasks() = default;
  struct Pair {
    MaskSign sign;
    Secret key;
  };
  std::vector<Pair> pairs_;
  std::optional<std::uint64_t> last_;
};

/// Fresh keys for one exchange. agree() uses them up, also where it throws: another attempt needs other keys, and with
/// them another serial.
class MaskKeys {
 public:
  static constexpr std::size_t kFewestNodes = 3;  // of two, each knows the other's words from the sum

  /// Throws Error{kUsage} for fewer nodes than that, and Error{kPeer} for names that are not in ascending order or are
  /// there twice, and for an exchange without this node. `identity` must outlive the keys.
  MaskKeys(const NodeIdentity& identity, MaskedExchange exchange);
  MaskKeys(const MaskKeys&) = delete;
  MaskKeys& operator=(const MaskKeys&) = delete;

  const MaskOffer& offer() const { return offer_; }

  /// `offers` are those of all nodes of the exchange, this one's among them, in any order. Throws Error{kPeer} for a
  /// name that is missing, twice or not of this exchange, for another key in this node's own name, for what
  /// NodeIdentity::verify() refuses, and for points of low order.
  PairwiseMasks agree(const std::vector<MaskOffer>& offers) &&;

 private:
  const NodeIdentity& identity_;
  const MaskedExchange exchange_;
  std::optional<KeyPair> pair_;
  MaskOffer offer_;
};

}  // namespace labelshift
