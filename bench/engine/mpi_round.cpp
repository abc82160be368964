// mpirun -n RANKS mpi_round   prints what a round costs over MPI without any training: the median time of a call of the
// engine against the number of nodes and the size of the model. docs/engines.md has the constants.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "labelshift/engine/mpi/mpi_engine.hpp"

namespace {

using namespace labelshift;

/// Sends back the weights that it got.
class Echo : public NodeProgram {
 public:
  Answer run(const NodeCall& call) override { return {.numbers = {1.0}, .weights = call.request.weights}; }
};

double median_milliseconds(Engine& engine, Index nodes, std::size_t weights) {
  const Request request{.task = 1, .round = 1, .weights = std::vector<float>(weights, 0.5F)};
  std::vector<Addressee> cohort;
  for (Index node = 0; node < nodes; ++node) cohort.push_back({.node = node});
  std::vector<double> times;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (times.size() < 5 || (times.size() < 500 && std::chrono::steady_clock::now() < end)) {
    const auto start = std::chrono::steady_clock::now();
    engine.run(request, cohort, {.numbers = 1, .weights = weights});
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  MpiContext mpi;
  for (const Index nodes : {5, 100, 1000}) {
    const NodeProgramFactory programs = [] { return std::make_unique<Echo>(); };
    if (mpi.rank() > 0) {
      serve_mpi(mpi, nodes, programs, {});
      continue;
    }
    const auto engine = make_mpi_engine(mpi, nodes, programs);
    for (const std::size_t weights : {1000u, 44'000u, 1'000'000u})
      if (static_cast<double>(nodes) * static_cast<double>(weights) <= 1e8)
        fmt::print("{} ranks, {:4} nodes, {:7} weights: {:8.3f} ms a round\n", mpi.ranks(), nodes, weights,
                   median_milliseconds(*engine, nodes, weights));
  }
  mpi.finish(std::chrono::minutes(1));
}
