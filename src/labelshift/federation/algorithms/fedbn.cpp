#include "labelshift/federation/algorithms/fedbn.hpp"

#include <fmt/format.h>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

constexpr const char* kBatchNorms = "batch-norms";  // parameters, then buffers

}  // namespace

std::vector<std::string> FedBn::warnings() const {
  return {shared().local_size() == 0
              ? "the model has no batch norm, so fedbn is fedavg here"
              : "batch norms stay at their nodes: the saved model has those it started from, and needs a node's own"};
}

void FedBn::personalise(SharedNet& model, const NamedParts& memory) const {
  if (shared().local_size() == 0) return;
  const auto found = memory.find(kBatchNorms);
  const std::span<const float> mine = found == memory.end() ? model.fresh() : std::span(found->second);
  if (std::ssize(mine) != shared().local_size())
    throw Error(
        ErrorKind::kInput,
        fmt::format("it remembers {} numbers of its batch norms, expected {}: the data or the model have changed "
                    "since; start anew in another folder",
                    mine.size(), shared().local_size()));
  shared().scatter_local(mine, model.net().parameters(), model.net().buffers());
}

TaskAnswer<Train> FedBn::node_update(NodeRound& round) const {
  const LocalUpdate update = train_locally(round);
  TaskAnswer<Train> answer = answer_of(round, update);
  if (shared().local_size() == 0) return answer;
  Net& net = round.model.net();
  const std::span<float> parameters = net.parameters();
  const LocalSettings steps = local(round);
  if (steps.sends_gradient()) {
    // Nobody steps for the batch norms then: the node does, by its own SGD.
    const auto rate = static_cast<float>(steps.learning_rate);
    const auto decay = static_cast<float>(steps.weight_decay);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i] -= rate * (net.gradient()[i] + decay * parameters[i]);
  }
  round.model.changed();
  round.memory[kBatchNorms] = shared().gather_local(parameters, net.buffers());
  return answer;
}

}  // namespace labelshift
