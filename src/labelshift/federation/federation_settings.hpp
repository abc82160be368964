#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "labelshift/engine/engine.hpp"
#include "labelshift/federation/server_step.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {

struct AlgorithmEntry;

/// A net by name, before it knows the data.
struct NetChoice {
  std::string name;                             // a row of nets(), or the path of a TorchScript file
  std::map<std::string, std::string> settings;  // such as "width"
};

/// What a node does in a round.
struct LocalSettings {
  int steps = 1;               // tau, stochastic gradients; with 1 the gradient itself is sent
  int epochs = 0;              // passes over the node's examples, instead of `steps`
  Index batch = 64;            // examples of a stochastic gradient
  double learning_rate = 0.1;  // of the node's own SGD: where it takes more than one step, and of FedBN's batch norms
  double weight_decay = 0.0;   // of the node's own SGD
  double proximal = 0.0;       // mu of FedProx

  bool always_steps = false;  // also where there is one step: never sends the gradient in its place

  bool sends_gradient() const { return steps == 1 && epochs == 0 && !always_steps; }

  /// T = tau R, the stochastic gradients of a node in R rounds, where a round has `steps` of them.
  std::int64_t iterations(int rounds) const { return std::int64_t{steps} * rounds; }
  /// R of T, rounded down.
  int rounds(std::int64_t iterations) const { return static_cast<int>(iterations / steps); }
};

enum class PredictorScope { kLocal, kFederated };
enum class RatioExchange { kLocal, kPairwise };

/// How nodes weigh: each the same, or by its number of examples. With importance weights the first is Eq. (1),
/// (sum_j q_j) / p_k^tr; the second divides by the pooled prior sum_k (n_k / n) p_k^tr instead.
enum class Weighting { kNodes, kPooled };

/// Phase 1 and 2 of Alg. 2.
struct RatioSettings {
  std::string method = "none";  // a row of methods(), "true" or "none"
  PredictorScope predictor = PredictorScope::kLocal;
  RatioExchange exchange = RatioExchange::kLocal;
  NetChoice net{"mlp", {}};
  double fraction = 1.0;    // of a node's training examples that its predictor sees; stratified
  double held_out = 0.2;    // of these, for calibration and confusion matrices where the method has any
  int epochs = 15;          // of a local predictor
  double stop_below = 0.0;  // cross-entropy at which its training ends
  int rounds = 1000;        // of a federated predictor
  double learning_rate = 1e-3;
  double weight_decay = 1e-6;
  std::optional<double> max_ratio;  // importance weights are cut there
  int goal_node = 0;                // 1, ..., K: weights aim at this node's risk (Table 1); 0: at all nodes'
  bool goal_shift = true;           // false: that node's target prior is taken to be its source prior (No-LS)
  int refresh = 0;            // rounds of training after which the model takes the predictor's place; 0: it never does
  double floor = 0.01;        // share of the pooled source prior in what refreshed weights aim at
  bool shared_prior = false;  // a net that all calibrated estimates under a prior that the nodes' mixes share
  bool calibrate_on_test = false;  // the oracle of a federated predictor: its calibration sees test labels too

  bool weighted() const { return method != "none"; }
  bool estimated() const { return weighted() && method != "true"; }
  bool refreshed() const { return refresh > 0; }
};

/// How the parameters of an update travel from a node.
struct CompressionSettings {
  std::string codec = "none";  // a row of codecs(), or "none"
  int levels = 7;              // s of qsgd
  double kept = 0.1;           // of random-k, the part of the values that is sent

  bool compressed() const { return codec != "none"; }
};

/// R in the objective mean_k F_k(w) + R(w), of the weights of layers: neither biases nor batch norms.
struct RegulariserSettings {
  std::string name = "none";  // a row of regularisers(), or "none"
  double strength = 1e-4;     // of l1 and group-l1
  double bound = 1.0;         // of box

  bool regularised() const { return name != "none"; }
};

enum class StepRule { kGiven, kTheorem };

/// How long steps are.
struct StepSettings {
  StepRule rule = StepRule::kGiven;  // kTheorem: as the paper's theorems say, from r_max, beta and sigma
  std::optional<double> smoothness;  // beta of the loss without weights; computed where the model is convex
  std::optional<double> noise;       // sigma of a stochastic gradient; 0 where batches are all that a node has
};

/// All that decides a federation's bits, but its data.
struct FederationSettings {
  std::string algorithm = "fedavg";               // a row of algorithms()
  const AlgorithmEntry* own_algorithm = nullptr;  // in its place, of a program that brings one of its own
  NetChoice model{"lenet", {}};
  int rounds = 5000;
  Index sampled = 0;  // nodes that train in a round; 0: all
  Weighting weighting = Weighting::kNodes;
  LocalSettings local;
  ServerSettings server;
  CompressionSettings compression;
  RegulariserSettings regulariser;
  StepSettings step;
  double round_probability = 0.2;  // p of proxskip, with which a step is followed by a round of messages
  double fedlc_tau = 0.5;          // of fedlc's margin tau n_c^(-1/4)
  double fedpals_lambda = 1.0;     // of fedpals, what uneven weights of nodes cost
  std::string start;               // the file of a predictor that training goes on from; empty: fresh weights
  RatioSettings ratio;
  double target_holdout = 0.0;  // of a node's test examples that ratios are estimated on, the rest to evaluate; 0: all
                                // for both, as in the paper
  double source_holdout = 0.0;  // of a node's training examples kept for reweighted accuracy; for unlabelled test data
  int evaluate_every = 500;     // rounds; the last round always
  std::optional<double> max_update_norm;  // of what a node sends in a round; a longer one is refused
  Patience patience;                      // with the nodes of a training round
  bool majority = false;                  // its quorum, if it has one, is more than half of those who are asked
  std::uint64_t seed = 0;
  Device device = Device::kCpu;
};

/// T, the stochastic gradients of a node in so many rounds, also of an algorithm that draws how many a round has. With
/// `epochs` they depend on the node's examples, and this counts the rounds.
std::int64_t iterations(const FederationSettings& settings, int rounds);

/// Throws SettingError if a value is impossible or two do not go together; `nodes` is K.
void check_settings(const FederationSettings& settings, Index nodes);

}  // namespace labelshift
