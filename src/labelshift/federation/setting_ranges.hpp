#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "labelshift/federation/federated_data.hpp"
#include "labelshift/federation/federation_settings.hpp"

namespace labelshift {

/// The numbers from `low` to `high`, without an end that is open.
struct Range {
  double low = 0.0;
  double high = std::numeric_limits<double>::max();  // which stands for no limit
  bool open_low = false;
  bool open_high = false;
  bool whole = false;       // whole numbers only
  const char* advice = "";  // what follows the words

  bool contains(double value) const;  // false for what is not finite
  std::string words() const;          // goes on from "expected", such as "a number from 0 to below 1"
};

/// A setting that is a number.
template <typename Settings>
struct RangedSetting {
  const char* name;  // as in an experiment file, "training.rounds"
  Range range;
  std::optional<double> (*get)(const Settings& settings);  // nothing: a limit that is not set
  void (*set)(Settings& settings, double value);           // to a value in the range
};

/// The setting that is reached by these members, one after the other.
template <typename Settings, auto... members>
constexpr RangedSetting<Settings> ranged(const char* name, const Range& range) {
  return {.name = name,
          .range = range,
          .get = [](const Settings& settings) -> std::optional<double> {
            const auto& field = (settings.*....*members);
            if constexpr (std::is_same_v<decltype(field), const std::optional<double>&>)
              return field;
            else
              return static_cast<double>(field);
          },
          .set =
              [](Settings& settings, double value) {
                auto& field = (settings.*....*members);
                field = static_cast<std::decay_t<decltype(field)>>(value);
              }};
}

/// Every setting that is a number, of DataSettings or of FederationSettings. Checks, experiment files and tests walk
/// these rows.
template <typename Settings>
std::span<const RangedSetting<Settings>> ranged_settings();
template <>
std::span<const RangedSetting<DataSettings>> ranged_settings();
template <>
std::span<const RangedSetting<FederationSettings>> ranged_settings();

/// Throws SettingError for a number of `settings` that is not in its range.
void check_ranges(const DataSettings& settings);
void check_ranges(const FederationSettings& settings);

inline constexpr Range kCount{.low = 1, .high = 1e9, .whole = true};  // of steps, rounds or examples
inline constexpr Range kNodeSizes{.high = 1e9, .open_low = true};     // of data.sizes
inline constexpr Range kClassShares{.high = 1e9};                     // of data.train-shares and data.test-shares

}  // namespace labelshift
