#include "labelshift/experiments/run_nodes.hpp"

#include "labelshift/federation/node_program.hpp"

namespace labelshift {
namespace {

class LocalNodes : public RunNodes {
 public:
  LocalNodes(const RunTask& task, InProcessSettings threads)
      : threads_(std::move(threads)), data_(make_federated_data(task.settings.data, task.settings.federation.seed)) {}

  const FederatedData& data() const override { return data_; }

  std::unique_ptr<Engine> start(const FederationSettings& settings, NodeStore& store) override {
    return make_in_process_engine(std::ssize(data_.nodes), make_node_programs(settings, data_, store), threads_);
  }

 private:
  const InProcessSettings threads_;
  const FederatedData data_;
};

}  // namespace

std::unique_ptr<RunNodes> open_local_nodes(const RunTask& task, const InProcessSettings& threads) {
  return std::make_unique<LocalNodes>(task, threads);
}

}  // namespace labelshift
