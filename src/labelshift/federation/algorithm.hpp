#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/engine/tasks.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/federation/local_training.hpp"
#include "labelshift/federation/parts.hpp"
#include "labelshift/federation/shared_net.hpp"
#include "labelshift/federation/step_size.hpp"

namespace labelshift {

/// What the server of an algorithm keeps besides the weights of the model.
struct AlgorithmState {
  NamedParts parts;
  std::map<std::string, std::int64_t> counts;
};

/// What a missing answer means for a round.
enum class MissingNodes {
  kRenormalise,  // the others are averaged
  kRepeat,       // the round is run again, until everybody's answer is there
};

/// A round as a node sees it.
struct NodeRound {
  SharedNet& model;
  std::span<const float> request;  // laid out by request_parts()
  std::uint64_t serial;            // of the call
  std::uint64_t number;            // of the round, from 1
  LocalSettings local;             // its steps, as many and as long as the coordinator says
  LocalLoss loss;                  // its examples and their importance weights
  std::uint64_t seed;
  double weight;       // of this node among the others
  NamedParts& memory;  // what it kept of the last round that counts; what is left here is kept of this one
  const std::atomic<bool>& cancelled;
};

/// A federated algorithm: all of it, the server's side and the node's. The coordinator has one object, and every worker
/// has one for the nodes whose work it does; a node's own state is in its memory, never in the object.
///
/// A round: make_request() -> at each node node_settle(), node_update(), node_sent() -> the sum of answers ->
/// server_update().
class FederatedAlgorithm {
 public:
  virtual ~FederatedAlgorithm() = default;

  /// What travels in a request and, added up over the nodes and multiplied by their weights, in an answer. The first
  /// part of an answer is an update of the shared parameters, which a codec may compress. What no honest node makes
  /// negative is told the coordinator by PartLayout::never_negative().
  const PartLayout& request_parts() const { return request_parts_; }
  const PartLayout& answer_parts() const { return answer_parts_; }
  /// Whether batch norms travel, or stay at their node.
  virtual bool shares_batch_norms() const { return true; }
  virtual MissingNodes when_missing() const { return MissingNodes::kRenormalise; }
  /// Whether nodes keep anything from one round to the next.
  virtual bool has_memory() const { return false; }
  /// Whether what nodes keep adds up over those that take part, so that it is void once others do.
  virtual bool adds_up() const { return when_missing() == MissingNodes::kRepeat; }
  /// lambda, of an algorithm that takes the nodes to the target by weights of nodes, which bring the mix of their data
  /// to it (federation/mixture_weights.hpp), and not by importance weights of classes. Nothing: nodes weigh as the
  /// settings say.
  virtual std::optional<double> mixture_penalty() const { return std::nullopt; }
  /// What a user should know about it with this model.
  virtual std::vector<std::string> warnings() const { return {}; }

  // The server.

  /// Begins with these shared weights: parameters, then buffers.
  virtual void start(std::vector<float> weights) = 0;
  /// The shared weights as they are now.
  virtual std::span<const float> weights() const = 0;
  /// So many nodes take part from now on, and what nodes kept is void.
  virtual void begin_anew(Index /*nodes*/) {}
  /// Fills the parts of the next request.
  virtual void make_request(std::vector<float>& parts) const = 0;
  /// Takes what the nodes of a round answered; there is somebody among them.
  virtual void server_update(const TrainingSums<double>& sums) = 0;
  virtual AlgorithmState save() const = 0;
  /// To be called after start(). Throws Error{kInput} if the state is of another model or algorithm.
  virtual void load(AlgorithmState state) = 0;

  // A node.

  /// What a node does once it knows that its round counted and what came of it, which is in the new request. It changes
  /// the node's memory, and may be called again with the same memory and request.
  virtual void node_settle(NodeRound&) const {}
  virtual TaskAnswer<Train> node_update(NodeRound& round) const = 0;
  /// What the coordinator will read of the update (p), which is not what was sent where a codec compresses it.
  virtual void node_sent(NodeRound&, std::span<const float> /*update*/) const {}
  /// Gives a model, which has the shared weights, what is a node's own.
  virtual void personalise(SharedNet&, const NamedParts&) const {}

 protected:
  PartLayout request_parts_, answer_parts_;
};

/// What an algorithm is made for. All of it must outlive the algorithm.
struct AlgorithmSetup {
  const FederationSettings& settings;
  const Net& net;
  Index nodes;  // K
};

struct AlgorithmEntry {
  const char* name;
  const char* summary;
  std::unique_ptr<FederatedAlgorithm> (*make)(const AlgorithmSetup& setup);
  /// Throws SettingError for settings that do not go with the algorithm.
  void (*check)(const FederationSettings& settings);
  /// The step size that the algorithm's theorem gives; `steepest` is r_max beta. Throws SettingError for settings that
  /// the theorem is not about. nullptr: there is no such theorem.
  double (*theorem_step)(const FederationSettings& settings, const StepFacts& facts, double steepest) = nullptr;
  /// How many steps every node takes in a round, from 1 on. nullptr: as many as the settings say.
  std::uint32_t (*draw_steps)(const FederationSettings& settings, std::uint64_t round) = nullptr;
};

}  // namespace labelshift
