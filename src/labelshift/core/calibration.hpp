#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <span>
#include <string>
#include <variant>

#include "labelshift/core/matrix_view.hpp"

namespace labelshift {

/// What a classifier said: one row an example, one column a class.
struct Scores {
  MatrixView values;     // (n, m)
  bool logits = false;   // raw scores, whose softmax is f(x); otherwise f(x) itself
  bool checked = false;  // whether the caller has checked that they are such: a check costs a pass
};

/// Which of the scales and biases of a Calibration are fitted.
enum class CalibrationKind {
  kNone,           // none
  kTemperature,    // one scale, 1 / T
  kBiasCorrected,  // one scale, a bias a class
  kVector,         // a scale and a bias a class
};

struct CalibrationEntry {
  const char* name;
  const char* summary;
  CalibrationKind kind;
};

/// Every calibration there is; the first leaves the scores alone. Help, completion and shared tests walk these rows.
std::span<const CalibrationEntry> calibrations();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const CalibrationEntry& find_calibration(const std::string& name);

/// The map f -> softmax(scale_c z_c + bias_c), z_c = log f_c, from scores to calibrated probabilities.
///
/// Logits become z = log softmax(logits), so they and the probabilities they stand for give the same answer under every
/// kind. (A constant added to a row of logits changes no probability, but would change what a scale a class makes of
/// it.) Probabilities below kProbabilityFloor = 1e-12 count as 1e-12, so that a zero cannot dominate a fit.
struct Calibration {
  Eigen::VectorXd scale;  // (m) all equal unless the kind is kVector
  Eigen::VectorXd bias;   // (m) sums to 0: a constant added to all of it changes nothing

  static Calibration identity(Index classes);
};

struct CalibrationFit {
  Calibration calibration;
  double nll_before = 0.0;  // of f on the sample fitted to; rows are normalised
  double nll_after = 0.0;   // never above nll_before
  double ece_before = 0.0;
  double ece_after = 0.0;
  int iterations = 0;  // Newton steps on the whole sample
  bool converged = false;
};

/// Minimises over the parameters of `kind`
///
///     mean NLL + 0.01 / (2 n) * (|scale - 1|^2 + |bias|^2),    n the effective number of rows,
///
/// where a shared scale counts once. This is convex. The penalty is a Gaussian prior of standard deviation 10, worth a
/// hundredth of an observation: too weak to be noticed where the data say anything, it keeps the optimum finite where
/// they do not (separable data, where the scale wants to be infinite; a class with no example, whose bias wants to be
/// -infinity) and picks the bias that sums to 0.
///
/// Newton's method with a line search, to within a millionth of a standard error. Each step is one pass over the data
/// and O(n m^2) arithmetic where there are up to 400 parameters, conjugate gradients at O(n m) a product beyond.
/// Single-threaded, in a fixed order: the same input gives the same bits. Memory beyond the input does not depend on n.
///
/// Throws Error{kInput} if the scores are not finite logits or not probabilities, or labels or weights do not fit them.
CalibrationFit fit_calibration(CalibrationKind kind, const Scores& source, std::span<const int> labels,
                               std::span<const double> weights = {});

template <typename Scalar>
using RowMajorMatrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Probabilities in the precision of the scores they were made from.
struct CalibratedProbabilities {
  std::variant<RowMajorMatrix<float>, RowMajorMatrix<double>> values;  // (n, m)

  MatrixView view() const {
    return std::visit([](const auto& matrix) { return MatrixView(matrix); }, values);
  }
};

/// Calibrated probabilities of every row: float from float scores, double from double. The identity copies
/// probabilities bit for bit, and turns logits into their softmax.
CalibratedProbabilities apply_calibration(const Calibration& calibration, const Scores& scores);

/// The same for rows [first, first + out.rows()) of the scores, into a buffer of the caller's.
void apply_calibration(const Calibration& calibration, const Scores& scores, Index first,
                       Eigen::Ref<RowMajorMatrix<float>> out);
void apply_calibration(const Calibration& calibration, const Scores& scores, Index first,
                       Eigen::Ref<RowMajorMatrix<double>> out);

/// The z of Calibration for rows [first, first + z.rows()).
void log_scores(const Scores& scores, Index first, Eigen::Ref<Eigen::ArrayXXd> z);

/// Throws Error{kInput} naming `name`, row and column if a logit is not finite, or there are no rows or fewer than two
/// columns.
void check_logits(const MatrixView& logits, const std::string& name);

/// check_logits or check_probabilities of "`side` logits" or "`side` probabilities", unless they are checked already.
void check_scores(const Scores& scores, const std::string& side);

/// How much each source example moved a fit, for standard errors that know the calibration was estimated:
///
///     theta_hat - theta ~ (1 / sum_i w_i) sum_i w_i influence_i,    influence_i = -N^-1 grad NLL_i(theta_hat),
///
/// theta being (scale, bias) and N the Hessian of the penalised mean NLL. Building N costs O(n m^2) and, with p
/// parameters (at most 2m), p^2 doubles: 32 MB for kVector at m = 1000. A row then costs O(p^2). The scores and labels
/// must outlive this object.
class CalibrationInfluence {
 public:
  CalibrationInfluence(CalibrationKind kind, const Calibration& calibration, const Scores& source,
                       std::span<const int> labels, std::span<const double> weights = {});

  /// Row i of d_scale and d_bias, both (count, m), is influence_(first + i). A row of d_bias sums to 0.
  void rows(Index first, Index count, Eigen::Ref<Eigen::MatrixXd> d_scale, Eigen::Ref<Eigen::MatrixXd> d_bias) const;

 private:
  CalibrationKind kind_;
  Calibration calibration_;
  Scores source_;
  std::span<const int> labels_;
  Eigen::LLT<Eigen::MatrixXd> hessian_;
};

}  // namespace labelshift
