#include "labelshift/core/label_shift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "labelshift/core/bootstrap.hpp"
#include "labelshift/core/error.hpp"
#include "labelshift/core/estimators.hpp"
#include "labelshift/core/fit_test.hpp"
#include "labelshift/core/probabilities.hpp"
#include "labelshift/core/shift_test.hpp"

namespace labelshift {
namespace {

/// Scores as probabilities: the scores themselves where they are that already, else a copy made with `calibration`.
class Probabilities {
 public:
  Probabilities(const Calibration& calibration, bool is_identity, const Scores& scores) : view_(scores.values) {
    if (is_identity && !scores.logits) return;
    copy_ = std::make_unique<CalibratedProbabilities>(apply_calibration(calibration, scores));
    view_ = copy_->view();
  }
  const MatrixView& view() const { return view_; }

 private:
  std::unique_ptr<CalibratedProbabilities> copy_;
  MatrixView view_;
};

void check(const LabelShiftProblem& problem, const LabelShiftOptions& options) {
  const Index m = problem.target.values.cols();
  check_scores(problem.target, "target");
  check_weights(problem.target_weights, problem.target.values.rows(), "target weights");
  if (!problem.source && !problem.source_prior)
    throw Error(ErrorKind::kUsage, "nothing is known of the source: give its probabilities and labels, or its prior");
  if (problem.source) {
    const SourceExamples& source = *problem.source;
    check_scores(source.scores, "source");
    if (source.scores.values.cols() != m)
      throw Error(ErrorKind::kInput, fmt::format("the target has {} columns, the source {}; both must have one a class",
                                                 m, source.scores.values.cols()));
    check_labels(source.labels, source.scores.values.rows(), m, "source labels");
    check_weights(source.weights, source.scores.values.rows(), "source weights");
  }
  if (problem.source_prior && problem.source_prior->size() != m)
    throw Error(ErrorKind::kInput,
                fmt::format("the source prior has {} classes, the target {} columns", problem.source_prior->size(), m));
  if (!(options.level > 0.0 && options.level < 1.0))
    throw Error(ErrorKind::kUsage, fmt::format("the level is {}, expected a number between 0 and 1", options.level));
  if (options.bootstrap != 0 && options.bootstrap < kLeastReplicates)
    throw Error(ErrorKind::kUsage, fmt::format("{} bootstrap replicates make no interval; ask for {} or more",
                                               options.bootstrap, kLeastReplicates));
  if (problem.source_prior && options.smoothing > 0.0)
    throw Error(ErrorKind::kUsage, "smoothing is for a source prior that is counted, not for one that is given");
  if (!(options.smoothing >= 0.0 && std::isfinite(options.smoothing)))
    throw Error(ErrorKind::kUsage,
                fmt::format("smoothing is {}, expected a number that is not negative", options.smoothing));
}

/// The tests compare raw predictions: a calibration fitted on the source fits the source better than the target, which
/// would look like a shift.
void run_tests(const LabelShiftProblem& problem, const Eigen::VectorXd& prior, LabelShiftResult& result) {
  const Calibration identity = Calibration::identity(prior.size());
  const Probabilities target(identity, true, problem.target);
  Moments target_moments;
  target_moments.add(target.view(), problem.target_weights);
  // A source that lacks a class the target may have is no sample of p_tr, and not what the target is a mixture of.
  if (!problem.source || !result.unseen.empty()) {
    result.shift_test = no_shift_test_exact(prior, target_moments);
    return;
  }
  const Probabilities source(identity, true, problem.source->scores);
  Moments source_moments;
  source_moments.add(source.view(), problem.source->weights);
  result.shift_test = no_shift_test(source_moments, target_moments);
  result.fit_test = label_shift_fit_test({source.view(), problem.source->labels, problem.source->weights},
                                         {target.view(), problem.target_weights});
}

/// Calibrates, summarises and estimates with the given weights: the point estimate, and again for each replicate.
class Estimation {
 public:
  Estimation(const LabelShiftProblem& problem, const LabelShiftOptions& options)
      : problem_(problem),
        options_(options),
        kind_(find_calibration(options.calibration).kind),
        entry_(find_estimator(options.estimator)),
        estimator_(make_estimator(entry_, options.settings)) {
    if (problem.source) return;
    if (kind_ != CalibrationKind::kNone)
      throw Error(ErrorKind::kUsage, fmt::format("calibration \"{}\" is fitted on source examples: give source "
                                                 "probabilities and labels",
                                                 options.calibration));
    if (entry_.family != EstimatorFamily::kLikelihood)
      throw Error(ErrorKind::kUsage,
                  fmt::format("estimator \"{}\" needs source probabilities and labels; with the source "
                              "prior alone use an mlls estimator",
                              options.estimator));
  }

  Eigen::VectorXd prior(std::span<const double> source_weights, double smoothing) const {
    if (problem_.source_prior) return *problem_.source_prior;
    return label_prior(problem_.source->labels, source_weights, problem_.target.values.cols(), smoothing,
                       problem_.class_names);
  }

  void estimate(LabelShiftResult& result, const ProgressObserver& progress) const {
    const auto& source = problem_.source;
    result.source_prior = prior(source ? source->weights : std::span<const double>{}, options_.smoothing);
    Calibration calibration = Calibration::identity(result.source_prior.size());
    if (source) {
      progress("calibrating", 0.0);
      result.calibration_fit = fit_calibration(kind_, source->scores, source->labels, source->weights);
      calibration = result.calibration_fit->calibration;
    }
    const Probabilities target(calibration, is_identity(), problem_.target);
    const TargetSample target_sample{target.view(), problem_.target_weights, /*checked=*/true};
    SourceSummary summary{.label_prior = result.source_prior};
    std::optional<Probabilities> source_probs;
    std::optional<SourceNoise> noise;
    if (source) {
      source_probs.emplace(calibration, is_identity(), source->scores);
      const SourceSample sample{source_probs->view(), source->labels, source->weights};
      summary = summarise_source(sample, result.source_prior);
      noise = SourceNoise{source->scores, sample, kind_, calibration, !problem_.source_prior};
    }
    progress("estimating", 0.0);
    result.estimate = estimator_->estimate(summary, target_sample);
    result.target_prior = result.source_prior.cwiseProduct(result.estimate.ratio);
    if (options_.bound_terms)
      result.bound_terms = error_bound_terms(result.source_prior, source ? source_probs->view() : target.view(),
                                             effective_rows(problem_.target_weights, target.view().rows()));
    progress("finding intervals", 0.0);
    result.intervals = asymptotic_intervals(entry_.family, summary, target_sample, problem_.target, result.estimate,
                                            noise, options_.level);
  }

  BootstrapReplicate replicate(std::span<const double> source_weights, std::span<const double> target_weights) const {
    const auto& source = problem_.source;
    const Eigen::VectorXd p = prior(source_weights, options_.smoothing);
    Calibration calibration = Calibration::identity(p.size());
    if (kind_ != CalibrationKind::kNone)
      calibration = fit_calibration(kind_, source->scores, source->labels, source_weights).calibration;
    const Probabilities target(calibration, is_identity(), problem_.target);
    SourceSummary summary{.label_prior = p};
    if (entry_.family != EstimatorFamily::kLikelihood) {
      const Probabilities source_probs(calibration, is_identity(), source->scores);
      summary = summarise_source({source_probs.view(), source->labels, source_weights}, p);
    }
    const Eigen::VectorXd ratio =
        estimator_->estimate(summary, {target.view(), target_weights, /*checked=*/true}).ratio;
    return {.target_prior = p.cwiseProduct(ratio), .ratio = ratio};
  }

 private:
  bool is_identity() const { return kind_ == CalibrationKind::kNone; }

  const LabelShiftProblem& problem_;
  const LabelShiftOptions& options_;
  CalibrationKind kind_;
  const EstimatorEntry& entry_;
  std::unique_ptr<RatioEstimator> estimator_;
};

Intervals resample(const LabelShiftProblem& problem, const LabelShiftOptions& options,
                   const Eigen::VectorXd& target_prior, const ProgressObserver& progress) {
  // Without a calibration every replicate looks at the same probabilities, so logits become those once.
  LabelShiftProblem shared = problem;
  std::optional<Probabilities> source;
  std::optional<Probabilities> target;
  if (find_calibration(options.calibration).kind == CalibrationKind::kNone) {
    const Calibration identity = Calibration::identity(target_prior.size());
    shared.target = {target.emplace(identity, true, problem.target).view()};
    if (problem.source) shared.source->scores = {source.emplace(identity, true, problem.source->scores).view()};
  }
  const Estimation estimation(shared, options);
  const std::span<const double> source_weights = problem.source ? problem.source->weights : std::span<const double>{};
  return bootstrap_intervals(
      target_prior, problem.source ? problem.source->scores.values.rows() : 0, source_weights,
      problem.target.values.rows(), problem.target_weights, {options.bootstrap, options.seed, options.level},
      [&](std::span<const double> of_source, std::span<const double> of_target) {
        return estimation.replicate(of_source, of_target);
      },
      [&](int done) { progress("bootstrap", static_cast<double>(done) / options.bootstrap); });
}

}  // namespace

void check_unseen(std::span<const Index> unseen, std::span<const std::string> class_names,
                  const std::string& calibration, const std::string& estimator) {
  if (unseen.empty()) return;
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    throw Error(ErrorKind::kInput,
                fmt::format("{} needs source examples of every class, and there is none of {}; use {}", what,
                            list_classes(unseen, class_names), instead));
  };
  if (find_calibration(calibration).kind != CalibrationKind::kNone)
    refuse(fmt::format("calibration \"{}\"", calibration), "\"none\"");
  if (find_estimator(estimator).family != EstimatorFamily::kLikelihood)
    refuse(fmt::format("estimator \"{}\"", estimator), "an mlls estimator");
}

LabelShiftResult analyse_label_shift(const LabelShiftProblem& problem, const LabelShiftOptions& options,
                                     const ProgressObserver& observer) {
  const ProgressObserver progress = observer ? observer : [](std::string_view, double) {};
  LabelShiftProblem checked = problem;
  const Estimation estimation(checked, options);
  progress("checking the input", 0.0);
  check(problem, options);
  checked.target.checked = true;
  if (checked.source) checked.source->scores.checked = true;
  LabelShiftResult result;
  result.target_rows = effective_rows(problem.target_weights, problem.target.values.rows());
  if (const auto& source = problem.source) {
    result.unseen = unseen_classes(source->labels, source->weights, source->scores.values.cols());
    if (problem.source_prior) check_unseen(result.unseen, problem.class_names, options.calibration, options.estimator);
  }
  progress("testing", 0.0);
  run_tests(problem,
            estimation.prior(problem.source ? problem.source->weights : std::span<const double>{}, options.smoothing),
            result);
  estimation.estimate(result, progress);
  if (options.bootstrap > 0)
    result.intervals =
        join_at_zero(resample(problem, options, result.target_prior, progress), result.intervals, result.target_rows);
  return result;
}

void adapt_rows(const MatrixView& probs, const Eigen::VectorXd& ratio, Index first,
                Eigen::Ref<RowMajorMatrix<double>> out) {
  for (Index i = 0; i < out.rows(); ++i) {
    for (Index c = 0; c < out.cols(); ++c) out(i, c) = probs(first + i, c) * ratio[c];
    const double sum = out.row(i).sum();
    if (sum > 0.0) {
      out.row(i) /= sum;
    } else {
      for (Index c = 0; c < out.cols(); ++c) out(i, c) = probs(first + i, c);
    }
  }
}

}  // namespace labelshift
