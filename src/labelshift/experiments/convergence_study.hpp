#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/experiments/convergence_trials.hpp"
#include "labelshift/experiments/ratio_summary.hpp"

namespace labelshift {

struct ConvergenceSettings {
  std::string output = "results";        // a folder
  std::string data = "fashion-mnist";    // a data set of images, by name or path
  int seeds = 5;                         // that are reported
  std::uint64_t seed = 0;                // that these are made from
  unsigned workers = 0;                  // threads; 0: one a core. Results do not depend on it
  std::function<void()> prepare_thread;  // called on each thread before it computes anything
};

/// A measured slope next to what a theorem says it is at most.
enum class SlopeVerdict {
  kBaseline,     // the theorem says nothing
  kNotMeasured,  // too few points reached epsilon
  kAsPredicted,  // the interval has the prediction, give or take kSlopeTolerance
  kLess,         // all of the interval is below that: the bound holds and is not tight
  kMore,         // all of it is above: the claim does not hold here
  kOpen,         // the interval is wider than 1
};
inline constexpr double kSlopeTolerance = 0.1;
const char* verdict_text(SlopeVerdict verdict);

/// A line of a panel.
struct ConvergenceLine {
  std::string name;
  std::vector<double> x;        // (points)
  std::vector<MeanInterval> y;  // (points) geometric means over seeds; NaN where one of them did not reach epsilon
  std::optional<double> predicted;
  MeanInterval slope;  // of log y against log x, over seeds; NaN if it was not measured
  SlopeVerdict verdict = SlopeVerdict::kBaseline;
  double level_until = 0.0;  // the largest x up to which y is at most 1.1 times the first
};

struct ConvergencePanelResult {
  std::vector<ConvergenceLine> lines;    // of its series
  std::optional<ConvergenceLine> ratio;  // of the first by the second, where a slope is predicted for that
};

struct ConvergenceResult {
  std::vector<std::vector<ConvergencePanelResult>> figures;  // (figures) of (panels)
  std::string runs;                                          // CSV with a row for each run
  std::string summary;                                       // JSON
  std::vector<std::string> plots;                            // (figures) SVG
  std::string report;                                        // HTML
};

/// `rows` of each point, sorted by seed.
ConvergenceLine summarise_line(const std::string& name, const std::vector<std::vector<ConvergenceRow>>& rows,
                               std::optional<double> predicted);

/// Makes the runs of all points that are not there yet, and writes what came of them to OUTPUT/convergence. What is
/// done stays, so a study that was stopped goes on where it was. Throws Stopped if the observer says so, Error{kUsage}
/// if the folder has a study with other settings.
ConvergenceResult run_convergence_study(std::span<const ConvergenceFigure> figures, const ConvergenceSettings& settings,
                                        const Observer& observer);

/// What is left to do, in seconds of one core, roughly.
double convergence_seconds(std::span<const ConvergenceFigure> figures, const std::string& output);

}  // namespace labelshift
