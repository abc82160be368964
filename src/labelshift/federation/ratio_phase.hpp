#pragma once

#include "labelshift/federation/conversation.hpp"
#include "labelshift/federation/streams.hpp"

namespace labelshift {

/// What the coordinator learns of the nodes' data when they join.
struct Census {
  std::vector<bool> tested;      // (K) whether a node has test examples
  Index withheld = 0;            // nodes that keep their label mix to themselves
  Eigen::VectorXd holders;       // (m) K_c, how many nodes that take part hold class c
  Eigen::VectorXd pooled_prior;  // (m)
  double examples = 0.0;         // for training, at the nodes that take part
};

/// The net of a choice, for these data.
NetSpec net_spec(const NetChoice& choice, const FederationTask& task, const Normalisation& normalisation);

/// The nodes that train in a round, in ascending order.
std::vector<Index> sample_nodes(const FederationSettings& settings, Stream stream, int round,
                                std::span<const Index> all);

/// Phases 1 and 2 of Alg. 2: afterwards every node has its importance weights, and `state` what was found. With a
/// `mixture` penalty every node has its weight among the nodes instead, see FederatedAlgorithm::mixture_penalty().
void run_ratio_phase(const FederationSettings& settings, const FederationTask& task, const Census& census,
                     std::optional<double> mixture, Conversation& conversation, FederationState& state);

/// The same after `round` rounds of training, with the model in the predictor's place, whose shared weights are given.
/// Only once every node has its new weights is this seen in `state`. Nodes keep them under `round`, so those from
/// before are there as long as nobody is told to train with the new ones.
void refresh_ratios(const FederationSettings& settings, const FederationTask& task, const Census& census,
                    Conversation& conversation, std::vector<float> model, int round, FederationState& state);

/// What there is to say where predicted labels do not bear out estimates at some of so many nodes; `when` they were
/// made.
std::string doubt_of_estimates(Index doubtful, Index nodes, const std::string& when);

}  // namespace labelshift
