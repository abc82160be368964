#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// FAFED (Wu et al. 2023, Alg. 2; Thm. F.2): local steps along a momentum of reduced variance (STORM), each coordinate
/// in the metric of a matrix A that the server shares:
///
///     x <- x - eta A^-1 m,    m <- g(x_new) + (1 - alpha) (m - g(x_old)),    v <- beta v + (1 - beta) g(x_new)^2,
///
/// both gradients on one batch. In every round the server averages x, m and v, and A = diag(sqrt(v)) + rho. Before the
/// first step there is a round of nothing but gradients, for m = g and v = g^2.
///
/// alpha is 1 - training.beta1, beta is training.beta2 and rho is training.epsilon. With server = "sgd" A is 1.
class FaFed : public FedAvg {
 public:
  explicit FaFed(const AlgorithmSetup& setup);

  MissingNodes when_missing() const override { return MissingNodes::kRepeat; }
  void start(std::vector<float> weights) override;
  void make_request(std::vector<float>& parts) const override;
  void server_update(const TrainingSums<double>& sums) override;
  AlgorithmState save() const override;
  void load(AlgorithmState state) override;
  TaskAnswer<Train> node_update(NodeRound& round) const override;

 private:
  const Index parameters_;       // p
  const bool adaptive_;          // else A = 1 and nobody keeps squares
  std::vector<float> momentum_;  // (p) mean of the nodes' m
  std::vector<float> squares_;   // (p) mean of the nodes' v, or empty
};

void check_fafed(const FederationSettings& settings);

inline constexpr AlgorithmEntry kFaFed{.name = "fafed",
                                       .summary = "local steps with variance reduction and adaptive step sizes",
                                       .make = make_one<FaFed>,
                                       .check = check_fafed};

}  // namespace labelshift
