#include <benchmark/benchmark.h>

#include "labelshift/engine/in_process/in_process_engine.hpp"

// One round of a cohort whose nodes do nothing but answer as many weights as they were sent: what a round costs beside
// training. 5 nodes with 44,000 weights are the LeNet federation, 10 with 7,850 logistic regression on MNIST.

namespace labelshift::bench {
namespace {

class Echo : public NodeProgram {
 public:
  Answer run(const NodeCall& call) override { return {.weights = call.request.weights}; }
};

void BM_Cohort(benchmark::State& state) {
  const auto nodes = static_cast<Index>(state.range(0));
  const auto weights = static_cast<std::size_t>(state.range(1));
  const auto engine = make_in_process_engine(nodes, [] { return std::make_unique<Echo>(); },
                                             {.workers = static_cast<unsigned>(state.range(2))});
  const Request request{.weights = std::vector<float>(weights, 0.5F)};
  std::vector<Addressee> cohort;
  for (Index node = 0; node < nodes; ++node) cohort.push_back({.node = node});
  const AnswerTerms terms{.weights = weights};
  const std::vector<double> expected(weights, 0.5 * static_cast<double>(nodes));
  if (engine->run(request, cohort, terms).sums.weights != expected) return state.SkipWithError("wrong sum");
  const auto watch = [](std::string_view, double) { return true; };
  for (auto _ : state) benchmark::DoNotOptimize(engine->run(request, cohort, terms, {}, watch));
}
// Real time: the caller sleeps while workers work.
BENCHMARK(BM_Cohort)
    ->ArgNames({"nodes", "weights", "workers"})
    ->ArgsProduct({{5}, {1, 44'000}, {1, 2}})
    ->ArgsProduct({{10}, {7'850}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace labelshift::bench
