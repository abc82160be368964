#include "labelshift/federation/node_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "labelshift/core/error.hpp"
#include "labelshift/core/probabilities.hpp"
#include "labelshift/core/rng.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/local_ratio.hpp"
#include "labelshift/federation/local_training.hpp"
#include "labelshift/federation/shared_weights.hpp"
#include "labelshift/federation/tasks.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

// Streams of the run's seed, so that no two uses of it draw the same numbers.
constexpr std::uint64_t kPartsStream = 0x7061727473;
constexpr std::uint64_t kPredictorStream = 0x70726564;
constexpr std::uint64_t kModelRounds = 0x6d6f64656c;
constexpr std::uint64_t kPredictorRounds = 0x70726f756e;

// What nodes remember, by name.
constexpr const char* kNormalisation = "normalisation";
constexpr const char* kRatioEntry = "ratio";        // (m) importance weights
constexpr const char* kBalanceEntry = "balance";    // (m) class-balancing weights for a federated predictor
constexpr const char* kTargetEntry = "target";      // (m) q_k
constexpr const char* kEstimateEntry = "estimate";  // (kPieces m) the same to the last bit
constexpr const char* kControlEntry = "control";    // (p) SCAFFOLD's c_k
constexpr const char* kBatchNormEntry = "batch-norm";

/// A node's examples and what each is for.
struct NodeParts {
  std::vector<Index> train;
  std::vector<Index> held_out;  // of the source, for the reweighted accuracy
  std::vector<Index> estimate;  // of the target
  std::vector<Index> evaluate;  // of the target
};

std::uint64_t node_seed(std::uint64_t seed, std::uint64_t stream, Index node, std::uint64_t round = 0) {
  return Rng(Rng(Rng(seed, stream)(), round)(), static_cast<std::uint64_t>(node))();
}

/// A random part of unlabelled rows; one row alone is in both parts.
HoldOut random_part(std::span<const Index> rows, double fraction, std::uint64_t seed) {
  BatchOrder order(std::ssize(rows), seed);
  const auto n = static_cast<Index>(rows.size());
  if (n < 2) return {.kept = {rows.begin(), rows.end()}, .held_out = {rows.begin(), rows.end()}};
  const Index count = std::clamp<Index>(std::llround(fraction * static_cast<double>(n)), 1, n - 1);
  HoldOut split;
  std::vector<bool> taken(rows.size());
  for (const Index i : order.next(count)) taken[i] = true;
  for (std::size_t i = 0; i < rows.size(); ++i) (taken[i] ? split.held_out : split.kept).push_back(rows[i]);
  return split;
}

std::vector<NodeParts> parts_of(const FederationSettings& settings, const FederatedData& data) {
  std::vector<NodeParts> parts;
  for (Index node = 0; node < std::ssize(data.nodes); ++node) {
    const NodeData& has = data.nodes[node];
    const std::uint64_t seed = node_seed(settings.seed, kPartsStream, node);
    NodeParts part{.train = has.train_rows, .estimate = has.test_rows, .evaluate = has.test_rows};
    if (settings.source_holdout > 0.0) {
      HoldOut split =
          hold_out_repeated(has.train->labels, has.train_rows, data.classes(), Fraction{settings.source_holdout}, seed);
      part.train = std::move(split.kept);
      part.held_out = std::move(split.held_out);
    }
    if (settings.target_holdout > 0.0) {
      HoldOut split = random_part(has.test_rows, settings.target_holdout, seed);
      part.estimate = std::move(split.held_out);
      part.evaluate = std::move(split.kept);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// The numbers of a request, in turn. A message that does not fit is a peer's fault.
class Numbers {
 public:
  explicit Numbers(std::span<const double> values) : values_(values) {}
  double next() { return next(1)[0]; }
  std::span<const double> next(Index count) {
    if (count > std::ssize(values_))
      throw Error(ErrorKind::kPeer,
                  fmt::format("a message of {} more numbers has no {} left to read", values_.size(), count));
    const auto part = values_.first(count);
    values_ = values_.subspan(count);
    return part;
  }
  VectorXd vector(Index count) {
    const auto part = next(count);
    return Eigen::Map<const VectorXd>(part.data(), count);
  }
  /// A prior: not negative, with something in it.
  VectorXd prior(Index count) {
    VectorXd values = vector(count);
    if (!values.allFinite() || values.minCoeff() < 0.0 || !(values.sum() > 0.0))
      throw Error(ErrorKind::kPeer, "a message has a prior with an entry that is negative or no number");
    return values;
  }
  /// One of `count` kinds.
  template <typename Kind>
  Kind kind(int count) {
    const double value = next();
    for (int i = 0; i < count; ++i)
      if (value == i) return static_cast<Kind>(i);
    throw Error(ErrorKind::kPeer, fmt::format("a message is of kind {}, expected 0 to {}", value, count - 1));
  }
  void end() const {
    if (!values_.empty())
      throw Error(ErrorKind::kPeer, fmt::format("a message has {} numbers too many", values_.size()));
  }

 private:
  std::span<const double> values_;
};

void append(std::vector<double>& to, const VectorXd& values) {
  to.insert(to.end(), values.begin(), values.end());
}

constexpr Index kPieces = 4;  // of 16 bits, which a float holds

/// Doubles among floats, to the last bit.
std::vector<float> in_pieces(const VectorXd& values) {
  std::vector<float> pieces;
  for (const double value : values)
    for (Index i = 0; i < kPieces; ++i)
      pieces.push_back(static_cast<float>(std::bit_cast<std::uint64_t>(value) >> (16 * i) & 0xffff));
  return pieces;
}

VectorXd from_pieces(std::span<const float> pieces) {
  VectorXd values(std::ssize(pieces) / kPieces);
  for (Index c = 0; c < values.size(); ++c) {
    std::uint64_t bits = 0;
    for (Index i = 0; i < kPieces; ++i) {
      const float piece = pieces[c * kPieces + i];
      bits |= static_cast<std::uint64_t>(piece >= 0.0F && piece < 65536.0F ? piece : 0.0F) << (16 * i);
    }
    values[c] = std::bit_cast<double>(bits);
  }
  return values;
}

std::vector<float> as_floats(const VectorXd& values) {
  const Eigen::VectorXf rounded = values.cast<float>();
  return {rounded.begin(), rounded.end()};
}

class Program : public NodeProgram {
 public:
  Program(const NodeSide& side, std::shared_ptr<const std::vector<NodeParts>> parts)
      : settings_(side.settings),
        algorithm_(find_algorithm(side.settings.algorithm)),
        data_(side.data),
        store_(side.store),
        parts_(std::move(parts)) {}

  Update run(Index node, const Request& request, const std::atomic<bool>& cancelled) override {
    node_ = node;
    try {
      switch (static_cast<Task>(request.task)) {
        case Task::kJoin:
          return join();
        case Task::kAgree:
          return agree(request);
        case Task::kTarget:
          return target(request, cancelled);
        case Task::kShare:
          return share(cancelled);
        case Task::kAssess:
          return assess(request);
        case Task::kRatio:
          return ratio(request);
        case Task::kTrain:
          return train(request, cancelled);
        case Task::kTrainPredictor:
          return train_predictor_round(request, cancelled);
        case Task::kTemperature:
          return temperature(request);
        case Task::kTargetTogether:
          return target_together(request);
        case Task::kEvaluate:
          return evaluate(request);
      }
    } catch (const Error& error) {
      throw error.reworded(fmt::format("node {}: {}", node + 1, error.what()));
    }
    throw Error(ErrorKind::kPeer, fmt::format("node {}: there is no task {}", node + 1, request.task));
  }

 private:
  /// A net, and which of its weights travel.
  struct SharedNet {
    std::unique_ptr<Net> net;
    SharedWeights shared;
    std::vector<float> fresh;  // what stays at a node, as it was before any training
    void take(std::span<const float> message) {
      if (std::ssize(message) != shared.size())
        throw Error(ErrorKind::kPeer,
                    fmt::format("a message has {} weights, expected {}", message.size(), shared.size()));
      shared.scatter(message, net->parameters(), net->buffers());
    }
  };

  Index classes() const { return data_.classes(); }
  const NodeData& has() const { return data_.nodes[node_]; }
  const NodeParts& parts() const { return (*parts_)[node_]; }
  const Dataset& train_data() const { return *has().train; }
  const Dataset& test_data() const { return *has().test; }
  std::uint64_t predictor_seed() const { return node_seed(settings_.seed, kPredictorStream, node_); }

  VectorXd source_prior(std::span<const Index> rows) const {
    return empirical_prior(class_counts(train_data().labels, rows, classes()));
  }
  bool has_truth() const { return !test_data().labels.empty() && !has().test_rows.empty(); }
  VectorXd true_target() const {
    if (has().test_rows.empty()) return VectorXd::Zero(classes());
    return empirical_prior(class_counts(test_data().labels, has().test_rows, classes()));
  }
  double prior_error(const VectorXd& q) const { return has_truth() ? (q - true_target()).lpNorm<1>() : kUnknown; }

  NetSpec spec_of(const NetChoice& choice) const {
    const std::vector<float> values = store_.get(node_, kNormalisation);
    const auto half = values.begin() + std::ssize(values) / 2;
    return {.name = choice.name,
            .settings = choice.settings,
            .shape = data_.shape,
            .classes = classes(),
            .normalisation = {{values.begin(), half}, {half, values.end()}}};
  }
  SharedNet make_shared_net(const NetChoice& choice, bool batch_norms) const {
    auto net = make_net(spec_of(choice), /*seed=*/0, settings_.device);  // its weights come with every request
    const SharedWeights shared(*net, batch_norms);
    std::vector<float> fresh = shared.gather_local(net->parameters(), net->buffers());
    return {std::move(net), shared, std::move(fresh)};
  }
  SharedNet& model() {
    if (!model_) model_.emplace(make_shared_net(settings_.model, !algorithm_.local_batch_norm));
    return *model_;
  }
  SharedNet& predictor() {
    if (!predictor_) predictor_.emplace(make_shared_net(settings_.ratio.net, /*batch_norms=*/true));
    return *predictor_;
  }

  /// What this node remembers under a name; empty if nothing yet.
  std::vector<float> remembered(const char* name, Index size) const {
    std::vector<float> values = store_.get(node_, name);
    if (!values.empty() && std::ssize(values) != size)
      throw Error(
          ErrorKind::kInput,
          fmt::format("it remembers {} numbers as its {}, expected {}: the data or the model have changed since; "
                      "start anew in another folder",
                      values.size(), name, size));
    return values;
  }

  /// Gives the model the weights of a request and the batch norms that are this node's own.
  SharedNet& model_for_node(std::span<const float> weights) {
    SharedNet& net = model();
    round_held_ = 0;
    net.take(weights);
    if (net.shared.local_size() > 0) {
      const std::vector<float> mine = remembered(kBatchNormEntry, net.shared.local_size());
      net.shared.scatter_local(mine.empty() ? net.fresh : mine, net.net->parameters(), net.net->buffers());
    }
    return net;
  }

  /// The examples of this node for the federated predictor, kept from round to round.
  const PredictorRows& shared_rows() {
    auto found = predictor_rows_.find(node_);
    if (found == predictor_rows_.end())
      found =
          predictor_rows_.emplace(node_, predictor_rows(train_data(), parts().train, settings_.ratio, predictor_seed()))
              .first;
    return found->second;
  }

  Update join() const {
    const std::vector<Index> counts = class_counts(train_data().labels, parts().train, classes());
    const ValueSums sums = value_sums(train_data(), parts().train);
    Update update;
    for (const Index count : counts) update.numbers.push_back(count > 0 ? 1.0 : 0.0);
    const VectorXd truth = has_truth() ? true_target() : VectorXd::Zero(classes());
    for (const double share : truth) update.numbers.push_back(share > 0.0 ? 1.0 : 0.0);
    update.numbers.insert(update.numbers.end(), counts.begin(), counts.end());
    update.numbers.push_back(sums.count);
    update.numbers.insert(update.numbers.end(), sums.sum.begin(), sums.sum.end());
    update.numbers.insert(update.numbers.end(), sums.squares.begin(), sums.squares.end());
    update.report = {static_cast<double>(parts().train.size()), static_cast<double>(has().test_rows.size())};
    for (Index c = 0; c < classes(); ++c)
      if (counts[c] == 0) update.report.push_back(static_cast<double>(c));
    return update;
  }

  Update agree(const Request& request) {
    const Index parts = 2 * std::ssize(value_sums(train_data(), {}).sum);
    Numbers numbers(request.numbers);
    const auto values = numbers.next(parts);
    numbers.end();
    store_.put(node_, kNormalisation, {values.begin(), values.end()});
    return {};
  }

  /// q_k stays here; it leaves as a summand only.
  void remember_target(const VectorXd& q) { store_.put(node_, kTargetEntry, as_floats(q)); }

  Update target_update(const VectorXd& q, double seconds) const {
    Update update{.report = {prior_error(q), seconds}};
    append(update.numbers, q);
    return update;
  }

  Update target(const Request& request, const std::atomic<bool>& cancelled) {
    const auto start = std::chrono::steady_clock::now();
    VectorXd q;
    const auto kind = Numbers(request.numbers).kind<TargetKind>(4);
    switch (kind) {
      case TargetKind::kTruth:
        if (test_data().labels.empty() && !has().test_rows.empty())
          throw Error(ErrorKind::kUsage,
                      "true ratios need test labels, and this node has none; estimate them: method = "
                      "\"vrls\"");
        q = true_target();
        break;
      case TargetKind::kSource:
        q = source_prior(parts().train);
        break;
      case TargetKind::kEstimate:
      case TargetKind::kKeptEstimate:
        q = kind == TargetKind::kKeptEstimate ? kept_estimate() : VectorXd();
        if (q.size() == 0) q = local_estimate(cancelled);
    }
    // The truth beside an estimate is for comparison alone.
    if (kind != TargetKind::kTruth || !settings_.ratio.estimated()) remember_target(q);
    return target_update(q, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  /// What was estimated before a stop, or empty.
  VectorXd kept_estimate() const {
    const VectorXd q = from_pieces(remembered(kEstimateEntry, kPieces * classes()));
    if (!q.allFinite() || (q.array() < 0.0).any())
      throw Error(ErrorKind::kInput, "what it remembers of its estimate is damaged; start again in another folder");
    return q;
  }

  VectorXd local_estimate(const std::atomic<bool>& cancelled) {
    const LocalPredictor predictor = local_predictor(cancelled);
    VectorXd q = estimate_target_prior(*predictor.net, predictor.source_prior, predictor.calibration,
                                       estimator_of(settings_.ratio.method),
                                       {test_data(), parts().estimate, &train_data(), predictor.held_out});
    store_.put(node_, kEstimateEntry, in_pieces(q));
    return q;
  }

  LocalPredictor local_predictor(const std::atomic<bool>& cancelled) const {
    return train_local_predictor(settings_.ratio, spec_of(settings_.ratio.net), train_data(), parts().train,
                                 predictor_seed(), settings_.device, cancelled);
  }

  Update share(const std::atomic<bool>& cancelled) const {
    const auto start = std::chrono::steady_clock::now();
    const LocalPredictor predictor = local_predictor(cancelled);
    const SharedWeights shared(*predictor.net, /*batch_norms=*/true);
    Update update{.weights = shared.gather(predictor.net->parameters(), predictor.net->buffers())};
    Calibration full = Calibration::identity(classes());  // a class without examples is left alone
    for (Index c = 0, held = 0; c < classes(); ++c) {
      if (predictor.source_prior[c] == 0.0) continue;
      full.scale[c] = predictor.calibration.scale[held];
      full.bias[c] = predictor.calibration.bias[held++];
    }
    append(update.numbers, predictor.source_prior);
    append(update.numbers, full.scale);
    append(update.numbers, full.bias);
    update.report = {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
    return update;
  }

  Update assess(const Request& request) {
    Numbers numbers(request.numbers);
    const double whose = numbers.next();
    const VectorXd prior = numbers.prior(classes());
    const VectorXd scale = numbers.vector(classes());
    const VectorXd bias = numbers.vector(classes());
    numbers.end();
    const Index held = (prior.array() > 0.0).count();
    Calibration calibration = Calibration::identity(held);
    for (Index c = 0, i = 0; c < classes(); ++c) {
      if (prior[c] == 0.0) continue;
      calibration.scale[i] = scale[c];
      calibration.bias[i++] = bias[c];
    }
    predictor().take(request.weights);
    const VectorXd q = estimate_target_prior(*predictor().net, prior, calibration, estimator_of(settings_.ratio.method),
                                             {test_data(), parts().estimate});
    const bool own = whose == static_cast<double>(node_);
    if (own) remember_target(q);
    Update update{.report = {own ? prior_error(q) : kUnknown}};
    append(update.numbers, q);
    return update;
  }

  Update ratio(const Request& request) {
    Numbers numbers(request.numbers);
    const auto kind = numbers.kind<RatioKind>(3);
    VectorXd weights = numbers.vector(classes());
    numbers.end();
    if (!weights.allFinite() || weights.minCoeff() < 0.0)
      throw Error(ErrorKind::kPeer, "a message has a ratio that is negative or no number");
    std::vector<Index> rows = parts().train;
    if (kind == RatioKind::kBalance) rows = shared_rows().train;
    const VectorXd prior = source_prior(rows);
    for (Index c = 0; c < classes(); ++c) {
      if (kind != RatioKind::kRatio) weights[c] = prior[c] > 0.0 ? weights[c] / prior[c] : 0.0;
      if (kind != RatioKind::kBalance && settings_.ratio.max_ratio)
        weights[c] = std::min(weights[c], *settings_.ratio.max_ratio);
    }
    store_.put(node_, kind == RatioKind::kBalance ? kBalanceEntry : kRatioEntry, as_floats(weights));
    double largest = 0.0;
    for (Index c = 0; c < classes(); ++c)
      if (prior[c] > 0.0) largest = std::max(largest, weights[c]);
    const double mean = prior.dot(weights);
    const double square = prior.dot(weights.cwiseAbs2());
    const auto examples = static_cast<double>(rows.size());
    return {.report = {largest, examples, square > 0.0 ? examples * mean * mean / square : 0.0}};
  }

  double node_weight() const {
    return settings_.weighting == Weighting::kPooled ? static_cast<double>(parts().train.size()) : 1.0;
  }

  /// The update and the buffers of a net after its local training, times the node's weight.
  static Update weighted_update(SharedNet& net, const LocalUpdate& local, double weight) {
    // A copy of 44,000 weights is worth saving in a step of LeNet.
    const bool all = local.taken.empty() && net.shared.local_size() == 0 && net.net->buffers().empty();
    Update update{
        .numbers = {weight, weight * local.loss},
        .weights = all ? net.net->take_gradient() : net.shared.gather(local.update(*net.net), net.net->buffers())};
    if (weight != 1.0)
      for (float& value : update.weights) value *= static_cast<float>(weight);
    return update;
  }

  Update train(const Request& request, const std::atomic<bool>& cancelled) {
    std::span<const float> sent = request.weights;
    std::span<const float> server_control;
    if (algorithm_.control_variates) {
      const auto size = static_cast<Index>(model().net->parameters().size());
      if (std::ssize(sent) < size)
        throw Error(ErrorKind::kPeer, fmt::format("a message has {} weights, expected {} control variates among them",
                                                  sent.size(), size));
      server_control = sent.last(size);
      sent = sent.first(sent.size() - server_control.size());
    }
    const bool held = round_held_ > 0 && round_held_ == request.round;
    SharedNet& net = held ? model() : model_for_node(sent);
    // A gradient leaves the weights as they came, so the next node of this worker need not copy them again.
    if (settings_.local.sends_gradient() && net.shared.local_size() == 0 && net.net->buffers().empty())
      round_held_ = request.round;
    const std::span<float> parameters = net.net->parameters();
    std::vector<float> weights;
    if (settings_.ratio.weighted()) weights = remembered(kRatioEntry, classes());
    std::vector<float> control, correction;
    if (algorithm_.control_variates) {
      control = remembered(kControlEntry, std::ssize(parameters));
      if (control.empty()) control.resize(parameters.size());
      correction.resize(parameters.size());
      for (std::size_t i = 0; i < control.size(); ++i) correction[i] = server_control[i] - control[i];
    }
    const LocalUpdate local =
        local_training(*net.net, {train_data(), parts().train, weights, /*zeta=*/0.0, correction}, settings_.local,
                       node_seed(settings_.seed, kModelRounds, node_, request.round), cancelled);
    Update update = weighted_update(net, local, node_weight());
    if (net.shared.local_size() > 0) {
      // With one step a node sends its gradient and nobody steps for the batch norms: the node does, by its own SGD.
      if (settings_.local.sends_gradient()) {
        const auto rate = static_cast<float>(settings_.local.learning_rate);
        const auto decay = static_cast<float>(settings_.local.weight_decay);
        for (std::size_t i = 0; i < parameters.size(); ++i)
          parameters[i] -= rate * (net.net->gradient()[i] + decay * parameters[i]);
      }
      store_.put(node_, kBatchNormEntry, net.shared.gather_local(parameters, net.net->buffers()));
    }
    if (algorithm_.control_variates) {
      // Option II of Karimireddy et al. (2020): c_k+ = c_k - c + (x - y) / (tau eta).
      const double scale = 1.0 / (static_cast<double>(local.steps) * settings_.local.learning_rate);
      for (std::size_t i = 0; i < control.size(); ++i) {
        const auto next = static_cast<float>(control[i] - server_control[i] + scale * local.taken[i]);
        update.weights.push_back(next - control[i]);
        control[i] = next;
      }
      store_.put(node_, kControlEntry, std::move(control));
    }
    return update;
  }

  Update train_predictor_round(const Request& request, const std::atomic<bool>& cancelled) {
    SharedNet& net = predictor();
    net.take(request.weights);
    const std::vector<float> weights = remembered(kBalanceEntry, classes());
    const LocalUpdate local = local_training(
        *net.net, {train_data(), shared_rows().train, weights, Numbers(request.numbers).next(), {}},
        {.batch = settings_.local.batch}, node_seed(settings_.seed, kPredictorRounds, node_, request.round), cancelled);
    return weighted_update(net, local, /*weight=*/1.0);  // classes are balanced for nodes that count the same
  }

  Update temperature(const Request& request) {
    predictor().take(request.weights);
    const std::vector<Index>& rows = shared_rows().held_out;
    Numbers numbers(request.numbers);
    const auto shares = numbers.next(classes());
    const auto scales = numbers.next(std::ssize(request.numbers) - classes());
    Update update{.numbers = std::vector<double>(1 + scales.size())};
    if (rows.empty()) return update;
    const RowMajorMatrix<float> logits = evaluate_logits(*predictor().net, train_data(), rows);
    const std::vector<int> labels = labels_of(train_data(), rows);
    // Weighted so that every class counts the same over all its holders, as it did in training.
    const VectorXd prior = source_prior(rows);
    Eigen::ArrayXd row(classes());
    for (Index i = 0; i < logits.rows(); ++i) {
      const double weight = shares[labels[i]] / prior[labels[i]] / static_cast<double>(rows.size());
      update.numbers[0] += weight;
      for (std::size_t g = 0; g < scales.size(); ++g) {
        row = logits.row(i).transpose().cast<double>().array() * scales[g];
        const double top = row.maxCoeff();
        update.numbers[1 + g] += weight * (top + std::log((row - top).exp().sum()) - row[labels[i]]);
      }
    }
    return update;
  }

  Update target_together(const Request& request) {
    const auto start = std::chrono::steady_clock::now();
    Numbers numbers(request.numbers);
    const double scale = numbers.next();
    const VectorXd prior = numbers.prior(classes());
    numbers.end();
    predictor().take(request.weights);
    Calibration calibration = Calibration::identity((prior.array() > 0.0).count());
    calibration.scale *= scale;
    const VectorXd q = estimate_target_prior(*predictor().net, prior, calibration, estimator_of(settings_.ratio.method),
                                             {test_data(), parts().estimate});
    remember_target(q);
    return target_update(q, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  Update evaluate(const Request& request) {
    SharedNet& net = model_for_node(request.weights);
    Update update{.report = std::vector<double>(7, kUnknown)};
    update.report[0] = static_cast<double>(parts().evaluate.size());
    if (!test_data().labels.empty() && !parts().evaluate.empty()) {
      const RowMajorMatrix<float> logits = evaluate_logits(*net.net, test_data(), parts().evaluate);
      const Evaluation found =
          labelshift::evaluate(logits, labels_of(test_data(), parts().evaluate), Calibration::identity(classes()));
      update.report[1] = found.accuracy * update.report[0];
      update.report[2] = found.quality.nll * update.report[0];
    }
    if (!parts().held_out.empty()) reweighted(*net.net, update.report);
    return update;
  }

  /// Accuracy on held-out source examples, weighted by q_k / p_k^tr: sum w a / sum w, and its standard error.
  void reweighted(Net& net, std::vector<double>& report) const {
    const std::vector<float> q = remembered(kTargetEntry, classes());
    if (q.empty()) return;
    // A node's own predictor cannot see a class that the node lacks, so q says that none of its targets are of it.
    const bool own = settings_.ratio.estimated() && settings_.ratio.predictor == PredictorScope::kLocal;
    if (own && (source_prior(parts().train).array() == 0.0).any()) return;
    const std::vector<Index>& rows = parts().held_out;
    const RowMajorMatrix<float> logits = evaluate_logits(net, train_data(), rows);
    const std::vector<int> labels = labels_of(train_data(), rows);
    const VectorXd prior = source_prior(rows);
    std::vector<double> weights, right;
    for (Index i = 0; i < logits.rows(); ++i) {
      weights.push_back(q[labels[i]] / prior[labels[i]]);
      right.push_back(arg_max(logits, i) == labels[i]);
    }
    // Of a target that is partly of classes without held-out examples nothing can be said.
    double covered = 0.0;
    for (Index c = 0; c < classes(); ++c)
      if (prior[c] > 0.0) covered += q[c];
    if (covered < 0.99) return;
    double sum = 0.0, hits = 0.0, spread = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += weights[i];
      hits += weights[i] * right[i];
    }
    const double accuracy = hits / sum;
    for (std::size_t i = 0; i < weights.size(); ++i)
      spread += weights[i] * weights[i] * (right[i] - accuracy) * (right[i] - accuracy);
    const double effective = effective_rows(weights, std::ssize(weights));
    // Wilson's interval with the effective number of examples in place of n: it stays within [0, 1] and is not empty
    // where all are right. Where the weights go with the errors the sandwich is the wider one.
    constexpr double z = 1.959963984540054;
    const double n = std::min(effective, accuracy * (1.0 - accuracy) / std::max(spread / (sum * sum), 1e-300));
    const double size = accuracy > 0.0 && accuracy < 1.0 ? n : effective;
    const double centre = (accuracy + z * z / (2.0 * size)) / (1.0 + z * z / size);
    const double half =
        z / (1.0 + z * z / size) * std::sqrt(accuracy * (1.0 - accuracy) / size + z * z / (4.0 * size * size));
    report[3] = accuracy;
    report[4] = std::max(0.0, centre - half);
    report[5] = std::min(1.0, centre + half);
    report[6] = effective;
  }

  const FederationSettings& settings_;
  const AlgorithmEntry& algorithm_;
  const FederatedData& data_;
  NodeStore& store_;
  std::shared_ptr<const std::vector<NodeParts>> parts_;
  std::optional<SharedNet> model_, predictor_;
  std::uint64_t round_held_ = 0;  // whose weights the model has; rounds are counted from 1
  std::map<Index, PredictorRows> predictor_rows_;
  Index node_ = 0;
};

}  // namespace

NodeProgramFactory make_node_programs(const NodeSide& side) {
  auto parts = std::make_shared<const std::vector<NodeParts>>(parts_of(side.settings, side.data));
  return [side, parts] { return std::make_unique<Program>(side, parts); };
}

bool take_batch_norms(Net& model, const NodeStore& store, Index node) {
  const SharedWeights shared(model, /*batch_norms=*/false);
  const std::vector<float> values = store.get(node, kBatchNormEntry);
  if (values.empty() || std::ssize(values) != shared.local_size()) return false;
  shared.scatter_local(values, model.parameters(), model.buffers());
  return true;
}

}  // namespace labelshift
