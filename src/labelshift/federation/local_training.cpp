#include "labelshift/federation/local_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/streams.hpp"

namespace labelshift {
namespace {

struct StepBatch {
  std::vector<Index> rows;
  std::vector<float> weights;
};

void fill(const LocalLoss& loss, std::span<const Index> chosen, StepBatch& batch) {
  batch.rows.clear();
  batch.weights.clear();
  for (const Index i : chosen) {
    const Index row = loss.rows[i];
    batch.rows.push_back(row);
    if (!loss.class_weights.empty()) batch.weights.push_back(loss.class_weights[loss.data.labels[row]]);
  }
}

/// w <- w - rate (g + decay w + mu (w - start) + correction)
void sgd_step(std::span<float> w, std::span<const float> g, std::span<const float> start, const LocalLoss& loss,
              const LocalSettings& settings) {
  const auto rate = static_cast<float>(settings.learning_rate);
  const auto decay = static_cast<float>(settings.weight_decay);
  const auto mu = static_cast<float>(settings.proximal);
  if (loss.correction.empty()) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * (g[i] + decay * w[i] + mu * (w[i] - start[i]));
  } else {
    const float* c = loss.correction.data();
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * (g[i] + decay * w[i] + mu * (w[i] - start[i]) + c[i]);
  }
}

}  // namespace

BatchOrder::BatchOrder(Index examples, std::uint64_t seed)
    : order_(static_cast<std::size_t>(examples)), seed_(stream_seed(seed, TrainingStream::kOrder)) {
  std::iota(order_.begin(), order_.end(), Index{0});
}

std::span<const Index> BatchOrder::draw(Index count) {
  const auto n = static_cast<Index>(order_.size());
  Rng rng(Rng(seed_, orders_)(), static_cast<std::uint64_t>(used_));
  for (Index i = used_; i < used_ + count; ++i) std::swap(order_[i], order_[i + rng.below(n - i)]);
  used_ += count;
  return std::span(order_).subspan(used_ - count, count);
}

std::span<const Index> BatchOrder::next(Index batch) {
  const auto n = static_cast<Index>(order_.size());
  batch = std::min(batch, n);
  if (used_ + batch > n) {
    used_ = 0;
    ++orders_;
  }
  return draw(batch);
}

std::span<const Index> BatchOrder::next_of_epoch(Index batch) {
  const Index left = static_cast<Index>(order_.size()) - used_;
  if (left == 0) {
    used_ = 0;
    ++orders_;
    return {};
  }
  Index count = std::min(batch, left);
  if (left - count == 1) ++count;
  return draw(count);
}

LocalUpdate local_training(Net& net, const LocalLoss& loss, const LocalSettings& settings, std::uint64_t seed,
                           const std::atomic<bool>& cancelled) {
  BatchOrder order(std::ssize(loss.rows), seed);
  const std::uint64_t noise_seed = stream_seed(seed, TrainingStream::kNoise);
  LocalUpdate result;
  StepBatch batch;
  const auto gradient = [&](std::span<const Index> chosen) {
    if (cancelled) throw Stopped{};
    fill(loss, chosen, batch);
    const BatchLoss value = net.loss_and_gradient({loss.data, batch.rows, batch.weights}, {loss.zeta},
                                                  Rng(noise_seed, static_cast<std::uint64_t>(result.steps))());
    if (!std::isfinite(value.objective))
      throw Error(
          ErrorKind::kInput,
          fmt::format("the loss of a batch is {}, expected a finite number; use a smaller learning rate, or look "
                      "for extreme values in the data",
                      std::isnan(value.objective) ? "nan" : fmt::format("{}", value.objective)));
    result.loss += value.objective;
    ++result.steps;
  };
  if (settings.sends_gradient()) {
    gradient(order.next(settings.batch));
    return result;
  }
  const std::vector<float> start(net.parameters().begin(), net.parameters().end());
  if (settings.epochs > 0) {
    for (int epoch = 0; epoch < settings.epochs; ++epoch)
      for (auto chosen = order.next_of_epoch(settings.batch); !chosen.empty();
           chosen = order.next_of_epoch(settings.batch)) {
        gradient(chosen);
        sgd_step(net.parameters(), net.gradient(), start, loss, settings);
      }
  } else {
    for (int step = 0; step < settings.steps; ++step) {
      gradient(order.next(settings.batch));
      sgd_step(net.parameters(), net.gradient(), start, loss, settings);
    }
  }
  result.loss /= static_cast<double>(result.steps);
  result.taken.resize(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) result.taken[i] = start[i] - net.parameters()[i];
  return result;
}

}  // namespace labelshift
