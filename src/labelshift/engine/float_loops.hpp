#pragma once

#include <span>

namespace labelshift {

/// out = sum / by, both of one length
void divide_to_floats(std::span<const double> sum, double by, std::span<float> out);

bool all_finite(std::span<const float> values);
bool all_finite(std::span<const double> values);

}  // namespace labelshift
