#include "labelshift/learning/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/streams.hpp"

namespace labelshift {
namespace {

/// 0, ..., n - 1 in the order of an epoch.
std::vector<Index> shuffled(Index n, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) order[i] = i;
  Rng rng(stream_seed(seed, TrainingStream::kOrder), epoch);
  for (Index i = n - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
  return order;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

/// A NaN has a sign that says nothing.
[[noreturn]] void diverged(const char* what, double found, std::int64_t step, std::size_t epoch) {
  throw Error(ErrorKind::kInput,
              fmt::format("training step {} (epoch {}): {} {}, expected a finite number; use a smaller "
                          "learning rate, or look for extreme values in the data",
                          step, epoch, what, std::isnan(found) ? "nan" : fmt::format("{}", found)));
}

/// The examples that a step takes, copied out of the order of the epoch.
struct StepBatch {
  std::vector<Index> rows;
  std::vector<float> weights;
};

void fill(const TrainingExamples& examples, std::span<const Index> chosen, StepBatch& batch) {
  batch.rows.clear();
  batch.weights.clear();
  for (const Index i : chosen) {
    batch.rows.push_back(examples.rows[i]);
    if (!examples.weights.empty()) batch.weights.push_back(examples.weights[i]);
  }
}

}  // namespace

TrainingResult train_predictor(Net& net, const TrainingExamples& examples, const TrainingSettings& settings,
                               const TrainingHooks& hooks, TrainingState start) {
  assert(examples.weights.empty() || examples.weights.size() == examples.rows.size());
  const auto n = static_cast<Index>(examples.rows.size());
  if (n == 0) throw Error(ErrorKind::kInput, "there are no examples to train on");
  Adam adam(net.parameters().size(), settings.adam);
  if (!start.cross_entropy.empty()) adam.restore(std::move(start.adam));
  TrainingResult result{.state = {.cross_entropy = std::move(start.cross_entropy)}};
  std::vector<double>& losses = result.state.cross_entropy;
  const auto below = [&] { return !losses.empty() && losses.back() < settings.stop_below; };
  const std::uint64_t noise_seed = stream_seed(settings.seed, TrainingStream::kNoise);
  StepBatch batch;
  while (std::ssize(losses) < settings.epochs && !below()) {
    const std::size_t epoch = losses.size() + 1;
    const std::vector<Index> order = shuffled(n, settings.seed, epoch);
    double sum = 0.0;
    for (Index first = 0, count = 0; first < n; first += count) {
      count = std::min(settings.batch, n - first);
      if (n - first - count == 1) ++count;  // one example alone has no variance for a batch norm
      fill(examples, std::span(order).subspan(first, count), batch);
      const std::int64_t step = adam.state().steps + 1;
      const BatchLoss loss = net.loss_and_gradient({examples.data, batch.rows, batch.weights}, {settings.zeta},
                                                   Rng(noise_seed, static_cast<std::uint64_t>(step))());
      if (!std::isfinite(loss.objective)) diverged("the loss is", loss.objective, step, epoch);
      adam.step(net.parameters(), net.gradient());
      sum += loss.cross_entropy * static_cast<double>(count);
      const double done = static_cast<double>(epoch - 1) + static_cast<double>(first + count) / static_cast<double>(n);
      tell(hooks.progress, "training", done / settings.epochs);
    }
    // The last step's loss was that of the weights before it.
    if (!all_finite(net.parameters()) || !all_finite(net.buffers()))
      diverged("a weight is", std::nan(""), adam.state().steps, epoch);
    losses.push_back(sum / static_cast<double>(n));
    if (hooks.epoch) {
      result.state.adam = adam.state();
      hooks.epoch(result.state);
    }
  }
  result.state.adam = adam.state();
  result.stopped_by = below() ? TrainingStop::kThreshold : TrainingStop::kEpochs;
  return result;
}

AdamSettings adam_settings_for(const std::string& net) {
  return net == "resnet18" ? AdamSettings{.learning_rate = 1e-4, .weight_decay = 1e-4} : AdamSettings{};
}

}  // namespace labelshift
