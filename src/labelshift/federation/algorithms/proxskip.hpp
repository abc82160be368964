#pragma once

#include "labelshift/federation/algorithms/fedavg.hpp"

namespace labelshift {

/// ProxSkip (Mishchenko et al. 2022, Alg. 1; Thm. F.3): after a step of its own a node talks to the others with
/// probability p, so that a round has a random number of steps, the same at every node:
///
///     x_k <- x_k - gamma (g_k(x_k) - h_k)                                  in every step
///     v_k = x_k - (gamma / p) h_k
///     w <- prox_{(gamma / p) R} (mean_k v_k), x_k <- w, h_k <- (p / gamma) (w - v_k)    in every round
///
/// The last is h_k + (p / gamma) (w - x_k) of the paper. With R = 0 the h_k add up to 0, which needs everybody in every
/// round. v_k is what the server read of it, so a codec that rounds leaves the sum of the h_k as it is.
class ProxSkip : public FedAvg {
 public:
  explicit ProxSkip(const AlgorithmSetup& setup);

  bool has_memory() const override { return true; }
  MissingNodes when_missing() const override { return MissingNodes::kRepeat; }
  std::vector<std::string> warnings() const override;
  void node_settle(NodeRound& round) const override;
  TaskAnswer<Train> node_update(NodeRound& round) const override;
  void node_sent(NodeRound& round, std::span<const float> update) const override;

 protected:
  LocalSettings local(const NodeRound& round) const override;
  double proximal_step() const override;
};

void check_proxskip(const FederationSettings& settings);
std::uint32_t draw_proxskip_steps(const FederationSettings& settings, std::uint64_t round);

inline constexpr AlgorithmEntry kProxSkip{
    .name = "proxskip",
    .summary = "local steps that skip the round, and its proximal step, by chance",
    .make = make_one<ProxSkip>,
    .check = check_proxskip,
    .draw_steps = draw_proxskip_steps};

}  // namespace labelshift
