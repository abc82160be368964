#pragma once

#include <cmath>
#include <functional>
#include <numeric>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/learning/net.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {

/// Logistic regression written out, as a stand-in for the nets: no LibTorch, and every call can be watched. Its
/// gradient is shaken by the noise of the step and by a buffer that counts steps, so that a state which is not restored
/// shows in the weights.
class SoftmaxNet : public Net {
 public:
  explicit SoftmaxNet(NetSpec spec) : spec_(std::move(spec)) {
    const Index m = spec_.classes;
    const Index d = spec_.shape.size();
    parameters_.resize(static_cast<std::size_t>(m * d + m));
    gradient_.resize(parameters_.size());
    tensors_ = {{.name = "weight", .shape = {m, d}, .offset = 0},
                {.name = "bias", .shape = {m}, .offset = m * d},
                {.name = "steps", .shape = {1}, .offset = 0, .buffer = true}};
  }
  explicit SoftmaxNet(const Dataset& data)
      : SoftmaxNet(NetSpec{.name = "softmax", .shape = data.shape, .classes = data.classes()}) {}

  const NetSpec& spec() const override { return spec_; }
  std::span<const TensorPlace> tensors() const override { return tensors_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> buffers() override { return buffers_; }
  std::span<const float> gradient() const override { return gradient_; }

  BatchLoss loss_and_gradient(const Batch& batch, const Objective& objective, std::uint64_t noise) override {
    if (watch) watch(batch);
    const Index m = spec_.classes;
    const Index d = spec_.shape.size();
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    std::vector<float> z(static_cast<std::size_t>(m));
    BatchLoss loss;
    const auto size = static_cast<double>(batch.rows.size());
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      const Index row = batch.rows[i];
      logits(batch.data, batch.rows.subspan(i, 1), z);
      const double scale = (batch.weights.empty() ? 1.0 : batch.weights[i]) / size;
      double total = 0.0;
      for (const float value : z) total += std::exp(value);
      double omega = 0.0;
      for (const float value : z) omega += std::exp(value) / total * (value - std::log(total));
      const int y = batch.data.labels[row];
      loss.cross_entropy += scale * (std::log(total) - z[y]);
      loss.objective += scale * (std::log(total) - z[y] + objective.zeta * omega);
      for (Index c = 0; c < m; ++c) {
        const double p = std::exp(z[c]) / total;
        const double slope = scale * (p - (c == y ? 1.0 : 0.0) + objective.zeta * p * (z[c] - std::log(total) - omega));
        for (Index j = 0; j < d; ++j) gradient_[c * d + j] += static_cast<float>(slope * feature(batch.data, row, j));
        gradient_[m * d + c] += static_cast<float>(slope);
      }
    }
    buffers_[0] += 1.0F;
    gradient_[0] += static_cast<float>(1e-3 * Rng(noise).normal()) + 1e-5F * buffers_[0];
    return loss;
  }

  void logits(const Dataset& data, std::span<const Index> rows, std::span<float> out) override {
    const Index m = spec_.classes;
    const Index d = spec_.shape.size();
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (Index c = 0; c < m; ++c) {
        float z = parameters_[m * d + c];
        for (Index j = 0; j < d; ++j) z += parameters_[c * d + j] * feature(data, rows[i], j);
        out[i * static_cast<std::size_t>(m) + static_cast<std::size_t>(c)] = z;
      }
  }

  std::function<void(const Batch& batch)> watch;  // sees every batch that is trained on

 private:
  static float feature(const Dataset& data, Index row, Index j) {
    return std::get<std::vector<float>>(data.values)[row * data.shape.size() + j];
  }
  NetSpec spec_;
  std::vector<TensorPlace> tensors_;
  std::vector<float> parameters_, gradient_, buffers_ = {0.0F};
};

/// Gaussian classes in the plane (tests/core/gaussian_problem.hpp) as a data set.
inline Dataset gaussian_data(Index rows, std::uint64_t seed,
                             const Eigen::VectorXd& prior = Eigen::Vector3d::Constant(1.0 / 3)) {
  Rng rng(seed);
  const GaussianSample sample = GaussianProblem{.source_prior = prior}.sample(rows, prior, rng);
  Dataset data{.shape = {1, 1, 2}, .labels = sample.labels};
  std::vector<float> values;
  for (Index i = 0; i < rows; ++i)
    for (const Index j : {0, 1}) values.push_back(static_cast<float>(sample.features(i, j)));
  data.values = std::move(values);
  for (Index c = 0; c < prior.size(); ++c) data.class_names.push_back(std::string(1, static_cast<char>('a' + c)));
  return data;
}

}  // namespace labelshift
