#pragma once

#include <cstdint>

namespace labelshift {

/// What a seed is mixed with for each use of it, so that no two uses draw the same numbers: two kinds of split with one
/// seed must not pick the same rows.
inline constexpr std::uint64_t kPartSalt = 0x70617274;  // a split into parts
inline constexpr std::uint64_t kNodeSalt = 0x6e6f6465;  // the nodes that examples go to
inline constexpr std::uint64_t kMixSalt = 0x6d697865;   // test mixes of a node table, which have no other seed
inline constexpr std::uint64_t kBlurSalt = 0x626c7572;  // augmentation of rows, which the same seed may have split

}  // namespace labelshift
