#include "labelshift/federation/step_size.hpp"

#include <fmt/format.h>

#include <cmath>

#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/setting_error.hpp"
#include "labelshift/federation/setting_ranges.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {
namespace {

const NetEntry* convex_net(const FederationSettings& settings) {
  for (const NetEntry& entry : nets())
    if (entry.name == settings.model.name && entry.smoothness) return &entry;
  return nullptr;
}

/// beta of the loss of one example, with the weight decay that is part of the objective.
double smoothness(const FederationSettings& settings, const StepFacts& facts) {
  if (settings.step.smoothness) return *settings.step.smoothness;
  if (!facts.largest_square)
    throw SettingError(
        "training.smoothness",
        "step = \"theorem\" needs beta, and nodes keep to themselves what it is made of; give it as smoothness");
  return convex_net(settings)->smoothness(*facts.largest_square) +
         (settings.local.sends_gradient() ? settings.server.weight_decay : settings.local.weight_decay);
}

double largest_weight(const FederationSettings& settings, const StepFacts& facts) {
  if (!std::isnan(facts.largest_weight)) return facts.largest_weight;
  if (settings.ratio.max_ratio) return *settings.ratio.max_ratio;
  throw SettingError(
      "ratio.max-ratio",
      "step = \"theorem\" needs r_max, and nodes keep their weights to themselves; cut them by max-ratio");
}

}  // namespace

bool asks_for_squares(const FederationSettings& settings) {
  return settings.step.rule == StepRule::kTheorem && !settings.step.smoothness;
}

const char* step_key(const FederationSettings& settings) {
  return settings.local.sends_gradient() ? "learning-rate" : "local-learning-rate";
}

TheoremStep theorem_step(const FederationSettings& settings, const StepFacts& facts) {
  TheoremStep step{.largest_weight = largest_weight(settings, facts), .smoothness = smoothness(settings, facts)};
  step.noise = settings.step.noise;
  if (!step.noise && facts.whole_batches) step.noise = 0.0;
  step.rate = algorithm_of(settings).theorem_step(settings, facts, step.largest_weight * step.smoothness);
  const Range& range = find_entry(ranged_settings<FederationSettings>(), "setting", "training.learning-rate").range;
  if (!range.contains(step.rate))
    throw SettingError("training.step",
                       fmt::format("the step of the theorem is {}, from r_max = {} and beta = {}; expected {}. Give "
                                   "another smoothness or max-ratio, or step = \"given\"",
                                   step.rate, step.largest_weight, step.smoothness, range.words()));
  return step;
}

bool takes_whole_batches(const FederationSettings& settings, double examples) {
  return static_cast<double>(settings.local.batch) >= examples;
}

void check_theorem_step(const FederationSettings& settings, Index nodes, std::optional<double> examples) {
  if (settings.step.rule != StepRule::kTheorem) return;
  const AlgorithmEntry& algorithm = algorithm_of(settings);
  if (!algorithm.theorem_step)
    throw SettingError(
        "training.step",
        fmt::format("no theorem gives the step of {}; give learning rates, with step = \"given\"", settings.algorithm));
  const ServerSettings& server = settings.server;
  if (server.optimiser != "sgd" || server.momentum != 0.0)
    throw SettingError("training.step", "step = \"theorem\" is for server = \"sgd\" without momentum");
  if (settings.local.epochs > 0)
    throw SettingError("training.step", "step = \"theorem\" needs local-steps instead of local-epochs");
  if (!settings.step.smoothness && !convex_net(settings))
    throw SettingError("training.smoothness",
                       fmt::format("step = \"theorem\" computes beta for convex models alone; give smoothness for {}",
                                   settings.model.name));
  const Index in_round = settings.sampled > 0 ? settings.sampled : nodes;
  const StepFacts facts{.nodes = static_cast<double>(in_round),
                        .whole_batches = !examples || takes_whole_batches(settings, *examples)};
  algorithm.theorem_step(settings, facts, 1.0);  // throws if it is not about these
}

}  // namespace labelshift
