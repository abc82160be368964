#pragma once

#include <Eigen/Core>

#include "tests/federation/gaussian_federation.hpp"
#include "tests/federation/reference_federation.hpp"

namespace labelshift::reference {

/// FedAvg of softmax regression in doubles, whole nodes a batch, with offsets (K, m) added to the logits in training;
/// minus infinity leaves a class out. `w` is W by rows, then b.
inline VectorXd averaged_with_offsets(const FederationSettings& settings, const FederatedData& data,
                                      const Normalisation& normal, VectorXd w, const MatrixXd& offsets) {
  const Index m = offsets.cols(), d = data.shape.size();
  for (int round = 0; round < settings.rounds; ++round) {
    VectorXd update = VectorXd::Zero(w.size()), g = update;
    for (std::size_t k = 0; k < data.nodes.size(); ++k) {
      Examples of = examples_of(*data.nodes[k].train, data.nodes[k].train_rows);
      for (Index j = 0; j < d; ++j) of.x.col(j) = (of.x.col(j).array() - normal.mean[j]) * normal.scale[j];
      VectorXd v = w;
      for (int step = 0; step < settings.local.steps; ++step) {
        MatrixXd slope = of.x * v.head(m * d).reshaped<Eigen::RowMajor>(m, d).transpose();
        slope.rowwise() += v.tail(m).transpose() + offsets.row(static_cast<Index>(k));
        for (auto row : slope.rowwise()) row = (row.array() - row.maxCoeff()).exp();
        for (auto row : slope.rowwise()) row /= row.sum();
        for (Index i = 0; i < slope.rows(); ++i) slope(i, of.y[i]) -= 1.0;
        slope /= static_cast<double>(slope.rows());
        g << (slope.transpose() * of.x).reshaped<Eigen::RowMajor>(), slope.colwise().sum().transpose();
        v -= settings.local.learning_rate * g;
      }
      update += (w - v) / static_cast<double>(data.nodes.size());
    }
    w -= settings.server.learning_rate * update;
  }
  return w;
}

}  // namespace labelshift::reference

namespace labelshift {

/// Federations of nodes whose label mixes differ, of which the last lacks a class.
class OffsetFederation : public testing::Test {
 protected:
  explicit OffsetFederation(const char* algorithm)
      : data_(gaussian_federation({{{12, 3, 3}, {3, 9, 3}}, {{3, 12, 6}, {3, 3, 9}}, {{9, 4, 0}, {5, 5, 5}}})),
        settings_(quick_settings()) {
    settings_.algorithm = algorithm;
    settings_.rounds = 5;
    settings_.evaluate_every = 5;
    settings_.local = {.steps = 3, .batch = 64, .learning_rate = 0.3};  // whole nodes
    settings_.server = {.optimiser = "sgd", .learning_rate = 0.8, .weight_decay = 0.0};
  }

  Eigen::MatrixXd counts() const {  // (K, m)
    Eigen::MatrixXd counts(std::ssize(data_.nodes), 3);
    for (std::size_t k = 0; k < data_.nodes.size(); ++k)
      counts.row(static_cast<Index>(k)) =
          reference::counts_of(reference::examples_of(*data_.nodes[k].train, data_.nodes[k].train_rows), 3).transpose();
    return counts;
  }

  void expect_as_reference(const Eigen::MatrixXd& offsets) const {
    LocalFederation federation(settings_, data_);
    Eigen::VectorXd initial;
    const FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                                  if (state.round == 0) initial = doubles(state.parameters);
                                                })});
    const Eigen::VectorXd w =
        reference::averaged_with_offsets(settings_, data_, end.normalisation, std::move(initial), offsets);
    // 15 steps in float32 of weights of size 1: each rounds by 1e-7 or so.
    for (Index i = 0; i < w.size(); ++i) EXPECT_NEAR(end.parameters[i], w[i], 1e-5) << i;
  }

  static Eigen::VectorXd doubles(const std::vector<float>& values) {
    return Eigen::Map<const Eigen::VectorXf>(values.data(), std::ssize(values)).cast<double>();
  }

  FederatedData data_;
  FederationSettings settings_;
};

}  // namespace labelshift
