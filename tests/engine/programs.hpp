#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/engine.hpp"

// What nodes of these tests do, in their own process or another.

namespace labelshift {

using Work = std::function<Answer(const NodeCall& call)>;

class FunctionProgram : public NodeProgram {
 public:
  explicit FunctionProgram(Work work) : work_(std::move(work)) {}
  Answer run(const NodeCall& call) override { return work_(call); }

 private:
  Work work_;
};

inline NodeProgramFactory programs(const Work& work) {
  return [work] { return std::make_unique<FunctionProgram>(work); };
}

/// Numbers of very different size, so that their sum depends on its order, and words of which every sum wraps around.
inline Answer rough_answer(const NodeCall& call) {
  Rng rng(call.request.round, static_cast<std::uint64_t>(call.to.node));
  Answer answer;
  for (int i = 0; i < 10; ++i) answer.words.push_back(rng() | std::uint64_t{1} << 63);
  for (int i = 0; i < 20; ++i) answer.numbers.push_back(std::exp(20.0 * rng.normal()));
  for (const float weight : call.request.weights)
    answer.weights.push_back(weight * static_cast<float>(rng.normal() * std::exp(10.0 * rng.normal())));
  answer.report = call.to.own;
  return answer;
}

inline std::vector<Addressee> cohort_of(const std::vector<Index>& nodes) {
  std::vector<Addressee> cohort;
  for (const Index node : nodes) cohort.push_back({.node = node, .own = Bytes(static_cast<std::size_t>(node))});
  return cohort;
}

inline std::vector<Addressee> first(Index count) {
  std::vector<Index> nodes;
  for (Index node = 0; node < count; ++node) nodes.push_back(node);
  return cohort_of(nodes);
}

inline const Request kRequest{.task = 3, .round = 5, .body = Bytes(20), .weights = std::vector<float>(300, 0.5F)};
inline const AnswerTerms kTerms{.words = 10, .numbers = 20, .weights = 300, .report = 2000};

}  // namespace labelshift
