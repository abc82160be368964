#include "labelshift/federation/node_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/streams.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

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

NodeParts parts_of(const FederationSettings& settings, const NodeData& has, Index node) {
  const std::uint64_t seed = node_seed(settings.seed, Stream::kParts, node);
  NodeParts part{.train = has.train_rows, .estimate = has.test_rows, .evaluate = has.test_rows};
  if (settings.source_holdout > 0.0) {
    HoldOut split = hold_out_repeated(has.train->labels, has.train_rows, has.train->classes(),
                                      Fraction{settings.source_holdout}, seed);
    part.train = std::move(split.kept);
    part.held_out = std::move(split.held_out);
  }
  if (settings.target_holdout > 0.0) {
    HoldOut split = random_part(has.test_rows, settings.target_holdout, seed);
    part.estimate = std::move(split.held_out);
    part.evaluate = std::move(split.kept);
  }
  return part;
}

/// The other way round: the round of an entry of this name, or nothing if it is another's.
std::optional<std::uint64_t> round_of(std::string_view entry, std::string_view name) {
  if (entry == name) return 0;
  std::uint64_t round = 0;
  if (!entry.starts_with(name) || entry[name.size()] != '-') return std::nullopt;
  const char* end = entry.data() + entry.size();
  const auto parsed = std::from_chars(entry.data() + name.size() + 1, end, round);
  return parsed.ec == std::errc{} && parsed.ptr == end ? std::optional(round) : std::nullopt;
}

}  // namespace

std::string entry_of(const char* name, std::uint64_t round) {
  return round == 0 ? name : fmt::format("{}-{}", name, round);
}

NodeContext::NodeContext(NodeWorker& worker, const NodeCall& call, const NodeData& data, NodeMemory& memory)
    : worker_(worker), call_(call), data_(data), memory_(memory) {}

const NodeParts& NodeContext::parts() {
  return worker_.parts_.get(node(), [&] { return parts_of(settings(), data_, node()); });
}

const PredictorRows& NodeContext::predictor_rows() {
  if (!settings().ratio.estimated())
    throw Error(ErrorKind::kPeer, "it was asked for a predictor, and the settings of this run have none");
  return worker_.predictor_rows_.get(node(), [&] {
    return labelshift::predictor_rows(train_data(), parts().train, settings().ratio,
                                      node_seed(settings().seed, Stream::kLocalPredictor, node()));
  });
}

const std::vector<Index>& NodeContext::model_rows() {
  if (!settings().ratio.refreshed()) return parts().train;
  return worker_.model_rows_.get(node(), [&] {
    const std::vector<Index>& held_out = predictor_rows().held_out;
    const std::set<Index> taken(held_out.begin(), held_out.end());
    std::vector<Index> rows;
    for (const Index row : parts().train)
      if (!taken.contains(row)) rows.push_back(row);
    return rows;
  });
}

VectorXd NodeContext::source_prior(std::span<const Index> rows) const {
  return empirical_prior(class_counts(train_data().labels, rows, classes()));
}

VectorXd NodeContext::true_target() const {
  if (test_rows().empty()) return VectorXd::Zero(classes());
  return empirical_prior(class_counts(test_data().labels, test_rows(), classes()));
}

std::optional<double> NodeContext::prior_error(const VectorXd& q) const {
  if (!has_truth()) return std::nullopt;
  return (q - true_target()).lpNorm<1>();
}

namespace {

/// Of a node that was started with another memory, most often.
Error forgotten() {
  return Error(
      ErrorKind::kPeer,
      "it remembers nothing of the beginning of this run; give it the memory that it had then, or begin the run "
      "again in another folder");
}

}  // namespace

RunFacts NodeContext::facts() const {
  auto facts = recall<RunFacts>(memory_, "run");
  if (!facts) throw forgotten();
  return std::move(*facts);
}

void NodeContext::renew_nets() {
  if (std::exchange(renewed_, true)) return;
  RunFacts known = facts();
  if (!known.agreed) throw forgotten();
  Normalisation agreed{std::move(known.agreed->mean), std::move(known.agreed->scale)};
  if (agreed == worker_.agreed_) return;
  worker_.model_.reset();
  worker_.predictor_.reset();
  worker_.algorithm_.reset();
  worker_.agreed_ = std::move(agreed);
}

NetSpec NodeContext::spec_of(const NetChoice& choice) {
  renew_nets();
  return {.name = choice.name,
          .settings = choice.settings,
          .shape = train_data().shape,
          .classes = classes(),
          .normalisation = worker_.agreed_};
}

// Weights come with every request, so the seed of a net does not matter.

SharedNet& NodeContext::model() {
  algorithm();
  return *worker_.model_;
}

SharedNet& NodeContext::predictor() {
  renew_nets();
  if (!worker_.predictor_)
    worker_.predictor_ = std::make_unique<SharedNet>(
        make_net(spec_of(settings().ratio.net), /*seed=*/0, settings().device), /*batch_norms=*/true);
  return *worker_.predictor_;
}

const FederatedAlgorithm& NodeContext::algorithm() {
  renew_nets();
  if (!worker_.algorithm_) {
    auto net = make_net(spec_of(settings().model), /*seed=*/0, settings().device);
    auto algorithm = make_algorithm({settings(), *net, facts().hello.nodes});
    worker_.model_ = std::make_unique<SharedNet>(std::move(net), algorithm->shares_batch_norms());
    worker_.algorithm_ = std::move(algorithm);
  }
  return *worker_.algorithm_;
}

Net& NodeContext::asked_model() {
  const FederatedAlgorithm& how = algorithm();
  SharedNet& asked = model();
  asked.take(call_.request.weights, call_.serial);
  NamedParts kept;
  if (how.has_memory()) kept = recall_round(memory_, call_.to.counted);
  how.personalise(asked, kept);
  return asked.net();
}

std::optional<VectorXd> NodeContext::class_numbers(const std::string& name) const {
  auto found = recall<ClassNumbers>(memory_, name);
  if (!found) return std::nullopt;
  if (found->values.size() != classes() || (found->values.array() < 0.0).any())
    throw Error(
        ErrorKind::kInput,
        fmt::format("what it remembers as its {} is {} numbers, expected {} that are not negative: the data have "
                    "changed since, or its memory is damaged; start again in another folder",
                    name, found->values.size(), classes()));
  return std::move(found->values);
}

void NodeContext::remember_class_numbers(const std::string& name, const VectorXd& values) {
  remember(memory_, name, ClassNumbers{values});
}

std::vector<float> NodeContext::class_weights(const std::string& name) const {
  const std::optional<VectorXd> found = class_numbers(name);
  if (!found) return {};
  const Eigen::VectorXf rounded = found->cast<float>();
  return {rounded.begin(), rounded.end()};
}

void NodeContext::forget_entries_before(std::uint64_t round) {
  // A checkpoint of this very round was written before these entries were made.
  if (round == 0 || call_.to.durable <= round) return;
  for (const char* name : {kRatioEntry, kTargetEntry})
    for (const std::string& entry : memory_.names(name))
      if (const auto made = round_of(entry, name); made && *made < round) memory_.erase(entry);
}

}  // namespace labelshift
