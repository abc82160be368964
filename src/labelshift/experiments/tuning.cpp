#include "labelshift/experiments/tuning.hpp"

#include <fmt/format.h>

namespace labelshift {

std::vector<TuningCandidate> candidates_of(const ComparedRun& run) {
  std::vector<TuningCandidate> result{{"", run}};
  for (const TunedSetting& setting : run.tune) {
    std::vector<TuningCandidate> longer;
    for (const TuningCandidate& before : result)
      for (const std::string& value : setting.values) {
        TuningCandidate& next = longer.emplace_back(before);
        next.text += fmt::format("{}{} = {}", next.text.empty() ? "" : ", ", setting.key, value);
        change_setting(next.run.settings, setting.key, value, run.name);
      }
    result = std::move(longer);
  }
  for (TuningCandidate& candidate : result) candidate.run.tune.clear();
  return result;
}

}  // namespace labelshift
