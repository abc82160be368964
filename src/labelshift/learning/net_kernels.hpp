#pragma once

#include "labelshift/learning/net.hpp"

namespace labelshift {

// What every net does alike, whatever computes its layers.

/// Throws Error{kInput} if the examples are too small for a net of convolutions.
void check_image(const NetSpec& spec);

/// The rows as a net takes them: normalised floats (B, channels, height, width). Throws Error{kInput} if the examples
/// are not of the shape the net was made for.
void gather_input(const NetSpec& spec, const Dataset& data, std::span<const Index> rows, float* out);

/// The loss of a batch given its logits (B, m), without the objective's offsets, and its gradient there. Throws
/// Error{kInput} for a label that is not one of the m classes, or if there are none.
BatchLoss loss_at_logits(const Batch& batch, const Objective& objective, Index classes, const float* logits,
                         float* gradient);

/// 0 with the probability `dropout`, else 1 / (1 - dropout), for each element of a layer: a hash of (noise, layer,
/// element), so it needs no generator and no order.
void dropout_mask(double dropout, std::uint64_t noise, std::uint64_t layer, std::span<float> mask);

}  // namespace labelshift
