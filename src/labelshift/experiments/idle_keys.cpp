#include "labelshift/experiments/idle_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "labelshift/experiments/tuning.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

/// What keys need of the settings to have an effect.
struct Need {
  std::vector<std::string> keys;
  bool (*holds)(const RunSettings& run);
  const char* otherwise;  // goes on from "has no effect, since"
};

constexpr const char* kByTheorem = "step = \"theorem\" computes it";

bool has_method(const RunSettings& run) {
  return run.federation.ratio.weighted();
}
bool is_given(const RunSettings& run) {
  return run.federation.step.rule == StepRule::kGiven;
}
bool sends_gradient(const RunSettings& run) {
  return run.federation.local.sends_gradient();
}
template <typename... Names>
bool runs(const RunSettings& run, Names... names) {
  return ((run.federation.algorithm == names) || ...);
}
bool has_scope(const RunSettings& run, PredictorScope scope) {
  return run.federation.ratio.predictor == scope;
}
bool has_plain_server(const RunSettings& run) {
  return run.federation.server.optimiser == "sgd";
}

/// Of several needs of a key the first that does not hold is told.
const std::vector<Need>& needs() {
  static const std::vector<Need> table = {
      {{"data.alpha"}, [](auto& run) { return run.data.partition == "dirichlet"; }, "the partition is not dirichlet"},
      {{"training.local-learning-rate", "training.local-weight-decay"},
       [](auto& run) { return !sends_gradient(run) || runs(run, "fedbn", "fafed", "proxskip"); },
       "a node with one local step sends its gradient and takes no step itself"},
      {{"training.local-learning-rate"}, [](auto& run) { return is_given(run) || sends_gradient(run); }, kByTheorem},
      {{"training.learning-rate"},
       [](auto& run) { return !runs(run, "fafed"); },
       "fafed steps at its nodes, by local-learning-rate"},
      {{"training.learning-rate"}, [](auto& run) { return is_given(run) || !sends_gradient(run); }, kByTheorem},
      {{"training.momentum"}, has_plain_server, "the server is not sgd"},
      {{"training.beta1"}, [](auto& run) { return !has_plain_server(run) || runs(run, "fafed"); }, "the server is sgd"},
      {{"training.beta2", "training.epsilon"}, [](auto& run) { return !has_plain_server(run); }, "the server is sgd"},
      {{"training.compression-levels"},
       [](auto& run) { return run.federation.compression.codec == "qsgd"; },
       "compression is not qsgd"},
      {{"training.compression-kept"},
       [](auto& run) { return run.federation.compression.codec == "random-k"; },
       "compression is not random-k"},
      {{"training.regulariser-strength"},
       [](auto& run) { return run.federation.regulariser.name.ends_with("l1"); },
       "the regulariser is neither l1 nor group-l1"},
      {{"training.regulariser-bound"},
       [](auto& run) { return run.federation.regulariser.name == "box"; },
       "the regulariser is not box"},
      {{"training.round-probability"},
       [](auto& run) { return runs(run, "proxskip"); },
       "the algorithm is not proxskip"},
      {{"training.fedlc-tau"}, [](auto& run) { return runs(run, "fedlc"); }, "the algorithm is not fedlc"},
      {{"training.fedpals-lambda"}, [](auto& run) { return runs(run, "fedpals"); }, "the algorithm is not fedpals"},
      {{"training.smoothness", "training.noise"}, [](auto& run) { return !is_given(run); }, "step is not \"theorem\""},
      {{"training.noise"},
       [](auto& run) { return runs(run, "fedavg", "iw-erm"); },
       "sigma is of Thm. 5.5, which is about fedavg and iw-erm"},
      {{"ratio.max-ratio", "ratio.goal-node", "ratio.goal-shift", "ratio.shared-prior", "ratio.refresh", "ratio.floor"},
       has_method,
       "[ratio] has no method"},
      {{"ratio.max-ratio"}, [](auto& run) { return !runs(run, "fedpals"); }, "fedpals has no importance weights"},
      {{"ratio.predictor", "ratio.exchange", "ratio.net", "ratio.net-settings", "ratio.fraction", "ratio.held-out",
        "ratio.epochs", "ratio.stop-below", "ratio.rounds", "ratio.learning-rate", "ratio.weight-decay",
        "ratio.calibrate-on-test"},
       [](auto& run) { return run.federation.ratio.estimated() && run.federation.ratio.goal_shift; },
       "[ratio] estimates nothing"},
      {{"ratio.held-out"},
       [](auto& run) {
         const RatioSettings& ratio = run.federation.ratio;
         return ratio.refreshed() || find_method(ratio.method).needs_held_out();
       },
       "the method needs no examples that its predictor was not trained on"},
      {{"ratio.epochs", "ratio.stop-below"},
       [](auto& run) { return has_scope(run, PredictorScope::kLocal); },
       "the predictor is federated"},
      {{"ratio.rounds"}, [](auto& run) { return has_scope(run, PredictorScope::kFederated); }, "predictors are local"},
      {{"ratio.floor"}, [](auto& run) { return run.federation.ratio.refreshed(); }, "ratios are not refreshed"},
      {{"run.source-holdout"},
       has_method,
       "[ratio] has no method: nothing is judged by the examples that it takes from training"},
  };
  return table;
}

}  // namespace

std::string why_idle(const std::string& key, const RunSettings& settings) {
  for (const Need& need : needs())
    if (std::find(need.keys.begin(), need.keys.end(), key) != need.keys.end() && !need.holds(settings))
      return need.otherwise;
  return "";
}

std::vector<std::string> idle_key_notes(const Experiment& experiment) {
  if (!experiment.version.empty()) return {};
  std::map<std::string, std::string> idle;  // lines, and why a row makes no use of them
  std::set<std::string> used;
  for (const ComparedRun& run : experiment.runs)
    for (const TuningCandidate& candidate : candidates_of(run))
      for (const auto& [key, place] : run.places) {
        const std::string line = fmt::format("{}: {}", place, key);
        const std::string why = why_idle(key, candidate.run.settings);
        if (why.empty())
          used.insert(line);
        else
          idle.emplace(line, why);
      }
  std::vector<std::string> notes;
  for (const auto& [line, why] : idle)
    if (!used.contains(line)) notes.push_back(fmt::format("{} has no effect, since {}.", line, why));
  return notes;
}

}  // namespace labelshift
