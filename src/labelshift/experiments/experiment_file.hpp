#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "labelshift/experiments/experiment.hpp"

namespace labelshift {

/// Reads a file in TOML: name, title, note, seed or seeds, the tables [data], [model], [training], [ratio] and [run]
/// with the keys of experiment_keys(), and a [[compare]] with a name for each row of a comparison, with whatever
/// differs there. Paths in it are relative to the file.
///
/// Throws Error{kUsage} with file and line for text that is not TOML, for an unknown key (with a suggestion), and for a
/// value that is impossible.
Experiment read_experiment(const std::string& path);

/// The same of a text; `name` is what messages call it, and `folder` is where paths start.
Experiment parse_experiment(const std::string& text, const std::string& name, const std::string& folder);

/// Sets one key from text, such as "training.rounds" to "100", "ratio.method" to "vrls". Throws like
/// read_experiment(), with `place` instead of file and line.
void change_setting(RunSettings& settings, const std::string& key, const std::string& value, const std::string& place);

/// One run with this seed as a file that says every setting, so that it does not depend on defaults; with absolute
/// paths.
std::string write_experiment(const Experiment& experiment, const ComparedRun& run, std::uint64_t seed);

/// The same settings as JSON, tables as objects.
std::string settings_json(const RunSettings& settings);

/// A key that not all of several runs have the same value for.
struct DifferingKey {
  std::string key;                  // "training.rounds"
  std::vector<std::string> values;  // of each run, as they would stand in a file; empty: it is not set there
};
std::vector<DifferingKey> differing_keys(const std::vector<ComparedRun>& runs);

/// A key of an experiment file.
struct ExperimentKey {
  std::string section;
  std::string key;
  std::string expected;  // in words
  std::string summary;
  std::string fallback;  // as it would stand in a file; empty: none
};

/// All keys of the tables, in the order in which they are written. The documentation lists them.
std::vector<ExperimentKey> experiment_keys();

}  // namespace labelshift
