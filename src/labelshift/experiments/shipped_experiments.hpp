#pragma once

#include <span>
#include <string>

#include "labelshift/experiments/experiment_file.hpp"

namespace labelshift {

/// An experiment file of this repository's experiments/.
struct ShippedExperiment {
  const char* name;
  const char* text;
};

/// All of them.
std::span<const ShippedExperiment> shipped_experiments();

/// The one of this name. Throws Error{kUsage} with a suggestion if there is none.
Experiment shipped_experiment(const std::string& name);

}  // namespace labelshift
