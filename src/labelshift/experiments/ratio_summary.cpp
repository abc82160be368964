#include "labelshift/experiments/ratio_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace labelshift {
namespace {

constexpr double kLeastMse = 1e-15;  // an estimate that is right to rounding has a logarithm too

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Means over the trials of each predictor; with one predictor, its trials.
std::vector<double> independent(const std::vector<std::vector<double>>& by_predictor) {
  if (by_predictor.size() == 1) return by_predictor.front();
  std::vector<double> means;
  for (const std::vector<double>& values : by_predictor) means.push_back(mean_of(values));
  return means;
}

MeanInterval exponential(const MeanInterval& logs) {
  return {std::exp(logs.mean), std::exp(logs.low), std::exp(logs.high)};
}

/// The MSE at one point. Predictors differ by factors, so that their mean and its interval are taken of logarithms.
MeanInterval mse_interval(const std::vector<std::vector<double>>& by_predictor) {
  std::vector<double> values = independent(by_predictor);
  return by_predictor.size() == 1 ? mean_interval(values) : geometric_interval(std::move(values));
}

/// log MSE of every trial, [method][point][predictor][trial].
using LogErrors = std::vector<std::vector<std::vector<std::vector<double>>>>;

LogErrors log_errors(const PanelTrials& trials) {
  LogErrors logs(trials.panel.methods.size(),
                 {trials.points.size(), std::vector<std::vector<double>>(trials.panel.predictors)});
  for (std::size_t point = 0; point < trials.points.size(); ++point)
    for (const TrialRow& row : trials.points[point])
      logs[row.method][point][row.predictor].push_back(std::log(std::max(row.mse, kLeastMse)));
  return logs;
}

}  // namespace

double log_slope(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> log_x, log_y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    log_x.push_back(std::log(x[i]));
    log_y.push_back(std::log(std::max(y[i], kLeastMse)));
  }
  const double mean_x = mean_of(log_x), mean_y = mean_of(log_y);
  double xy = 0.0, xx = 0.0;
  for (std::size_t i = 0; i < log_x.size(); ++i) {
    xy += (log_x[i] - mean_x) * (log_y[i] - mean_y);
    xx += (log_x[i] - mean_x) * (log_x[i] - mean_x);
  }
  return xx > 0.0 ? xy / xx : std::numeric_limits<double>::quiet_NaN();
}

SizeLaw fit_size_law(const std::vector<double>& sizes, const std::vector<double>& mse) {
  // Least squares of (a / n + b) / MSE - 1: each point's error is a share of its own height.
  double uu = 0.0, uv = 0.0, vv = 0.0, u1 = 0.0, v1 = 0.0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double height = std::max(mse[i], kLeastMse);
    const double u = 1.0 / (sizes[i] * height), v = 1.0 / height;
    uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  SizeLaw law{.floor = (uu * v1 - uv * u1) / determinant, .variance = (vv * u1 - uv * v1) / determinant};
  if (!(law.floor > 0.0)) law = {.floor = 0.0, .variance = u1 / uu};
  if (!(law.variance > 0.0)) law = {.floor = v1 / vv, .variance = 0.0};
  return law;
}

PanelSummary summarise(const PanelTrials& trials) {
  const RatioPanel& panel = trials.panel;
  PanelSummary summary{.title = panel.title, .values = trials.values};
  const LogErrors logs = log_errors(trials);
  for (std::size_t method = 0; method < panel.methods.size(); ++method) {
    MethodSummary one{.method = panel.methods[method]};
    std::vector<std::vector<double>> curves(panel.predictors);  // [predictor][point] mean MSE
    std::vector<double> mean_mse;
    double log_sum = 0.0, count = 0.0;
    for (const auto& point : logs[method]) {
      std::vector<std::vector<double>> mse(point.size());
      for (std::size_t predictor = 0; predictor < point.size(); ++predictor) {
        for (const double log : point[predictor]) {
          mse[predictor].push_back(std::exp(log));
          log_sum += log;
          count += 1.0;
        }
        curves[predictor].push_back(mean_of(mse[predictor]));
      }
      one.mse.push_back(mse_interval(mse));
      mean_mse.push_back(one.mse.back().mean);
    }
    one.geometric_mean = std::exp(log_sum / count);
    if (panel.sweep == Sweep::kSize && trials.values.size() > 2) {
      one.size_law = fit_size_law(trials.values, mean_mse);
      std::vector<double> slopes;
      for (const std::vector<double>& curve : curves) slopes.push_back(0.5 * log_slope(trials.values, curve));
      one.size_law->slope = mean_interval(slopes);
      if (slopes.size() == 1)  // says nothing of others
        one.size_law->slope.low = one.size_law->slope.high = std::numeric_limits<double>::quiet_NaN();
    }
    summary.methods.push_back(std::move(one));
  }
  for (std::size_t a = 0; a < panel.methods.size(); ++a) {
    for (std::size_t b = a + 1; b < panel.methods.size(); ++b) {
      Comparison pair{.a = panel.methods[a], .b = panel.methods[b]};
      std::vector<std::vector<double>> differences(panel.predictors);
      for (std::size_t point = 0; point < trials.points.size(); ++point) {
        for (std::size_t predictor = 0; predictor < differences.size(); ++predictor)
          for (std::size_t trial = 0; trial < logs[a][point][predictor].size(); ++trial)
            differences[predictor].push_back(logs[a][point][predictor][trial] - logs[b][point][predictor][trial]);
        pair.lower_at += summary.methods[a].mse[point].mean < summary.methods[b].mse[point].mean;
      }
      pair.ratio = exponential(mean_interval(independent(differences)));
      summary.comparisons.push_back(std::move(pair));
    }
  }
  return summary;
}

}  // namespace labelshift
