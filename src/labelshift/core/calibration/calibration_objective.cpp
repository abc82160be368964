#include "labelshift/core/calibration/calibration_objective.hpp"

#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/likelihood/softmax.hpp"

namespace labelshift {
namespace {

using Eigen::ArrayXd;
using Eigen::ArrayXXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kPriorPrecision = 0.01;   // 1 / 10^2, in units of one observation
constexpr Index kDenseParameters = 400;    // up to here a dense Hessian is cheaper than conjugate gradients
constexpr int kMaxConjugateSteps = 500;    // a Newton step
constexpr double kShortestStep = 0x1p-80;  // of a line search
constexpr double kValueRounding = 1e-13;   // of a mean over 1e6 rows, relative
constexpr double kHugeNll = 1e3;           // no floor of a probability makes it that large
constexpr double kStaleDecrement = 0.1;    // a step that leaves more of the decrement asks for a new Hessian

double weight_at(std::span<const double> weights, Index row) {
  return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(row)];
}

/// Whether `next` is low enough after a step of `length` times one that promises to gain `decrement` / 2.
bool descends(double next, double value, double length, double decrement) {
  return next <= value - 1e-4 * length * decrement + kValueRounding * (1.0 + std::abs(value));
}

/// An inexact step may leave the biases' sum of 0.
void centre_biases(const CalibrationParameters& parameters, VectorXd& step) {
  auto biases = step.tail(parameters.biases());
  if (biases.size() > 0) biases.array() -= biases.mean();
}

}  // namespace

Calibration first_guess(Index classes, double nll) {
  Calibration guess = Calibration::identity(classes);
  if (nll > kHugeNll) guess.scale /= nll;
  return guess;
}

void calibrate(const Calibration& calibration, CalibrationBlock& block) {
  block.f.resize(block.z.rows(), block.z.cols());
  for (Index c = 0; c < block.z.cols(); ++c)
    block.f.col(c) = calibration.scale[c] * block.z.col(c) + calibration.bias[c];
  if (calibration.mixing.size() > 0) block.f.matrix().noalias() += block.z.matrix() * calibration.mixing.transpose();
  block.log_normaliser.resize(block.z.rows());
  softmax_rows(block.f.rows(), block.f.cols(), block.f.data(), block.log_normaliser.data());
}

VectorXd CalibrationParameters::identity() const {
  VectorXd theta = VectorXd::Zero(size());
  theta.head(scales()).setOnes();
  return theta;
}

Calibration CalibrationParameters::expand(const VectorXd& theta) const {
  Calibration full = Calibration::identity(m_);
  if (scales() == 1) full.scale.setConstant(theta[0]);
  if (scales() == m_) full.scale = theta.head(m_);
  if (mixings() > 0) full.mixing = Eigen::Map<const RowMajorMatrix<double>>(theta.data() + scales(), m_, m_);
  if (biases() == m_) full.bias = theta.tail(m_);
  return full;
}

VectorXd CalibrationParameters::theta_of(const Calibration& calibration) const {
  VectorXd theta = VectorXd::Zero(size());
  if (mixings() > 0) {
    RowMajorMatrix<double> mixing = calibration.scale.asDiagonal();
    if (calibration.mixing.size() > 0) mixing += calibration.mixing;
    theta[0] = mixing.diagonal().mean();
    mixing.diagonal().array() -= theta[0];
    theta.segment(1, m_ * m_) = mixing.reshaped<Eigen::RowMajor>();
  } else {
    theta.head(scales()) = calibration.scale.head(scales());
  }
  theta.tail(biases()) = calibration.bias.head(biases());
  return theta;
}

MatrixXd CalibrationParameters::reduce(const Eigen::Ref<const ArrayXXd>& by_scale,
                                       const Eigen::Ref<const ArrayXXd>& by_mixing,
                                       const Eigen::Ref<const ArrayXXd>& by_bias) const {
  MatrixXd reduced(by_scale.rows(), size());
  if (scales() == m_)
    reduced.leftCols(m_) = by_scale;
  else if (scales() == 1)
    reduced.col(0) = by_scale.rowwise().sum();
  if (mixings() > 0) reduced.middleCols(scales(), mixings()) = by_mixing;
  if (biases() == m_) reduced.rightCols(m_) = by_bias;
  return reduced;
}

VectorXd CalibrationParameters::penalty() const {
  VectorXd penalty = VectorXd::Constant(size(), kPriorPrecision);
  penalty.segment(scales(), mixings()).setConstant(strength_);
  return penalty;
}

NllSum::NllSum(const CalibrationParameters& parameters, CalibrationCurvature curvature)
    : parameters_(parameters), curvature_(curvature), gradient_(Eigen::RowVectorXd::Zero(parameters.size())) {
  const Index p = parameters.size();
  const Index m = parameters.classes();
  if (curvature == CalibrationCurvature::kDense)
    hessian_ = parameters.mixings() > 0 ? MatrixXd::Zero((m + 1) * (m + 2) / 2, m * (m + 1) / 2) : MatrixXd::Zero(p, p);
  if (curvature == CalibrationCurvature::kDiagonal) hessian_ = MatrixXd::Zero(p, 1);
  for (auto& moment : moments_) moment.setZero(parameters.classes());
}

void NllSum::add(const Calibration& calibration, const CalibrationBlock& block, std::span<const int> labels,
                 const ArrayXd& weights) {
  const Index m = parameters_.classes();
  const Index rows = block.f.rows();
  const ArrayXd& w = weights;
  if (parameters_.mixings() > 0) {
    ArrayXXd excess = block.f;  // (b, m) w (f - 1(y = c)), the gradient by the exponents
    for (Index i = 0; i < rows; ++i) {
      const int y = labels[static_cast<std::size_t>(i)];
      value_ += w[i] * (block.log_normaliser[i] - exponent(calibration, block, i, y));
      excess(i, y) -= 1.0;
    }
    excess.colwise() *= w;
    const MatrixXd by_mixing = block.z.matrix().transpose() * excess.matrix();  // (m, m) [j, c]
    gradient_[0] += by_mixing.trace();
    gradient_.segment(1, m * m) += by_mixing.reshaped().transpose();
    gradient_.tail(m) += excess.colwise().sum().matrix();
    if (curvature_ != CalibrationCurvature::kNone) add_matrix(block, w);
    return;
  }
  const ArrayXXd fz = block.f * block.z;
  const MatrixXd mean = parameters_.reduce(fz, ArrayXXd(), block.f);  // (b, p) E_f[phi]
  gradient_ += w.matrix().transpose() * mean;
  for (Index i = 0; i < rows; ++i) {
    const int y = labels[static_cast<std::size_t>(i)];
    value_ += w[i] * (block.log_normaliser[i] - calibration.scale[y] * block.z(i, y) - calibration.bias[y]);
    if (parameters_.scales() > 0) gradient_[parameters_.scales() == m ? y : 0] -= w[i] * block.z(i, y);
    if (parameters_.biases() == m) gradient_[parameters_.scales() + y] -= w[i];
  }
  if (curvature_ == CalibrationCurvature::kNone) return;
  moments_[0] += (block.f.colwise() * w).colwise().sum();
  moments_[1] += (fz.colwise() * w).colwise().sum();
  moments_[2] += ((fz * block.z).colwise() * w).colwise().sum();
  if (curvature_ == CalibrationCurvature::kDense) {
    const MatrixXd rooted = mean.array().colwise() * w.sqrt();
    add_outer_products(rooted.data(), rooted.rows(), rooted.cols(), hessian_.data(), -1.0);
  } else
    hessian_.col(0) -= (mean.array().square().colwise() * w).colwise().sum().matrix().transpose();
}

/// With x = (z, 1), the block of classes c and d is the mean of f_c (1(c = d) - f_d) x x'. So the Hessian is one
/// product of those factors, a column for each c >= d, with the products of two entries of x.
void NllSum::add_matrix(const CalibrationBlock& block, const ArrayXd& weights) {
  const Index m = parameters_.classes();
  const Index rows = block.f.rows();
  MatrixXd products(rows, hessian_.rows());
  Index column = 0;
  for (Index j = 0; j < m; ++j)
    for (Index k = 0; k <= j; ++k) products.col(column++) = (block.z.col(j) * block.z.col(k)).matrix();
  products.middleCols(column, m) = block.z.matrix();
  products.col(column + m).setOnes();
  MatrixXd factors(rows, hessian_.cols());
  column = 0;
  for (Index c = 0; c < m; ++c) {
    const ArrayXd f = weights * block.f.col(c);
    for (Index d = 0; d < c; ++d) factors.col(column++) = (-f * block.f.col(d)).matrix();
    factors.col(column++) = (f * (1.0 - block.f.col(c))).matrix();
  }
  add_product(products, factors, hessian_);
}

NllSum& NllSum::operator+=(const NllSum& other) {
  value_ += other.value_;
  gradient_ += other.gradient_;
  hessian_ += other.hessian_;
  for (int k = 0; k < 3; ++k) moments_[k] += other.moments_[k];
  return *this;
}

NllSum& NllSum::operator-=(const NllSum& other) {
  value_ -= other.value_;
  gradient_ -= other.gradient_;
  hessian_ -= other.hessian_;
  for (int k = 0; k < 3; ++k) moments_[k] -= other.moments_[k];
  return *this;
}

VectorXd NllSum::curvature() const {
  const Index m = parameters_.classes();
  VectorXd numbers(hessian_.size() + 3 * m);
  numbers.head(hessian_.size()) = hessian_.reshaped();
  for (int k = 0; k < 3; ++k) numbers.segment(hessian_.size() + k * m, m) = moments_[k].transpose();
  return numbers;
}

void NllSum::add_curvature(const VectorXd& curvature) {
  const Index m = parameters_.classes();
  hessian_.reshaped() += curvature.head(hessian_.size());
  for (int k = 0; k < 3; ++k) moments_[k] += curvature.segment(hessian_.size() + k * m, m).transpose().array();
}

MatrixXd NllSum::hessian() const {
  const Index m = parameters_.classes();
  const Index p = parameters_.size();
  const Index s = parameters_.scales();
  if (parameters_.mixings() > 0) {
    MatrixXd hessian(p, p);
    auto rest = hessian.bottomRightCorner(p - 1, p - 1);
    Index pair = 0;
    for (Index c = 0; c < m; ++c)
      for (Index d = 0; d <= c; ++d) {
        const double* sum = &hessian_(0, pair++);
        for (Index j = 0; j < m; ++j)
          for (Index k = 0; k <= j; ++k) rest(c * m + j, d * m + k) = rest(c * m + k, d * m + j) = *sum++;
        for (Index k = 0; k < m; ++k) rest(m * m + c, d * m + k) = rest(m * m + d, c * m + k) = *sum++;
        rest(m * m + c, m * m + d) = *sum;
      }
    // The scale moves every mixing[c, c] alike.
    VectorXd by_scale = VectorXd::Zero(p - 1);
    for (Index c = 0; c < m; ++c) {
      const Index at = c * m + c;
      by_scale.head(at) += rest.row(at).head(at).transpose();
      by_scale.tail(p - 1 - at) += rest.col(at).tail(p - 1 - at);
    }
    hessian.col(0).tail(p - 1) = by_scale;
    hessian(0, 0) = 0.0;
    for (Index c = 0; c < m; ++c) hessian(0, 0) += by_scale[c * m + c];
    return hessian;
  }
  MatrixXd hessian = hessian_;
  VectorXd second(p);  // the diagonal of the sum of E_f[phi phi']
  if (s > 0) second.head(s) = s == m ? VectorXd(moments_[2].transpose()) : VectorXd::Constant(1, moments_[2].sum());
  second.tail(parameters_.biases()) = moments_[0].head(parameters_.biases()).transpose();
  if (curvature_ == CalibrationCurvature::kDiagonal) return hessian + second;
  hessian.diagonal() += second;
  for (Index c = 0; c < parameters_.biases(); ++c) hessian(s + c, s == m ? c : 0) += moments_[1][c];
  return hessian;
}

CalibrationDerivatives NllSum::derivatives(const CalibrationParameters& parameters, const VectorXd& theta,
                                           double examples, double factor) const {
  const VectorXd penalty = parameters.penalty() / examples;
  const VectorXd from_prior = theta - parameters.identity();
  CalibrationDerivatives result{.value = factor * value_ + 0.5 * penalty.dot(from_prior.cwiseAbs2()),
                                .gradient = factor * gradient_.transpose() + penalty.cwiseProduct(from_prior),
                                .hessian = {}};
  if (curvature_ == CalibrationCurvature::kNone) return result;
  const Index biases = parameters_.biases();
  const double flat = 1.0 / static_cast<double>(parameters_.classes());
  result.hessian = hessian();
  result.hessian *= factor;
  if (curvature_ == CalibrationCurvature::kDense) {
    result.hessian.bottomRightCorner(biases, biases).array() += flat;
    result.hessian.diagonal() += penalty;
  } else {
    result.hessian.col(0).tail(biases).array() += flat;
    result.hessian += penalty;
  }
  return result;
}

MatrixXd gradient_rows(const CalibrationParameters& parameters, const CalibrationBlock& block,
                       std::span<const int> labels) {
  const Index m = parameters.classes();
  ArrayXXd by_bias = block.f;  // (b, m) f - 1(y = c), the gradient of a row's NLL by the bias
  for (Index i = 0; i < by_bias.rows(); ++i) by_bias(i, labels[static_cast<std::size_t>(i)]) -= 1.0;
  ArrayXXd by_mixing(by_bias.rows(), parameters.mixings());
  if (by_mixing.cols() > 0)
    for (Index c = 0; c < m; ++c) by_mixing.middleCols(c * m, m) = block.z.colwise() * by_bias.col(c);
  return parameters.reduce(by_bias * block.z, by_mixing, by_bias);
}

PenalisedNll::PenalisedNll(const CalibrationParameters& parameters, const Scores& scores, std::span<const int> labels,
                           std::span<const double> weights, Index step, Observer observer)
    : parameters_(parameters),
      scores_(scores.every(step)),
      labels_(labels),
      weights_(weights),
      step_(step),
      observer_(std::move(observer)) {
  double squares = 0.0;
  for (Index i = 0; i < scores_.rows(); ++i) {
    total_weight_ += weight(i);
    squares += weight(i) * weight(i);
  }
  examples_ = total_weight_ * total_weight_ / squares;
}

double PenalisedNll::weight(Index row) const {
  return weight_at(weights_, row * step_);
}

ArrayXd PenalisedNll::weights_of(const CalibrationBlock& block) const {
  ArrayXd w(block.f.rows());
  for (Index i = 0; i < w.size(); ++i) w[i] = weight(block.first + i) / total_weight_;
  return w;
}

CalibrationCurvature PenalisedNll::best_curvature() const {
  return parameters_.size() <= kDenseParameters || parameters_.mixings() > 0 ? CalibrationCurvature::kDense
                                                                             : CalibrationCurvature::kDiagonal;
}

CalibrationDerivatives PenalisedNll::evaluate(const VectorXd& theta, CalibrationCurvature curvature) const {
  tell(observer_, kCalibrating);
  const Calibration calibration = parameters_.expand(theta);
  NllSum sum(parameters_, curvature);
  std::vector<int> labels;
  for_each_block(calibration, scores_, 0, scores_.rows(), [&](const CalibrationBlock& block) {
    labels.resize(static_cast<std::size_t>(block.f.rows()));
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = labels_[(static_cast<std::size_t>(block.first) + i) * static_cast<std::size_t>(step_)];
    sum.add(calibration, block, labels, weights_of(block));
  });
  return sum.derivatives(parameters_, theta, examples_);
}

VectorXd PenalisedNll::hessian_times(const VectorXd& theta, const VectorXd& v) const {
  assert(parameters_.mixings() == 0);
  tell(observer_, kCalibrating);
  Calibration direction = parameters_.expand(v);
  if (parameters_.biases() == 0) direction.bias.setZero();
  ArrayXXd by_scale = ArrayXXd::Zero(1, parameters_.classes());
  ArrayXXd by_bias = by_scale;
  for_each_block(parameters_.expand(theta), scores_, 0, scores_.rows(), [&](const CalibrationBlock& block) {
    ArrayXXd change = (block.z.rowwise() * direction.scale.transpose().array()).rowwise() +
                      direction.bias.transpose().array();  // (b, m) v . phi(c)
    const ArrayXd mean = (block.f * change).rowwise().sum();
    change = (block.f * (change.colwise() - mean)).colwise() * weights_of(block);
    by_scale += (change * block.z).colwise().sum();
    by_bias += change.colwise().sum();
  });
  by_bias += direction.bias.mean();
  return parameters_.reduce(by_scale, ArrayXXd(), by_bias).transpose() + kPriorPrecision / examples_ * v;
}

HessianFactor::HessianFactor(MatrixXd hessian) : lower_(std::move(hessian)) {
  // The upper triangle keeps what the factor overwrites, should it be needed again.
  VectorXd diagonal = lower_.diagonal();
  lower_.triangularView<Eigen::StrictlyUpper>() = lower_.transpose();
  for (double ridge = 1e-14; !factor_positive_definite(lower_) && ridge <= 1.0; ridge *= 10.0) {
    diagonal += ridge * diagonal.cwiseAbs();
    lower_.triangularView<Eigen::StrictlyLower>() = lower_.transpose();
    lower_.diagonal() = diagonal;
  }
}

MatrixXd HessianFactor::solve(MatrixXd b) const {
  lower_.triangularView<Eigen::Lower>().solveInPlace(b);
  lower_.transpose().triangularView<Eigen::Upper>().solveInPlace(b);
  return b;
}

namespace {

/// An approximate solution of H x = -gradient by conjugate gradients preconditioned with the diagonal of H: to a tenth
/// far from the optimum and a thousandth near it, where that is what a Newton step leaves of the distance.
VectorXd conjugate_step(const PenalisedNll& objective, const VectorXd& theta, const CalibrationDerivatives& at) {
  const ArrayXd diagonal = at.hessian.col(0);
  VectorXd x = VectorXd::Zero(theta.size());
  VectorXd residual = -at.gradient;
  VectorXd scaled = residual.array() / diagonal;
  VectorXd direction = scaled;
  double size = residual.dot(scaled);
  const double enough = size * std::clamp(1e-4 * objective.examples() * size, 1e-6, 1e-2);
  for (int k = 0; k < kMaxConjugateSteps && size > enough; ++k) {
    const VectorXd product = objective.hessian_times(theta, direction);
    const double length = size / direction.dot(product);
    x += length * direction;
    residual -= length * product;
    scaled = residual.array() / diagonal;
    const double next = residual.dot(scaled);
    direction = scaled + (next / size) * direction;
    size = next;
  }
  return x;
}

}  // namespace

CalibrationMinimum minimise(const PenalisedNll& objective, VectorXd start, CalibrationDerivatives at) {
  const CalibrationCurvature curvature = objective.best_curvature();
  CalibrationMinimum result{.theta = std::move(start)};
  for (;;) {
    VectorXd step = curvature == CalibrationCurvature::kDense
                        ? VectorXd(HessianFactor(std::move(at.hessian)).solve(-at.gradient))
                        : conjugate_step(objective, result.theta, at);
    centre_biases(objective.parameters(), step);
    // g' H^-1 g, twice the distance to the minimum; times n it is the squared distance in standard errors.
    const double decrement = -at.gradient.dot(step);
    result.converged = objective.examples() * decrement <= kStandardErrors * kStandardErrors;
    if (result.converged || result.iterations == kMaxNewtonSteps) return result;
    double length = 1.0;
    for (;; length *= 0.5) {
      if (length < kShortestStep) return result;
      CalibrationDerivatives next = objective.evaluate(result.theta + length * step, curvature);
      if (!descends(next.value, at.value, length, decrement)) continue;
      at = std::move(next);
      break;
    }
    result.theta += length * step;
    ++result.iterations;
  }
}

CalibrationMinimum ApproximateNewton::minimise(const CalibrationParameters& parameters, VectorXd start) const {
  CalibrationMinimum result{.theta = std::move(start)};
  HessianFactor factor(hessian(result.theta));
  CalibrationDerivatives at = value_and_gradient(result.theta);
  bool fresh = true;  // the Hessian is that of the current theta
  double last = 0.0;
  for (;;) {
    VectorXd step = factor.solve(-at.gradient);
    centre_biases(parameters, step);
    const double decrement = -at.gradient.dot(step);
    result.converged = examples * decrement <= standard_errors * standard_errors;
    if (result.converged || result.iterations == max_steps) return result;
    if (!fresh && decrement > kStaleDecrement * last) {
      factor = HessianFactor(hessian(result.theta));
      fresh = true;
      continue;
    }
    CalibrationDerivatives next = value_and_gradient(result.theta + step);
    double length = 1.0;
    while (!descends(next.value, at.value, length, decrement)) {
      if ((length *= 0.5) < kShortestStep) return result;
      next = value_and_gradient(result.theta + length * step);
    }
    result.theta += length * step;
    ++result.iterations;
    at = std::move(next);
    last = decrement;
    fresh = false;
  }
}

}  // namespace labelshift
