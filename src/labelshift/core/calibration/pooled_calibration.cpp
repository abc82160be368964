#include "labelshift/core/calibration/pooled_calibration.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/rng.hpp"

namespace labelshift {
namespace {

using Eigen::ArrayXd;
using Eigen::ArrayXXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kMatrixStrengths[] = {1e3, 1e2, 1e1, 1.0};  // from BCTS to the free matrix
constexpr int kScales = 41;                                  // tried first: from 1/10 to 10, evenly on a log scale
constexpr double kNear = 1e-4;                               // standard errors: how close to the minimum is enough
constexpr double kRounding = 1e-10;                          // of sums in fixed point over many places
constexpr std::size_t kMemory = 12;                          // of L-BFGS
constexpr int kTrialSteps = 10;  // of fits, after which it shows that a candidate is worse than another
constexpr double kMuchWorse =
    1.05;  // times a cross-validated loss, of which its own steps do not take that much any more
// What sums of squared gradients travel in. A mean of squares is 1e4 at most, where log f is -100 at least, and twice
// that for two examples of a class: of this unit that is 78, which a node may add to a sum of 100,000 nodes.
constexpr double kNoiseUnit = 0x1p8;

Index triangle(Index p) {
  return p * (p + 1) / 2;
}

VectorXd lower_triangle(const MatrixXd& matrix) {
  VectorXd packed(triangle(matrix.rows()));
  Index at = 0;
  for (Index c = 0; c < matrix.cols(); ++c) {
    const Index size = matrix.rows() - c;
    packed.segment(at, size) = matrix.col(c).tail(size);
    at += size;
  }
  return packed;
}

MatrixXd symmetric(const VectorXd& packed, Index p) {
  MatrixXd matrix(p, p);
  Index at = 0;
  for (Index c = 0; c < p; ++c) {
    const Index size = p - c;
    matrix.col(c).tail(size) = packed.segment(at, size);
    matrix.row(c).tail(size) = packed.segment(at, size).transpose();
    at += size;
  }
  return matrix;
}

/// (m, folds + 1): what an example of a class weighs, so that classes that there are count the same.
MatrixXd weights_of(const MatrixXd& counts) {
  MatrixXd seen(counts.rows(), counts.cols() + 1);
  seen.col(0) = counts.rowwise().sum();
  for (Index k = 0; k < counts.cols(); ++k) seen.col(k + 1) = seen.col(0) - counts.col(k);
  MatrixXd weights = MatrixXd::Zero(seen.rows(), seen.cols());
  for (Index k = 0; k < seen.cols(); ++k) {
    const double classes = static_cast<double>((seen.col(k).array() > 0.0).count());
    for (Index c = 0; c < seen.rows(); ++c)
      if (seen(c, k) > 0.0) weights(c, k) = 1.0 / (classes * seen(c, k));
  }
  return weights;
}

/// (m) How many examples of a class there are everywhere, by what one of them weighs.
ArrayXd examples_of(const VectorXd& weights) {
  const double classes = static_cast<double>((weights.array() > 0.0).count());
  return weights.unaryExpr([&](double w) { return w > 0.0 ? std::round(1.0 / (classes * w)) : 0.0; });
}

/// The parameters of a larger kind that a smaller one fits.
std::vector<Index> free_parameters(const CalibrationParameters& all, CalibrationKind kind) {
  std::vector<Index> free{0};
  if (kind == CalibrationKind::kMatrix)
    for (Index i = 0; i < all.mixings(); ++i) free.push_back(all.scales() + i);
  if (kind != CalibrationKind::kTemperature)
    for (Index i = 0; i < all.biases(); ++i) free.push_back(all.size() - all.biases() + i);
  return free;
}

}  // namespace

CalibrationKind pooled_kind(Index classes) {
  return classes <= kMaxMatrixClasses ? CalibrationKind::kMatrix : CalibrationKind::kBiasCorrected;
}

Index pooled_curvature_size(Index classes) {
  return NllSum(CalibrationParameters(pooled_kind(classes), classes), CalibrationCurvature::kDense).curvature().size();
}

std::vector<Index> pooled_folds(std::span<const int> labels, Index classes, std::uint64_t seed) {
  Rng rng(seed, 0);
  std::vector<Index> next(static_cast<std::size_t>(classes));
  for (Index& fold : next) fold = static_cast<Index>(rng.uniform() * kPooledFolds);
  std::vector<Index> folds;
  folds.reserve(labels.size());
  for (const int label : labels) folds.push_back(next[static_cast<std::size_t>(label)]++ % kPooledFolds);
  return folds;
}

PooledSums PooledSums::zero(Index classes, const PooledQuestion& question) {
  const Index fits = question.parameters.cols();
  const Index p = CalibrationParameters(pooled_kind(classes), classes).size();
  return {.values = VectorXd::Zero(fits),
          .held_out = VectorXd::Zero(fits),
          .gradients = MatrixXd::Zero(p, fits),
          .curvature = VectorXd::Zero(question.curvature ? pooled_curvature_size(classes) : 0),
          .noise = VectorXd::Zero(question.noise ? triangle(p) + p * classes : 0)};
}

PooledSums& PooledSums::operator+=(const PooledSums& other) {
  values += other.values;
  held_out += other.held_out;
  gradients += other.gradients;
  curvature += other.curvature;
  noise += other.noise;
  return *this;
}

PooledSums pooled_sums(const PooledQuestion& question, const Scores& scores, std::span<const int> labels,
                       std::span<const Index> folds) {
  const Index m = scores.cols();
  const CalibrationParameters parameters(pooled_kind(m), m);
  PooledSums sums = PooledSums::zero(m, question);
  const Index p = parameters.size();
  MatrixXd squares = MatrixXd::Zero(question.noise ? p : 0, question.noise ? p : 0);
  MatrixXd of_class = MatrixXd::Zero(question.noise ? p : 0, m);
  const ArrayXd everywhere = examples_of(question.weights.col(0));
  const auto add_square = [&](const CalibrationBlock& block, std::span<const int> of_block, const ArrayXd& weights) {
    const MatrixXd weighted =
        (gradient_rows(parameters, block, of_block).array().colwise() * weights).matrix();  // (b, p)
    squares.noalias() += weighted.transpose() * weighted;
  };
  for (Index fit = 0; fit < question.parameters.cols(); ++fit) {
    const Index left_out = question.left_out[static_cast<std::size_t>(fit)];
    const Calibration calibration = parameters.expand(question.parameters.col(fit));
    const bool curved = fit == 0 && question.curvature;
    NllSum sum(parameters, curved ? CalibrationCurvature::kDense : CalibrationCurvature::kNone);
    for_each_block(calibration, scores, 0, scores.rows(), [&](const CalibrationBlock& block) {
      const auto first = static_cast<std::size_t>(block.first);
      const std::span<const int> of_block = labels.subspan(first, static_cast<std::size_t>(block.f.rows()));
      ArrayXd weights(block.f.rows());
      for (Index i = 0; i < weights.size(); ++i) {
        const int y = of_block[static_cast<std::size_t>(i)];
        const bool held_out = folds[first + static_cast<std::size_t>(i)] + 1 == left_out;
        weights[i] = held_out ? 0.0 : question.weights(y, left_out);
        if (held_out)
          sums.held_out[fit] += question.weights(y, 0) * (block.log_normaliser[i] - exponent(calibration, block, i, y));
      }
      sum.add(calibration, block, of_block, weights);
      if (fit > 0 || !question.noise) return;
      const MatrixXd gradients = gradient_rows(parameters, block, of_block);  // (b, p)
      ArrayXd unbiased = weights;
      for (Index i = 0; i < gradients.rows(); ++i) {
        const int y = of_block[static_cast<std::size_t>(i)];
        of_class.col(y) += weights[i] * gradients.row(i).transpose();
        unbiased[i] *= everywhere[y] > 1.0 ? std::sqrt(everywhere[y] / (everywhere[y] - 1.0)) : 0.0;
      }
      add_square(block, of_block, unbiased);
      // One example has no variance to see. That of a class c is sum_i m w_i f_c(x_i) g_c(x_i)^2 less a square of the
      // mean, with g_c the gradient if the label were c: as the calibrated classifier has it, that is where the
      // examples of c are, and the m w_i f_c(x_i) sum to 1 at the optimum. The mean's square is left, for safety.
      const double classes = static_cast<double>((everywhere > 0.0).count());
      for (Index c = 0; c < m; ++c) {
        if (everywhere[c] != 1.0) continue;
        const std::vector<int> as_if(of_block.size(), static_cast<int>(c));
        add_square(block, as_if, question.weights(c, 0) * (classes * weights * block.f.col(c)).sqrt());
      }
    });
    sums.values[fit] = sum.value();
    sums.gradients.col(fit) = sum.gradient();
    if (curved) sums.curvature = sum.curvature();
    if (fit == 0 && question.noise)
      sums.noise << question.examples / kNoiseUnit * lower_triangle(squares), of_class.reshaped();
  }
  return sums;
}

std::vector<PooledCandidate> pooled_path() {
  std::vector<PooledCandidate> path{{.kind = CalibrationKind::kBiasCorrected}};
  for (const double strength : kMatrixStrengths)
    path.push_back({.kind = CalibrationKind::kMatrix, .strength = strength});
  return path;
}

PooledCalibration::PooledCalibration(const MatrixXd& counts, std::vector<PooledCandidate> path)
    : m_(counts.rows()), parameters_(pooled_kind(m_), m_), counts_(counts), weights_(weights_of(counts)) {
  assert(counts.cols() == kPooledFolds && !path.empty());
  const VectorXd of_class = counts.rowwise().sum();
  // A class without examples says nothing of its bias; one temperature is all that can be fitted then.
  if (of_class.minCoeff() == 0.0) path = {{.kind = CalibrationKind::kTemperature}};
  for (PooledCandidate& one : path)
    if (static_cast<int>(one.kind) > static_cast<int>(parameters_.kind())) one.kind = parameters_.kind();
  const auto same = [](const PooledCandidate& a, const PooledCandidate& b) {
    return a.kind == b.kind && (a.kind != CalibrationKind::kMatrix || a.strength == b.strength);
  };
  path.erase(std::unique(path.begin(), path.end(), same), path.end());
  result_ = {.calibration = Calibration::identity(m_), .candidates = std::move(path)};
  if (of_class.sum() == 0.0) stage_ = Stage::kDone;
}

double PooledCalibration::examples_without(Index left_out) const {
  double squares = 0.0;
  for (Index c = 0; c < m_; ++c) {
    const double seen = counts_.row(c).sum() - (left_out > 0 ? counts_(c, left_out - 1) : 0.0);
    squares += weights_(c, left_out) * weights_(c, left_out) * seen;
  }
  return squares > 0.0 ? 1.0 / squares : 0.0;
}

std::optional<PooledQuestion> PooledCalibration::next() {
  if (stage_ == Stage::kDone) return std::nullopt;
  PooledQuestion question{.examples = examples_without(0), .weights = weights_, .left_out = {}, .parameters = {}};
  switch (stage_) {
    case Stage::kScale: {
      question.parameters = parameters_.identity().replicate(1, kScales);
      for (int i = 0; i < kScales; ++i) question.parameters(0, i) = std::pow(10.0, 2.0 * i / (kScales - 1) - 1.0);
      question.left_out.assign(kScales, 0);
      break;
    }
    case Stage::kCurvature:
      question.parameters = start_;
      question.left_out = {0};
      question.curvature = true;
      break;
    case Stage::kFits: {
      question.parameters.resize(parameters_.size(), std::ssize(asked_));
      for (std::size_t i = 0; i < asked_.size(); ++i) {
        question.parameters.col(static_cast<Index>(i)) = fits_[asked_[i]].trial;
        question.left_out.push_back(fits_[asked_[i]].left_out);
      }
      break;
    }
    case Stage::kNoise:
      question.parameters = parameters_.theta_of(result_.calibration);
      question.left_out = {0};
      question.curvature = question.noise = true;
      break;
    case Stage::kDone:
      break;
  }
  ++result_.steps;
  return question;
}

void PooledCalibration::take(const PooledSums& sums) {
  switch (stage_) {
    case Stage::kScale: {
      Index best = 0;
      sums.values.minCoeff(&best);
      result_.nll_before = sums.values[kScales / 2];
      start_ = parameters_.identity();
      start_[0] = std::pow(10.0, 2.0 * static_cast<double>(best) / (kScales - 1) - 1.0);
      stage_ = Stage::kCurvature;
      return;
    }
    case Stage::kCurvature:
      begin_fits(sums);
      first_fit_ = result_.steps;
      stage_ = Stage::kFits;
      return;
    case Stage::kFits: {
      for (std::size_t i = 0; i < asked_.size(); ++i) {
        const auto at = static_cast<Index>(i);
        advance(fits_[asked_[i]], sums.values[at], sums.gradients.col(at), sums.held_out[at]);
      }
      std::erase_if(asked_, [&](std::size_t fit) { return fits_[fit].done; });
      drop_worse();
      if (!asked_.empty() && result_.steps < kMostSteps - 1) return;
      choose();
      stage_ = Stage::kNoise;
      return;
    }
    case Stage::kNoise: {
      const PooledCandidate& chosen = result_.candidates[result_.chosen];
      const std::vector<Index> free = free_parameters(parameters_, chosen.kind);
      NllSum sum(parameters_, CalibrationCurvature::kDense);
      sum.add_curvature(sums.curvature);
      const CalibrationParameters with_strength(parameters_.kind(), m_, chosen.strength);
      const MatrixXd hessian =
          sum.derivatives(with_strength, parameters_.theta_of(result_.calibration), examples_without(0)).hessian;
      const MatrixXd lower = hessian.selfadjointView<Eigen::Lower>();
      // Classes have a weight however many examples of them there are, so it is within classes that examples vary.
      const Index p = parameters_.size();
      MatrixXd noise = symmetric(sums.noise.head(triangle(p)), p) * (kNoiseUnit / examples_without(0));
      for (Index c = 0; c < m_; ++c) {
        const VectorXd of_class = sums.noise.segment(triangle(p) + c * p, p);
        if (const double examples = counts_.row(c).sum(); examples > 1.0)
          noise.noalias() -= of_class * of_class.transpose() / (examples - 1.0);
      }
      const HessianFactor factor(lower(free, free));
      const MatrixXd half = factor.solve(noise(free, free));
      const MatrixXd covariance = factor.solve(half.transpose());
      result_.covariance = MatrixXd::Zero(p, p);
      result_.covariance(free, free) = 0.5 * (covariance + covariance.transpose());
      stage_ = Stage::kDone;
      return;
    }
    case Stage::kDone:
      return;
  }
}

void PooledCalibration::begin_fits(const PooledSums& sums) {
  NllSum sum(parameters_, CalibrationCurvature::kDense);
  sum.add_curvature(sums.curvature);
  const bool choose = result_.candidates.size() > 1;
  for (std::size_t candidate = 0; candidate < result_.candidates.size(); ++candidate) {
    const PooledCandidate& one = result_.candidates[candidate];
    const CalibrationParameters with_strength(parameters_.kind(), m_, one.strength);
    const std::vector<Index> free = free_parameters(parameters_, one.kind);
    const MatrixXd hessian = sum.derivatives(with_strength, start_, examples_without(0)).hessian;
    const MatrixXd symmetric = hessian.selfadjointView<Eigen::Lower>();
    const auto factor = std::make_shared<const HessianFactor>(symmetric(free, free));
    for (Index left_out = 0; left_out <= (choose ? kPooledFolds : 0); ++left_out) {
      const double examples = examples_without(left_out);
      if (examples == 0.0) continue;  // all examples are in one fold
      fits_.push_back({.candidate = candidate,
                       .left_out = left_out,
                       .examples = examples,
                       .free = free,
                       .penalty = with_strength.penalty() / examples,
                       .preconditioner = factor,
                       .trial = start_});
      asked_.push_back(fits_.size() - 1);
    }
  }
}

/// Takes the value and gradient at the trial point, and sets the next.
void PooledCalibration::advance(Descent& fit, double value, const VectorXd& gradient_of_sum, double held_out) const {
  const VectorXd from_prior = fit.trial - parameters_.identity();
  value += 0.5 * fit.penalty.dot(from_prior.cwiseAbs2());
  const VectorXd gradient = (gradient_of_sum + fit.penalty.cwiseProduct(from_prior))(fit.free);
  const VectorXd trial = fit.trial(fit.free);
  if (fit.begun && !(value <= fit.value + 1e-4 * fit.length * fit.slope + kRounding * (1.0 + std::abs(fit.value)))) {
    // The lowest point of the parabola through what is known, or nearer.
    const double rise = value - fit.value - fit.length * fit.slope;
    const double lowest = -0.5 * fit.slope * fit.length / rise;
    fit.length *= std::isfinite(lowest) ? std::clamp(lowest, 0.1, 0.5) : 0.1;
    if (fit.length < 1e-12) {
      fit.done = true;
      return;
    }
  } else {
    if (fit.begun) {
      VectorXd move = trial - fit.at, change = gradient - fit.gradient;
      if (move.dot(change) > 0.0) {
        fit.moves.push_back(std::move(move));
        fit.changes.push_back(std::move(change));
        if (fit.moves.size() > kMemory) {
          fit.moves.erase(fit.moves.begin());
          fit.changes.erase(fit.changes.begin());
        }
      }
    }
    fit.begun = true;
    fit.at = trial;
    fit.value = value;
    fit.gradient = gradient;
    fit.held_out = held_out;
    // The two loops of L-BFGS.
    VectorXd step = -gradient;
    std::vector<double> parts(fit.moves.size());
    for (std::size_t i = fit.moves.size(); i-- > 0;) {
      parts[i] = fit.moves[i].dot(step) / fit.moves[i].dot(fit.changes[i]);
      step -= parts[i] * fit.changes[i];
    }
    step = fit.preconditioner->solve(step);
    for (std::size_t i = 0; i < fit.moves.size(); ++i)
      step += (parts[i] - fit.changes[i].dot(step) / fit.moves[i].dot(fit.changes[i])) * fit.moves[i];
    fit.slope = gradient.dot(step);
    if (!(-fit.slope * fit.examples > kNear * kNear)) {
      fit.done = fit.converged = true;
      return;
    }
    fit.step = std::move(step);
    fit.length = 1.0;
  }
  fit.trial(fit.free) = fit.at + fit.length * fit.step;
}

/// What is nearly free and has few examples takes the most steps, towards what is not chosen in the end. Once every
/// fold of another candidate is done, one that predicts them much worse is followed no further.
void PooledCalibration::drop_worse() {
  if (result_.steps - first_fit_ < kTrialSteps) return;
  std::vector<double> nll(result_.candidates.size()), nll_once_done(nll);
  for (const Descent& fit : fits_) {
    if (fit.left_out == 0) continue;
    nll[fit.candidate] += fit.held_out;
    nll_once_done[fit.candidate] += fit.done ? fit.held_out : std::numeric_limits<double>::infinity();
  }
  const double best = *std::min_element(nll_once_done.begin(), nll_once_done.end());
  std::erase_if(asked_, [&](std::size_t fit) { return nll[fits_[fit].candidate] > kMuchWorse * best; });
}

void PooledCalibration::choose() {
  std::vector<PooledCandidate>& candidates = result_.candidates;
  if (candidates.size() > 1) {
    for (const Descent& fit : fits_)
      if (fit.left_out > 0) candidates[fit.candidate].nll += fit.held_out;
    result_.chosen = static_cast<std::size_t>(
        std::min_element(candidates.begin(), candidates.end(),
                         [](const PooledCandidate& a, const PooledCandidate& b) { return a.nll < b.nll; }) -
        candidates.begin());
  }
  const auto found = std::find_if(fits_.begin(), fits_.end(), [&](const Descent& fit) {
    return fit.candidate == result_.chosen && fit.left_out == 0;
  });
  VectorXd theta = start_;
  theta(found->free) = found->at;
  // A bias that all classes share changes nothing.
  theta.tail(parameters_.biases()).array() -= theta.tail(parameters_.biases()).mean();
  result_.calibration = parameters_.expand(theta);
  if (candidates[result_.chosen].kind != CalibrationKind::kMatrix) result_.calibration.mixing.resize(0, 0);
  const VectorXd from_prior = theta - parameters_.identity();
  result_.nll_after = found->value - 0.5 * found->penalty.dot(from_prior.cwiseAbs2());
  result_.converged = found->converged;
}

}  // namespace labelshift
