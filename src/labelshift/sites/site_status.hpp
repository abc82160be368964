#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/engine/engine.hpp"

namespace labelshift {

/// How far a federation between sites is, for whoever watches it.
struct SiteStatus {
  std::string run;   // the name of its folder
  std::string task;  // what nodes are asked for: "train"
  int round = 0;     // of training, that are done
  int rounds = 0;
  Index nodes = 0;
  std::vector<std::string> connected;    // the names of nodes
  std::vector<std::string> waiting_for;  // of those whose answers are not there yet
  std::optional<double> accuracy;        // the mean over nodes after the last evaluation
  bool reweighted = false;               // the accuracy is that of held-out source examples: test data have no labels
  Traffic traffic;                       // since the coordinator started
  std::optional<double> seconds_left;    // of this run, by the rounds so far
};

/// As one line of JSON with its end. `time` is in seconds since 1970.
std::string status_json(const SiteStatus& status, double time);

/// The same in a few words: "round 12 of 200, 3 of 3 nodes, accuracy 0.812, 1.3 MB".
std::string status_text(const SiteStatus& status);

using SiteStatusSink = std::function<void(const SiteStatus& status)>;

}  // namespace labelshift
