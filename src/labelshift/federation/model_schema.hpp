#pragma once

#include <string>

#include "labelshift/federation/algorithm.hpp"

namespace labelshift {

/// What a model's weights and an algorithm's messages are made of, in words, for a handshake: two sides that say the
/// same mean the same numbers.
std::string model_schema(const Net& net, const FederatedAlgorithm& algorithm);

/// Whether the weights of one net can be those of the other.
bool have_same_tensors(const Net& one, const Net& other);

}  // namespace labelshift
