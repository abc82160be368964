#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "labelshift/engine/in_process/worker_pool.hpp"
#include "labelshift/engine/message.hpp"

// What ranks say to each other. This header needs no MPI.

namespace labelshift {

/// What rank 0 tells all others.
struct MpiCall {
  bool last = false;                                              // there is nothing more to do
  std::uint64_t words = 0, numbers = 0, weights = 0, report = 0;  // AnswerTerms
  std::vector<Addressee> cohort;                                  // the whole of it: ranges are known by who is in it
  Request request;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.last, self.words, self.numbers, self.weights, self.report, self.cohort, self.request);
  }
};

/// What a rank answers.
struct MpiReply {
  std::string broken;  // what went wrong with the rank itself, not with a node
  BlockOutcome outcome;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.broken, self.outcome);
  }
};

}  // namespace labelshift
