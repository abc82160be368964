#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/calibration/calibration.hpp"

namespace labelshift {

/// The name of the calibration that is chosen by the data, among all of calibrations().
inline constexpr const char* kAutoCalibration = "auto";

/// The kinds that `name` stands for: all of them for "auto", else the one. Throws Error{kUsage} with a suggestion for a
/// name that is neither.
std::vector<CalibrationKind> calibration_kinds(const std::string& name);

/// How well a kind of calibration predicts the labels of rows that it was not fitted to.
struct CalibrationCandidate {
  CalibrationKind kind = CalibrationKind::kNone;
  double strength = 0.0;            // of kMatrix
  double nll = 0.0;                 // cross-validated, a mean over rows
  double nll_error = 0.0;           // its standard error
  double excess = 0.0;              // nll less that of the best candidate
  double excess_error = 0.0;        // its standard error, from the differences row by row
  std::optional<Calibration> near;  // close to the fit to all rows, where that is known
};

struct CalibrationChoice {
  std::vector<CalibrationCandidate> candidates;  // at least one, from the simplest kind to the largest
  std::size_t chosen = 0;                        // the simplest within noise of the best: for the estimate
  std::size_t largest = 0;                       // the largest within noise of the best, at least bcts: for intervals

  const CalibrationCandidate& for_estimate() const { return candidates[chosen]; }
  const CalibrationCandidate& for_intervals() const { return candidates[largest]; }
};

/// Chooses a kind among `kinds` by cross-validated likelihood.
///
/// The rows are cut into ten folds, each class spread evenly over them. The NLL of a row is that of the calibration
/// fitted to the nine folds it is not in. A candidate is within noise if its NLL exceeds the best one's by at most
/// one standard error of that difference, computed from the differences row by row. The strength of matrix scaling is
/// the best of 1000, 100 and 10. Intervals take at least bcts: its biases carry the noise of a prior that was counted
/// on the same rows.
///
/// The fit without a fold is one Newton step from the fit to all rows, with the gradient and the Hessian of the nine
/// folds (that of a part of the rows where there are many). Beyond 400 parameters the Hessian is too large; the
/// calibrations are then fitted to four fifths of the rows and judged on the fifth. Matrix scaling is left out beyond
/// kMaxMatrixClasses classes, unless it is the only kind. Beyond 2^24 scores, which are 128 MB, a part of the rows is
/// used, evenly spread.
///
/// Deterministic, and classes in another order give the same choice. Tells the observer "calibrating" before each pass
/// over the rows. Throws what fit_calibration does, Stopped if the observer says so.
CalibrationChoice choose_calibration(std::span<const CalibrationKind> kinds, const Scores& source,
                                     std::span<const int> labels, std::span<const double> weights = {},
                                     const Observer& observer = {});

/// Gives a fit of kNone or kTemperature the biases that make up for a counted prior; others have them already.
///
/// A calibration without biases leaves the mean prediction of the source where it is, some noise away from the counted
/// prior, and f / p_tr would carry that noise. With these biases Eq. (3) is that with the mean prediction as p_tr,
/// which is the better estimate of it if f is calibrated.
void match_prior(const Eigen::VectorXd& prior, const Scores& source, std::span<const double> weights,
                 CalibrationFit& fit);

}  // namespace labelshift
