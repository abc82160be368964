#pragma once

#include <optional>

#include "labelshift/federation/federation_settings.hpp"

namespace labelshift {

/// What the step of a theorem is made of.
struct StepFacts {
  double largest_weight = 1.0;                 // r_max; NaN where nodes keep it to themselves
  double compression_variance = 0.0;           // q
  double nodes = 1.0;                          // of a round: K, or as many as are drawn
  std::optional<double> largest_square = 0.0;  // of all training examples, normalised: max |x|^2
  bool whole_batches = false;                  // a node's batch is all its examples, so gradients have no noise
};

/// A step size and what it was made of.
struct TheoremStep {
  double rate = 0.0;
  double largest_weight = 1.0;  // r_max
  double smoothness = 0.0;      // beta
  std::optional<double> noise;  // sigma, where it is known
};

/// The key of an experiment file whose place the step takes.
const char* step_key(const FederationSettings& settings);

/// Whether nodes are to say how large their examples are, from which beta is computed.
bool asks_for_squares(const FederationSettings& settings);

/// The step size of the theorem that is about the algorithm, for a loss of smoothness beta that is weighted by up to
/// r_max. Throws SettingError where r_max or beta is not known.
TheoremStep theorem_step(const FederationSettings& settings, const StepFacts& facts);

/// Whether a batch is all that a node has, whichever of these examples of all nodes it has.
bool takes_whole_batches(const FederationSettings& settings, double examples);

/// Throws SettingError for settings that no theorem is about; once it is known how many examples all nodes have, also
/// for those that the theorem says too little about.
void check_theorem_step(const FederationSettings& settings, Index nodes, std::optional<double> examples = {});

}  // namespace labelshift
