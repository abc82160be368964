#include "labelshift/federation/algorithms/proxskip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/federation/setting_error.hpp"
#include "labelshift/federation/streams.hpp"

namespace labelshift {
namespace {

constexpr const char* kShift = "shift";  // h_k at a node
constexpr const char* kSent = "sent";    // v_k of the last round, as the server reads it

}  // namespace

ProxSkip::ProxSkip(const AlgorithmSetup& setup) : FedAvg(setup, plain_steps()) {}

std::vector<std::string> ProxSkip::warnings() const {
  return warnings_of_tracking();
}

LocalSettings ProxSkip::local(const NodeRound& round) const {
  LocalSettings local = FedAvg::local(round);
  local.always_steps = true;
  return local;
}

double ProxSkip::proximal_step() const {
  return settings().local.learning_rate / settings().round_probability;
}

void ProxSkip::node_settle(NodeRound& round) const {
  const std::vector<float>& sent = memory_part(round, kSent);
  std::vector<float>& shift = memory_part(round, kShift);
  const double scale = settings().round_probability / round.local.learning_rate;
  for (std::size_t i = 0; i < shift.size(); ++i)
    shift[i] = static_cast<float>(scale * (static_cast<double>(round.request[i]) - sent[i]));
}

TaskAnswer<Train> ProxSkip::node_update(NodeRound& round) const {
  const std::vector<float>& shift = memory_part(round, kShift);
  std::vector<float> correction(shift.size());
  std::transform(shift.begin(), shift.end(), correction.begin(), std::negate<>());
  LocalUpdate update = train_locally(round, correction);
  const double scale = round.local.learning_rate / settings().round_probability;
  for (std::size_t i = 0; i < shift.size(); ++i) update.taken[i] += static_cast<float>(scale * shift[i]);
  return answer_of(round, update);
}

void ProxSkip::node_sent(NodeRound& round, std::span<const float> update) const {
  std::vector<float>& sent = memory_part(round, kSent);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = round.request[i] - update[i];
}

std::uint32_t draw_proxskip_steps(const FederationSettings& settings, std::uint64_t round) {
  // The first success of coins of probability p, by inversion of its distribution.
  const double miss = 1.0 - settings.round_probability;
  if (miss == 0.0) return 1;
  Rng rng(stream_seed(settings.seed, Stream::kCoin), round);
  const double steps = 1.0 + std::floor(std::log1p(-rng.uniform()) / std::log(miss));
  return static_cast<std::uint32_t>(std::min(steps, static_cast<double>(Train::kMostSteps)));
}

void check_proxskip(const FederationSettings& settings) {
  check_fedavg(settings);
  check_everybody(settings);
  const LocalSettings& local = settings.local;
  if (local.steps != 1 || local.epochs != 0)
    throw SettingError("training.local-steps",
                       "proxskip draws how many steps a round has, 1 / round-probability on average; give "
                       "local-steps = 1 and no local-epochs");
  check_plain_server(settings);
  if (settings.server.learning_rate != 1.0)
    throw SettingError(
        "training.learning-rate",
        fmt::format("proxskip goes to the mean of its nodes, and the server's learning rate is {}, given "
                    "or by default; give learning-rate = 1 (the step is local-learning-rate)",
                    settings.server.learning_rate));
}

}  // namespace labelshift
