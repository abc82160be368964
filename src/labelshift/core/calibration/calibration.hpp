#pragma once

#include <Eigen/Core>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/core/calibration/prediction_quality.hpp"
#include "labelshift/core/likelihood/scores.hpp"

namespace labelshift {

/// Which numbers of a Calibration are fitted, from the simplest kind to the largest: each can do what those before it
/// can.
enum class CalibrationKind {
  kNone,           // none
  kTemperature,    // one scale, 1 / T
  kBiasCorrected,  // one scale, a bias a class
  kVector,         // a scale and a bias a class
  kMatrix,         // one scale, a mixing matrix that is shrunk towards 0, a bias a class
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

/// The name of a kind's row.
const char* to_string(CalibrationKind kind);

/// The map f -> softmax(W z + bias), z_c = log f_c, W = diag(scale) + mixing, from scores to calibrated probabilities.
///
/// Logits become z = log softmax(logits), so they and the probabilities they stand for give the same answer under every
/// kind. (A constant added to a row of logits changes no probability, but would change what a scale a class makes of
/// it.) Probabilities below kProbabilityFloor = 1e-12 count as 1e-12, so that a zero cannot dominate a fit.
struct Calibration {
  Eigen::VectorXd scale;        // (m) all equal unless the kind is kVector
  Eigen::VectorXd bias;         // (m) sums to 0: a constant added to all of it changes nothing
  Eigen::MatrixXd mixing = {};  // (m, m) of kMatrix, else empty, which stands for 0

  static Calibration identity(Index classes);
};

/// The strength of matrix scaling where nobody chose one: entries of `mixing` with a standard deviation of 0.1.
inline constexpr double kMatrixStrength = 100.0;

/// Matrix scaling has m^2 numbers to fit, and its Hessian m^4: 9 MB at 32 classes.
inline constexpr Index kMaxMatrixClasses = 32;

struct CalibrationFit {
  Calibration calibration;
  CalibrationKind kind = CalibrationKind::kNone;
  double strength = 0.0;    // of kMatrix
  double nll_before = 0.0;  // of f on the sample fitted to; rows are normalised
  double nll_after = 0.0;   // never above nll_before
  double ece_before = 0.0;
  double ece_after = 0.0;
  std::vector<ConfidenceBin> bins_before = {};  // that the calibration errors are of
  std::vector<ConfidenceBin> bins_after = {};
  int iterations = 0;  // Newton steps on the whole sample
  bool converged = false;
};

/// Minimises over the parameters of `kind`
///
///     mean NLL + 0.01 / (2 n) * (|scale - 1|^2 + |bias|^2),    n the effective number of rows,
///
/// where a shared scale counts once, and for kMatrix + strength / (2 n) * |mixing|^2: the smaller the strength, the
/// freer is the matrix, and an infinite one makes it BCTS. This is convex. The penalty is a Gaussian prior of standard
/// deviation 10, worth a hundredth of an observation: too weak to be noticed where the data say anything, it keeps the
/// optimum finite where they do not (separable data, where the scale wants to be infinite; a class with no example,
/// whose bias wants to be -infinity) and picks the bias that sums to 0.
///
/// Newton's method with a line search, to within a millionth of a standard error. Each step is one pass over the data
/// and O(n m^2) arithmetic where there are up to 400 parameters, conjugate gradients at O(n m) a product beyond. Matrix
/// scaling takes O(n m^2) a step and a few Hessians of at most 60 rows a parameter, each m^2 times as dear.
/// `near` is where to start, a calibration of this kind or of a simpler one; the identity if there is none.
/// Single-threaded, in a fixed order: the same input gives the same bits. Memory beyond the input does not depend on n.
///
/// Throws Error{kInput} if labels or weights do not fit the scores, Error{kUsage} for kMatrix with more than
/// kMaxMatrixClasses classes or a strength that is not above 0.
CalibrationFit fit_calibration(CalibrationKind kind, const Scores& source, std::span<const int> labels,
                               std::span<const double> weights = {}, double strength = kMatrixStrength,
                               const std::optional<Calibration>& near = {});

template <typename Scalar>
using RowMajorMatrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows that were made to be probabilities, in the precision of the scores they were made from; or those scores, where
/// calibrated_view found them to be that already.
struct CalibratedProbabilities {
  std::variant<RowMajorMatrix<float>, RowMajorMatrix<double>, Probabilities> values;  // (n, m)

  Probabilities view() const {
    return std::visit([](const auto& rows) { return Probabilities::known(rows); }, values);
  }
};

/// Calibrated probabilities of every row: float from float scores, double from double. The identity copies
/// probabilities bit for bit, and turns logits into their softmax.
CalibratedProbabilities apply_calibration(const Calibration& calibration, const Scores& scores);

/// The same without a copy where the identity meets probabilities: the scores must outlive the result.
CalibratedProbabilities calibrated_view(const Calibration& calibration, const Scores& scores);

/// The same for rows [first, first + out.rows()) of the scores, into a buffer of the caller's.
void apply_calibration(const Calibration& calibration, const Scores& scores, Index first,
                       Eigen::Ref<RowMajorMatrix<float>> out);
void apply_calibration(const Calibration& calibration, const Scores& scores, Index first,
                       Eigen::Ref<RowMajorMatrix<double>> out);

/// The z of Calibration for rows [first, first + z.rows()).
void log_scores(const Scores& scores, Index first, Eigen::ArrayXXd& z);

/// How k numbers answer a small change of a calibration: their derivatives.
struct CalibrationResponse {
  Eigen::ArrayXXd scale;   // (k, m), or (k, 1) for a scale that all classes share
  Eigen::ArrayXXd bias;    // (k, m)
  Eigen::ArrayXXd mixing;  // (k, m m) row by row; empty unless the kind is kMatrix
};

/// How much each source example moved k numbers through a fit, for standard errors that know the calibration was
/// estimated:
///
///     theta_hat - theta ~ (1 / sum_i w_i) sum_i w_i influence_i,    influence_i = -N^-1 grad NLL_i(theta_hat),
///
/// theta being the parameters of the fit's kind and N the Hessian of the penalised mean NLL. Building N costs O(n m^2)
/// (of kMatrix O(n m^4)) and, with p parameters, p^2 doubles: 32 MB for kVector at m = 1000. A row then costs O(p k).
/// The calibration may be that of a simpler kind. The scores and labels must outlive this object.
class CalibrationInfluence {
 public:
  CalibrationInfluence(const CalibrationFit& fit, const Scores& source, std::span<const int> labels,
                       std::span<const double> weights, const CalibrationResponse& response);

  /// (count, k) response . influence of rows [first, first + count).
  Eigen::MatrixXd rows(Index first, Index count) const;

  /// Calls use(i, y, influence, f_y) for at most `most` rows i, evenly spread, and every class y: the influence (k)
  /// that row i would have if its label were y, and what the calibrated probability of that is.
  using UseOfLabel = std::function<void(Index i, Index y, const Eigen::RowVectorXd& influence, double probability)>;
  void for_each_label(Index most, const UseOfLabel& use) const;

 private:
  CalibrationKind kind_;
  Calibration calibration_;
  Scores source_;
  std::span<const int> labels_;
  Eigen::MatrixXd by_theta_;  // (p, k) minus N^-1 times the response
};

}  // namespace labelshift
