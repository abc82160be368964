#pragma once

#include <string>
#include <vector>

#include "labelshift/experiments/experiment.hpp"

namespace labelshift {

/// Why a key such as "training.noise" has no effect with these settings; empty: it has one, or none that can be told
/// without the data. What settings refuse has no place here.
std::string why_idle(const std::string& key, const RunSettings& settings);

/// A sentence for every line of an experiment file that no row makes use of, with its place. Rows share what stands
/// above them, so one that makes use of it is enough. Files that a program wrote say every key and have none.
std::vector<std::string> idle_key_notes(const Experiment& experiment);

}  // namespace labelshift
