#pragma once

#include <map>
#include <string>

#include "labelshift/learning/trainer.hpp"

namespace labelshift {

/// Everything that decides the bits of a training, by name; how long it lasts is no part of it. Of the data there is a
/// hash.
using RunDescription = std::map<std::string, std::string>;

RunDescription describe_run(const NetSpec& spec, const TrainingExamples& examples, const TrainingSettings& settings);

/// A hash of these examples and their labels, as text.
std::string fingerprint(const Dataset& data, std::span<const Index> rows, std::span<const float> weights = {});
/// The same of a whole data set and the names of its classes.
std::string fingerprint(const Dataset& data);
/// One of several.
std::string fingerprint(std::span<const std::string> fingerprints);

/// Writes the weights of a net and the state of its training, whole or not at all.
void save_checkpoint(const std::string& path, const RunDescription& run, Net& net, const TrainingState& state);

/// Takes both up again. Throws Error{kUsage} naming what differs if the file is of another run, Error{kInput} if it is
/// no checkpoint, damaged, or of a version that cannot be read.
TrainingState load_checkpoint(const std::string& path, const RunDescription& run, Net& net);

}  // namespace labelshift
