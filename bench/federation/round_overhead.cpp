// round_overhead [BLOCKS]   prints what share of the processor time of a LeNet federation is not spent in training
// steps: five nodes, batches of 64, one worker, against the same number of gradients and steps of Adam with nothing
// around them, in turn.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "bench/federation/random_images.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/node_program.hpp"
#include "labelshift/federation/server_step.hpp"
#include "labelshift/learning/training_threads.hpp"

namespace {

using namespace labelshift;

constexpr int kRounds = 200;  // of a block

double federation_seconds(const FederatedData& data, int rounds) {
  FederationSettings settings;
  settings.rounds = rounds;
  settings.evaluate_every = rounds;
  NodeStore store({.folder = "round-overhead-nodes"});  // never made: all fits into memory
  const auto engine = make_in_process_engine(kBenchNodes, make_node_programs(settings, data, store),
                                             {.workers = 1, .prepare_thread = flush_denormals_on_this_thread});
  double start = 0.0, end = 0.0;
  run_federation(settings, {.shape = data.shape, .class_names = data.class_names}, *engine,
                 {.progress = [](std::string_view, double) { return true; },
                  .checkpoint =
                      [&](const FederationMoment& moment) {
                        (moment.round == 0 ? start : end) = processor_seconds();
                        return true;
                      }});
  return end - start;
}

double training_seconds(const FederatedData& data, int steps) {
  NetSpec spec{.name = "lenet", .shape = data.shape, .classes = 10, .normalisation = {{127.5F}, {1.0F / 73.9F}}};
  const auto net = make_net(spec, 1);
  std::vector<Index> rows(64);
  Rng order(2);
  ServerStep server(net->parameters().size(), {});
  const double start = processor_seconds();
  for (int step = 0; step < steps; ++step) {
    for (Index& row : rows) row = order.below(kBenchNodes * kExamples);
    net->loss_and_gradient({*data.sets[0], rows, {}}, {}, 0);
    if ((step + 1) % kBenchNodes == 0) server.step(net->parameters(), net->gradient());
  }
  return processor_seconds() - start;
}

}  // namespace

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  use_one_torch_thread();
  keep_freed_memory();
  flush_denormals_on_this_thread();
  const FederatedData data = random_images();
  std::vector<double> shares;
  double whole = 0.0, steps = 0.0;
  for (int block = 0; block < blocks; ++block) {  // short ones: the machine's own speed wanders
    const double federation = federation_seconds(data, kRounds);
    const double training = training_seconds(data, kRounds * static_cast<int>(kBenchNodes));
    shares.push_back(1.0 - training / federation);
    whole += federation;
    steps += training;
  }
  std::sort(shares.begin(), shares.end());
  const auto quantile = [&](double q) { return 100.0 * shares[static_cast<std::size_t>(q * (blocks - 1))]; };
  fmt::print(
      "{} blocks of {} rounds: {:.3f} s, steps alone {:.3f} s; outside of them {:.1f} % (median; quartiles {:.1f} and "
      "{:.1f} %)\n",
      blocks, kRounds, whole, steps, quantile(0.5), quantile(0.25), quantile(0.75));
}
