#pragma once

#include "labelshift/learning/net.hpp"
#include "labelshift/learning/tile_layers.hpp"

namespace labelshift {

// Nets of the processor by hand, beside LibTorch's of the same names: the same tensors, the same first weights and, to
// rounding, the same numbers. A step is several times as fast, and LibTorch need not be loaded.

std::unique_ptr<Net> make_tile_logistic(const NetSpec& spec, std::uint64_t seed,
                                        const TileLayers& layers = best_layers());

/// Throws Error{kInput} for images that are too small.
std::unique_ptr<Net> make_tile_lenet(const NetSpec& spec, std::uint64_t seed, const TileLayers& layers = best_layers());

}  // namespace labelshift
