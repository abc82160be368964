#pragma once

#include <Eigen/Core>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/engine.hpp"
#include "labelshift/federation/algorithm.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/federation/step_size.hpp"
#include "labelshift/learning/net.hpp"
#include "labelshift/learning/predictor.hpp"

namespace labelshift {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// How the global model does at one node after some round.
struct NodeEvaluation {
  int round = 0;
  Index node = 0;
  Index examples = 0;          // of its test set that it was judged on
  double accuracy = kUnknown;  // on the test set; unknown where that has no labels
  double loss = kUnknown;      // mean cross-entropy there
  // Held-out source examples, weighted by the estimated ratio of the node's own target to its source: what can be said
  // where test labels are missing. It is no test accuracy: it is only as right as the ratio is.
  double reweighted_accuracy = kUnknown;
  double reweighted_low = kUnknown;  // 95 % interval, given the ratio
  double reweighted_high = kUnknown;
  double reweighted_examples = kUnknown;  // effective number
  // Where ratios are estimated: of the model corrected at the node for its own q_k, which is personalisation, and of
  // always saying the most frequent class of q_k; with 95 % intervals.
  double adapted = kUnknown, adapted_low = kUnknown, adapted_high = kUnknown;
  double majority = kUnknown, majority_low = kUnknown, majority_high = kUnknown;
};

/// What phase 1 and 2 of Alg. 2 came to at one node.
struct NodeRatio {
  Index node = 0;
  // Of a node that keeps them to itself, these three are unknown.
  double largest = kUnknown;             // importance weight of a training example
  double examples = kUnknown;            // n_k
  double effective_examples = kUnknown;  // (sum w)^2 / sum w^2 over its training examples
  double prior_error = kUnknown;         // |q_k - truth|_1, where test labels tell and q_k was estimated
  double seconds = 0.0;                  // of training the predictor and estimating
  // In a simulation alone; each is empty where it is not known.
  Eigen::VectorXd estimate;   // (m) q_k
  Eigen::VectorXd low, high;  // (m) ends of its 95 % intervals
  Eigen::VectorXd truth;      // (m)
  double p_value = kUnknown;  // that predicted labels bear it out
};

/// A time at which importance weights were made, or should have been, where the settings have them refreshed.
struct Weighing {
  int round = 0;                   // rounds of training that were done; nodes keep the weights under it
  double target_error = kUnknown;  // of the sum, as in FederationState
  Index doubtful = 0;              // nodes whose predicted labels do not bear out their estimate
  std::string skipped;             // why the weights from before stayed; empty: they did not
};

/// A node without which rounds of training went on.
struct NodeAbsence {
  Index node = 0;
  Index rounds = 0;
  std::string why;  // the last time
};

/// The parts of the protocol, by the names that costs and progress are told under.
namespace phase {
inline constexpr const char* kJoin = "join";
inline constexpr const char* kPredictor = "predictor";
inline constexpr const char* kRatio = "ratio";
inline constexpr const char* kRefresh = "refresh";  // phases 1 and 2 again, with the model
inline constexpr const char* kTraining = "training";
inline constexpr const char* kEvaluation = "evaluation";
}  // namespace phase

/// What a part of the protocol cost.
struct PhaseCost {
  std::string name;  // one of `phase`
  Index rounds = 0;  // of messages
  Traffic traffic;
  double seconds = 0.0;
};

/// A predictor that all nodes trained together, and what its training cost.
struct TrainedTogether {
  std::vector<float> weights;
  PhaseCost cost;
};

/// How far a federation has come. Together with what its nodes remember, this is all that is needed to go on.
struct FederationState {
  std::string data;                    // a fingerprint of the nodes' data, set by a caller who wants to notice a change
  std::string settings;                // likewise of all settings
  int round = 0;                       // rounds of training done
  bool ready = false;                  // phases 1 and 2 are done
  bool estimates_kept = false;         // if not `ready`: nodes may remember what they estimated before a stop
  Normalisation normalisation;         // agreed on by all nodes
  std::vector<float> parameters;       // of the global model
  std::vector<float> buffers;          // of the global model, such as the running means of batch norms
  AlgorithmState algorithm;            // what the server keeps besides
  std::vector<std::uint64_t> counted;  // (K) the last round of each node whose answer counts; 0: none
  Index company = 0;                   // nodes that take part, where what they keep adds up over them
  Eigen::VectorXd target_sum;          // (m) sum_j q_j as it was estimated, or the truth; empty without ratios
  /// (m) The label mix under which the model's probabilities are right: that of the examples as they are weighted, over
  /// all nodes. Empty where nobody knows it, since nodes cut their weights (max-ratio), or count the same with no
  /// ratios.
  Eigen::VectorXd trained_mix;
  double target_error = kUnknown;          // |sum_j q_j - truth|_1 / K, where test labels tell
  std::vector<NodeRatio> ratios;           // (K) empty without ratios
  std::vector<Weighing> weighings;         // from that before training on; empty where weights are never refreshed
  double largest_weight = kUnknown;        // r_max, where no node keeps its own to itself
  double effective_share = kUnknown;       // of all training examples: effective by actual number
  double compression_variance = kUnknown;  // q of Thm. F.1, where updates are compressed
  std::optional<TheoremStep> step;         // that a theorem gives, where the settings ask for it
  std::int64_t drawn_steps = 0;            // that each node has taken, where chance decides how many
  double zeros = kUnknown;                 // how many parameters of the model are exactly 0, where it is regularised
  std::vector<Index> left_out;             // nodes that the weights were made without, in ascending order
  std::vector<PhaseCost> phases;
  std::vector<NodeEvaluation> history;
  std::vector<NodeAbsence> absences;  // in no order
  bool memory_at_nodes = false;       // set by a caller whose nodes keep what they remember themselves
  std::vector<std::string> warnings;  // what the user should know about nodes and classes
};

/// The round under which nodes keep the importance weights that count.
std::uint32_t weighed_round(const FederationState& state);

/// A moment at which a federation can be saved.
struct FederationMoment {
  int round = 0;  // of training, that are done
  /// All there is to save. It costs a copy of the model, so nobody should ask for it in vain.
  std::function<const FederationState&()> state;
};

struct FederationHooks {
  Observer progress;
  /// Called after phase 2 and after every round of training, while no node works. Returns whether nodes may forget what
  /// they need to go back to before this moment: it is saved, or their memory is saved with it.
  std::function<bool(const FederationMoment& moment)> checkpoint;
  /// What is saved may turn out damaged: nodes keep what the moment before it needs, too.
  bool may_go_back_twice = false;
  /// The nodes that the operator leaves out now, in ascending order; empty: none. Asked for before every round, and
  /// where an exchange that needs every node has failed. A node that was left out of phases 1 and 2 and comes in
  /// repeats them, so that weights change from that round on.
  std::function<std::vector<Index>()> left_out;
  /// A predictor that the same nodes have trained with this zeta and all else that its training depends on, if the
  /// caller has kept one: it is not trained again. Asked for where no node is left out.
  std::function<std::optional<TrainedTogether>(double zeta)> known_predictor;
  /// Takes one that was trained, for another run to find.
  std::function<void(double zeta, const TrainedTogether& trained)> keep_predictor;
};

/// What the coordinator knows of the data, and what tells this run from another.
struct FederationTask {
  ExampleShape shape;
  std::vector<std::string> class_names;         // (m)
  std::string run;                              // its name; nodes refuse a coordinator of another run
  std::vector<std::string> node_names = {};     // (K) for messages; empty: nodes are called by their numbers
  std::shared_ptr<const Predictor> start = {};  // that training goes on from; nullptr: fresh weights
};

/// Alg. 2: estimates ratios if the settings ask for any, then trains in rounds.
///
/// `start` says where to begin. An empty state begins anew. A state that `hooks.checkpoint` was given goes on from
/// there; what the nodes remember must then be of the same moment. A state with nothing but `estimates_kept` set
/// repeats phase 1, except for the estimates that nodes still remember from it. A federation that goes on ends in the
/// same bits as one that was never stopped. Its seconds and bytes are those of both parts together.
///
/// Throws Error{kInput} for a class that no node holds, for a loss that is not finite, and what nodes throw.
FederationState run_federation(const FederationSettings& settings, const FederationTask& task, Engine& engine,
                               const FederationHooks& hooks = {}, FederationState start = {});

/// The global model of a state. With fedbn its batch norms are the initial ones: those of the nodes stay there.
std::unique_ptr<Net> global_model(const FederationSettings& settings, const FederationTask& task,
                                  const FederationState& state);

/// The mean over nodes of their accuracies in the last round that has any; nodes without test examples do not count.
double average_accuracy(const std::vector<NodeEvaluation>& history);
/// The same of another number of an evaluation.
double average_of(const std::vector<NodeEvaluation>& history, double NodeEvaluation::*number);

}  // namespace labelshift
