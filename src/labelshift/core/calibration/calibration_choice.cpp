#include "labelshift/core/calibration/calibration_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/calibration/calibration_objective.hpp"
#include "labelshift/core/calibration/prediction_quality.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

using Eigen::ArrayXd;
using Eigen::ArrayXXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kFolds = 10;
constexpr double kRowsAParameter = 20.0;                // that the normal theory of intervals needs
constexpr double kNoise = 1.0;                          // standard errors
constexpr double kMatrixStrengths[] = {1e3, 1e2, 1e1};  // from BCTS to the free matrix
constexpr Index kMaxElements = Index{1} << 24;          // that are held as doubles
constexpr Index kMaxParameters = 400;                   // whose Hessian is built for each fold
constexpr Index kHessianRows = 30;                      // a parameter
constexpr double kNear = 0.03;                          // standard errors: how close fits come to their optimum
constexpr int kMaxSteps = 100;
constexpr Index kLeastRows = 2000;     // of a part
constexpr double kSuspicious = 1.0;    // rise of a fold's mean NLL that asks whether the step to its fit was good
constexpr double kShortest = 0x1p-20;  // part of such a step; below that there is none

/// The rows of each fold, in order. Every step-th row that has weight is in one of them.
std::vector<std::vector<Index>> cut_into_folds(std::span<const int> labels, std::span<const double> weights,
                                               Index classes, Index step) {
  std::vector<Index> next(static_cast<std::size_t>(classes), -1);  // the fold of a class's next example
  std::vector<std::vector<Index>> folds(kFolds);
  for (std::size_t i = 0; i < labels.size(); i += static_cast<std::size_t>(step)) {
    if (!weights.empty() && weights[i] == 0.0) continue;
    Index& fold = next[static_cast<std::size_t>(labels[i])];
    // Where a class starts depends on its first row, so that rare classes are spread and the order of classes does not
    // matter.
    if (fold < 0) fold = static_cast<Index>(i) / step;
    folds[static_cast<std::size_t>(fold % kFolds)].push_back(static_cast<Index>(i));
    ++fold;
  }
  return folds;
}

/// Rows of a source sample with their log scores, fold by fold.
class FoldedSample {
 public:
  FoldedSample(const Scores& source, std::span<const int> labels, std::span<const double> weights, Observer observer)
      : observer_(std::move(observer)) {
    const Index m = source.cols();
    const Index step = (source.rows() * m + kMaxElements - 1) / kMaxElements;
    const std::vector<std::vector<Index>> folds = cut_into_folds(labels, weights, m, step);
    Index rows = 0;
    for (const auto& fold : folds) rows += std::ssize(fold);
    z_.resize(rows, m);
    weights_.resize(rows);
    std::vector<Index> place(static_cast<std::size_t>(source.rows() / step + 1), -1);  // of every step-th row
    for (const auto& fold : folds) {
      begin_.push_back(std::ssize(labels_));
      for (const Index i : fold) {
        const auto at = static_cast<std::size_t>(i);
        place[static_cast<std::size_t>(i / step)] = std::ssize(labels_);
        weights_[std::ssize(labels_)] = weights.empty() ? 1.0 : weights[at];
        labels_.push_back(labels[at]);
      }
    }
    const Scores every = source.every(step);
    ArrayXXd z;
    for (Index first = 0; first < every.rows(); first += z.rows()) {
      z.resize(std::min(block_rows(m), every.rows() - first), m);
      log_scores(every, first, z);
      for (Index i = 0; i < z.rows(); ++i)
        if (const Index to = place[static_cast<std::size_t>(first + i)]; to >= 0) z_.row(to) = z.row(i);
    }
    begin_.push_back(rows);
    normalise();
  }

  Index rows() const { return z_.rows(); }
  Index classes() const { return z_.cols(); }
  const ArrayXd& weights() const { return weights_; }  // (n) sum to 1
  double examples() const { return examples_; }        // the effective number of rows
  double weight_of(Index fold) const { return weights_.segment(begin(fold), begin(fold + 1) - begin(fold)).sum(); }

  /// Every step-th row.
  FoldedSample every(Index step) const {
    FoldedSample part;
    part.observer_ = observer_;
    const Index rows = (z_.rows() + step - 1) / step;
    part.z_.resize(rows, z_.cols());
    part.weights_.resize(rows);
    for (Index k = 0; k < kFolds; ++k) part.begin_.push_back((begin(k) + step - 1) / step);
    part.begin_.push_back(rows);
    for (Index i = 0; i < rows; ++i) {
      part.z_.row(i) = z_.row(i * step);
      part.weights_[i] = weights_[i * step];
      part.labels_.push_back(labels_[static_cast<std::size_t>(i * step)]);
    }
    part.normalise();
    return part;
  }

  /// Calls use(block, labels, weights) for the rows of a fold.
  template <typename Use>
  void for_each_block(const Calibration& calibration, Index fold, Use&& use) const {
    tell(observer_, kCalibrating);
    const Index size = block_rows(classes());
    CalibrationBlock block;
    for (Index first = begin(fold); first < begin(fold + 1); first += size) {
      const Index count = std::min(size, begin(fold + 1) - first);
      block.first = first;
      block.z = z_.middleRows(first, count);
      calibrate(calibration, block);
      use(block, std::span(labels_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
          weights_.segment(first, count));
    }
  }

  /// Fold by fold into `sums`, or all into one if there is one. Its memory is used again: that of ten Hessians is slow
  /// to come by.
  void add_up(const CalibrationParameters& parameters, const VectorXd& theta, CalibrationCurvature curvature,
              std::size_t count, std::vector<NllSum>& sums) const {
    const Calibration calibration = parameters.expand(theta);
    sums.assign(count, NllSum(parameters, curvature));
    for (Index k = 0; k < kFolds; ++k)
      for_each_block(calibration, k, [&](const CalibrationBlock& block, std::span<const int> labels, const ArrayXd& w) {
        sums[static_cast<std::size_t>(k) % count].add(calibration, block, labels, w);
      });
  }

 private:
  FoldedSample() = default;

  Index begin(Index fold) const { return begin_[static_cast<std::size_t>(fold)]; }

  void normalise() {
    examples_ = weights_.sum() * weights_.sum() / weights_.square().sum();
    weights_ /= weights_.sum();
  }

  ArrayXXd z_;  // (n, m)
  std::vector<int> labels_;
  ArrayXd weights_;           // (n)
  std::vector<Index> begin_;  // (kFolds + 1) where each fold starts
  double examples_ = 0.0;
  Observer observer_;
};

NllSum total(const std::vector<NllSum>& folds) {
  NllSum sum = folds.front();
  for (std::size_t k = 1; k < folds.size(); ++k) sum += folds[k];
  return sum;
}

/// The penalised mean NLL of the rows that are not in a fold.
double value_without(const FoldedSample& sample, Index fold, const CalibrationParameters& parameters,
                     const VectorXd& theta) {
  std::vector<NllSum> sums;
  sample.add_up(parameters, theta, CalibrationCurvature::kNone, kFolds, sums);
  sums.erase(sums.begin() + fold);  // subtracted from all it would leave its rounding
  const NllSum sum = total(sums);
  const double left = 1.0 - sample.weight_of(fold);
  return sum.derivatives(parameters, theta, left * sample.examples(), 1.0 / left).value;
}

/// A fit to all rows, and the NLL of each row by the fit without its fold.
struct CrossValidation {
  VectorXd theta;
  ArrayXd losses;  // (n)
};

/// A mean over rows and its standard error.
struct Mean {
  double value, error;

  Mean(const ArrayXd& values, const ArrayXd& weights)
      : value((values * weights).sum()), error(std::sqrt((weights * (values - value)).square().sum())) {}
};

/// `part` has the rows whose Hessian is used: those of `sample`, or fewer. `hessians` holds its sums near `start`, fold
/// by fold, or is empty; then they are computed.
CrossValidation cross_validate(const FoldedSample& sample, const FoldedSample& part,
                               const CalibrationParameters& parameters, const Calibration& start,
                               std::vector<NllSum>& hessians) {
  std::vector<NllSum> gradients, whole;
  VectorXd gradients_at;
  bool known = !hessians.empty();
  const auto hessian_of_part = [&](const VectorXd& theta) {
    const bool is_known = std::exchange(known, false);
    if (&part == &sample && !is_known) {  // those of the folds are wanted only where the fit ends
      part.add_up(parameters, theta, CalibrationCurvature::kDense, 1, whole);
      return whole.front().derivatives(parameters, theta, sample.examples()).hessian;
    }
    if (!is_known) part.add_up(parameters, theta, CalibrationCurvature::kDense, kFolds, hessians);
    return total(hessians).derivatives(parameters, theta, sample.examples()).hessian;
  };
  const auto gradient_of = [&](const FoldedSample& rows) {
    return [&](const VectorXd& theta) {
      rows.add_up(parameters, theta, CalibrationCurvature::kNone, kFolds, gradients);
      gradients_at = theta;
      return total(gradients).derivatives(parameters, theta, sample.examples());
    };
  };
  CrossValidation result{.theta = parameters.theta_of(start), .losses = ArrayXd::Zero(sample.rows())};
  if (parameters.size() > 0) {
    if (&part != &sample)
      result.theta = ApproximateNewton{gradient_of(part), hessian_of_part, part.examples(), 0.3, kMaxSteps}
                         .minimise(parameters, result.theta)
                         .theta;
    result.theta = ApproximateNewton{gradient_of(sample), hessian_of_part, sample.examples(), kNear, kMaxSteps}
                       .minimise(parameters, result.theta)
                       .theta;
    if (&part == &sample) part.add_up(parameters, result.theta, CalibrationCurvature::kDense, kFolds, hessians);
    if (gradients_at != result.theta)
      sample.add_up(parameters, result.theta, CalibrationCurvature::kNone, kFolds, gradients);
  }
  std::optional<NllSum> all_gradients, all_hessians, hessian;
  if (parameters.size() > 0) {
    all_gradients = total(gradients);
    all_hessians = total(hessians);
  }
  const auto judge = [&](const VectorXd& theta, Index k) {
    const Calibration calibration = parameters.expand(theta);
    double sum = 0.0;
    sample.for_each_block(
        calibration, k, [&](const CalibrationBlock& block, std::span<const int> labels, const ArrayXd& weights) {
          for (Index i = 0; i < block.f.rows(); ++i) {
            const double loss =
                block.log_normaliser[i] - exponent(calibration, block, i, labels[static_cast<std::size_t>(i)]);
            result.losses[block.first + i] = loss;
            sum += weights[i] * loss;
          }
        });
    return sum / sample.weight_of(k);
  };
  for (Index k = 0; k < kFolds; ++k) {
    if (sample.weight_of(k) == 0.0) continue;  // it has no rows
    const double left = 1.0 - sample.weight_of(k);
    const double left_of_part = 1.0 - part.weight_of(k);
    if (parameters.size() == 0 || !(left > 1e-9) || !(left_of_part > 1e-9)) {
      judge(result.theta, k);
      continue;
    }
    NllSum gradient = *all_gradients;
    gradient -= gradients[static_cast<std::size_t>(k)];
    hessian = all_hessians;
    *hessian -= hessians[static_cast<std::size_t>(k)];
    const double examples = left * sample.examples();
    const VectorXd step =
        HessianFactor(hessian->derivatives(parameters, result.theta, examples, 1.0 / left_of_part).hessian)
            .solve(gradient.derivatives(parameters, result.theta, examples, 1.0 / left).gradient);
    const double before = gradients[static_cast<std::size_t>(k)].value() / sample.weight_of(k);
    if (judge(result.theta - step, k) <= before + kSuspicious) continue;
    // The fold may be as bad as that, or a step may go too far (huge logits, whose curvature changes within it).
    const double at_whole = value_without(sample, k, parameters, result.theta);
    double length = 1.0;
    while (length > kShortest && !(value_without(sample, k, parameters, result.theta - length * step) <= at_whole))
      length *= 0.25;
    if (length < 1.0) judge(result.theta - (length > kShortest ? length : 0.0) * step, k);
  }
  return result;
}

/// The NLL of the rows of two folds by a fit to the others.
class HeldOut {
 public:
  HeldOut(const Scores& source, std::span<const int> labels, std::span<const double> weights, const Observer& observer)
      : source_(source), labels_(labels), fitted_(labels.size(), 1.0), observer_(observer) {
    if (!weights.empty()) fitted_.assign(weights.begin(), weights.end());
    const auto folds = cut_into_folds(labels, weights, source.cols(), 1);
    for (std::size_t k = 0; k < 2; ++k) rows_.insert(rows_.end(), folds[k].begin(), folds[k].end());
    weights_.resize(std::ssize(rows_));
    for (Index i = 0; i < weights_.size(); ++i) {
      double& weight = fitted_[static_cast<std::size_t>(rows_[static_cast<std::size_t>(i)])];
      weights_[i] = weight;
      weight = 0.0;
    }
    weights_ /= weights_.sum();
  }

  const ArrayXd& weights() const { return weights_; }  // of the rows left out, sum to 1

  ArrayXd losses(CalibrationKind kind) const {
    const Calibration calibration =
        fit_calibration(kind, source_, labels_, fitted_, kMatrixStrength, {}, observer_).calibration;
    ArrayXd losses(weights_.size());
    for (Index i = 0; i < losses.size(); ++i) {
      const Index row = rows_[static_cast<std::size_t>(i)];
      for_each_block(calibration, source_, row, 1, [&](const CalibrationBlock& block) {
        losses[i] = block.log_normaliser[0] - exponent(calibration, block, 0, labels_[static_cast<std::size_t>(row)]);
      });
    }
    return losses;
  }

 private:
  Scores source_;
  std::span<const int> labels_;
  std::vector<double> fitted_;  // weights that are 0 for rows left out
  std::vector<Index> rows_;     // left out
  ArrayXd weights_;
  const Observer& observer_;
};

/// A candidate and the NLL of each row that it was judged on.
struct Judged {
  CalibrationCandidate candidate;
  ArrayXd losses;
};

/// Values 0, step, 2 step, ...
ArrayXd every(const ArrayXd& values, Index step) {
  return values(Eigen::seq(0, Eigen::last, step));
}

std::vector<Judged> judge_by_folds(std::span<const CalibrationKind> kinds, const FoldedSample& sample) {
  const Index m = sample.classes();
  std::vector<Judged> judged;
  std::vector<NllSum> unused;
  CrossValidation none = cross_validate(sample, sample, CalibrationParameters(CalibrationKind::kNone, m),
                                        Calibration::identity(m), unused);
  Calibration start = first_guess(m, Mean(none.losses, sample.weights()).value);
  for (const CalibrationKind kind : kinds) {
    CalibrationParameters parameters(kind, m);
    const Index step = std::max<Index>(sample.rows() / std::max(kHessianRows * parameters.size(), kLeastRows), 1);
    std::optional<FoldedSample> fewer;
    if (step > 1) fewer = sample.every(step);
    const FoldedSample& part = fewer ? *fewer : sample;
    std::vector<NllSum> hessians;
    double strength = 0.0;
    CrossValidation found;
    if (kind == CalibrationKind::kMatrix) {
      // The strength is a fact of the population, not of the number of rows: a part of them finds it. The path begins
      // at BCTS; where its next step is no better than what came before, the rest is freer still.
      double least = std::numeric_limits<double>::infinity();
      for (const Judged& simpler : judged)
        if (simpler.candidate.kind == CalibrationKind::kBiasCorrected)
          least = Mean(every(simpler.losses, step), part.weights()).value;
      for (const double tried : kMatrixStrengths) {
        CrossValidation next = cross_validate(part, part, CalibrationParameters(kind, m, tried), start, hessians);
        const double nll = Mean(next.losses, part.weights()).value;
        const bool better = nll < least;
        if (strength > 0.0 && !better) break;
        least = nll;
        strength = tried;
        start = parameters.expand(next.theta);
        found = std::move(next);
        if (!better) break;
      }
      parameters = CalibrationParameters(kind, m, strength);
    }
    if (kind == CalibrationKind::kNone)
      found = std::move(none);
    else if (fewer || kind != CalibrationKind::kMatrix)
      found = cross_validate(sample, part, parameters, start, hessians);
    const Calibration near = parameters.expand(found.theta);
    if (kind != CalibrationKind::kNone && kind != CalibrationKind::kVector) start = near;
    judged.push_back({{.kind = kind, .strength = strength, .near = near}, std::move(found.losses)});
  }
  return judged;
}

/// `examples` is the effective number of rows that the calibrations are fitted to.
CalibrationChoice choose(std::vector<Judged> judged, const ArrayXd& weights, Index classes, double examples) {
  CalibrationChoice choice;
  std::size_t best = 0;
  for (std::size_t k = 0; k < judged.size(); ++k) {
    CalibrationCandidate& candidate = judged[k].candidate;
    const Mean nll(judged[k].losses, weights);
    candidate.nll = nll.value;
    candidate.nll_error = nll.error;
    if (candidate.nll < judged[best].candidate.nll) best = k;
  }
  bool found = false;
  for (std::size_t k = 0; k < judged.size(); ++k) {
    CalibrationCandidate& candidate = judged[k].candidate;
    const Mean excess(judged[k].losses - judged[best].losses, weights);
    candidate.excess = excess.value;
    candidate.excess_error = excess.error;
    choice.candidates.push_back(candidate);
    if (k != best && !(excess.value <= kNoise * excess.error)) continue;
    if (!found) choice.chosen = k;
    found = true;
    const double parameters = static_cast<double>(CalibrationParameters(candidate.kind, classes).size());
    if (choice.chosen == k || kRowsAParameter * parameters <= examples) choice.largest = k;
  }
  while (choice.for_intervals().kind < CalibrationKind::kBiasCorrected && choice.largest + 1 < judged.size())
    ++choice.largest;
  return choice;
}

}  // namespace

std::vector<CalibrationKind> calibration_kinds(const std::string& name) {
  std::vector<CalibrationKind> kinds;
  std::vector<std::string> known = {kAutoCalibration};
  for (const CalibrationEntry& entry : calibrations()) {
    if (name == entry.name || name == kAutoCalibration) kinds.push_back(entry.kind);
    known.emplace_back(entry.name);
  }
  if (kinds.empty()) throw unknown_name("calibration", name, known);
  return kinds;
}

CalibrationChoice choose_calibration(std::span<const CalibrationKind> kinds, const Scores& source,
                                     std::span<const int> labels, std::span<const double> weights,
                                     const Observer& observer) {
  tell(observer, kCalibrating);
  const Index m = source.cols();
  std::vector<CalibrationKind> tried;
  Index most = 0;
  for (const CalibrationKind kind : kinds) {
    if (kind == CalibrationKind::kMatrix && m > kMaxMatrixClasses && kinds.size() > 1) continue;
    tried.push_back(kind);
    if (kind != CalibrationKind::kMatrix) most = std::max(most, CalibrationParameters(kind, m).size());
  }
  if (most <= kMaxParameters) {
    const FoldedSample sample(source, labels, weights, observer);
    return choose(judge_by_folds(tried, sample), sample.weights(), m, sample.examples());
  }
  const HeldOut held_out(source, labels, weights, observer);
  std::vector<Judged> judged;
  for (const CalibrationKind kind : tried) judged.push_back({{.kind = kind}, held_out.losses(kind)});
  return choose(std::move(judged), held_out.weights(), m, effective_rows(weights, source.rows()));
}

void match_prior(const Eigen::VectorXd& prior, const Scores& source, std::span<const double> weights,
                 CalibrationFit& fit) {
  if (fit.kind != CalibrationKind::kNone && fit.kind != CalibrationKind::kTemperature) return;
  VectorXd mean = VectorXd::Zero(prior.size());
  for_each_block(fit.calibration, source, 0, source.rows(), [&](const CalibrationBlock& block) {
    for (Index i = 0; i < block.f.rows(); ++i)
      mean += (weights.empty() ? 1.0 : weights[static_cast<std::size_t>(block.first + i)]) * block.f.row(i).matrix();
  });
  mean /= total_weight(weights, source.rows());
  fit.calibration.bias = (prior.array() / mean.array().max(kProbabilityFloor)).log();
  fit.calibration.bias.array() -= fit.calibration.bias.mean();
}

}  // namespace labelshift
