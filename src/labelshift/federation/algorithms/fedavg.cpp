#include "labelshift/federation/algorithms/fedavg.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labelshift/engine/float_loops.hpp"
#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

constexpr const char* kMean = "server/mean";
constexpr const char* kSquares = "server/squares";
constexpr const char* kSteps = "server/steps";

}  // namespace

FedAvg::FedAvg(const AlgorithmSetup& setup, bool batch_norms)
    : settings_(setup.settings),
      shared_(setup.net, batch_norms),
      server_(static_cast<std::size_t>(shared_.parameters()), setup.settings.server) {
  const Index buffers = shared_.size() - shared_.parameters();
  request_parts_.add("parameters", shared_.parameters()).add("buffers", buffers);
  answer_parts_.add("update", shared_.parameters()).add("buffers", buffers);
}

void FedAvg::start(std::vector<float> weights) {
  weights_ = std::move(weights);
}

void FedAvg::make_request(std::vector<float>& parts) const {
  parts.assign(weights_.begin(), weights_.end());
}

void FedAvg::server_update(const TrainingSums<double>& sums) {
  mean_.resize(weights_.size());
  divide_to_floats(std::span(sums.parts).first(mean_.size()), sums.weight, mean_);
  const auto parameters = static_cast<std::size_t>(shared_.parameters());
  server_.step(std::span(weights_).first(parameters), std::span(mean_).first(parameters));
  std::copy(mean_.begin() + shared_.parameters(), mean_.end(), weights_.begin() + shared_.parameters());
}

AlgorithmState FedAvg::save() const {
  const ServerStep::State& state = server_.state();
  return {.parts = {{kMean, state.mean}, {kSquares, state.squares}}, .counts = {{kSteps, state.steps}}};
}

void FedAvg::load(AlgorithmState state) {
  server_.restore({.steps = state.counts[kSteps],
                   .mean = std::move(state.parts[kMean]),
                   .squares = std::move(state.parts[kSquares])});
}

LocalSettings FedAvg::local() const {
  LocalSettings local = settings_.local;
  local.proximal = 0.0;
  return local;
}

LocalUpdate FedAvg::train_locally(NodeRound& round, std::span<const float> correction) const {
  const LocalSettings steps = local();
  round.model.take(round.request.first(static_cast<std::size_t>(shared_.size())), round.serial);
  personalise(round.model, round.memory);
  // A gradient leaves parameters as they came, so the next node of this worker need not copy them again.
  Net& net = round.model.net();
  if (!steps.sends_gradient() || !net.buffers().empty()) round.model.changed();
  LocalLoss loss = round.loss;
  loss.correction = correction;
  return local_training(net, loss, steps, round.seed, round.cancelled);
}

TaskAnswer<Train> FedAvg::answer_of(NodeRound& round, const LocalUpdate& update) const {
  Net& net = round.model.net();
  TaskAnswer<Train> answer;
  // A copy of 44,000 weights is worth saving in a step of LeNet.
  const bool all = update.taken.empty() && shared_.local_size() == 0 && net.buffers().empty();
  answer.sums = {.weight = round.weight,
                 .loss = round.weight * update.loss,
                 .parts = all ? net.take_gradient() : shared_.gather(update.update(net), net.buffers())};
  if (round.weight != 1.0)
    for (float& value : answer.sums.parts) value *= static_cast<float>(round.weight);
  return answer;
}

TaskAnswer<Train> FedAvg::node_update(NodeRound& round) const {
  return answer_of(round, train_locally(round));
}

void check_fedavg(const FederationSettings& settings) {
  if (settings.local.proximal != 0.0)
    throw SettingError("training.proximal",
                       fmt::format("{} has no proximal term; use algorithm = \"fedprox\"", settings.algorithm));
}

void check_several_steps(const FederationSettings& settings) {
  if (settings.local.sends_gradient())
    throw SettingError("training.algorithm",
                       fmt::format("{} with one local step is fedavg; give local-steps above 1, or algorithm = "
                                   "\"fedavg\"",
                                   settings.algorithm));
}

void check_plain_server(const FederationSettings& settings) {
  const ServerSettings& server = settings.server;
  if (server.optimiser != "sgd" || server.momentum != 0.0 || server.weight_decay != 0.0)
    throw SettingError("training.server",
                       fmt::format("{} steps along the mean of updates as it is; give server = \"sgd\", momentum = 0 "
                                   "and weight-decay = 0 (local-weight-decay is of the nodes)",
                                   settings.algorithm));
}

void check_everybody(const FederationSettings& settings) {
  if (settings.sampled != 0)
    throw SettingError("training.sampled",
                       fmt::format("{} needs every node in every round; drop sampled", settings.algorithm));
  if (settings.weighting != Weighting::kNodes)
    throw SettingError("training.weighting",
                       fmt::format("{} weighs nodes equally; drop weighting = \"pooled\"", settings.algorithm));
}

}  // namespace labelshift
