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
#include "labelshift/core/likelihood/row_block.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

void check(const LabelShiftProblem& problem, const LabelShiftOptions& options) {
  const Index m = problem.target.cols();
  check_weights(problem.target_weights, problem.target.rows(), "target weights");
  if (!problem.source && !problem.source_prior)
    throw Error(ErrorKind::kUsage, "nothing is known of the source: give its probabilities and labels, or its prior");
  if (problem.source && problem.source->scores.cols() != m)
    throw Error(ErrorKind::kInput, fmt::format("the target has {} columns, the source {}; both must have one a class",
                                               m, problem.source->scores.cols()));
  if (problem.source) check_source(*problem.source);
  if (problem.source_prior && problem.source_prior->size() != m)
    throw Error(ErrorKind::kInput,
                fmt::format("the source prior has {} classes, the target {} columns", problem.source_prior->size(), m));
  if (!(options.level > 0.0 && options.level < 1.0))
    throw Error(ErrorKind::kUsage, fmt::format("the level is {}, expected a number between 0 and 1", options.level));
  if (options.bootstrap != 0 && options.bootstrap < kLeastReplicates)
    throw Error(ErrorKind::kUsage, fmt::format("{} bootstrap replicates make no interval; ask for {} or more",
                                               options.bootstrap, kLeastReplicates));
  check_smoothing(options.smoothing, problem.source_prior.has_value());
}

/// The tests compare raw predictions: a calibration fitted on the source fits the source better than the target, which
/// would look like a shift.
void run_tests(const LabelShiftProblem& problem, const Eigen::VectorXd& prior, LabelShiftResult& result) {
  const Calibration identity = Calibration::identity(prior.size());
  const CalibratedProbabilities target = calibrated_view(identity, problem.target);
  Moments target_moments;
  target_moments.add(target.view(), problem.target_weights);
  // A source that lacks a class the target may have is no sample of p_tr, and not what the target is a mixture of.
  if (!problem.source || !result.unseen.empty()) {
    result.shift_test = no_shift_test_exact(prior, target_moments);
    return;
  }
  const CalibratedProbabilities source = calibrated_view(identity, problem.source->scores);
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
    return label_prior(problem_.source->labels, source_weights, problem_.target.cols(), smoothing,
                       problem_.class_names);
  }

  void estimate(LabelShiftResult& result, const Observer& observer) const {
    const auto& source = problem_.source;
    result.source_prior = prior(source ? source->weights : std::span<const double>{}, options_.smoothing);
    std::optional<CalibrationFit> largest;  // where intervals have another than the estimate
    if (source) {
      result.calibration_choice = choose_calibration(kinds_, source->scores, source->labels, source->weights, observer);
      result.calibration_fit = fit_candidate(result.calibration_choice->for_estimate(), *source, observer);
      const CalibrationCandidate& for_intervals = result.calibration_choice->for_intervals();
      if (is_chosen() && for_intervals.kind != result.calibration_fit->kind)
        largest = fit_candidate(for_intervals, *source, observer);
      if (is_chosen() && !problem_.source_prior)
        match_prior(result.source_prior, source->scores, source->weights, *result.calibration_fit);
    }
    tell(observer, kEstimating);
    Sides sides = estimate_with(result.calibration_fit, result.source_prior, observer);
    result.estimate = sides.target.estimate;
    result.target_prior = result.source_prior.cwiseProduct(result.estimate.ratio);
    if (options_.bound_terms) {
      if (source && !sides.source) sides.source = calibrated_view(sides.fit.calibration, source->scores);
      result.bound_terms = error_bound_terms(result.source_prior, (source ? *sides.source : sides.target.probs).view(),
                                             result.target_rows);
    }
    if (largest) sides = estimate_with(largest, result.source_prior, observer);
    tell(observer, "finding intervals");
    result.intervals = intervals(sides, largest ? largest : result.calibration_fit);
    // Those of a larger calibration may leave the estimate of the chosen one out; they are for it.
    if (largest) widen_to(result.target_prior, result.estimate.ratio, result.intervals);
  }

  /// `kept` is the kind that is fitted where no replicate chooses its own.
  BootstrapReplicate replicate(const CalibrationCandidate& kept, std::span<const double> source_weights,
                               std::span<const double> target_weights) const {
    const Eigen::VectorXd p = prior(source_weights, options_.smoothing);
    CalibrationCandidate kind = kept;
    const auto& source = problem_.source;
    if (is_chosen() && source->scores.rows() * p.size() <= kChooseAgainElements)
      kind =
          choose_calibration(kinds_of_replicate(kept), source->scores, source->labels, source_weights).for_intervals();
    Calibration calibration = Calibration::identity(p.size());
    if (kind.kind != CalibrationKind::kNone)
      calibration = fit_candidate(kind, {source->scores, source->labels, source_weights}).calibration;
    const Eigen::VectorXd ratio = estimate_with(calibration, p, source_weights, target_weights).target.estimate.ratio;
    return {.target_prior = p.cwiseProduct(ratio), .ratio = ratio};
  }

 private:
  /// Both sides after one calibration, and the estimate. The source's rows are there for the estimators that look at
  /// them.
  struct Sides {
    SourceFit fit;
    std::optional<CalibratedProbabilities> source;
    CalibratedTarget target;
  };

  Sides estimate_with(const Calibration& calibration, const Eigen::VectorXd& prior,
                      std::span<const double> source_weights, std::span<const double> target_weights,
                      const Observer& observer = {}) const {
    Sides sides{.fit = {calibration, {.label_prior = prior}}};
    if (entry_.family != EstimatorFamily::kLikelihood) {
      CalibratedSource source =
          calibrate_source(calibration, {problem_.source->scores, problem_.source->labels, source_weights}, prior);
      sides.fit = std::move(source.fit);
      sides.source = std::move(source.probs);
    }
    sides.target = calibrate_and_estimate(sides.fit, *estimator_, problem_.target, target_weights, observer);
    return sides;
  }

  /// With the weights that the problem has.
  Sides estimate_with(const std::optional<CalibrationFit>& fit, const Eigen::VectorXd& prior,
                      const Observer& observer) const {
    return estimate_with(fit ? fit->calibration : Calibration::identity(prior.size()), prior,
                         problem_.source ? problem_.source->weights : std::span<const double>{},
                         problem_.target_weights, observer);
  }

  bool is_chosen() const { return kinds_.size() > 1; }

  /// Matrix scaling of more parameters than rows costs more than all else and is not for intervals, unless all rows
  /// chose it.
  std::vector<CalibrationKind> kinds_of_replicate(const CalibrationCandidate& kept) const {
    std::vector<CalibrationKind> kinds = kinds_;
    const Index m = problem_.target.cols();
    if (kept.kind != CalibrationKind::kMatrix && problem_.source->scores.rows() < m * (m + 1))
      std::erase(kinds, CalibrationKind::kMatrix);
    return kinds;
  }

  Intervals intervals(const Sides& sides, const std::optional<CalibrationFit>& fit) const {
    std::optional<SourceNoise> noise;
    if (fit) noise = SourceNoise{*problem_.source, {}, *fit, !problem_.source_prior};
    if (sides.source) noise->probs = sides.source->view();
    return asymptotic_intervals(entry_.family, sides.fit.summary, {sides.target.probs.view(), problem_.target_weights},
                                problem_.target, sides.target.estimate, noise, options_.level);
  }

  const LabelShiftProblem& problem_;
  const LabelShiftOptions& options_;
  std::vector<CalibrationKind> kinds_;
  const EstimatorEntry& entry_;
  std::unique_ptr<RatioEstimator> estimator_;
};

Intervals resample(const LabelShiftProblem& problem, const LabelShiftOptions& options, const LabelShiftResult& result,
                   const Observer& observer) {
  CalibrationCandidate kept;  // none
  if (const auto& choice = result.calibration_choice) kept = choice->for_intervals();
  // Without a calibration every replicate looks at the same probabilities, so logits become those once.
  LabelShiftProblem shared = problem;
  std::optional<CalibratedProbabilities> source;
  std::optional<CalibratedProbabilities> target;
  if (kept.kind == CalibrationKind::kNone) {
    const Calibration identity = Calibration::identity(result.target_prior.size());
    shared.target = target.emplace(calibrated_view(identity, problem.target)).view();
    if (problem.source)
      shared.source->scores = source.emplace(calibrated_view(identity, problem.source->scores)).view();
  }
  const Estimation estimation(shared, options);
  const std::span<const double> source_weights = problem.source ? problem.source->weights : std::span<const double>{};
  return bootstrap_intervals(
      result.target_prior, problem.source ? problem.source->labels : std::span<const int>{}, source_weights,
      problem.target.rows(), problem.target_weights, {options.bootstrap, options.seed, options.level},
      [&](std::span<const double> of_source, std::span<const double> of_target) {
        return estimation.replicate(kept, of_source, of_target);
      },
      observer);
}

}  // namespace

void check_source(const SourceExamples& source) {
  check_labels(source.labels, source.scores.rows(), source.scores.cols(), "source labels");
  check_weights(source.weights, source.scores.rows(), "source weights");
}

void check_smoothing(double smoothing, bool prior_is_given) {
  if (prior_is_given && smoothing > 0.0)
    throw Error(ErrorKind::kUsage, "smoothing is for a source prior that is counted, not for one that is given");
  constexpr double kMostSmoothing = 1e12;  // at which nothing is left of what was counted
  if (!(smoothing >= 0.0 && smoothing <= kMostSmoothing))
    throw Error(ErrorKind::kUsage,
                fmt::format("smoothing is {}, expected a number of examples from 0 to 1e12; 1 is common", smoothing));
}

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
  const double total = total_weight(source.weights, source.scores.rows());
  const Index m = source.scores.cols();
  Eigen::VectorXd share = Eigen::VectorXd::Zero(m);
  Eigen::MatrixXd counts = Eigen::MatrixXd::Zero(m, m);  // [said, label]
  for_each_largest(source.scores, [&](Index i, Index predicted, double) {
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
                                     const Observer& observer) {
  LabelShiftProblem weighed = problem;
  LabelShiftOptions settled = options;
  Estimation(weighed, settled);  // refuses what it does not know before rows are looked at
  tell(observer, "checking the input");
  const std::vector<double> target_weights = relative_weights(problem.target_weights);
  std::vector<double> source_weights =
      relative_weights(problem.source ? problem.source->weights : std::span<const double>{});
  weighed.target_weights = target_weights;
  if (weighed.source) weighed.source->weights = source_weights;
  check(weighed, options);
  LabelShiftResult result;
  result.target_rows = effective_rows(target_weights, problem.target.rows());
  if (const auto& source = problem.source) {
    result.unseen = unseen_classes(source->labels, source_weights, source->scores.cols());
    settled.calibration = possible_calibration(options.calibration, result.unseen);
    if (problem.source_prior) check_unseen(result.unseen, problem.class_names, settled.calibration, options.estimator);
    if (problem.source_prior && result.unseen.empty()) {
      if (auto weights = weights_for_prior(*problem.source_prior, source->labels, source_weights)) {
        source_weights = std::move(*weights);
        weighed.source->weights = source_weights;
        result.source_is_weighted = true;
      }
    }
  }
  const Estimation estimation(weighed, settled);
  tell(observer, "testing");
  run_tests(weighed, estimation.prior(source_weights, options.smoothing), result);
  estimation.estimate(result, observer);
  if (weighed.source) result.source_evidence = source_evidence(*weighed.source, *result.calibration_choice);
  if (options.bootstrap > 0) {
    result.intervals = join_at_zero(resample(weighed, settled, result, observer), result.intervals, result.target_rows);
    widen_to(result.target_prior, result.estimate.ratio, result.intervals);
  }
  return result;
}

void adapt_rows(const MatrixView& probs, const Eigen::VectorXd& ratio, const Eigen::VectorXd& target_prior, Index first,
                Eigen::Ref<RowMajorMatrix<double>> out) {
  for (Index i = 0; i < out.rows(); ++i) {
    for (Index c = 0; c < out.cols(); ++c) out(i, c) = probs(first + i, c) * ratio[c];
    const double sum = out.row(i).sum();
    if (sum > 0.0)
      out.row(i) /= sum;
    else
      out.row(i) = target_prior.transpose();
  }
}

}  // namespace labelshift
