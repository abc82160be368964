#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/experiments/ratio_summary.hpp"
#include "labelshift/experiments/training_cost.hpp"

namespace labelshift {

struct StudySettings {
  FigureScale scale;
  std::string output = "results";        // a folder; predictors in it are shared by all figures
  unsigned workers = 0;                  // threads; 0: one a core. Results do not depend on it
  std::function<void()> prepare_thread;  // called on each thread before it computes anything
  Device device = Device::kCpu;
};

struct StudyResult {
  std::vector<PanelSummary> panels;
  std::vector<std::vector<PredictorQuality>> quality;  // of each panel
  std::vector<std::string> notes;                      // what has to be said next to the figure
  std::string trials;                                  // CSV with a row for each estimate
  std::string summary;                                 // JSON
  std::string figure;                                  // SVG
  std::string report;                                  // HTML
};

/// Makes a figure: trains the predictors and runs the trials that are not there yet, and writes what came of it to
/// OUTPUT/NAME. What is done stays, so a study that was stopped goes on where it was. Throws Stopped if the observer
/// says so, Error{kUsage} if the folder has a study with other settings.
StudyResult run_ratio_study(const RatioFigure& figure, const StudySettings& settings, const Observer& observer);

/// What a figure will cost here, by a quick trial of its parts; what is done already costs nothing.
struct StudyCost {
  double training_seconds = 0.0;  // of one core
  double trial_seconds = 0.0;     // of one core
};
StudyCost estimate_cost(const RatioFigure& figure, const StudySettings& settings, TrainingCost& training);

}  // namespace labelshift
