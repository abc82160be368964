#include "labelshift/core/label_shift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/prediction_quality.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/inference/bootstrap.hpp"
#include "labelshift/core/inference/fit_hypothesis.hpp"
#include "labelshift/core/inference/shift_hypothesis.hpp"
#include "labelshift/core/likelihood/probabilities.hpp"
#include "labelshift/core/likelihood/row_block.hpp"

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

/// A cycle of classes each of which is mostly the label where the scores say the one before it: clearly more than half
/// of at least ten rows. `counts` (m, m) [said, label].
std::vector<Index> permuted_classes(const Eigen::MatrixXd& counts) {
  const Index m = counts.rows();
  std::vector<Index> label_of(static_cast<std::size_t>(m), -1);
  for (Index said = 0; said < m; ++said) {
    Index most = 0;
    const double rows = counts.row(said).sum();
    const double found = counts.row(said).maxCoeff(&most);
    if (rows >= 10.0 && found > 0.5 * rows + std::sqrt(rows)) label_of[static_cast<std::size_t>(said)] = most;
  }
  const auto next = [&](Index c) { return c < 0 ? c : label_of[static_cast<std::size_t>(c)]; };
  for (Index c = 0; c < m; ++c) {
    std::vector<Index> cycle = {c};
    while (next(cycle.back()) != c && next(cycle.back()) >= 0 && std::ssize(cycle) < m)
      cycle.push_back(next(cycle.back()));
    if (std::ssize(cycle) > 1 && next(cycle.back()) == c) return cycle;
  }
  return {};
}

/// Up to so many source scores a bootstrap replicate chooses its calibration again; beyond it keeps the choice.
constexpr Index kChooseAgainElements = 100'000;

/// Calibrates, summarises and estimates with the given weights: the point estimate, and again for each replicate.
class Estimation {
 public:
  Estimation(const LabelShiftProblem& problem, const LabelShiftOptions& options)
      : problem_(problem),
        options_(options),
        kinds_(calibration_kinds(options.calibration)),
        entry_(find_estimator(options.estimator)),
        estimator_(make_estimator(entry_, options.settings)) {
    if (problem.source) return;
    if (options.calibration == kAutoCalibration) kinds_ = {CalibrationKind::kNone};
    if (kinds_.front() != CalibrationKind::kNone)
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
    if (source) {
      progress("calibrating", 0.0);
      result.calibration_choice = choose_calibration(kinds_, source->scores, source->labels, source->weights);
      result.calibration_fit = fit(result.calibration_choice->for_estimate(), source->weights);
      if (is_chosen() && !problem_.source_prior)
        match_prior(result.source_prior, source->scores, source->weights, *result.calibration_fit);
    }
    const Calibrated calibrated(problem_, result.calibration_fit, result.source_prior, entry_.family);
    progress("estimating", 0.0);
    result.estimate = estimator_->estimate(calibrated.summary, calibrated.target_sample());
    result.target_prior = result.source_prior.cwiseProduct(result.estimate.ratio);
    if (options_.bound_terms)
      result.bound_terms =
          error_bound_terms(result.source_prior, source ? calibrated.source->view() : calibrated.target.view(),
                            effective_rows(problem_.target_weights, calibrated.target.view().rows()));
    progress("finding intervals", 0.0);
    if (!is_chosen() || result.calibration_choice->for_intervals().kind == result.calibration_fit->kind) {
      result.intervals = intervals(calibrated, result.calibration_fit, result.estimate);
      return;
    }
    const std::optional<CalibrationFit> largest = fit(result.calibration_choice->for_intervals(), source->weights);
    const Calibrated by_largest(problem_, largest, result.source_prior, entry_.family);
    result.intervals =
        intervals(by_largest, largest, estimator_->estimate(by_largest.summary, by_largest.target_sample()));
    // Those of a larger calibration may leave the estimate of the chosen one out; they are for it.
    widen_to(result.target_prior, result.estimate.ratio, result.intervals);
  }

  /// `kept` is the kind that is fitted where no replicate chooses its own.
  BootstrapReplicate replicate(const CalibrationCandidate& kept, std::span<const double> source_weights,
                               std::span<const double> target_weights) const {
    const auto& source = problem_.source;
    const Eigen::VectorXd p = prior(source_weights, options_.smoothing);
    CalibrationCandidate kind = kept;
    if (is_chosen() && source->scores.values.rows() * p.size() <= kChooseAgainElements)
      kind =
          choose_calibration(kinds_of_replicate(kept), source->scores, source->labels, source_weights).for_intervals();
    Calibration calibration = Calibration::identity(p.size());
    if (kind.kind != CalibrationKind::kNone) calibration = fit(kind, source_weights).calibration;
    const bool is_identity = kind.kind == CalibrationKind::kNone;
    const Probabilities target(calibration, is_identity, problem_.target);
    SourceSummary summary{.label_prior = p};
    if (entry_.family != EstimatorFamily::kLikelihood) {
      const Probabilities source_probs(calibration, is_identity, source->scores);
      summary = summarise_source({source_probs.view(), source->labels, source_weights}, p);
    }
    const Eigen::VectorXd ratio =
        estimator_->estimate(summary, {target.view(), target_weights, /*checked=*/true}).ratio;
    return {.target_prior = p.cwiseProduct(ratio), .ratio = ratio};
  }

 private:
  /// Source and target after one calibration.
  struct Calibrated {
    const LabelShiftProblem& problem;
    Probabilities target;
    std::optional<Probabilities> source;
    SourceSummary summary;

    Calibrated(const LabelShiftProblem& from, const std::optional<CalibrationFit>& fit, const Eigen::VectorXd& prior,
               EstimatorFamily family)
        : problem(from), target(make(fit, from.target)), summary{.label_prior = prior} {
      if (!from.source) return;
      source.emplace(make(fit, from.source->scores));
      if (family != EstimatorFamily::kLikelihood) summary = summarise_source(source_sample(), prior);
    }
    TargetSample target_sample() const { return {target.view(), problem.target_weights, /*checked=*/true}; }
    SourceSample source_sample() const { return {source->view(), problem.source->labels, problem.source->weights}; }

    static Probabilities make(const std::optional<CalibrationFit>& fit, const Scores& scores) {
      if (!fit) return {Calibration::identity(scores.values.cols()), true, scores};
      return {fit->calibration, fit->kind == CalibrationKind::kNone && fit->calibration.bias.isZero(0.0), scores};
    }
  };

  bool is_chosen() const { return kinds_.size() > 1; }

  /// Matrix scaling of more parameters than rows costs more than all else and is not for intervals, unless all rows
  /// chose it.
  std::vector<CalibrationKind> kinds_of_replicate(const CalibrationCandidate& kept) const {
    std::vector<CalibrationKind> kinds = kinds_;
    const Index m = problem_.target.values.cols();
    if (kept.kind != CalibrationKind::kMatrix && problem_.source->scores.values.rows() < m * (m + 1))
      std::erase(kinds, CalibrationKind::kMatrix);
    return kinds;
  }

  CalibrationFit fit(const CalibrationCandidate& kind, std::span<const double> source_weights) const {
    const SourceExamples& source = *problem_.source;
    return fit_calibration(kind.kind, source.scores, source.labels, source_weights,
                           kind.kind == CalibrationKind::kMatrix ? kind.strength : kMatrixStrength, kind.near);
  }

  Intervals intervals(const Calibrated& calibrated, const std::optional<CalibrationFit>& fit,
                      const RatioEstimate& estimate) const {
    std::optional<SourceNoise> noise;
    if (fit) noise = SourceNoise{problem_.source->scores, calibrated.source_sample(), *fit, !problem_.source_prior};
    return asymptotic_intervals(entry_.family, calibrated.summary, calibrated.target_sample(), problem_.target,
                                estimate, noise, options_.level);
  }

  const LabelShiftProblem& problem_;
  const LabelShiftOptions& options_;
  std::vector<CalibrationKind> kinds_;
  const EstimatorEntry& entry_;
  std::unique_ptr<RatioEstimator> estimator_;
};

Intervals resample(const LabelShiftProblem& problem, const LabelShiftOptions& options, const LabelShiftResult& result,
                   const ProgressObserver& progress) {
  CalibrationCandidate kept;  // none
  if (const auto& choice = result.calibration_choice) kept = choice->for_intervals();
  // Without a calibration every replicate looks at the same probabilities, so logits become those once.
  LabelShiftProblem shared = problem;
  std::optional<Probabilities> source;
  std::optional<Probabilities> target;
  if (kept.kind == CalibrationKind::kNone) {
    const Calibration identity = Calibration::identity(result.target_prior.size());
    shared.target = {target.emplace(identity, true, problem.target).view()};
    if (problem.source) shared.source->scores = {source.emplace(identity, true, problem.source->scores).view()};
  }
  const Estimation estimation(shared, options);
  const std::span<const double> source_weights = problem.source ? problem.source->weights : std::span<const double>{};
  return bootstrap_intervals(
      result.target_prior, problem.source ? problem.source->labels : std::span<const int>{}, source_weights,
      problem.target.values.rows(), problem.target_weights, {options.bootstrap, options.seed, options.level},
      [&](std::span<const double> of_source, std::span<const double> of_target) {
        return estimation.replicate(kept, of_source, of_target);
      },
      [&](int done) { progress("bootstrap", static_cast<double>(done) / options.bootstrap); });
}

}  // namespace

std::string possible_calibration(const std::string& calibration, std::span<const Index> unseen) {
  return calibration == kAutoCalibration && !unseen.empty() ? "none" : calibration;
}

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

SourceEvidence source_evidence(const SourceExamples& source, const CalibrationChoice& choice) {
  SourceEvidence result;
  const double total = total_weight(source.weights, source.scores.values.rows());
  const Index m = source.scores.values.cols();
  Eigen::VectorXd share = Eigen::VectorXd::Zero(m);
  Eigen::MatrixXd counts = Eigen::MatrixXd::Zero(m, m);  // [said, label]
  for_each_largest(source.scores.values, [&](Index i, Index predicted, double) {
    const int label = source.labels[static_cast<std::size_t>(i)];
    const double w = source.weights.empty() ? 1.0 : source.weights[static_cast<std::size_t>(i)];
    share[label] += w;
    if (w > 0.0) counts(predicted, label) += 1.0;
    if (predicted == label) result.accuracy += w;
  });
  result.accuracy /= total;
  share /= total;
  result.permuted = permuted_classes(counts);
  for (const double p : share)
    if (p > 0.0) result.prior_entropy -= p * std::log(p);
  const auto take = [&](const CalibrationCandidate& candidate) {
    result.nll = candidate.nll;
    result.nll_error = candidate.nll_error;
  };
  take(choice.for_estimate());
  // Scores that are far too sure have a large NLL too. A calibration tells them from wrong ones.
  constexpr CalibrationKind kMends[] = {CalibrationKind::kBiasCorrected};
  if (!result.says_labels())
    take(choose_calibration(kMends, source.scores, source.labels, source.weights).for_estimate());
  return result;
}

LabelShiftResult analyse_label_shift(const LabelShiftProblem& problem, const LabelShiftOptions& options,
                                     const ProgressObserver& observer) {
  const ProgressObserver progress = observer ? observer : [](std::string_view, double) {};
  LabelShiftProblem checked = problem;
  LabelShiftOptions settled = options;
  Estimation(checked, settled);  // refuses what it does not know before rows are looked at
  progress("checking the input", 0.0);
  const std::vector<double> target_weights = relative_weights(problem.target_weights);
  std::vector<double> source_weights =
      relative_weights(problem.source ? problem.source->weights : std::span<const double>{});
  checked.target_weights = target_weights;
  if (checked.source) checked.source->weights = source_weights;
  check(checked, options);
  checked.target.checked = true;
  if (checked.source) checked.source->scores.checked = true;
  LabelShiftResult result;
  result.target_rows = effective_rows(target_weights, problem.target.values.rows());
  if (const auto& source = problem.source) {
    result.unseen = unseen_classes(source->labels, source_weights, source->scores.values.cols());
    settled.calibration = possible_calibration(options.calibration, result.unseen);
    if (problem.source_prior) check_unseen(result.unseen, problem.class_names, settled.calibration, options.estimator);
    if (problem.source_prior && result.unseen.empty()) {
      if (auto weights = weights_for_prior(*problem.source_prior, source->labels, source_weights)) {
        source_weights = std::move(*weights);
        checked.source->weights = source_weights;
        result.source_is_weighted = true;
      }
    }
  }
  const Estimation estimation(checked, settled);
  progress("testing", 0.0);
  run_tests(checked, estimation.prior(source_weights, options.smoothing), result);
  estimation.estimate(result, progress);
  if (checked.source) result.source_evidence = source_evidence(*checked.source, *result.calibration_choice);
  if (options.bootstrap > 0) {
    result.intervals = join_at_zero(resample(checked, settled, result, progress), result.intervals, result.target_rows);
    widen_to(result.target_prior, result.estimate.ratio, result.intervals);
  }
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
