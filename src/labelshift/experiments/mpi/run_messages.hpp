#pragma once

#include <string>
#include <vector>

#include "labelshift/federation/federated_data.hpp"

namespace labelshift {

// What rank 0 says between runs, and what the others answer: NextRun, then FoundData from each, then AllData, then
// StartRun unless AllData says that something was wrong. After a StartRun the ranks serve the engine until it is
// destroyed; then comes the next NextRun.

struct NextRun {
  bool last = false;          // there is no other run
  std::string settings_file;  // of the run

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.last, self.settings_file);
  }
};

struct FoundData {
  std::string broken;            // what is wrong with this rank's data; empty: nothing
  std::vector<DataFacts> facts;  // of its nodes

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.broken, self.facts);
  }
};

struct AllData {
  bool broken = false;
  std::vector<DataFacts> facts;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.broken, self.facts);
  }
};

struct StartRun {
  bool go = false;
  double source_holdout = 0.0;  // which depends on whether test data have labels

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.go, self.source_holdout);
  }
};

}  // namespace labelshift
