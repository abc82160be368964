#include "labelshift/experiments/predictor_shelf.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

constexpr const char* kWeights = "weights";
constexpr const char* kCost = "cost";

/// Keys of an experiment file that the training of a federated predictor depends on, besides those of the data.
constexpr struct {
  const char* section;
  const char* key;
} kTrainedBy[] = {{"ratio", "net"},           {"ratio", "net-settings"}, {"ratio", "rounds"},
                  {"ratio", "learning-rate"}, {"ratio", "weight-decay"}, {"ratio", "fraction"},
                  {"ratio", "held-out"},      {"training", "sampled"},   {"training", "batch"},
                  {"run", "source-holdout"},  {"run", "target-holdout"}, {"run", "device"}};

}  // namespace

bool PredictorShelf::is_for(const RunSettings& settings) {
  const RatioSettings& ratio = settings.federation.ratio;
  return ratio.estimated() && ratio.predictor == PredictorScope::kFederated && !settings.data.at_sites();
}

PredictorShelf::PredictorShelf(std::string folder, const RunSettings& settings, const std::string& fingerprint)
    : folder_(std::move(folder)) {
  const Json all = Json::parse(settings_json(settings));
  const FederationSettings& federation = settings.federation;
  Json from{{"version", version()},
            {"data", all.at("data")},
            {"fingerprint", fingerprint},
            {"seed", federation.seed},
            // Whether nodes hold examples out.
            {"held-out", federation.ratio.refreshed() || find_method(federation.ratio.method).needs_held_out()}};
  for (const auto& [section, key] : kTrainedBy)
    if (all.at(section).contains(key)) from[section][key] = all[section][key];
  made_from_ = json_line(from);
}

std::string PredictorShelf::path(double zeta) const {
  const std::string sum = sha256_of(fmt::format("{} zeta {}", made_from_, zeta));
  return fmt::format("{}/federated-{}.safetensors", folder_, sum.substr(0, 32));
}

std::optional<TrainedTogether> PredictorShelf::find(double zeta) const {
  if (!is_whole_safetensors(path(zeta))) return std::nullopt;
  try {
    const SafetensorsFile file(path(zeta));
    const Json cost = Json::parse(file.metadata(kCost));
    TrainedTogether found;
    for (const NamedTensor& tensor : file.tensors())
      if (tensor.name == kWeights) found.weights.assign(tensor.values.begin(), tensor.values.end());
    found.cost.rounds = cost.at("rounds").get<Index>();
    found.cost.traffic.up = cost.at("bytes_up").get<std::uint64_t>();
    found.cost.traffic.down = cost.at("bytes_down").get<std::uint64_t>();
    found.cost.seconds = cost.at("seconds").get<double>();
    return found;
  } catch (const std::exception&) {  // by a program that kept other things: it is trained again
    return std::nullopt;
  }
}

void PredictorShelf::keep(double zeta, const TrainedTogether& trained) const {
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  const Json cost{{"rounds", trained.cost.rounds},
                  {"bytes_up", trained.cost.traffic.up},
                  {"bytes_down", trained.cost.traffic.down},
                  {"seconds", trained.cost.seconds}};
  const NamedTensor tensor{kWeights, {std::ssize(trained.weights)}, trained.weights};
  write_safetensors(path(zeta), {&tensor, 1},
                    {{"made_from", made_from_}, {"zeta", fmt::format("{}", zeta)}, {kCost, json_line(cost)}});
}

}  // namespace labelshift
