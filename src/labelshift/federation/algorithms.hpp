#pragma once

#include <span>
#include <string>

#include "labelshift/federation/algorithm.hpp"

namespace labelshift {

/// Every algorithm there is. Help, suggestions and shared tests walk these rows. Every algorithm can have importance
/// weights.
std::span<const AlgorithmEntry> algorithms();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const AlgorithmEntry& find_algorithm(const std::string& name);

/// The row that settings name, or bring.
const AlgorithmEntry& algorithm_of(const FederationSettings& settings);

std::unique_ptr<FederatedAlgorithm> make_algorithm(const AlgorithmSetup& setup);

}  // namespace labelshift
