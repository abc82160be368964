#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <functional>
#include <optional>
#include <span>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/calibration/calibration.hpp"

/// What calibration.cpp fits and calibration_choice.cpp cross-validates: the penalised NLL of a calibration's free
/// parameters, its derivatives, and Newton's method.
namespace labelshift {

inline constexpr double kStandardErrors = 1e-6;  // how close to the optimum of a fit is close enough
inline constexpr int kMaxNewtonSteps = 200;      // ordinary data need fewer than ten

/// Where a fit to scores of this mean NLL starts: as they are, or, where they are far too sure (huge logits), with a
/// scale from which Newton's method can get anywhere: where they are, all curvature is lost in rounding.
Calibration first_guess(Index classes, double nll);

/// A sample of rows and what a calibration makes of them.
struct CalibrationBlock {
  Index first = 0;
  Eigen::ArrayXXd z;              // (b, m) log scores
  Eigen::ArrayXXd f;              // (b, m) calibrated probabilities
  Eigen::ArrayXd log_normaliser;  // (b)    log f_c = exponent_c - log_normaliser
};

/// Fills in f and log_normaliser.
void calibrate(const Calibration& calibration, CalibrationBlock& block);

/// What a calibration makes of z_c before it is normalised, for class c of row i: (W z + b)_c.
inline double exponent(const Calibration& calibration, const CalibrationBlock& block, Index i, Index c) {
  double sum = calibration.scale[c] * block.z(i, c) + calibration.bias[c];
  if (calibration.mixing.size() > 0) sum += calibration.mixing.row(c).dot(block.z.row(i).matrix());
  return sum;
}

/// How many rows a block has, so that a few of its arrays fit the second-level cache.
inline Index block_rows(Index classes) {
  return std::clamp<Index>(16384 / classes, 16, 1024);
}

/// Calls use(block) for all rows in order, a cache-sized block at a time. Column-major blocks, so that the arithmetic
/// runs down a column in vector registers even at m = 2.
template <typename Use>
void for_each_block(const Calibration& calibration, const Scores& scores, Index first, Index count, Use&& use) {
  const Index m = scores.cols();
  const Index rows = block_rows(m);
  CalibrationBlock block;
  for (Index done = 0; done < count; done += rows) {
    block.first = first + done;
    block.z.resize(std::min(rows, count - done), m);
    log_scores(scores, block.first, block.z);
    calibrate(calibration, block);
    use(block);
  }
}

/// The free parameters theta of a kind: scales, then of kMatrix the rows of `mixing`, then biases. With the linear map
/// theta -> Calibration and its transpose.
class CalibrationParameters {
 public:
  CalibrationParameters(CalibrationKind kind, Index classes, double strength = 0.0)
      : kind_(kind), m_(classes), strength_(strength) {}

  CalibrationKind kind() const { return kind_; }
  Index classes() const { return m_; }
  Index scales() const { return kind_ == CalibrationKind::kNone ? 0 : kind_ == CalibrationKind::kVector ? m_ : 1; }
  Index mixings() const { return kind_ == CalibrationKind::kMatrix ? m_ * m_ : 0; }
  Index biases() const { return kind_ == CalibrationKind::kNone || kind_ == CalibrationKind::kTemperature ? 0 : m_; }
  Index size() const { return scales() + mixings() + biases(); }

  Eigen::VectorXd identity() const;
  Calibration expand(const Eigen::VectorXd& theta) const;
  /// The theta of a calibration of this kind or of a simpler one.
  Eigen::VectorXd theta_of(const Calibration& calibration) const;

  /// The transpose of expand, for one row or many: gradients by scale, mixing (row by row; empty unless the kind has
  /// it) and bias become gradients in theta.
  Eigen::MatrixXd reduce(const Eigen::Ref<const Eigen::ArrayXXd>& by_scale,
                         const Eigen::Ref<const Eigen::ArrayXXd>& by_mixing,
                         const Eigen::Ref<const Eigen::ArrayXXd>& by_bias) const;

  /// The curvature of the penalty in each parameter, in units of one observation.
  Eigen::VectorXd penalty() const;

 private:
  CalibrationKind kind_;
  Index m_;
  double strength_;
};

enum class CalibrationCurvature { kNone, kDense, kDiagonal };

struct CalibrationDerivatives {
  double value = 0.0;
  Eigen::VectorXd gradient;  // (p)
  Eigen::MatrixXd hessian;   // (p, p) lower triangle; (p, 1) its diagonal if that was asked for
};

/// Sums over rows of weight * NLL and its derivatives by theta, at one theta.
///
/// With phi(c) the derivative of the exponent of class c by theta, a row's gradient is E_f[phi] - phi(y) and its
/// Hessian Cov_f[phi] = E_f[phi phi'] - E_f[phi] E_f[phi]'.
class NllSum {
 public:
  NllSum(const CalibrationParameters& parameters, CalibrationCurvature curvature);

  /// The rows of `block`, which `calibration` made; labels and weights are those of the block.
  void add(const Calibration& calibration, const CalibrationBlock& block, std::span<const int> labels,
           const Eigen::ArrayXd& weights);
  NllSum& operator+=(const NllSum& other);
  NllSum& operator-=(const NllSum& other);

  double value() const { return value_; }
  const Eigen::RowVectorXd& gradient() const { return gradient_; }  // (p)
  /// The sums that hessian() is made of, as numbers to be added to those of other rows elsewhere.
  Eigen::VectorXd curvature() const;
  void add_curvature(const Eigen::VectorXd& curvature);
  /// Without the penalty; the lower triangle, or the diagonal.
  Eigen::MatrixXd hessian() const;

  /// Of the sums times `factor` plus the penalty of `parameters` for `examples` rows. The NLL does not change when a
  /// constant is added to the bias, so its Hessian is singular there; 1/m in every entry of the bias block is added to
  /// it. That gives this direction curvature 1 and changes no Newton step, since gradients are orthogonal to it as long
  /// as the bias sums to 0.
  CalibrationDerivatives derivatives(const CalibrationParameters& parameters, const Eigen::VectorXd& theta,
                                     double examples, double factor = 1.0) const;

 private:
  void add_matrix(const CalibrationBlock& block, const Eigen::ArrayXd& weights);

  CalibrationParameters parameters_;
  CalibrationCurvature curvature_;
  double value_ = 0.0;
  Eigen::RowVectorXd gradient_;  // (p)
  Eigen::MatrixXd hessian_;      // what the moments below leave to add; lower triangle. Of kMatrix see add_matrix()
  Eigen::Array<double, 1, Eigen::Dynamic> moments_[3];  // (m) sums of w f, w f z, w f z^2
};

/// (b, p) the gradients of the NLL of each row of a block, with labels of the block, that a calibration made.
Eigen::MatrixXd gradient_rows(const CalibrationParameters& parameters, const CalibrationBlock& block,
                              std::span<const int> labels);

/// What an observer is told before each pass over the rows of a source.
inline constexpr const char* kCalibrating = "calibrating";

/// fit_calibration for those who may stop it.
CalibrationFit fit_calibration(CalibrationKind kind, const Scores& source, std::span<const int> labels,
                               std::span<const double> weights, double strength, const std::optional<Calibration>& near,
                               const Observer& observer);

/// The penalised mean NLL of every step-th row of a sample.
class PenalisedNll {
 public:
  PenalisedNll(const CalibrationParameters& parameters, const Scores& scores, std::span<const int> labels,
               std::span<const double> weights, Index step = 1, Observer observer = {});

  const CalibrationParameters& parameters() const { return parameters_; }
  double total_weight() const { return total_weight_; }
  double examples() const { return examples_; }  // the effective number of rows
  CalibrationCurvature best_curvature() const;

  CalibrationDerivatives evaluate(const Eigen::VectorXd& theta, CalibrationCurvature curvature) const;

  /// The Hessian at theta times v, in O(n m) and with no matrix. Not for kMatrix.
  Eigen::VectorXd hessian_times(const Eigen::VectorXd& theta, const Eigen::VectorXd& v) const;

 private:
  double weight(Index row) const;
  Eigen::ArrayXd weights_of(const CalibrationBlock& block) const;

  CalibrationParameters parameters_;
  Scores scores_;
  std::span<const int> labels_;
  std::span<const double> weights_;
  Index step_;
  Observer observer_;
  double total_weight_ = 0.0;
  double examples_ = 0.0;
};

/// Cholesky's factor of a Hessian, which is given by its lower triangle. Positive definite in exact arithmetic; where
/// the curvature is lost in rounding (huge logits), its diagonal is enlarged until it is so in floating point too.
class HessianFactor {
 public:
  explicit HessianFactor(Eigen::MatrixXd hessian);

  /// The Hessian's inverse times b.
  Eigen::MatrixXd solve(Eigen::MatrixXd b) const;

 private:
  Eigen::MatrixXd lower_;
};

struct CalibrationMinimum {
  Eigen::VectorXd theta;
  int iterations = 0;
  bool converged = false;
};

/// Newton's method from `start`, where the objective is `at`.
CalibrationMinimum minimise(const PenalisedNll& objective, Eigen::VectorXd start, CalibrationDerivatives at);

/// Newton's method with a curvature that may be that of other rows, such as a part of them: `value_and_gradient` is
/// asked at every step, `hessian` at the start and again where steps gain too little. Ends within `standard_errors` of
/// the minimum for `examples` rows.
struct ApproximateNewton {
  std::function<CalibrationDerivatives(const Eigen::VectorXd&)> value_and_gradient;
  std::function<Eigen::MatrixXd(const Eigen::VectorXd&)> hessian;
  double examples = 0.0;
  double standard_errors = 0.0;
  int max_steps = 0;

  CalibrationMinimum minimise(const CalibrationParameters& parameters, Eigen::VectorXd start) const;
};

}  // namespace labelshift
