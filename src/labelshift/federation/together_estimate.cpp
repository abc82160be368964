#include "labelshift/federation/together_estimate.hpp"

#include <algorithm>
#include <cmath>

#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/federation/local_ratio.hpp"
#include "labelshift/federation/node_context.hpp"
#include "labelshift/learning/evaluation.hpp"

namespace labelshift {
namespace {

constexpr float kLeastLog = -100.0F;
constexpr double kLevel = 0.95;

/// f / p_tr of calibrated probabilities (n m).
std::vector<float> likelihoods_of(const CalibratedProbabilities& probs, const Eigen::VectorXd& prior) {
  std::vector<float> likelihoods;
  const Probabilities f = probs.view();
  likelihoods.reserve(static_cast<std::size_t>(f.rows() * f.cols()));
  Eigen::VectorXd row(f.cols());
  for (Index i = 0; i < f.rows(); ++i) {
    for (Index c = 0; c < f.cols(); ++c) row[c] = f(i, c) / prior[c];
    row /= row.maxCoeff();
    for (const double one : row) likelihoods.push_back(static_cast<float>(one));
  }
  return likelihoods;
}

}  // namespace

std::vector<float> log_scores_of(Net& net, const Dataset& data, std::span<const Index> rows) {
  if (rows.empty()) return {};
  const RowMajorMatrix<float> logits = evaluate_logits(net, data, rows);
  std::vector<float> scores;
  scores.reserve(static_cast<std::size_t>(logits.size()));
  Eigen::ArrayXd row(logits.cols());
  for (Index i = 0; i < logits.rows(); ++i) {
    row = logits.row(i).transpose().cast<double>().array();
    row -= row.maxCoeff();
    row -= std::log(row.exp().sum());
    for (const double one : row) scores.push_back(std::max(static_cast<float>(one), kLeastLog));
  }
  return scores;
}

TogetherEstimate estimate_together(Net& net, const TargetTogether::Request& request, const std::string& estimator,
                                   const Dataset& target, std::span<const Index> rows) {
  const Index m = request.prior.size();
  TogetherEstimate result{.prior = Eigen::VectorXd::Zero(m)};
  if (rows.empty()) return result;  // a node without test data has no target
  Calibration calibration{.scale = request.scale, .bias = request.bias};
  if (request.mixing.size() > 0) calibration.mixing = request.mixing.reshaped(m, m);
  const EstimatorEntry& entry = find_estimator(estimator);
  SourceFit fit{.calibration = std::move(calibration), .summary = {.label_prior = request.prior / request.prior.sum()}};
  const Eigen::VectorXd& prior = fit.summary.label_prior;
  if (request.conditional.size() > 0) fit.summary.confusion = request.conditional.reshaped(m, m) * prior.asDiagonal();
  if (request.conditional_f.size() > 0)
    fit.summary.soft_confusion = request.conditional_f.reshaped(m, m) * prior.asDiagonal();
  if (request.examples.size() > 0)
    fit.summary.examples = 1.0 / (prior.array().square() / request.examples.array().max(1e-300)).sum();

  const HeldOutScores said{log_scores_of(net, target, rows)};
  const Scores scores = said.view(m);
  const auto n = static_cast<double>(rows.size());
  const CalibratedTarget found = with_class_names(
      target.class_names, [&] { return calibrate_and_estimate(fit, *make_estimator(entry), scores, {}); });
  result.prior = prior.cwiseProduct(found.estimate.ratio);

  const TargetSample sample{found.probs.view(), {}};
  const PredictedLabels labels{
      request.conditional.size() > 0 ? Eigen::MatrixXd(request.conditional.reshaped(m, m)) : Eigen::MatrixXd(),
      request.examples};
  PooledUncertainty uncertainty;
  if (entry.family == EstimatorFamily::kLikelihood) {
    const bool fitted = request.covariance.size() > 0;
    const Index p = CalibrationParameters(pooled_kind(m), m).size();
    uncertainty = pooled_uncertainty(
        fit.summary, sample, scores, found.estimate,
        {.kind = fitted ? pooled_kind(m) : CalibrationKind::kNone,
         .covariance = fitted ? Eigen::MatrixXd(request.covariance.reshaped(p, p)) : Eigen::MatrixXd()});
  } else if (request.examples.size() > 0 && (request.examples.array() > 0.0).all()) {
    // Where a class has no held-out example, nothing says how much of what is predicted is of it.
    const bool soft = entry.family == EstimatorFamily::kSoftConfusion;
    const PredictedLabels said_of_source =
        soft ? PredictedLabels{request.conditional_f.reshaped(m, m), request.examples} : labels;
    uncertainty.prior = pooled_uncertainty(said_of_source, soft, sample, result.prior);
  } else {
    return result;
  }
  Intervals intervals = intervals_from(uncertainty.prior, prior, n, kLevel);
  widen_to(result.prior, found.estimate.ratio, intervals);
  result.low = intervals.prior_low.cwiseMax(0.0);
  result.high = intervals.prior_high.cwiseMin(1.0);
  if (entry.family != EstimatorFamily::kLikelihood) return result;
  result.likelihoods = likelihoods_of(found.probs, prior);
  result.calibration_variance = uncertainty.of_calibration.diagonal().cwiseMax(0.0);
  if (request.conditional.size() == 0) return result;
  std::vector<int> predicted;
  for (Index i = 0; i < scores.rows(); ++i) predicted.push_back(arg_max(scores, i));
  const Agreement agreement = prediction_agreement(labels, prior, found.probs.view(), predicted, uncertainty);
  if (agreement.degrees > 0) result.agreement = agreement;
  return result;
}

}  // namespace labelshift
