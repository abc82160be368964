#pragma once

#include <memory>
#include <span>
#include <string>

#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// What an estimator looks at, which decides how its standard errors are computed.
enum class EstimatorFamily { kLikelihood, kHardConfusion, kSoftConfusion };

struct EstimatorEntry {
  const char* name;
  const char* summary;
  EstimatorFamily family;
  bool penalised;  // pulled towards r = 1, so biased on purpose
  std::unique_ptr<RatioEstimator> (*make)(Settings& settings);
};

/// Every estimator there is; the first is the default. Help, completion, shared tests and benchmarks walk these rows.
std::span<const EstimatorEntry> estimators();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const EstimatorEntry& find_estimator(const std::string& name);

/// Whether the estimator of `entry` reads a setting of this name.
bool has_setting(const EstimatorEntry& entry, const std::string& setting);

/// Makes the estimator of `entry` and checks that it read every setting.
std::unique_ptr<RatioEstimator> make_estimator(const EstimatorEntry& entry, Settings settings = {});

}  // namespace labelshift
