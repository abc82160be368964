#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/engine/engine.hpp"

namespace labelshift {

/// Names with commas between them, of which at most so many are said.
std::string some_names(const std::vector<std::string>& names, std::size_t most = 10);

/// How far a federation between sites is, for whoever watches it.
struct SiteStatus {
  std::string run;   // the name of its folder
  std::string task;  // what nodes are asked for: "train"
  int round = 0;     // of training, that are done
  int rounds = 0;
  Index nodes = 0;
  std::vector<std::string> connected;    // the names of nodes
  std::vector<std::string> away;         // of those that may take part and are not connected
  std::vector<std::string> waiting_for;  // of those whose answers are not there yet
  std::optional<double> accuracy;        // the mean over nodes after the last evaluation
  bool reweighted = false;               // the accuracy is that of held-out source examples: test data have no labels
  Traffic traffic;                       // since the coordinator started
  std::optional<double> seconds_left;    // of this run, by the rounds so far
};

/// As one line of JSON with its end. `time` is in seconds since 1970.
std::string status_json(const SiteStatus& status, double time);

/// The same in a line for a terminal: "round 12 of 200; in: a, b, c; away: d; accuracy 0.812; 1.3 MB; 40 s left of this
/// run". Of many nodes only some are named.
std::string status_text(const SiteStatus& status);

using SiteStatusSink = std::function<void(const SiteStatus& status)>;

}  // namespace labelshift
