#pragma once

#include "labelshift/engine/wire.hpp"

namespace labelshift {

// All that ever travels between the coordinator and a node, in a form that does not depend on the engine, so that bytes
// counted in one process are the bytes of a network. What the fields of a body or a report mean is between coordinator
// and node (engine/task.hpp); an engine does not look into them.

/// What the coordinator asks of a cohort.
struct Request {
  std::uint32_t task = 0;
  std::uint64_t round = 0;
  Bytes body;
  std::vector<float> weights;  // apart from the body, since they are large and nobody should copy them

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.task, self.round, self.body, self.weights);
  }
  bool operator==(const Request&) const = default;
};

/// A node of a cohort, and what it alone is told.
struct Addressee {
  Index node = 0;
  std::uint64_t counted = 0;  // the last round whose answer of this node counts; 0: none
  std::uint64_t durable = 0;  // the last of these that the coordinator cannot forget any more
  Bytes own;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.node, self.counted, self.durable, self.own);
  }
  bool operator==(const Addressee&) const = default;
};

/// What a node answers.
struct Answer {
  std::vector<std::uint64_t> words;  // added up over the cohort mod 2^64 (engine/fixed_point.hpp); may be masked
  std::vector<double> numbers;       // added up over the cohort; nobody looks at those of a single node
  std::vector<float> weights;        // the same
  Bytes packed;                      // further weights, as a codec packed them; empty without one
  Bytes report;                      // shown as it is: what a node agrees to disclose about itself

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.words, self.numbers, self.weights, self.packed, self.report);
  }
  bool operator==(const Answer&) const = default;
};

/// The number of bytes that to_bytes() makes.
inline std::uint64_t encoded_size(const Request& request) {
  return 28 + request.body.size() + request.weights.size() * sizeof(float);
}
inline std::uint64_t encoded_size(const Addressee& to) {
  return 32 + to.own.size();
}
inline std::uint64_t encoded_size(const Answer& answer) {
  return 40 + answer.words.size() * sizeof(std::uint64_t) + answer.numbers.size() * sizeof(double) +
         answer.weights.size() * sizeof(float) + answer.packed.size() + answer.report.size();
}

}  // namespace labelshift
