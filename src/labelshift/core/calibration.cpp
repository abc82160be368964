#include "labelshift/core/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "labelshift/core/error.hpp"
#include "labelshift/core/probabilities.hpp"
#include "labelshift/core/scores.hpp"
#include "labelshift/core/settings.hpp"

namespace labelshift {
namespace {

using Eigen::ArrayXd;
using Eigen::ArrayXXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr CalibrationEntry kCalibrations[] = {
    {"none", "take the scores as they are", CalibrationKind::kNone},
    {"ts", "temperature scaling: one scale for all classes", CalibrationKind::kTemperature},
    {"bcts", "bias-corrected temperature scaling: one scale, a bias a class (the paper's BCT)",
     CalibrationKind::kBiasCorrected},
    {"vs", "vector scaling: a scale and a bias a class", CalibrationKind::kVector},
};

constexpr double kPriorPrecision = 0.01;       // 1 / 10^2, in units of one observation
constexpr double kLeastLogScore = -1e100;      // far beyond any use; its square is still finite
constexpr Index kBlockElements = 16384;        // a few arrays of this many doubles fit the second-level cache
constexpr Index kDenseParameters = 400;        // up to here a dense Hessian is cheaper than conjugate gradients
constexpr int kMaxNewtonSteps = 200;           // ordinary data need fewer than ten
constexpr int kMaxConjugateSteps = 500;        // a Newton step
constexpr double kStandardErrors = 1e-6;       // how close to the optimum is close enough
constexpr double kShortestStep = 0x1p-80;      // of a line search
constexpr double kValueRounding = 1e-13;       // of a mean over 1e6 rows, relative
constexpr Index kWarmStartStep = 17;           // prime, so that it does not beat with classes that come in turn
constexpr Index kWarmStartElements = 1 << 17;  // from so many on, fitting every 17th row first saves passes

struct Block {
  Index first = 0;
  ArrayXXd z;              // (b, m) log scores
  ArrayXXd f;              // (b, m) calibrated probabilities
  ArrayXd log_normaliser;  // (b)    log f_c = scale_c z_c + bias_c - log_normaliser
};

void calibrate(const Calibration& calibration, Block& block) {
  block.f =
      (block.z.rowwise() * calibration.scale.transpose().array()).rowwise() + calibration.bias.transpose().array();
  const ArrayXd top = block.f.rowwise().maxCoeff();  // subtracted first, so that exp cannot overflow
  block.f = (block.f.colwise() - top).exp();
  const ArrayXd sum = block.f.rowwise().sum();
  block.f.colwise() /= sum;
  block.log_normaliser = top + sum.log();
}

/// Calls use(block) for all rows in order, a cache-sized block at a time. Column-major blocks, so that the arithmetic
/// runs down a column in vector registers even at m = 2.
template <typename Use>
void for_each_block(const Calibration& calibration, const Scores& scores, Index first, Index count, Use&& use) {
  const Index m = scores.values.cols();
  const Index rows = std::clamp<Index>(kBlockElements / m, 16, 1024);
  Block block;
  for (Index done = 0; done < count; done += rows) {
    block.first = first + done;
    block.z.resize(std::min(rows, count - done), m);
    log_scores(scores, block.first, block.z);
    calibrate(calibration, block);
    use(block);
  }
}

bool is_identity(const Calibration& calibration) {
  return (calibration.scale.array() == 1.0).all() && (calibration.bias.array() == 0.0).all();
}

template <typename Scalar>
void apply_to_rows(const Calibration& calibration, const Scores& scores, Index first,
                   Eigen::Ref<RowMajorMatrix<Scalar>> out) {
  if (!scores.logits && is_identity(calibration)) {
    for (Index i = 0; i < out.rows(); ++i)
      for (Index c = 0; c < out.cols(); ++c) out(i, c) = static_cast<Scalar>(scores.values(first + i, c));
    return;
  }
  for_each_block(calibration, scores, first, out.rows(), [&](const Block& block) {
    out.middleRows(block.first - first, block.f.rows()) = block.f.matrix().cast<Scalar>();
  });
}

double weight_at(std::span<const double> weights, Index row) {
  return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(row)];
}

PredictionQuality quality(const Calibration& calibration, const Scores& scores, std::span<const int> labels,
                          std::span<const double> weights) {
  PredictionQualitySum sum;
  for_each_block(calibration, scores, 0, scores.values.rows(), [&](const Block& block) {
    for (Index i = 0; i < block.f.rows(); ++i) {
      const int y = labels[static_cast<std::size_t>(block.first + i)];
      Index top = 0;
      const double confidence = block.f.row(i).maxCoeff(&top);
      const double log_prob = calibration.scale[y] * block.z(i, y) + calibration.bias[y] - block.log_normaliser[i];
      sum.add(log_prob, confidence, top == y, weight_at(weights, block.first + i));
    }
  });
  return sum.quality();
}

/// The free parameters theta of a kind, and the linear map theta -> (scale, bias) with its transpose.
class Parameters {
 public:
  Parameters(CalibrationKind kind, Index classes) : kind_(kind), m_(classes) {}

  Index scales() const { return kind_ == CalibrationKind::kVector ? m_ : 1; }
  Index biases() const { return kind_ == CalibrationKind::kTemperature ? 0 : m_; }
  Index size() const { return scales() + biases(); }
  Index classes() const { return m_; }

  VectorXd identity() const {
    VectorXd theta = VectorXd::Zero(size());
    theta.head(scales()).setOnes();
    return theta;
  }

  Calibration expand(const VectorXd& theta) const {
    Calibration full{.scale = VectorXd::Constant(m_, theta[0]), .bias = VectorXd::Zero(m_)};
    if (scales() == m_) full.scale = theta.head(m_);
    if (biases() == m_) full.bias = theta.tail(m_);
    return full;
  }

  /// The transpose of expand, for one row or many: gradients in (scale, bias) become gradients in theta.
  MatrixXd reduce(const Eigen::Ref<const ArrayXXd>& by_scale, const Eigen::Ref<const ArrayXXd>& by_bias) const {
    MatrixXd reduced(by_scale.rows(), size());
    if (scales() == m_)
      reduced.leftCols(m_) = by_scale;
    else
      reduced.col(0) = by_scale.rowwise().sum();
    if (biases() == m_) reduced.rightCols(m_) = by_bias;
    return reduced;
  }

 private:
  CalibrationKind kind_;
  Index m_;
};

enum class Curvature { kDense, kDiagonal };

struct Derivatives {
  double value = 0.0;
  VectorXd gradient;  // (p)
  MatrixXd hessian;   // (p, p) lower triangle; (p, 1) its diagonal if that was asked for
};

/// The penalised mean NLL of every step-th row of a sample.
///
/// With phi(c) the derivative of scale_c z_c + bias_c by theta, a row's gradient is E_f[phi] - phi(y) and its Hessian
/// Cov_f[phi] = E_f[phi phi'] - E_f[phi] E_f[phi]'. The NLL does not change when a constant is added to the bias, so
/// its Hessian is singular there; 1/m in every entry of the bias block is added to it. That gives this direction
/// curvature 1 and changes no Newton step, since gradients are orthogonal to it as long as the bias sums to 0.
class PenalisedNll {
 public:
  PenalisedNll(CalibrationKind kind, const Scores& scores, std::span<const int> labels, std::span<const double> weights,
               Index step = 1)
      : parameters_(kind, scores.values.cols()),
        scores_{scores.values.every(step), scores.logits},
        labels_(labels),
        weights_(weights),
        step_(step) {
    double squares = 0.0;
    for (Index i = 0; i < scores_.values.rows(); ++i) {
      total_weight_ += weight(i);
      squares += weight(i) * weight(i);
    }
    examples_ = total_weight_ * total_weight_ / squares;
  }

  const Parameters& parameters() const { return parameters_; }
  double total_weight() const { return total_weight_; }
  double examples() const { return examples_; }  // the effective number of rows
  Curvature best_curvature() const {
    return parameters_.size() <= kDenseParameters ? Curvature::kDense : Curvature::kDiagonal;
  }

  Derivatives evaluate(const VectorXd& theta, Curvature curvature) const {
    const Index m = parameters_.classes();
    const Index p = parameters_.size();
    const Calibration calibration = parameters_.expand(theta);
    const bool dense = curvature == Curvature::kDense;
    double value = 0.0;
    Eigen::RowVectorXd gradient = Eigen::RowVectorXd::Zero(p);
    MatrixXd hessian = MatrixXd::Zero(p, dense ? p : 1);
    Eigen::Array<double, 1, Eigen::Dynamic> moments[3];  // (m) sums of w f, w f z, w f z^2
    for (auto& moment : moments) moment.setZero(m);
    for_each_block(calibration, scores_, 0, scores_.values.rows(), [&](const Block& block) {
      const Index rows = block.f.rows();
      ArrayXd w(rows);
      for (Index i = 0; i < rows; ++i) w[i] = weight(block.first + i) / total_weight_;
      const ArrayXXd fz = block.f * block.z;
      const MatrixXd mean = parameters_.reduce(fz, block.f);  // (b, p) E_f[phi]
      gradient += w.matrix().transpose() * mean;
      for (Index i = 0; i < rows; ++i) {
        const int y = label(block.first + i);
        value += w[i] * (block.log_normaliser[i] - calibration.scale[y] * block.z(i, y) - calibration.bias[y]);
        gradient[parameters_.scales() == m ? y : 0] -= w[i] * block.z(i, y);
        if (parameters_.biases() == m) gradient[parameters_.scales() + y] -= w[i];
      }
      moments[0] += (block.f.colwise() * w).colwise().sum();
      moments[1] += (fz.colwise() * w).colwise().sum();
      moments[2] += ((fz * block.z).colwise() * w).colwise().sum();
      if (dense)
        hessian.selfadjointView<Eigen::Lower>().rankUpdate((mean.array().colwise() * w.sqrt()).matrix().transpose(),
                                                           -1.0);
      else
        hessian.col(0) -= (mean.array().square().colwise() * w).colwise().sum().matrix().transpose();
    });

    const double penalty = kPriorPrecision / examples_;
    const VectorXd from_prior = theta - parameters_.identity();
    const Index s = parameters_.scales();
    VectorXd second(p);  // the diagonal of the mean of E_f[phi phi']
    second.head(s) = s == m ? VectorXd(moments[2].transpose()) : VectorXd::Constant(1, moments[2].sum());
    second.tail(parameters_.biases()) = moments[0].head(parameters_.biases()).transpose();
    if (dense) {
      hessian.diagonal() += second;
      for (Index c = 0; c < parameters_.biases(); ++c) hessian(s + c, s == m ? c : 0) += moments[1][c];
      hessian.bottomRightCorner(parameters_.biases(), parameters_.biases()).array() += 1.0 / static_cast<double>(m);
      hessian.diagonal().array() += penalty;
    } else {
      hessian.col(0) += second;
      hessian.col(0).tail(parameters_.biases()).array() += 1.0 / static_cast<double>(m);
      hessian.array() += penalty;
    }
    return {.value = value + 0.5 * penalty * from_prior.squaredNorm(),
            .gradient = gradient.transpose() + penalty * from_prior,
            .hessian = std::move(hessian)};
  }

  /// The Hessian at theta times v, in O(n m) and with no matrix.
  VectorXd hessian_times(const VectorXd& theta, const VectorXd& v) const {
    const Calibration direction = parameters_.expand(v);
    ArrayXXd by_scale = ArrayXXd::Zero(1, parameters_.classes());
    ArrayXXd by_bias = by_scale;
    for_each_block(parameters_.expand(theta), scores_, 0, scores_.values.rows(), [&](const Block& block) {
      ArrayXd w(block.f.rows());
      for (Index i = 0; i < w.size(); ++i) w[i] = weight(block.first + i) / total_weight_;
      ArrayXXd change = (block.z.rowwise() * direction.scale.transpose().array()).rowwise() +
                        direction.bias.transpose().array();  // (b, m) v . phi(c)
      const ArrayXd mean = (block.f * change).rowwise().sum();
      change = (block.f * (change.colwise() - mean)).colwise() * w;
      by_scale += (change * block.z).colwise().sum();
      by_bias += change.colwise().sum();
    });
    by_bias += direction.bias.mean();
    return parameters_.reduce(by_scale, by_bias).transpose() + kPriorPrecision / examples_ * v;
  }

 private:
  int label(Index row) const { return labels_[static_cast<std::size_t>(row * step_)]; }
  double weight(Index row) const { return weight_at(weights_, row * step_); }

  Parameters parameters_;
  Scores scores_;
  std::span<const int> labels_;
  std::span<const double> weights_;
  Index step_;
  double total_weight_ = 0.0;
  double examples_ = 0.0;
};

/// Cholesky's factor of a Hessian. Positive definite in exact arithmetic; where the curvature is lost in rounding (huge
/// logits), its diagonal is enlarged until it is so in floating point too.
Eigen::LLT<MatrixXd> factorise(MatrixXd hessian) {
  Eigen::LLT<MatrixXd> factor(hessian);
  for (double ridge = 1e-14; factor.info() != Eigen::Success && ridge <= 1.0; ridge *= 10.0) {
    hessian.diagonal() += ridge * hessian.diagonal().cwiseAbs();
    factor.compute(hessian);
  }
  return factor;
}

/// An approximate solution of H x = -gradient by conjugate gradients preconditioned with the diagonal of H: to a tenth
/// far from the optimum and a thousandth near it, where that is what a Newton step leaves of the distance.
VectorXd conjugate_step(const PenalisedNll& objective, const VectorXd& theta, const Derivatives& at) {
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

struct Minimum {
  VectorXd theta;
  int iterations = 0;
  bool converged = false;
};

/// Newton's method from `start`, where the objective is `at`.
Minimum minimise(const PenalisedNll& objective, VectorXd start, Derivatives at) {
  const Curvature curvature = objective.best_curvature();
  Minimum result{.theta = std::move(start)};
  for (;;) {
    VectorXd step = curvature == Curvature::kDense ? VectorXd(factorise(at.hessian).solve(-at.gradient))
                                                   : conjugate_step(objective, result.theta, at);
    auto bias_step = step.tail(objective.parameters().biases());
    if (bias_step.size() > 0) bias_step.array() -= bias_step.mean();  // an inexact step may leave the sum of 0
    // g' H^-1 g, twice the distance to the minimum; times n it is the squared distance in standard errors.
    const double decrement = -at.gradient.dot(step);
    result.converged = objective.examples() * decrement <= kStandardErrors * kStandardErrors;
    if (result.converged || result.iterations == kMaxNewtonSteps) return result;
    double length = 1.0;
    for (;; length *= 0.5) {
      if (length < kShortestStep) return result;
      Derivatives next = objective.evaluate(result.theta + length * step, curvature);
      const double enough = at.value - 1e-4 * length * decrement + kValueRounding * (1.0 + std::abs(at.value));
      if (!(next.value <= enough)) continue;
      at = std::move(next);
      break;
    }
    result.theta += length * step;
    ++result.iterations;
  }
}

}  // namespace

std::span<const CalibrationEntry> calibrations() {
  return kCalibrations;
}

const CalibrationEntry& find_calibration(const std::string& name) {
  return find_entry(kCalibrations, "calibration", name);
}

Calibration Calibration::identity(Index classes) {
  return {.scale = VectorXd::Ones(classes), .bias = VectorXd::Zero(classes)};
}

void log_scores(const Scores& scores, Index first, Eigen::Ref<ArrayXXd> z) {
  scores.values.visit([&]<typename Scalar>(const Scalar* data, Index row_stride, Index col_stride) {
    using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
    using Rows = Eigen::Map<const Eigen::Array<Scalar, Eigen::Dynamic, Eigen::Dynamic>, Eigen::Unaligned, Strides>;
    const Rows rows(data + first * row_stride, z.rows(), z.cols(), Strides(col_stride, row_stride));
    z = rows.template cast<double>();
  });
  if (!scores.logits) {
    z = z.max(kProbabilityFloor).log();
    return;
  }
  const ArrayXd top = z.rowwise().maxCoeff();
  z.colwise() -= top;
  const ArrayXXd exponentials = z.exp();
  const ArrayXd log_sum = exponentials.rowwise().sum().log();
  z.colwise() -= log_sum;
  z = z.max(kLeastLogScore);
}

void check_logits(const MatrixView& logits, const std::string& name) {
  if (logits.rows() == 0 || logits.cols() < 2)
    throw Error(ErrorKind::kInput, fmt::format("{} has {} rows and {} columns; at least one row and two classes are "
                                               "needed, one column each",
                                               name, logits.rows(), logits.cols()));
  for (Index i = 0; i < logits.rows(); ++i)
    for (Index c = 0; c < logits.cols(); ++c)
      if (!std::isfinite(logits(i, c)))
        throw Error(ErrorKind::kInput,
                    fmt::format("{}, row {}, column {}: found {}, expected a finite logit; write -1000 for a class "
                                "that is ruled out",
                                name, i + 1, c + 1, logits(i, c)));
}

void check_scores(const Scores& scores, const std::string& side) {
  if (scores.checked) return;
  if (scores.logits)
    check_logits(scores.values, side + " logits");
  else
    check_probabilities(scores.values, side + " probabilities");
}

CalibrationFit fit_calibration(CalibrationKind kind, const Scores& source, std::span<const int> labels,
                               std::span<const double> weights) {
  check_scores(source, "source");
  const Index n = source.values.rows();
  const Index m = source.values.cols();
  check_labels(labels, n, m, "source labels");
  check_weights(weights, n, "source weights");

  CalibrationFit fit{.calibration = Calibration::identity(m), .converged = true};
  const PredictionQuality before = quality(fit.calibration, source, labels, weights);
  PredictionQuality after = before;
  if (kind != CalibrationKind::kNone) {
    const PenalisedNll objective(kind, source, labels, weights);
    const Curvature curvature = objective.best_curvature();
    VectorXd start = objective.parameters().identity();
    if (n * m >= kWarmStartElements && n / kWarmStartStep >= 50 * objective.parameters().size()) {
      const PenalisedNll part(kind, source, labels, weights, kWarmStartStep);
      if (part.total_weight() > 0.0) start = minimise(part, start, part.evaluate(start, curvature)).theta;
    }
    Derivatives at = objective.evaluate(start, curvature);
    if (!(at.value <= before.nll)) {  // the rows are in an order that makes the part unlike the whole
      start = objective.parameters().identity();
      at = objective.evaluate(start, curvature);
    }
    const Minimum best = minimise(objective, std::move(start), std::move(at));
    fit.calibration = objective.parameters().expand(best.theta);
    fit.iterations = best.iterations;
    fit.converged = best.converged;
    after = quality(fit.calibration, source, labels, weights);
  }
  fit.nll_before = before.nll;
  fit.nll_after = after.nll;
  fit.ece_before = before.ece;
  fit.ece_after = after.ece;
  return fit;
}

void apply_calibration(const Calibration& calibration, const Scores& scores, Index first,
                       Eigen::Ref<RowMajorMatrix<float>> out) {
  apply_to_rows<float>(calibration, scores, first, out);
}

void apply_calibration(const Calibration& calibration, const Scores& scores, Index first,
                       Eigen::Ref<RowMajorMatrix<double>> out) {
  apply_to_rows<double>(calibration, scores, first, out);
}

CalibratedProbabilities apply_calibration(const Calibration& calibration, const Scores& scores) {
  CalibratedProbabilities result;
  scores.values.visit([&]<typename Scalar>(const Scalar*, Index, Index) {
    auto& out = result.values.emplace<RowMajorMatrix<Scalar>>(scores.values.rows(), scores.values.cols());
    apply_to_rows<Scalar>(calibration, scores, 0, out);
  });
  return result;
}

CalibrationInfluence::CalibrationInfluence(CalibrationKind kind, const Calibration& calibration, const Scores& source,
                                           std::span<const int> labels, std::span<const double> weights)
    : kind_(kind), calibration_(calibration), source_(source), labels_(labels) {
  if (kind == CalibrationKind::kNone) return;
  const PenalisedNll objective(kind, source, labels, weights);
  const Parameters& parameters = objective.parameters();
  VectorXd theta(parameters.size());
  theta << calibration.scale.head(parameters.scales()), calibration.bias.head(parameters.biases());
  hessian_ = factorise(objective.evaluate(theta, Curvature::kDense).hessian);
}

void CalibrationInfluence::rows(Index first, Index count, Eigen::Ref<MatrixXd> d_scale,
                                Eigen::Ref<MatrixXd> d_bias) const {
  d_scale.setZero();
  d_bias.setZero();
  if (kind_ == CalibrationKind::kNone) return;
  const Parameters parameters(kind_, source_.values.cols());
  for_each_block(calibration_, source_, first, count, [&](const Block& block) {
    ArrayXXd by_bias = block.f;  // (b, m) f - 1(y = c), the gradient of a row's NLL by the bias
    for (Index i = 0; i < by_bias.rows(); ++i) by_bias(i, labels_[static_cast<std::size_t>(block.first + i)]) -= 1.0;
    const MatrixXd gradient = parameters.reduce(by_bias * block.z, by_bias);       // (b, p)
    const MatrixXd influence = -hessian_.solve(gradient.transpose()).transpose();  // (b, p)
    const Index at = block.first - first;
    for (Index i = 0; i < influence.rows(); ++i) {
      const Calibration change = parameters.expand(influence.row(i).transpose());
      d_scale.row(at + i) = change.scale.transpose();
      d_bias.row(at + i) = change.bias.transpose();
    }
  });
}

}  // namespace labelshift
