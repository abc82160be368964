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

LocalGradients::LocalGradients(Net& net, const LocalLoss& loss, std::uint64_t seed, const std::atomic<bool>& cancelled)
    : net_(net),
      loss_(loss),
      cancelled_(cancelled),
      order_(std::ssize(loss.rows), seed),
      noise_seed_(stream_seed(seed, TrainingStream::kNoise)) {}

double LocalGradients::next(Index batch) {
  return take(order_.next(batch));
}

std::optional<double> LocalGradients::next_of_epoch(Index batch) {
  const std::span<const Index> chosen = order_.next_of_epoch(batch);
  if (chosen.empty()) return std::nullopt;
  return take(chosen);
}

double LocalGradients::take(std::span<const Index> chosen) {
  rows_.clear();
  weights_.clear();
  for (const Index i : chosen) {
    const Index row = loss_.rows[i];
    rows_.push_back(row);
    if (!loss_.class_weights.empty()) weights_.push_back(loss_.class_weights[loss_.data.labels[row]]);
  }
  ++batches_;
  return again();
}

double LocalGradients::again() {
  if (cancelled_) throw Stopped{};
  const BatchLoss value = net_.loss_and_gradient({loss_.data, rows_, weights_}, {loss_.zeta, loss_.offsets},
                                                 Rng(noise_seed_, batches_ - 1)());
  if (!std::isfinite(value.objective))
    throw Error(ErrorKind::kInput,
                fmt::format("the loss of a batch is {}, expected a finite number; use a smaller learning rate, or look "
                            "for extreme values in the data",
                            std::isnan(value.objective) ? "nan" : fmt::format("{}", value.objective)));
  return value.objective;
}

LocalUpdate local_training(Net& net, const LocalLoss& loss, const LocalSettings& settings, std::uint64_t seed,
                           const std::atomic<bool>& cancelled) {
  LocalGradients gradients(net, loss, seed, cancelled);
  if (settings.sends_gradient()) {
    const double value = gradients.next(settings.batch);
    return {.taken = {}, .loss = value, .steps = 1};
  }
  LocalUpdate result;
  const std::vector<float> start(net.parameters().begin(), net.parameters().end());
  const auto step = [&](double value) {
    sgd_step(net.parameters(), net.gradient(), start, loss, settings);
    result.loss += value;
    ++result.steps;
  };
  if (settings.epochs > 0) {
    for (int epoch = 0; epoch < settings.epochs; ++epoch)
      while (const auto value = gradients.next_of_epoch(settings.batch)) step(*value);
  } else {
    for (int i = 0; i < settings.steps; ++i) step(gradients.next(settings.batch));
  }
  result.loss /= static_cast<double>(result.steps);
  result.taken.resize(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) result.taken[i] = start[i] - net.parameters()[i];
  return result;
}

}  // namespace labelshift
