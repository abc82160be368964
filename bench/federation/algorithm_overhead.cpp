// algorithm_overhead [BLOCKS]   prints the processor time of a gradient in a LeNet federation under every algorithm, as
// a ratio to FedAvg's: five nodes, ten local steps of 64 examples, one worker. What an algorithm computes besides
// gradients and messages is in it; a gradient more for each step, as fafed takes, is not.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "bench/federation/random_images.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/node_program.hpp"
#include "labelshift/learning/training_threads.hpp"

namespace {

using namespace labelshift;

constexpr int kRounds = 10;  // of a block
constexpr int kSteps = 10;

FederationSettings settings_of(const std::string& algorithm) {
  FederationSettings settings{.algorithm = algorithm, .rounds = kRounds, .evaluate_every = kRounds};
  settings.local = {.steps = kSteps, .batch = 64, .learning_rate = 0.01};
  settings.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
  if (algorithm == "fedprox") settings.local.proximal = 0.1;
  if (algorithm == "fafed") settings.server.optimiser = "adam";
  if (algorithm == "iw-erm" || algorithm == "fedpals") settings.ratio.method = "true";
  if (algorithm.starts_with("fedcom")) settings.compression.codec = "qsgd";
  if (algorithm == "proxskip") {
    settings.local.steps = 1;
    settings.round_probability = 1.0 / kSteps;
  }
  return settings;
}

/// Gradients that a node computes in a block.
double gradients_of(const FederationSettings& settings) {
  if (settings.algorithm == "fafed") return 1.0 + 2.0 * kSteps * (kRounds - 1);  // the first round has one gradient
  return static_cast<double>(iterations(settings, kRounds));
}

double seconds_a_gradient(const FederationSettings& settings, const FederatedData& data) {
  NodeStore store({.folder = "algorithm-overhead-nodes"});  // never made: all fits into memory
  const auto engine = make_in_process_engine(kBenchNodes, make_node_programs(settings, data, store),
                                             {.workers = 1, .prepare_thread = flush_denormals_on_this_thread});
  double start = 0.0, end = 0.0;
  run_federation(settings, {.shape = data.shape, .class_names = data.class_names}, *engine,
                 {.checkpoint = [&](const FederationMoment& moment) {
                   (moment.round == 0 ? start : end) = processor_seconds();
                   return true;
                 }});
  return (end - start) / gradients_of(settings) / kBenchNodes;
}

}  // namespace

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  use_one_torch_thread();
  keep_freed_memory();
  flush_denormals_on_this_thread();
  const FederatedData data = random_images();
  std::map<std::string, std::vector<double>> ratios;
  for (int block = 0; block < blocks; ++block) {  // in turn: the machine's own speed wanders
    const double plain = seconds_a_gradient(settings_of("fedavg"), data);
    for (const AlgorithmEntry& entry : algorithms())
      ratios[entry.name].push_back(seconds_a_gradient(settings_of(entry.name), data) / plain);
  }
  for (auto& [name, values] : ratios) {
    std::sort(values.begin(), values.end());
    const auto quantile = [&](double q) { return values[static_cast<std::size_t>(q * (blocks - 1))]; };
    fmt::print("{:<11} {:.3f} of fedavg's (median of {} blocks; quartiles {:.3f} and {:.3f})\n", name, quantile(0.5),
               blocks, quantile(0.25), quantile(0.75));
  }
}
