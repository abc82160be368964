#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labelshift/experiments/mean_interval.hpp"
#include "labelshift/experiments/ratio_trials.hpp"

namespace labelshift {

/// All trials of one panel.
struct PanelTrials {
  RatioPanel panel;
  std::vector<double> values;                 // (points) of alpha, or of the size
  std::vector<std::vector<TrialRow>> points;  // (points)
  std::vector<PredictorQuality> quality;
};

/// How the error falls with the size n of the test set.
struct SizeLaw {
  MeanInterval slope;     // of log RMSE against log n, -1/2 where there is no bias; no interval with one predictor
  double floor = 0.0;     // b of MSE = a / n + b, fitted to relative errors, a and b not negative
  double variance = 0.0;  // a
};

/// Intervals are over the predictors' own means, which vary more than trials of one predictor do. With one predictor
/// they are over that one's trials and say nothing about others.
struct MethodSummary {
  std::string method;
  std::vector<MeanInterval> mse;    // (points)
  double geometric_mean = 0.0;      // of the MSE, over all points and trials
  std::optional<SizeLaw> size_law;  // where the size is varied
};

/// Method a against method b on the same test sets.
struct Comparison {
  std::string a;
  std::string b;
  MeanInterval ratio;  // of a's MSE to b's, geometric mean over trials; below 1: a is better
  int lower_at = 0;    // points at which a's mean MSE is the lower one
};

struct PanelSummary {
  std::string title;
  std::vector<double> values;
  std::vector<MethodSummary> methods;
  std::vector<Comparison> comparisons;  // of every method with every later one
};

PanelSummary summarise(const PanelTrials& trials);

/// Slope of log y against log x, by least squares; NaN if all x are the same.
double log_slope(const std::vector<double>& x, const std::vector<double>& y);

/// Fits SizeLaw's a and b.
SizeLaw fit_size_law(const std::vector<double>& sizes, const std::vector<double>& mse);

}  // namespace labelshift
