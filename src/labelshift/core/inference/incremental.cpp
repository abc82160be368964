#include "labelshift/core/inference/incremental.hpp"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/confusion_estimator.hpp"
#include "labelshift/core/estimators/mlls_sqp.hpp"
#include "labelshift/core/estimators/simplex.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kLeastRowsHeld = 8192;
constexpr Index kRowsHeldPerClass = 16;  // with fewer the estimates at which rows are folded are mostly noise

constexpr double kFar = 0.1;    // a gap above which a quadratic model is not to be trusted
constexpr double kNear = 1e-3;  // a gap below which it is trusted to say that a class is absent

}  // namespace

/// Where the likelihood as folded is largest.
struct IncrementalEstimator::Maximum {
  VectorXd q;             // (m)
  LikelihoodValue value;  // at q, of the likelihood as folded
  double gap = 0.0;
  int iterations = 0;
  bool converged = false;
};

bool can_be_fed_row_by_row(const EstimatorEntry& entry) {
  return entry.family != EstimatorFamily::kLikelihood || entry.name == IncrementalOptions().estimator;
}

IncrementalEstimator::IncrementalEstimator(SourceSummary source, std::optional<Moments> source_moments,
                                           IncrementalOptions options, std::optional<LabelShiftFitTest> fit_test)
    : source_(std::move(source)),
      source_moments_(std::move(source_moments)),
      folded_fit_test_(std::move(fit_test)),
      options_(std::move(options)),
      threshold_(-std::numeric_limits<double>::infinity()) {
  const EstimatorEntry& entry = find_estimator(options_.estimator);
  family_ = entry.family;
  if (!can_be_fed_row_by_row(entry))
    throw Error(
        ErrorKind::kUsage,
        entry.penalised
            ? fmt::format("{} cannot be fed row by row: its penalty fades as rows come in; use mlls-sqp, to which it "
                          "tends, or rlls",
                          entry.name)
            : fmt::format("{} cannot be fed row by row: it differs from mlls-sqp only in how it searches; use mlls-sqp",
                          entry.name));
  if (!(options_.half_life >= 0.0 && std::isfinite(options_.half_life)))
    throw Error(ErrorKind::kUsage, fmt::format("half-life: found {}, expected a number of rows, or 0 to forget nothing",
                                               options_.half_life));
  if (!(options_.level > 0.0 && options_.level < 1.0))
    throw Error(ErrorKind::kUsage, fmt::format("level: found {}, expected a number between 0 and 1", options_.level));
  estimator_ = make_estimator(entry, options_.settings);  // checks the settings, also those that only it would read
  const MllsSqpOptions defaults;
  tolerance_ = options_.settings.number("tolerance", defaults.tolerance, 0.0, 1.0);
  max_iterations_ = options_.settings.integer("max-iterations", defaults.max_iterations, 1, 1'000'000);
  rate_ = options_.half_life > 0.0 ? 1.0 / options_.half_life : 0.0;

  const VectorXd& p = source_.label_prior;
  const Index m = p.size();
  if (m < 2 || !(p.minCoeff() >= kLeastPrior) || !(std::abs(p.sum() - 1.0) <= kRowSumTolerance))
    throw Error(
        ErrorKind::kInput,
        fmt::format("the source prior must have two classes or more, be positive for every class and sum to 1, with no "
                    "share below {}",
                    kLeastPrior));
  if (source_moments_ && source_moments_->mean.size() != m)
    throw Error(ErrorKind::kInput, fmt::format("the source prior has {} classes, the source probabilities have {}", m,
                                               source_moments_->mean.size()));
  // A missing or singular confusion matrix is better met now than at the first question.
  if (const auto* confusion = dynamic_cast<const ConfusionEstimator*>(estimator_.get())) confusion->solve(source_, p);

  held_.resize(std::max(kLeastRowsHeld, kRowsHeldPerClass * m), m);
  uncalibrated_.resize(max_rows_held() / 2, m);
  quadratics_ = excess_ = {0.0, VectorXd::Zero(m), MatrixXd::Zero(m, m)};
  folded_votes_ = VectorXd::Zero(m);
  target_prior_ = p;
}

/// What a row that came after `time` others weighs now; the newest weighs 1. The floor keeps squares from underflow.
double IncrementalEstimator::decay(double time) const {
  return std::exp2(std::max(-500.0, (time - static_cast<double>(seen_ - 1)) * rate_));
}

Probabilities IncrementalEstimator::held_rows() const {
  return Probabilities::known(MatrixView(held_).middle_rows(0, rows_held()));
}

Probabilities IncrementalEstimator::newest_rows() const {
  return Probabilities::known(MatrixView(held_).middle_rows(sampled_, newest()));
}

Probabilities IncrementalEstimator::newest_uncalibrated() const {
  return Probabilities::known(MatrixView(uncalibrated_).middle_rows(0, newest()));
}

/// Weights that make the rows held stand for all rows.
std::vector<double> IncrementalEstimator::held_weights() const {
  std::vector<double> weights(time_.size());
  const auto sample = static_cast<std::size_t>(sampled_);
  const double fade = decay(static_cast<double>(folded_ - 1));
  for (std::size_t i = 0; i < sample; ++i) weights[i] = fade * sample_weight_[i];
  for (std::size_t i = sample; i < weights.size(); ++i) weights[i] = decay(time_[i]);
  return weights;
}

void IncrementalEstimator::add(const Probabilities& target_probs, const Probabilities& uncalibrated) {
  const Index m = source_.label_prior.size();
  for (const Probabilities* rows : {&target_probs, &uncalibrated})
    if (rows->cols() != m)
      throw Error(ErrorKind::kInput, fmt::format("target probabilities: found rows with {} columns, expected {}, one "
                                                 "for each class of the source",
                                                 rows->cols(), m));
  if (uncalibrated.rows() != target_probs.rows())
    throw Error(ErrorKind::kInput,
                fmt::format("target probabilities: found {} rows before and {} after calibration, expected as many",
                            uncalibrated.rows(), target_probs.rows()));
  const Index capacity = max_rows_held() / 2;
  for (Index j = 0; j < target_probs.rows(); ++j) {
    // Folding waits for the row after, so that the newest rows are never only a few.
    if (newest() == capacity) fold();
    const Index at = rows_held();
    for (Index c = 0; c < m; ++c) held_(at, c) = target_probs(j, c);
    for (Index c = 0; c < m; ++c) uncalibrated_(at - sampled_, c) = uncalibrated(j, c);
    time_.push_back(static_cast<double>(seen_++));
  }
}

template <typename Sums>
Sums IncrementalEstimator::with_newest(Sums folded, const Probabilities& newest) const {
  if (folded_ > 0) folded.scale(decay(static_cast<double>(folded_ - 1)));
  const std::vector<double> weights = held_weights();
  folded.add(newest, std::span(weights).subspan(static_cast<std::size_t>(sampled_)));
  return folded;
}

VectorXd IncrementalEstimator::votes() const {
  VectorXd all = folded_votes_ * decay(static_cast<double>(folded_ - 1));
  const MatrixView rows = newest_rows();
  for (Index j = 0; j < rows.rows(); ++j) all[arg_max(rows, j)] += decay(time_[static_cast<std::size_t>(sampled_ + j)]);
  return all;
}

void IncrementalEstimator::fold() {
  const VectorXd& p = source_.label_prior;
  const std::vector<double> weights = held_weights();
  const auto newest_weights = std::span(weights).subspan(static_cast<std::size_t>(sampled_));
  const double weight = std::accumulate(newest_weights.begin(), newest_weights.end(), 0.0);
  const double fade = folded_ > 0 ? decay(static_cast<double>(folded_ - 1)) : 0.0;
  mixture_.resize(time_.size(), 1.0);
  for (std::size_t i = size_.size(); i < time_.size(); ++i) size_.push_back(time_[i] * rate_);
  if (family_ == EstimatorFamily::kLikelihood) {
    // A hundredth of a standard error is all that a point to expand around has to be right to: n gap = 1e-4 / 2.
    target_prior_ = maximise(std::max(tolerance_, 1e-4 / (fade * folded_weight_ + weight))).q;
    // With u = a . q / a . q_j: log(a . q) = log(a . q_j) - 3/2 + 2 u - u^2 / 2 + remainder(u).
    const auto value = Likelihood(p, {newest_rows(), newest_weights}).at(target_prior_, Derivatives::kCurvature);
    quadratics_.constant = fade * quadratics_.constant + weight * (value.mean_log_likelihood - 1.5);
    quadratics_.linear = fade * quadratics_.linear + 2.0 * weight * value.gradient;
    quadratics_.quadratic = fade * quadratics_.quadratic + weight * value.curvature;
    // How much a row wants to be sampled. Its leverage, sum_c q_c s_jc^2 >= 1, is about 1 / q_c for a row of class c;
    // u has a variance of about leverage / n, so the gradient of the remainder is of size leverage^(3/2) / n. Should
    // the quadratics turn out to be of no use, the whole gradient counts, of size leverage^(1/2). Half way between the
    // two:
    const double all = fade * folded_weight_ + weight;
    const VectorXd r = target_prior_.array() / p.array();
    const VectorXd spread = (target_prior_.array() + 1.0 / all) / p.array().square();
    for (Index i = sampled_; i < rows_held(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      mixture_[at] = held_.row(i).dot(r);
      const double leverage = held_.row(i).cwiseAbs2().dot(spread) / (mixture_[at] * mixture_[at]);
      size_[at] += std::log2(leverage) - 0.5 * std::log2(all);
    }
  } else {
    folded_votes_ = votes();
  }
  folded_moments_ = with_newest(folded_moments_, newest_rows());
  folded_uncalibrated_ = with_newest(folded_uncalibrated_, newest_uncalibrated());
  if (folded_fit_test_) folded_fit_test_ = with_newest(*folded_fit_test_, newest_uncalibrated());
  folded_weight_ = fade * folded_weight_ + weight;
  folded_ = seen_;
  keep_sample();
}

/// Reduces the rows held to the sample of folded rows, and sums up what that leaves out.
void IncrementalEstimator::keep_sample() {
  // Priorities are weight / U, in a unit of weight that does not move with time, so they are drawn once.
  for (std::size_t i = priority_.size(); i < time_.size(); ++i)
    priority_.push_back(size_[i] - std::log2(1.0 - rng_.uniform()));
  std::vector<std::size_t> kept(time_.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  const auto capacity = static_cast<std::size_t>(max_rows_held() / 2);
  if (kept.size() > capacity) {
    const auto cut = kept.begin() + static_cast<std::ptrdiff_t>(capacity);
    std::nth_element(kept.begin(), cut, kept.end(),
                     [&](std::size_t a, std::size_t b) { return priority_[a] > priority_[b]; });
    threshold_ = std::max(threshold_, priority_[*cut]);
    kept.erase(cut, kept.end());
    std::sort(kept.begin(), kept.end());
  }
  for (std::size_t k = 0; k < kept.size(); ++k) {
    held_.row(static_cast<Index>(k)) = held_.row(static_cast<Index>(kept[k]));
    time_[k] = time_[kept[k]];
    priority_[k] = priority_[kept[k]];
    size_[k] = size_[kept[k]];
    mixture_[k] = mixture_[kept[k]];
  }
  time_.resize(kept.size());
  priority_.resize(kept.size());
  size_.resize(kept.size());
  mixture_.resize(kept.size());
  sampled_ = static_cast<Index>(kept.size());
  weigh_sample();
  if (family_ != EstimatorFamily::kLikelihood || std::isinf(threshold_)) return;  // all are kept: nothing is left out

  const Index m = source_.label_prior.size();
  const Eigen::Map<const Eigen::ArrayXd> v(sample_weight_.data(), sampled_);
  const Eigen::Map<const Eigen::ArrayXd> d(mixture_.data(), sampled_);
  const MatrixXd a = held_.topRows(sampled_) * source_.label_prior.cwiseInverse().asDiagonal();  // (k, m)
  const MatrixXd root = a.array().colwise() * (v.sqrt() / d);                                    // (k, m)
  MatrixXd lower = MatrixXd::Zero(m, m);
  add_outer_products(root.data(), sampled_, m, lower.data());
  excess_.constant = quadratics_.constant - (v * (d.log() - 1.5)).sum();
  excess_.linear = quadratics_.linear - 2.0 * a.transpose() * (v / d).matrix();
  excess_.quadratic = quadratics_.quadratic - MatrixXd(lower.selfadjointView<Eigen::Lower>());

  // The excess is noise around zero and as often bent upwards as downwards, which for a rare class, whose share could
  // grow a thousandfold, makes a false maximum far away. So only its downward part is used, around the estimate of this
  // moment: value and slope stay exact there, and the next fold, a little further on, starts again from quadratics_.
  const VectorXd root_prior = (target_prior_.array() + 1.0 / folded_weight_).sqrt();  // makes all classes comparable
  const MatrixXd scaled = root_prior.asDiagonal() * excess_.quadratic * root_prior.asDiagonal();
  const Eigen::SelfAdjointEigenSolver<MatrixXd> spectrum(scaled);
  const MatrixXd axes = root_prior.cwiseInverse().asDiagonal() * spectrum.eigenvectors();
  const MatrixXd upward = axes * spectrum.eigenvalues().cwiseMin(0.0).asDiagonal() * axes.transpose();
  const VectorXd bend = upward * target_prior_;
  excess_.constant += 0.5 * bend.dot(target_prior_);
  excess_.linear -= bend;
  excess_.quadratic -= upward;
}

/// Weights with which the sample stands for all folded rows. Priority sampling (Duffield, Lund and Thorup 2007): a
/// row's weight divided by its chance min(1, size / threshold). Those of the rows that chance brought here are then
/// moved a little so that the sample has the mean f of all folded rows, which is known exactly (calibration as in
/// survey sampling, Deville and Sarndal 1992).
void IncrementalEstimator::weigh_sample() {
  sample_weight_.resize(time_.size());
  Eigen::ArrayXd doubt(sampled_);  // 1 - the chance of a row to have been sampled
  for (std::size_t i = 0; i < time_.size(); ++i) {
    const double chance = std::exp2(std::min(0.0, size_[i] - threshold_));
    sample_weight_[i] =
        std::exp2((time_[i] - static_cast<double>(seen_ - 1)) * rate_ + std::max(0.0, threshold_ - size_[i]));
    doubt[static_cast<Index>(i)] = 1.0 - chance;
  }
  if (std::isinf(threshold_)) return;
  Eigen::Map<Eigen::ArrayXd> v(sample_weight_.data(), sampled_);
  const MatrixXd f = held_.topRows(sampled_);
  MatrixXd square = f.transpose() * (v * doubt).matrix().asDiagonal() * f;
  square.diagonal().array() += 1e-9 * folded_weight_;
  const VectorXd missing = folded_weight_ * folded_moments_.mean - f.transpose() * v.matrix();
  v *= (1.0 + doubt * (f * square.ldlt().solve(missing)).array()).max(0.1);
}

/// How much of the quadratics to believe, from 0 to 1: the factor with which they, as a control variate, leave the
/// least variance in the gradient at q as the sample estimates it. With z = a / (a . q_j) and u = z . q the gradient of
/// a row is z / u and that of its quadratic z (2 - u).
double IncrementalEstimator::control(const VectorXd& q) const {
  if (std::isinf(threshold_)) return 1.0;
  const Eigen::Map<const Eigen::ArrayXd> v(sample_weight_.data(), sampled_);
  const Eigen::Map<const Eigen::ArrayXd> d(mixture_.data(), sampled_);
  Eigen::ArrayXd chance(sampled_);  // of a row to have been sampled
  for (Index i = 0; i < sampled_; ++i)
    chance[i] = std::exp2(std::min(0.0, size_[static_cast<std::size_t>(i)] - threshold_));
  const Eigen::ArrayXd noise = v.square() * (1.0 - chance);
  const double total = noise.sum();
  if (!(total > 0.0)) return 1.0;
  // Scores have variances of about 1 / q_c: scaled by the root of q_c they are comparable.
  const VectorXd scale = q.array().sqrt() / source_.label_prior.array();
  const MatrixXd z = (held_.topRows(sampled_) * scale.asDiagonal()).array().colwise() / d;  // (k, m)
  const Eigen::ArrayXd u = z * q.cwiseSqrt();
  MatrixXd row = z.array().colwise() / u.max(1e-12);
  MatrixXd quadratic = z.array().colwise() * (2.0 - u);
  row.rowwise() -= (noise.matrix().transpose() * row / total).eval();
  quadratic.rowwise() -= (noise.matrix().transpose() * quadratic / total).eval();
  const double spread = (quadratic.rowwise().squaredNorm().array() * noise).sum();
  if (!(spread > 0.0)) return 1.0;
  return std::clamp((row.cwiseProduct(quadratic).rowwise().sum().array() * noise).sum() / spread, 0.0, 1.0);
}

IncrementalEstimator::Maximum IncrementalEstimator::maximise(double tolerance) const {
  const VectorXd& p = source_.label_prior;
  const std::vector<double> weights = held_weights();
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const Likelihood likelihood(p, {held_rows(), weights});
  const double fade = folded_ > 0 ? decay(static_cast<double>(folded_ - 1)) / total : 0.0;
  double belief = 1.0;
  const auto evaluate = [&](const VectorXd& q) {
    LikelihoodValue value = likelihood.at(q, Derivatives::kCurvature);
    const double share = belief * fade;
    const VectorXd bend = excess_.quadratic * q;
    value.mean_log_likelihood += share * (excess_.constant + (excess_.linear - 0.5 * bend).dot(q));
    value.gradient += share * (excess_.linear - bend);
    value.curvature += share * excess_.quadratic;
    return value;
  };

  Maximum best;
  // A class that was absent may have come: give each the share of one row.
  best.q = (target_prior_.array() + 1.0 / total) / (1.0 + static_cast<double>(p.size()) / total);
  SimplexSolver solver;
  const VectorXd none = VectorXd::Zero(p.size());
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {  // how much to believe depends on where the maximum is
    const double before = belief;
    belief = control(best.q);
    if (round > 0 && std::abs(belief - before) < 1e-3) break;
    best.value = evaluate(best.q);
    ++best.iterations;
    best.gap = best.value.gradient.maxCoeff() - best.value.gradient.dot(best.q);
    // Far away EM steps are bolder than Newton's, as in MllsSqp.
    for (double last = 1e300; best.gap > kFar && best.gap < 0.6 * last && best.iterations < max_iterations_;) {
      last = best.gap;
      best.q.array() *= best.value.gradient.array().max(0.1);
      best.q /= best.q.sum();
      best.value = evaluate(best.q);
      ++best.iterations;
      best.gap = best.value.gradient.maxCoeff() - best.value.gradient.dot(best.q);
    }
    for (;;) {
      best.converged = best.gap <= tolerance;
      if (best.converged || best.iterations >= max_iterations_) break;
      const LikelihoodValue& at = best.value;
      const VectorXd step =
          solver.solve({at.curvature, at.curvature * best.q + at.gradient, none, none}, best.q) - best.q;
      const double promised = at.gradient.dot(step);
      bool accepted = false;
      for (double length = 1.0; length > 1e-10 && !accepted && best.iterations < max_iterations_; length *= 0.5) {
        // A class may drop to zero at once only where the model can be trusted that far.
        VectorXd trial = (best.q + length * step).cwiseMax(best.gap > kNear ? 0.3 * best.q : none);
        trial /= trial.sum();
        LikelihoodValue value = evaluate(trial);
        ++best.iterations;
        const double gained = value.mean_log_likelihood - at.mean_log_likelihood;
        if (!(gained >= 1e-4 * length * promised - 1e-13 * (1.0 + std::abs(at.mean_log_likelihood)))) continue;
        best.q = std::move(trial);
        best.value = std::move(value);
        best.gap = best.value.gradient.maxCoeff() - best.value.gradient.dot(best.q);
        accepted = true;
      }
      if (!accepted) break;  // no step gains anything: rounding has been reached
    }
  }
  best.gap = std::max(best.gap, 0.0);
  return best;
}

IncrementalState IncrementalEstimator::current() const {
  if (seen_ == 0)
    throw Error(ErrorKind::kInput, "no target rows yet: found 0, expected at least one before the first question");
  const VectorXd& p = source_.label_prior;
  IncrementalState state;
  state.rows = rows();
  const Moments target = with_newest(folded_moments_, newest_rows());
  state.effective_rows = target.effective_rows();
  const Moments raw = with_newest(folded_uncalibrated_, newest_uncalibrated());
  state.shift_test = source_moments_ ? no_shift_test(*source_moments_, raw) : no_shift_test_exact(p, raw);
  if (folded_fit_test_) state.fit_test = with_newest(*folded_fit_test_, newest_uncalibrated()).current();
  if (const auto* estimator = dynamic_cast<const ConfusionEstimator*>(estimator_.get())) {
    const VectorXd counts = votes();
    const VectorXd predicted = estimator->soft() ? VectorXd(target.mean / target.mean.sum()) : counts / counts.sum();
    state.estimate = estimator->solve(source_, predicted);
    state.target_prior = p.cwiseProduct(state.estimate.ratio);
    const std::vector<double> weights = held_weights();
    state.estimate.mean_log_likelihood =
        Likelihood(p, {held_rows(), weights}).at(state.target_prior, Derivatives::kGradient).mean_log_likelihood;
    set_confusion_intervals(*estimator, target, predicted, state);
    widen_to(state.target_prior, state.estimate.ratio, state.intervals);
    return state;
  }
  Maximum maximum = maximise(tolerance_);
  state.target_prior = maximum.q;
  state.estimate = {.ratio = maximum.q.array() / p.array(),
                    .mean_log_likelihood = maximum.value.mean_log_likelihood,
                    .gap = maximum.gap,
                    .iterations = maximum.iterations,
                    .stopped_by = maximum.converged ? StopReason::kTolerance : StopReason::kIterationLimit};
  set_likelihood_intervals(maximum.value.gradient, maximum.value.curvature, state);
  widen_to(state.target_prior, state.estimate.ratio, state.intervals);
  state.curvature = std::move(maximum.value.curvature);
  return state;
}

void IncrementalEstimator::set_likelihood_intervals(const VectorXd& gradient, const MatrixXd& curvature,
                                                    IncrementalState& state) const {
  const VectorXd& g = gradient;             // (m)
  const MatrixXd& h = curvature;            // (m, m)
  const VectorXd& q = state.target_prior;   // (m)
  const VectorXd& p = source_.label_prior;  // (m)
  const double n = state.effective_rows;
  const MatrixXd response = score_response(q, h, n);
  PriorUncertainty of{.prior = q, .centre = q};
  for (Index c = 0; c < q.size(); ++c)
    if (q[c] <= 0.0) of.centre[c] = response.row(c).dot(g);
  VectorXd variance = (response * h).cwiseProduct(response).rowwise().sum() / n;
  if (options_.prior_is_estimated && source_.examples > 0.0) {
    // q also depends on the source prior, by a_jc = f_jc / p_c: log a_jc moves by beta_c = -dp_c / p_c, the gradient by
    // K beta with K = diag(g) - H diag(q), and cov(beta) = (diag(1 / p) - 1 1^T) / N; K 1 = 0.
    const VectorXd beta_variance = p.cwiseInverse() / source_.examples;
    const MatrixXd by_beta = response * (MatrixXd(g.asDiagonal()) - h * q.asDiagonal());  // (m, m) d q / d beta
    const MatrixXd ratio_by_beta = by_beta + MatrixXd(q.asDiagonal());                    // (m, m) p d r / d beta
    const VectorXd of_ratio = variance + ratio_by_beta.cwiseAbs2() * beta_variance - q.cwiseAbs2() / source_.examples;
    of.ratio_error = of_ratio.cwiseMax(0.0).cwiseSqrt().cwiseQuotient(p);
    variance += by_beta.cwiseAbs2() * beta_variance;
  }
  of.prior_error = variance.cwiseMax(0.0).cwiseSqrt();
  of.response = response;
  state.intervals = intervals_from(of, p, n, options_.level);
}

void IncrementalEstimator::set_confusion_intervals(const ConfusionEstimator& estimator, const Moments& target,
                                                   const VectorXd& predicted, IncrementalState& state) const {
  const VectorXd& b = predicted;           // (m)
  const VectorXd& q = state.target_prior;  // (m)
  const VectorXd& p = source_.label_prior;
  const Index m = q.size();
  const MatrixXd& joint = estimator.soft() ? *source_.soft_confusion : *source_.confusion;
  const MatrixXd given = joint * p.cwiseInverse().asDiagonal();  // (m, m) [j, c] = p_tr(argmax f = j | y = c)
  const MatrixXd inverse = given.completeOrthogonalDecomposition().pseudoInverse();
  // q = given^-1 b. The covariance of `b - given q`: the target's share, and the source's, whose columns are means of
  // N p_c draws each. Draws of f vary less than draws of labels from it, so for a soft matrix this is an upper bound.
  MatrixXd covariance = estimator.soft() ? target.covariance() : MatrixXd(b.asDiagonal()) - b * b.transpose();
  covariance /= state.effective_rows;
  if (source_.examples > 0.0)
    for (Index c = 0; c < m; ++c)
      covariance += q[c] * q[c] / (p[c] * source_.examples) *
                    (MatrixXd(given.col(c).asDiagonal()) - given.col(c) * given.col(c).transpose());
  const VectorXd variance = (inverse * covariance).cwiseProduct(inverse).rowwise().sum().cwiseMax(0.0);
  const bool noisy_prior = options_.prior_is_estimated && source_.examples > 0.0;
  PriorUncertainty of{.prior = q, .centre = q, .prior_error = variance.cwiseSqrt()};
  const VectorXd free = inverse * b;
  for (Index c = 0; c < m; ++c)
    if (q[c] <= 0.0) of.centre[c] = std::min(free[c], 0.0);
  if (noisy_prior)
    of.ratio_error =
        (variance.array() + q.array().square() * (1.0 / p.array() - 1.0) / source_.examples).sqrt() / p.array();
  state.intervals = intervals_from(of, p, state.effective_rows, options_.level);
}

}  // namespace labelshift
