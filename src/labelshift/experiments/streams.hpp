#pragma once

#include <cstdint>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/core/base/rng.hpp"

namespace labelshift {

/// What the seed of a study is used for. These numbers are part of every result: other ones are other draws.

/// Trials of density-ratio estimation: apart from the streams that predictors draw from.
inline constexpr std::uint64_t kTrialStreams = 0x7472'6961'6c73'0000;

/// The seed of a run of a convergence study, by the run's number.
inline std::uint64_t run_seed(std::uint64_t seed, int number) {
  return Rng(seed, static_cast<std::uint64_t>(number))();
}

/// What a node of such a run draws its examples with.
inline Rng node_draws(std::uint64_t seed_of_run, Index node) {
  return Rng(seed_of_run, static_cast<std::uint64_t>(node));
}

}  // namespace labelshift
