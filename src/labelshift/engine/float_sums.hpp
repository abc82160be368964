#pragma once

#include <span>
#include <vector>

namespace labelshift {

std::vector<double> as_doubles(std::span<const float> values);

/// sum += values, both of one length
void add_floats(std::span<const float> values, std::span<double> sum);

/// out = sum / by, both of one length
void divide_to_floats(std::span<const double> sum, double by, std::span<float> out);

}  // namespace labelshift
