#include "labelshift/core/stream.hpp"

#include <fmt/format.h>

#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

CalibratedProbabilities uncalibrated(const Scores& scores) {
  return calibrated_view(Calibration::identity(scores.cols()), scores);
}

}  // namespace

LabelShiftStream::LabelShiftStream(SourceExamples source, const std::optional<Eigen::VectorXd>& source_prior,
                                   std::span<const std::string> class_names, const StreamOptions& options,
                                   const Observer& observer)
    : level_(options.incremental.level) {
  const Index m = source.scores.cols();
  check_source(source);
  check_smoothing(options.smoothing, source_prior.has_value());
  if (source_prior && source_prior->size() != m)
    throw Error(ErrorKind::kInput, fmt::format("the source prior has {} classes, the source probabilities {} columns",
                                               source_prior->size(), m));
  const std::vector<double> relative = relative_weights(source.weights);
  source.weights = relative;
  unseen_ = unseen_classes(source.labels, source.weights, m);
  const std::string calibration = possible_calibration(options.calibration, unseen_);
  if (source_prior) check_unseen(unseen_, class_names, calibration, options.incremental.estimator);
  std::optional<std::vector<double>> weights;
  if (source_prior && unseen_.empty()) weights = weights_for_prior(*source_prior, source.labels, source.weights);
  if (weights) source.weights = *weights;
  source_prior_ =
      source_prior ? *source_prior : label_prior(source.labels, source.weights, m, options.smoothing, class_names);
  const std::vector<CalibrationKind> kinds = calibration_kinds(calibration);
  const CalibrationChoice choice = choose_calibration(kinds, source.scores, source.labels, source.weights, observer);
  evidence_ = labelshift::source_evidence(source, choice);
  CalibrationFit fit = fit_candidate(choice.for_estimate(), source, observer);
  if (kinds.size() > 1 && !source_prior) match_prior(source_prior_, source.scores, source.weights, fit);
  calibration_ = fit.calibration;
  const CalibratedProbabilities raw = uncalibrated(source.scores);
  std::optional<Moments> source_moments;
  std::optional<LabelShiftFitTest> fit_test;
  if (unseen_.empty()) {  // else the source is no sample to compare with
    source_moments.emplace().add(raw.view(), source.weights);
    fit_test.emplace(SourceSample{raw.view(), source.labels, source.weights});
  }
  IncrementalOptions incremental = options.incremental;
  incremental.prior_is_estimated = !source_prior;
  estimator_.emplace(summarise_with(calibration_, source, source_prior_).summary, source_moments, incremental,
                     std::move(fit_test));
}

void LabelShiftStream::add(const Scores& rows) {
  if (rows.cols() != source_prior_.size())
    throw Error(ErrorKind::kInput, fmt::format("target probabilities: found rows with {} columns, expected {}, one "
                                               "for each class of the source",
                                               rows.cols(), source_prior_.size()));
  estimator_->add(apply_calibration(calibration_, rows).view(), uncalibrated(rows).view());
}

}  // namespace labelshift
