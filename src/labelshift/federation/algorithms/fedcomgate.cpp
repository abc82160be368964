#include "labelshift/federation/algorithms/fedcomgate.hpp"

#include <algorithm>

#include "labelshift/engine/float_loops.hpp"
#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

constexpr const char* kAggregate = "aggregate";  // in a request and at the server
constexpr const char* kDelta = "delta";          // at a node
constexpr const char* kSent = "sent";            // in the last round, as the server reads it

}  // namespace

FedComGate::FedComGate(const AlgorithmSetup& setup) : FedAvg(setup), parameters_(shared().parameters()) {
  request_parts_.add(kAggregate, parameters_);
}

std::vector<std::string> FedComGate::warnings() const {
  return warnings_of_tracking();
}

void FedComGate::start(std::vector<float> weights) {
  FedAvg::start(std::move(weights));
  aggregate_.assign(static_cast<std::size_t>(parameters_), 0.0F);
}

void FedComGate::make_request(std::vector<float>& parts) const {
  FedAvg::make_request(parts);
  parts.insert(parts.end(), aggregate_.begin(), aggregate_.end());
}

void FedComGate::server_update(const TrainingSums<double>& sums) {
  FedAvg::server_update(sums);
  divide_to_floats(std::span(sums.parts).first(aggregate_.size()), sums.weight, aggregate_);
}

AlgorithmState FedComGate::save() const {
  AlgorithmState state = FedAvg::save();
  state.parts[kAggregate] = aggregate_;
  return state;
}

void FedComGate::load(AlgorithmState state) {
  check_kept(state.parts[kAggregate], parameters_);
  aggregate_ = std::move(state.parts[kAggregate]);
  FedAvg::load(std::move(state));
}

void FedComGate::node_settle(NodeRound& round) const {
  const std::span<const float> aggregate = request_parts_.of(round.request, kAggregate);
  const std::vector<float>& sent = memory_part(round, kSent);
  std::vector<float>& delta = memory_part(round, kDelta);
  const double scale = 1.0 / (settings().local.steps * round.local.learning_rate);
  for (std::size_t i = 0; i < delta.size(); ++i)
    delta[i] += static_cast<float>(scale * (static_cast<double>(sent[i]) - aggregate[i]));
}

TaskAnswer<Train> FedComGate::node_update(NodeRound& round) const {
  const std::vector<float>& delta = memory_part(round, kDelta);
  std::vector<float> correction(delta.size());
  std::transform(delta.begin(), delta.end(), correction.begin(), std::negate<>());
  return answer_of(round, train_locally(round, correction));
}

void FedComGate::node_sent(NodeRound& round, std::span<const float> update) const {
  std::vector<float>& sent = memory_part(round, kSent);
  std::copy(update.begin(), update.end(), sent.begin());  // nodes weigh 1
}

void check_fedcomgate(const FederationSettings& settings) {
  check_fedavg(settings);
  check_plain_server(settings);
  check_several_steps(settings);
  check_everybody(settings);
  if (settings.local.epochs > 0)
    throw SettingError("training.local-epochs",
                       "fedcomgate needs as many steps at every node; give local-steps instead of local-epochs");
}

}  // namespace labelshift
