#include "labelshift/federation/algorithms/fafed.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>

#include "labelshift/engine/float_loops.hpp"
#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

constexpr const char* kMomentum = "momentum";
constexpr const char* kSquares = "squares";

using Eigen::ArrayXf;

ArrayXf array_of(std::span<const float> values) {
  return Eigen::Map<const ArrayXf>(values.data(), std::ssize(values));
}

}  // namespace

FaFed::FaFed(const AlgorithmSetup& setup)
    : FedAvg(setup, plain_steps()),
      parameters_(shared().parameters()),
      adaptive_(setup.settings.server.optimiser != "sgd") {
  for (PartLayout* parts : {&request_parts_, &answer_parts_})
    parts->add(kMomentum, parameters_).add(kSquares, adaptive_ ? parameters_ : 0);
  // Every node takes the root of their mean in the next round.
  if (adaptive_) answer_parts_.never_negative(kSquares, answer_parts_.size() - parameters_, parameters_);
}

void FaFed::start(std::vector<float> weights) {
  FedAvg::start(std::move(weights));
  momentum_.assign(static_cast<std::size_t>(parameters_), 0.0F);
  squares_.assign(adaptive_ ? momentum_.size() : 0, 0.0F);
}

void FaFed::make_request(std::vector<float>& parts) const {
  FedAvg::make_request(parts);
  parts.insert(parts.end(), momentum_.begin(), momentum_.end());
  parts.insert(parts.end(), squares_.begin(), squares_.end());
}

void FaFed::server_update(const TrainingSums<double>& sums) {
  FedAvg::server_update(sums);
  divide_to_floats(answer_parts_.of(sums.parts, kMomentum), sums.weight, momentum_);
  divide_to_floats(answer_parts_.of(sums.parts, kSquares), sums.weight, squares_);
}

AlgorithmState FaFed::save() const {
  AlgorithmState state = FedAvg::save();
  state.parts[kMomentum] = momentum_;
  state.parts[kSquares] = squares_;
  return state;
}

void FaFed::load(AlgorithmState state) {
  check_kept(state.parts[kMomentum], parameters_);
  check_kept(state.parts[kSquares], std::ssize(squares_));
  momentum_ = std::move(state.parts[kMomentum]);
  squares_ = std::move(state.parts[kSquares]);
  FedAvg::load(std::move(state));
}

TaskAnswer<Train> FaFed::node_update(NodeRound& round) const {
  take_weights(round);
  Net& net = round.model.net();
  round.model.changed();
  const LocalSettings steps = local(round);
  const ServerSettings& server = settings().server;
  const auto beta = static_cast<float>(server.beta2);
  const auto kept = static_cast<float>(server.beta1);  // 1 - alpha
  const auto decay = static_cast<float>(steps.weight_decay);
  Eigen::Map<ArrayXf> x(net.parameters().data(), std::ssize(net.parameters()));
  const auto slope = [&] {  // of the batch, at the weights that the net has
    return Eigen::Map<const ArrayXf>(net.gradient().data(), x.size()) + decay * x;
  };
  ArrayXf m = array_of(request_parts_.of(round.request, kMomentum));
  ArrayXf v = array_of(request_parts_.of(round.request, kSquares));
  LocalGradients gradients(net, round.loss, round.seed, round.cancelled);
  const ArrayXf start = x;
  LocalUpdate update;
  if (round.number == 1) {  // x stays
    update.loss = gradients.next(steps.batch);
    m = slope();
    if (adaptive_) v = m.square();
  } else {
    ArrayXf rate = ArrayXf::Constant(x.size(), static_cast<float>(steps.learning_rate));  // eta A^-1
    if (adaptive_) rate /= v.sqrt() + static_cast<float>(server.epsilon);
    for (int step = 0; step < steps.steps; ++step) {
      const ArrayXf next = x - rate * m;
      const std::vector<float> buffers(net.buffers().begin(), net.buffers().end());
      gradients.next(steps.batch);
      m = kept * (m - slope());
      std::copy(buffers.begin(), buffers.end(), net.buffers().begin());  // a batch counts once in running means
      x = next;
      update.loss += gradients.again() / steps.steps;
      m += slope();
      if (adaptive_) v = beta * v + (1.0F - beta) * slope().square();
    }
  }
  update.taken.resize(static_cast<std::size_t>(x.size()));
  Eigen::Map<ArrayXf>(update.taken.data(), x.size()) = start - x;
  TaskAnswer<Train> answer = answer_of(round, update);
  answer.sums.parts.insert(answer.sums.parts.end(), m.begin(), m.end());  // nodes weigh 1
  answer.sums.parts.insert(answer.sums.parts.end(), v.begin(), v.end());
  return answer;
}

void check_fafed(const FederationSettings& settings) {
  check_fedavg(settings);
  check_everybody(settings);
  if (settings.local.epochs > 0)
    throw SettingError("training.local-epochs",
                       "fafed needs as many steps at every node; give local-steps instead of local-epochs");
  if (settings.regulariser.regularised())
    throw SettingError("training.regulariser",
                       "fafed steps in a metric of its own, and has no proximal step; use proxskip or fedavg");
  if (settings.rounds < 2)
    throw SettingError("training.rounds", "the first round of fafed has no step yet; give 2 rounds or more");
  const ServerSettings& server = settings.server;
  if (server.optimiser == "yogi")
    throw SettingError("training.server",
                       "fafed has matrices of its own; give server = \"adam\" for adaptive ones or \"sgd\" for none "
                       "(the step is local-learning-rate)");
  check_no_server_extras(settings);
  if (server.optimiser == "adam" && !(server.epsilon > 0.0))
    throw SettingError("training.epsilon", "the matrices of fafed are at least epsilon; give an epsilon above 0");
}

}  // namespace labelshift
