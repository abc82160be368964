#pragma once

#include <cstdint>
#include <string>

#include "labelshift/engine/tasks.hpp"

namespace labelshift {

/// What the coordinator announces to every node: which run this is, and its settings. A node sees it before it is asked
/// anything.
struct RunCard {
  std::string run;       // which run this is; at most kMostRunBytes
  std::string settings;  // as text that coordinator and nodes agree upon; at most kMostSettingsBytes
  std::uint32_t protocol = kProtocolVersion;

  bool operator==(const RunCard&) const = default;
};

inline constexpr std::size_t kMostRunBytes = 128;
inline constexpr std::size_t kMostSettingsBytes = std::size_t{1} << 18;

}  // namespace labelshift
