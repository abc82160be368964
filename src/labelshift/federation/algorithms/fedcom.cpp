#include "labelshift/federation/algorithms/fedcom.hpp"

#include <fmt/format.h>

#include "labelshift/federation/setting_error.hpp"

namespace labelshift {

void check_fedcom(const FederationSettings& settings) {
  check_fedavg(settings);
  check_plain_server(settings);
  if (!settings.compression.compressed())
    throw SettingError(
        "training.compression",
        "fedcom is about compressed updates; give compression = \"qsgd\" or \"random-k\", or algorithm = "
        "\"fedavg\"");
}

double compressed_theorem_step(const FederationSettings& settings, const StepFacts& facts, double steepest) {
  const double whole = 1.0 / (2.0 * steepest * (facts.compression_variance / facts.nodes + 1.0));  // gamma tau eta
  if (settings.local.sends_gradient()) return whole;
  if (settings.server.learning_rate < facts.nodes)
    throw SettingError(
        "training.learning-rate",
        fmt::format(
            "the step of Thm. F.1 is for a gamma (learning-rate) of at least the number of nodes; give learning-rate = "
            "{:.0f} or more",
            facts.nodes));
  return whole / (settings.server.learning_rate * settings.local.steps);
}

}  // namespace labelshift
