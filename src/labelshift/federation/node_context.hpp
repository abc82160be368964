#pragma once

#include <Eigen/Core>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "labelshift/engine/engine.hpp"
#include "labelshift/federation/algorithm.hpp"
#include "labelshift/federation/federated_data.hpp"
#include "labelshift/federation/local_ratio.hpp"
#include "labelshift/federation/node_memory.hpp"
#include "labelshift/federation/shared_net.hpp"

namespace labelshift {

/// A node's examples and what each is for.
struct NodeParts {
  std::vector<Index> train;     // of the model and of predictors
  std::vector<Index> held_out;  // of the source, for the reweighted accuracy
  std::vector<Index> estimate;  // of the target
  std::vector<Index> evaluate;  // of the target
};

/// What a node knows of its run from the handshake.
struct RunFacts {
  Hello::Request hello;
  std::optional<Agree::Request> agreed;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.hello, self.agreed);
  }
};

/// What a node remembers of phases 1 and 2: (m) numbers under one of these names.
struct ClassNumbers {
  Eigen::VectorXd values;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.values);
  }
};

/// What the predictor that all train says of the examples it does not train on, while it is being calibrated.
struct HeldOutScores {
  std::vector<float> values;  // (n m) log-probabilities, row by row

  Eigen::Map<const Eigen::VectorXf> row(Index i, Index classes) const { return {values.data() + i * classes, classes}; }
  Scores view(Index classes) const& {
    return Scores::known({values.data(), std::ssize(values) / classes, classes, classes, 1}, /*logits=*/true);
  }
  Scores view(Index classes) const&& = delete;  // it would outlive the numbers

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.values);
  }
};

/// A node's test examples under a calibrated net, while the prior of all nodes' mixes is looked for.
struct TargetRows {
  std::vector<float> likelihoods;        // (n m) f / p_tr, row by row, the largest of a row being 1
  Eigen::VectorXd calibration_variance;  // (m) that the calibration adds to that of q_k

  RowMajorMatrix<float> likelihoods_of(Index classes) const {
    return Eigen::Map<const RowMajorMatrix<float>>(likelihoods.data(), std::ssize(likelihoods) / classes, classes);
  }

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.likelihoods, self.calibration_variance);
  }
};
inline constexpr const char* kTargetRowsEntry = "target-rows";

/// What the node counts for among the others, where that is for bringing the mix of their data to the target.
struct MixtureWeight {
  double value = 0.0;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.value);
  }
};
inline constexpr const char* kMixtureEntry = "mixture";

inline constexpr const char* kHeldOutEntry = "held-out";
inline constexpr const char* kRatioEntry = "ratio";        // importance weights; of a refresh, see entry_of()
inline constexpr const char* kBalanceEntry = "balance";    // class-balancing weights for a federated predictor
inline constexpr const char* kTargetEntry = "target";      // q_k; of a refresh, see entry_of()
inline constexpr const char* kEstimateEntry = "estimate";  // q_k as a node's own predictor saw it, before phase 1 ended
inline constexpr const char* kLowEntry = "estimate-low";   // and the ends of its intervals, if it has any
inline constexpr const char* kHighEntry = "estimate-high";

/// The name of an entry that was made when so many rounds of training were done. Each is kept apart, since a
/// coordinator that goes back to a checkpoint asks for what counted then.
std::string entry_of(const char* name, std::uint64_t round);

/// A value for each of the last nodes that a worker met; it does not grow with the number of nodes.
template <typename Value>
class RecentNodes {
 public:
  template <typename Make>
  const Value& get(Index node, Make&& make) {
    auto found = values_.find(node);
    if (found != values_.end()) return found->second;
    if (values_.size() >= kMost) values_.clear();
    return values_.emplace(node, make()).first->second;
  }

 private:
  static constexpr std::size_t kMost = 64;
  std::map<Index, Value> values_;
};

/// What a worker holds for all nodes whose work it does: one model, one predictor, and what they were made for.
class NodeWorker {
 public:
  explicit NodeWorker(const FederationSettings& settings) : settings_(settings) {}

  const FederationSettings& settings() const { return settings_; }

 private:
  friend class NodeContext;
  const FederationSettings& settings_;
  Normalisation agreed_;  // that the nets below were made with
  std::unique_ptr<SharedNet> model_, predictor_;
  std::unique_ptr<FederatedAlgorithm> algorithm_;
  RecentNodes<NodeParts> parts_;
  RecentNodes<PredictorRows> predictor_rows_;
  RecentNodes<std::vector<Index>> model_rows_;
};

/// One node while it answers: its data, its memory, and the tools of the worker that does its work. It sees nothing of
/// any other node.
class NodeContext {
 public:
  NodeContext(NodeWorker& worker, const NodeCall& call, const NodeData& data, NodeMemory& memory);

  const FederationSettings& settings() const { return worker_.settings_; }
  const NodeCall& call() const { return call_; }
  Index node() const { return call_.to.node; }
  NodeMemory& memory() { return memory_; }

  const Dataset& train_data() const { return *data_.train; }
  const Dataset& test_data() const { return *data_.test; }
  std::span<const Index> test_rows() const { return data_.test_rows; }
  Index classes() const { return train_data().classes(); }
  const NodeParts& parts();
  /// Its examples for the predictor.
  const PredictorRows& predictor_rows();
  /// Its examples for the model: all for training, but where ratios are refreshed those that the model is calibrated
  /// on, which are the predictor's held-out ones.
  const std::vector<Index>& model_rows();

  Eigen::VectorXd source_prior(std::span<const Index> rows) const;
  bool has_truth() const { return !test_data().labels.empty() && !test_rows().empty(); }
  Eigen::VectorXd true_target() const;
  std::optional<double> prior_error(const Eigen::VectorXd& q) const;

  /// What the handshake said. Throws Error{kPeer} before there was one.
  RunFacts facts() const;
  NetSpec spec_of(const NetChoice& choice);
  SharedNet& model();
  SharedNet& predictor();
  /// The model with the weights of this call's request, and with what is the node's own.
  Net& asked_model();
  const FederatedAlgorithm& algorithm();

  /// What it remembers under a name; nothing if nothing yet. Throws Error{kInput} if that is not a number a class.
  std::optional<Eigen::VectorXd> class_numbers(const std::string& name) const;
  void remember_class_numbers(const std::string& name, const Eigen::VectorXd& values);
  /// The same as float32, or empty.
  std::vector<float> class_weights(const std::string& name) const;
  /// Forgets importance weights and q_k that were made before those of `round`, which count, once no coordinator can go
  /// back to them.
  void forget_entries_before(std::uint64_t round);

 private:
  /// Nets hold a normalisation. Where nodes agreed on another since, because phase 1 began again without one of them,
  /// the worker's nets are made anew.
  void renew_nets();

  NodeWorker& worker_;
  const NodeCall& call_;
  const NodeData& data_;
  NodeMemory& memory_;
  bool renewed_ = false;
};

}  // namespace labelshift
