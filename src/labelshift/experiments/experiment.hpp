#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/federation/federated_data.hpp"
#include "labelshift/federation/federation_settings.hpp"

namespace labelshift {

/// All that one federation is made from. Its seed is federation.seed.
struct RunSettings {
  DataSettings data;
  FederationSettings federation;
  int checkpoint_every = 500;  // rounds; the only setting that changes no result
};

/// Candidates for one setting, as they would stand in a file.
struct TunedSetting {
  std::string key;  // "training.learning-rate"
  std::vector<std::string> values;
};

/// What the paper reports.
struct PaperFigure {
  std::optional<double> accuracy;
  std::optional<double> deviation;
  std::vector<double> nodes;  // (K) or empty
};

/// A row of a comparison.
struct ComparedRun {
  std::string name;
  std::string place;                          // where it stands and which row it is, for messages
  std::map<std::string, std::string> places;  // where keys were given, "training.rounds"
  std::string row;                            // which row this is, for messages; empty: there is one
  RunSettings settings;
  PaperFigure paper;
  std::vector<TunedSetting> tune;  // every combination is tried on kTuningSeed, and the best is kept

  /// Where a key was given and of which row, or else where the row stands.
  std::string place_of(const std::string& key) const;

  /// The name in letters that any folder may have.
  std::string folder_name() const;
};

/// No result is reported for this seed: settings are tuned on it.
inline constexpr std::uint64_t kTuningSeed = 1000;

/// A comparison of one or more federations over one or more seeds.
struct Experiment {
  std::string name;     // of its folder
  std::string title;    // in words
  std::string note;     // to be said with its results
  std::string claim;    // of a paper, that it tests
  std::string version;  // of the program that wrote the file; empty: a person did
  std::vector<std::uint64_t> seeds{0};
  int report_node = 0;  // 1, ..., K: the accuracy of this node is what is compared; 0: the average over all
  std::vector<ComparedRun> runs;
};

}  // namespace labelshift
