// training_step NET BATCH SECONDS THREADS   prints samples a second, by the clock and by processor time, of training
// steps (gather, normalise, gradient, Adam) on THREADS threads that train a net each.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/net.hpp"
#include "labelshift/learning/optimiser.hpp"
#include "labelshift/learning/training_threads.hpp"

int main(int argc, char** argv) {
  using namespace labelshift;
  using Clock = std::chrono::steady_clock;
  if (argc != 5) return 2;
  const std::string name = argv[1];
  const Index batch = std::atoi(argv[2]);
  const std::chrono::duration<double> wanted(std::atof(argv[3]));
  const int threads = std::atoi(argv[4]);
  use_one_torch_thread();
  keep_freed_memory();

  constexpr Index kExamples = 2048;
  Rng rng(1);
  Dataset data{.shape = name == "resnet18" ? ExampleShape{3, 32, 32} : ExampleShape{1, 28, 28}};
  std::vector<std::uint8_t> values(kExamples * data.shape.size());
  for (auto& value : values) value = static_cast<std::uint8_t>(rng.below(256));
  data.values = std::move(values);
  for (Index i = 0; i < kExamples; ++i) data.labels.push_back(static_cast<int>(rng.below(10)));
  NetSpec spec{.name = name, .shape = data.shape, .classes = 10};
  spec.normalisation.mean.assign(data.shape.channels, 127.5F);
  spec.normalisation.scale.assign(data.shape.channels, 1.0F / 73.9F);

  std::atomic<int> ready = 0;
  std::atomic<std::uint64_t> steps = 0;
  const auto train = [&](std::uint64_t seed) {
    flush_denormals_on_this_thread();
    const auto net = make_net(spec, seed);
    Adam adam(net->parameters().size(), {});
    std::vector<Index> rows(batch);
    Rng order(seed);
    std::uint64_t step = 0;
    const auto take_step = [&] {
      for (Index& row : rows) row = order.below(kExamples);
      net->loss_and_gradient({data, rows, {}}, {.zeta = 1.0}, step++);
      adam.step(net->parameters(), net->gradient());
    };
    for (int warm_up = 0; warm_up < 3; ++warm_up) take_step();
    for (++ready; ready < threads;) std::this_thread::yield();
    const auto start = Clock::now();
    const std::clock_t processor = std::clock();
    std::uint64_t taken = 0;
    for (; Clock::now() - start < wanted; ++taken) take_step();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    const double busy = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC;
    steps += taken;
    if (--ready > 0) return;  // the last one speaks for all
    const auto samples = static_cast<double>(steps * static_cast<std::uint64_t>(batch));
    fmt::print("{:.2f} {:.2f}\n", samples / seconds.count(), samples / busy);
  };
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(train, static_cast<std::uint64_t>(i));
}
