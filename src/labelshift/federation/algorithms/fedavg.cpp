#include "labelshift/federation/algorithms/fedavg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/engine/float_loops.hpp"
#include "labelshift/federation/codec.hpp"
#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

constexpr const char* kMean = "server/mean";
constexpr const char* kSquares = "server/squares";
constexpr const char* kSteps = "server/steps";

}  // namespace

FedAvg::FedAvg(const AlgorithmSetup& setup, const ServerSettings& server, bool batch_norms)
    : settings_(setup.settings),
      shared_(setup.net, batch_norms),
      server_(static_cast<std::size_t>(shared_.parameters()), server),
      regulariser_(setup.settings.regulariser, setup.net, batch_norms) {
  const Index buffers = shared_.size() - shared_.parameters();
  request_parts_.add("parameters", shared_.parameters()).add("buffers", buffers);
  answer_parts_.add("update", shared_.parameters()).add("buffers", buffers);
  for (const auto& [name, offset, size] : shared_.variances()) answer_parts_.never_negative(name, offset, size);
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
  regulariser_.prox(std::span(weights_).first(parameters), proximal_step());
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

LocalSettings FedAvg::local(const NodeRound& round) const {
  LocalSettings local = round.local;
  local.proximal = 0.0;
  return local;
}

double FedAvg::proximal_step() const {
  const LocalSettings& local = settings_.local;
  return settings_.server.learning_rate * (local.sends_gradient() ? 1.0 : local.steps * local.learning_rate);
}

void FedAvg::check_kept(const std::vector<float>& values, Index expected) {
  if (std::ssize(values) != expected)
    throw Error(ErrorKind::kInput,
                fmt::format("found {} values of an algorithm's state, expected {}: the data or the model have changed "
                            "since; start anew in another folder",
                            values.size(), expected));
}

std::vector<float>& FedAvg::memory_part(NodeRound& round, const char* name) const {
  std::vector<float>& values = round.memory[name];
  if (values.empty()) values.resize(static_cast<std::size_t>(shared_.parameters()));
  check_kept(values, shared_.parameters());
  return values;
}

void FedAvg::take_weights(NodeRound& round) const {
  round.model.take(round.request.first(static_cast<std::size_t>(shared_.size())), round.serial);
  personalise(round.model, round.memory);
}

LocalUpdate FedAvg::train_locally(NodeRound& round, std::span<const float> correction) const {
  const LocalSettings steps = local(round);
  take_weights(round);
  // A gradient leaves parameters as they came, so the next node of this worker need not copy them again.
  Net& net = round.model.net();
  if (!steps.sends_gradient() || !net.buffers().empty()) round.model.changed();
  LocalLoss loss = round.loss;
  loss.correction = correction;
  const std::vector<float> offsets = logit_offsets(loss);
  loss.offsets = offsets;
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

double sgd_theorem_step(const FederationSettings& settings, const StepFacts& facts, double steepest) {
  if (!settings.local.sends_gradient())
    throw SettingError("training.local-steps",
                       fmt::format("step = \"theorem\" is Thm. 5.5 with {}, which is about one local step; give "
                                   "local-steps = 1, or algorithm = \"fedcom\"",
                                   settings.algorithm));
  if (!settings.step.noise && !facts.whole_batches)
    throw SettingError("training.noise",
                       fmt::format("step = \"theorem\" is Thm. 5.5 with {}, which needs sigma, the noise of a gradient "
                                   "of {} examples; give it as noise, or noise = 0 where a batch is all that a node "
                                   "has",
                                   settings.algorithm, settings.local.batch));
  const double sigma = settings.step.noise.value_or(0.0);
  const double noise = sigma * sigma * steepest * settings.rounds;
  return noise > 0.0 ? std::min(1.0 / steepest, 1.0 / std::sqrt(noise)) : 1.0 / steepest;
}

void check_several_steps(const FederationSettings& settings) {
  if (settings.local.sends_gradient())
    throw SettingError("training.algorithm",
                       fmt::format("{} with one local step is fedavg; give local-steps above 1, or algorithm = "
                                   "\"fedavg\"",
                                   settings.algorithm));
}

std::vector<std::string> FedAvg::warnings() const {
  constexpr double kSmall = 0.05;
  const ServerSettings& server = settings_.server;
  if (settings_.local.sends_gradient() || server.optimiser != "sgd" || server.learning_rate >= kSmall ||
      settings_.step.rule == StepRule::kTheorem)
    return {};
  return {
      fmt::format("the server goes {} of the way that nodes have gone, which is very little; learning-rate = 1 is "
                  "their mean",
                  server.learning_rate)};
}

std::vector<std::string> FedAvg::warnings_of_tracking() const {
  std::vector<std::string> warnings = FedAvg::warnings();
  if (const double scale = largest_scale(settings_.compression, shared_.parameters()); scale > 2.0)
    warnings.push_back(fmt::format(
        "{} keeps at its nodes what compression changed, and {} makes what it sends {:.3g} times as large, so training "
        "may run away with any step; use qsgd, or a compression-kept of at least 0.5",
        settings_.algorithm, settings_.compression.codec, scale));
  return warnings;
}

std::vector<std::string> FedAvg::warnings_of_offsets() const {
  std::vector<std::string> warnings = FedAvg::warnings();
  if (settings_.ratio.weighted())
    warnings.push_back(
        fmt::format("{} allows for each node's label mix by itself, and importance weights do it a second time; give "
                    "[ratio] method = \"none\" to have it as it was published",
                    settings_.algorithm));
  return warnings;
}

void check_no_server_extras(const FederationSettings& settings) {
  const ServerSettings& server = settings.server;
  if (server.momentum != 0.0)
    throw SettingError("training.momentum",
                       fmt::format("{} has no momentum of the server; give momentum = 0", settings.algorithm));
  if (server.weight_decay != 0.0)
    throw SettingError("training.weight-decay",
                       fmt::format("{} has no weight decay of the server, and {} is given or the default; give "
                                   "weight-decay = 0, and local-weight-decay if the nodes are to have one",
                                   settings.algorithm, server.weight_decay));
}

void check_plain_server(const FederationSettings& settings) {
  if (settings.server.optimiser != "sgd")
    throw SettingError("training.server",
                       fmt::format("{} steps along the mean of updates as it is, and the server is {}, given or by "
                                   "default; give server = \"sgd\"",
                                   settings.algorithm, settings.server.optimiser));
  check_no_server_extras(settings);
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
