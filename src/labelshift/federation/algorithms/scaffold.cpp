#include "labelshift/federation/algorithms/scaffold.hpp"

#include <algorithm>

#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

constexpr const char* kControl = "control";        // c in a request and at the server, c_k at a node
constexpr const char* kChange = "control-change";  // of c_k
constexpr const char* kNodes = "nodes";            // that c is the mean of

}  // namespace

Scaffold::Scaffold(const AlgorithmSetup& setup)
    : FedAvg(setup), parameters_(shared().parameters()), nodes_(setup.nodes) {
  request_parts_.add(kControl, parameters_);
  answer_parts_.add(kChange, parameters_);
}

void Scaffold::start(std::vector<float> weights) {
  FedAvg::start(std::move(weights));
  control_.assign(static_cast<std::size_t>(parameters_), 0.0F);
}

/// The c_k of who has gone would stay in c for ever, and pull the others to its data.
void Scaffold::begin_anew(Index nodes) {
  nodes_ = nodes;
  std::fill(control_.begin(), control_.end(), 0.0F);
}

void Scaffold::make_request(std::vector<float>& parts) const {
  FedAvg::make_request(parts);
  parts.insert(parts.end(), control_.begin(), control_.end());
}

void Scaffold::server_update(const TrainingSums<double>& sums) {
  FedAvg::server_update(sums);
  // c <- c + |S| / K mean_S (change of c_k)
  const std::span<const double> change = answer_parts_.of(sums.parts, kChange);
  for (std::size_t i = 0; i < control_.size(); ++i)
    control_[i] += static_cast<float>(change[i] / static_cast<double>(nodes_));
}

AlgorithmState Scaffold::save() const {
  AlgorithmState state = FedAvg::save();
  state.parts[kControl] = control_;
  state.counts[kNodes] = nodes_;
  return state;
}

void Scaffold::load(AlgorithmState state) {
  check_kept(state.parts[kControl], parameters_);
  control_ = std::move(state.parts[kControl]);
  if (const auto found = state.counts.find(kNodes); found != state.counts.end()) nodes_ = found->second;
  FedAvg::load(std::move(state));
}

TaskAnswer<Train> Scaffold::node_update(NodeRound& round) const {
  const std::span<const float> server = request_parts_.of(round.request, kControl);
  std::vector<float>& control = memory_part(round, kControl);
  std::vector<float> correction(control.size());
  for (std::size_t i = 0; i < control.size(); ++i) correction[i] = server[i] - control[i];
  const LocalUpdate update = train_locally(round, correction);
  TaskAnswer<Train> answer = answer_of(round, update);
  // Option II of Karimireddy et al. (2020): c_k+ = c_k - c + (x - y) / (tau eta).
  const double scale = 1.0 / (static_cast<double>(update.steps) * round.local.learning_rate);
  for (std::size_t i = 0; i < control.size(); ++i) {
    const auto next = static_cast<float>(control[i] - server[i] + scale * update.taken[i]);
    answer.sums.parts.push_back(next - control[i]);
    control[i] = next;
  }
  return answer;
}

void check_scaffold(const FederationSettings& settings) {
  check_fedavg(settings);
  check_several_steps(settings);
  if (settings.weighting != Weighting::kNodes)
    throw SettingError("training.weighting", "scaffold weighs nodes equally; drop weighting = \"pooled\"");
}

}  // namespace labelshift
