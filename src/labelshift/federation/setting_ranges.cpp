#include "labelshift/federation/setting_ranges.hpp"

#include <fmt/format.h>

#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

constexpr Range kNode{.high = 1e6, .whole = true};  // its number, or how many there are; 0 is none or all of them
constexpr Range kCountOrNone{.high = 1e9, .whole = true};
constexpr Range kRate{.low = 1e-30, .high = 1e6};          // what is less would be 0 in the arithmetic of a net
constexpr Range kStrength{.high = 1e6};                    // which 0 turns off
constexpr Range kHeldOut{.high = 1.0, .open_high = true};  // something has to be left
constexpr Range kUsed{.high = 1.0, .open_low = true};      // something has to be there
constexpr Range kSplit{.high = 1.0, .open_low = true, .open_high = true};  // on both sides
constexpr Range kDecay{.high = 1.0, .open_high = true};                    // of a running mean, which 1 stops
constexpr Range kMostWeight{.low = 1e-30, .advice = "; leave it out for no limit"};
constexpr Range kLimit{.open_low = true, .advice = "; leave it out for no limit"};

constexpr RangedSetting<DataSettings> kDataSettings[] = {
    ranged<DataSettings, &DataSettings::nodes>("data.nodes", kNode),
    ranged<DataSettings, &DataSettings::alpha>("data.alpha", {.low = 1e-6, .high = 1e6}),
    ranged<DataSettings, &DataSettings::fraction>("data.fraction", kUsed),
    ranged<DataSettings, &DataSettings::only_node>("data.only-node", kNode),
};

template <auto member>
constexpr auto of_all = ranged<FederationSettings, member>;
template <auto member>
constexpr auto of_local = ranged<FederationSettings, &FederationSettings::local, member>;
template <auto member>
constexpr auto of_server = ranged<FederationSettings, &FederationSettings::server, member>;
template <auto member>
constexpr auto of_compression = ranged<FederationSettings, &FederationSettings::compression, member>;
template <auto member>
constexpr auto of_regulariser = ranged<FederationSettings, &FederationSettings::regulariser, member>;
template <auto member>
constexpr auto of_step = ranged<FederationSettings, &FederationSettings::step, member>;
template <auto member>
constexpr auto of_ratio = ranged<FederationSettings, &FederationSettings::ratio, member>;

constexpr RangedSetting<FederationSettings> kFederationSettings[] = {
    of_all<&FederationSettings::rounds>("training.rounds", kCount),
    of_all<&FederationSettings::sampled>("training.sampled", kNode),
    of_local<&LocalSettings::steps>("training.local-steps", kCount),
    of_local<&LocalSettings::epochs>("training.local-epochs", kCountOrNone),
    of_local<&LocalSettings::batch>("training.batch", kCount),
    of_local<&LocalSettings::learning_rate>("training.local-learning-rate", kRate),
    of_local<&LocalSettings::weight_decay>("training.local-weight-decay", kStrength),
    of_local<&LocalSettings::proximal>("training.proximal", kStrength),
    of_server<&ServerSettings::learning_rate>("training.learning-rate", kRate),
    of_server<&ServerSettings::weight_decay>("training.weight-decay", kStrength),
    of_server<&ServerSettings::momentum>("training.momentum", kDecay),
    of_server<&ServerSettings::beta1>("training.beta1", kDecay),
    of_server<&ServerSettings::beta2>("training.beta2", kDecay),
    of_server<&ServerSettings::epsilon>("training.epsilon", {.high = 1.0}),
    of_compression<&CompressionSettings::levels>("training.compression-levels",
                                                 {.low = 1.0, .high = 32767.0, .whole = true}),
    of_compression<&CompressionSettings::kept>("training.compression-kept", kUsed),
    of_regulariser<&RegulariserSettings::strength>("training.regulariser-strength", kStrength),
    of_regulariser<&RegulariserSettings::bound>("training.regulariser-bound", kStrength),
    of_step<&StepSettings::smoothness>("training.smoothness",
                                       {.open_low = true, .advice = "; leave it out where the model is convex"}),
    of_step<&StepSettings::noise>("training.noise", kStrength),
    of_all<&FederationSettings::round_probability>("training.round-probability", {.low = 1e-4, .high = 1.0}),
    of_all<&FederationSettings::fedlc_tau>("training.fedlc-tau", kStrength),
    of_all<&FederationSettings::fedpals_lambda>("training.fedpals-lambda", {.low = 1e-3, .high = 1e12}),
    of_all<&FederationSettings::max_update_norm>("training.max-update-norm", kLimit),
    of_ratio<&RatioSettings::fraction>("ratio.fraction", kUsed),
    of_ratio<&RatioSettings::held_out>("ratio.held-out", kSplit),
    of_ratio<&RatioSettings::epochs>("ratio.epochs", kCount),
    of_ratio<&RatioSettings::stop_below>("ratio.stop-below", kStrength),
    of_ratio<&RatioSettings::rounds>("ratio.rounds", kCount),
    of_ratio<&RatioSettings::learning_rate>("ratio.learning-rate", kRate),
    of_ratio<&RatioSettings::weight_decay>("ratio.weight-decay", kStrength),
    of_ratio<&RatioSettings::max_ratio>("ratio.max-ratio", kMostWeight),
    of_ratio<&RatioSettings::goal_node>("ratio.goal-node", kNode),
    of_ratio<&RatioSettings::refresh>("ratio.refresh", kCountOrNone),
    of_ratio<&RatioSettings::floor>("ratio.floor", {.high = 1.0, .open_high = true}),
    of_all<&FederationSettings::target_holdout>("run.target-holdout", kHeldOut),
    of_all<&FederationSettings::source_holdout>("run.source-holdout", kHeldOut),
    of_all<&FederationSettings::evaluate_every>("run.evaluate-every", kCount),
};

template <typename Settings>
void check_all(const Settings& settings) {
  for (const RangedSetting<Settings>& setting : ranged_settings<Settings>())
    if (const auto value = setting.get(settings); value && !setting.range.contains(*value))
      throw SettingError(setting.name,
                         fmt::format("{} is {}, expected {}", setting.name, *value, setting.range.words()));
}

}  // namespace

bool Range::contains(double value) const {
  return (open_low ? value > low : value >= low) && (open_high ? value < high : value <= high);
}

std::string Range::words() const {
  std::string result = fmt::format("a {}number {} {}", whole ? "whole " : "", open_low ? "above" : "from", low);
  if (high < Range().high)
    result += fmt::format(" {}{} {}", open_low ? "and" : "to", open_high ? " below" : open_low ? " at most" : "", high);
  return result + advice;
}

template <>
std::span<const RangedSetting<DataSettings>> ranged_settings() {
  return kDataSettings;
}

template <>
std::span<const RangedSetting<FederationSettings>> ranged_settings() {
  return kFederationSettings;
}

void check_ranges(const DataSettings& settings) {
  check_all(settings);
}

void check_ranges(const FederationSettings& settings) {
  check_all(settings);
}

}  // namespace labelshift
