#pragma once

#include <cstdint>
#include <vector>

#include "labelshift/engine/masking/pairwise_masks.hpp"

namespace labelshift {

/// The tasks of an exchange under masks: its keys, and what is asked for under them. Far from
/// those of the protocol.
inline constexpr std::uint32_t kMaskKeysTask = 2000, kMaskedTask = 2001;

/// A request under masks, as it travels in the body of another, whose weights are its own too.
struct MaskedRequest {
  std::uint32_t task = 0;
  Bytes body;
  MaskedExchange exchange;
  std::vector<MaskOffer> offers;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.task, self.body, self.exchange, self.offers);
  }
};

}  // namespace labelshift
