#include "labelshift/core/calibration/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/calibration/calibration_objective.hpp"
#include "labelshift/core/calibration/prediction_quality.hpp"
#include "labelshift/core/likelihood/row_block.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/core/likelihood/softmax.hpp"

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
    {"matrix", "matrix scaling shrunk towards bcts: every score speaks for every class", CalibrationKind::kMatrix},
};

constexpr double kLeastLogScore = -1e100;      // far beyond any use; its square is still finite
constexpr Index kWarmStartStep = 17;           // prime, so that it does not beat with classes that come in turn
constexpr Index kWarmStartElements = 1 << 17;  // from so many on, fitting every 17th row first saves passes
constexpr Index kLeastRows = 5000;             // of a part whose Hessian stands for that of all rows
constexpr int kMaxStepsByPart = 20;            // with that Hessian
constexpr Index kHessianRows = 60;             // a parameter: then steps gain nearly as much as with all rows

bool is_identity(const Calibration& calibration) {
  return (calibration.scale.array() == 1.0).all() && (calibration.bias.array() == 0.0).all() &&
         (calibration.mixing.array() == 0.0).all();
}

template <typename Scalar>
void apply_to_rows(const Calibration& calibration, const Scores& scores, Index first,
                   Eigen::Ref<RowMajorMatrix<Scalar>> out) {
  if (!scores.logits() && is_identity(calibration)) {
    for (Index i = 0; i < out.rows(); ++i)
      for (Index c = 0; c < out.cols(); ++c) out(i, c) = static_cast<Scalar>(scores(first + i, c));
    return;
  }
  for_each_block(calibration, scores, first, out.rows(), [&](const CalibrationBlock& block) {
    out.middleRows(block.first - first, block.f.rows()) = block.f.matrix().cast<Scalar>();
  });
}

double weight_at(std::span<const double> weights, Index row) {
  return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(row)];
}

PredictionQuality quality(const Calibration& calibration, const Scores& scores, std::span<const int> labels,
                          std::span<const double> weights) {
  PredictionQualitySum sum;
  for_each_block(calibration, scores, 0, scores.rows(), [&](const CalibrationBlock& block) {
    for (Index i = 0; i < block.f.rows(); ++i) {
      const int y = labels[static_cast<std::size_t>(block.first + i)];
      Index top = 0;
      const double confidence = block.f.row(i).maxCoeff(&top);
      const double log_prob = exponent(calibration, block, i, y) - block.log_normaliser[i];
      sum.add(log_prob, confidence, top == y, weight_at(weights, block.first + i));
    }
  });
  return sum.quality();
}

void check_matrix_scaling(Index classes, double strength) {
  if (classes > kMaxMatrixClasses)
    throw Error(ErrorKind::kUsage,
                fmt::format("matrix scaling has {} numbers to fit for {} classes and is for up to {}; use vs or bcts",
                            classes * (classes + 1) + 1, classes, kMaxMatrixClasses));
  if (!(strength > 0.0 && std::isfinite(strength)))
    throw Error(ErrorKind::kUsage,
                fmt::format("the strength of matrix scaling is {}, expected a number above 0", strength));
}

CalibrationMinimum fit_exactly(const CalibrationParameters& parameters, const Scores& source,
                               std::span<const int> labels, std::span<const double> weights,
                               const std::optional<Calibration>& near, double nll_before, const Observer& observer) {
  const Index n = source.rows();
  const PenalisedNll objective(parameters, source, labels, weights, 1, observer);
  const CalibrationCurvature curvature = objective.best_curvature();
  VectorXd start = parameters.theta_of(near ? *near : first_guess(parameters.classes(), nll_before));
  if (!near && n * parameters.classes() >= kWarmStartElements && n / kWarmStartStep >= 50 * parameters.size()) {
    const PenalisedNll part(parameters, source, labels, weights, kWarmStartStep, observer);
    if (part.total_weight() > 0.0) start = minimise(part, start, part.evaluate(start, curvature)).theta;
  }
  CalibrationDerivatives at = objective.evaluate(start, curvature);
  if (!(at.value <= nll_before)) {  // the rows are in an order that makes the part unlike the whole
    start = parameters.identity();
    at = objective.evaluate(start, curvature);
  }
  return minimise(objective, std::move(start), std::move(at));
}

/// A Hessian costs m^2 times a gradient here, so it is that of a part of the rows where there are many and that does.
CalibrationMinimum fit_matrix(const CalibrationParameters& parameters, const Scores& source,
                              std::span<const int> labels, std::span<const double> weights,
                              const std::optional<Calibration>& near, double nll_before, const Observer& observer) {
  const Index step = std::max<Index>(source.rows() / std::max(kHessianRows * parameters.size(), kLeastRows), 1);
  const PenalisedNll objective(parameters, source, labels, weights, 1, observer);
  const PenalisedNll part(parameters, source, labels, weights, step, observer);
  CalibrationMinimum found{.theta = parameters.theta_of(near ? *near : first_guess(parameters.classes(), nll_before))};
  for (const PenalisedNll* curved : {&part, &objective}) {
    if (curved->total_weight() == 0.0) continue;
    const ApproximateNewton newton{
        .value_and_gradient = [&](const VectorXd& at) { return objective.evaluate(at, CalibrationCurvature::kNone); },
        .hessian = [&](const VectorXd& at) { return curved->evaluate(at, CalibrationCurvature::kDense).hessian; },
        .examples = objective.examples(),
        .standard_errors = kStandardErrors,
        .max_steps = curved == &objective ? kMaxNewtonSteps : kMaxStepsByPart};
    const int before = found.iterations;
    found = newton.minimise(parameters, found.theta);
    found.iterations += before;
    if (found.converged) break;  // else the rows are in an order that makes the part unlike the whole
  }
  return found;
}

}  // namespace

std::span<const CalibrationEntry> calibrations() {
  return kCalibrations;
}

const CalibrationEntry& find_calibration(const std::string& name) {
  return find_entry(kCalibrations, "calibration", name);
}

const char* to_string(CalibrationKind kind) {
  return std::find_if(std::begin(kCalibrations), std::end(kCalibrations),
                      [&](const CalibrationEntry& entry) { return entry.kind == kind; })
      ->name;
}

Calibration Calibration::identity(Index classes) {
  return {.scale = VectorXd::Ones(classes), .bias = VectorXd::Zero(classes)};
}

void log_scores(const Scores& scores, Index first, ArrayXXd& z) {
  load_rows(scores.middle_rows(first, z.rows()), z.data(), z.rows());
  if (!scores.logits()) {
    log_of_floored(kProbabilityFloor, z.size(), z.data());
    return;
  }
  const ArrayXd top = z.rowwise().maxCoeff();
  z.colwise() -= top;
  ArrayXXd f = z;
  ArrayXd log_sum(z.rows());
  softmax_rows(f.rows(), f.cols(), f.data(), log_sum.data());
  z.colwise() -= log_sum;
  z = z.max(kLeastLogScore);
}

CalibrationFit fit_calibration(CalibrationKind kind, const Scores& source, std::span<const int> labels,
                               std::span<const double> weights, double strength,
                               const std::optional<Calibration>& near) {
  return fit_calibration(kind, source, labels, weights, strength, near, {});
}

CalibrationFit fit_calibration(CalibrationKind kind, const Scores& source, std::span<const int> labels,
                               std::span<const double> weights, double strength, const std::optional<Calibration>& near,
                               const Observer& observer) {
  const Index n = source.rows();
  const Index m = source.cols();
  check_labels(labels, n, m, "source labels");
  check_weights(weights, n, "source weights");
  if (kind == CalibrationKind::kMatrix) check_matrix_scaling(m, strength);

  CalibrationFit fit{.calibration = Calibration::identity(m), .kind = kind, .converged = true};
  const PredictionQuality before = quality(fit.calibration, source, labels, weights);
  PredictionQuality after = before;
  if (kind != CalibrationKind::kNone) {
    const CalibrationParameters parameters(kind, m, strength);
    const CalibrationMinimum best = kind == CalibrationKind::kMatrix
                                        ? fit_matrix(parameters, source, labels, weights, near, before.nll, observer)
                                        : fit_exactly(parameters, source, labels, weights, near, before.nll, observer);
    fit.calibration = parameters.expand(best.theta);
    fit.iterations = best.iterations;
    fit.converged = best.converged;
    after = quality(fit.calibration, source, labels, weights);
  }
  if (kind == CalibrationKind::kMatrix) fit.strength = strength;
  fit.nll_before = before.nll;
  fit.nll_after = after.nll;
  fit.ece_before = before.ece;
  fit.ece_after = after.ece;
  fit.bins_before = before.bins;
  fit.bins_after = after.bins;
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
  scores.visit([&]<typename Scalar>(const Scalar*, Index, Index) {
    auto& out = result.values.emplace<RowMajorMatrix<Scalar>>(scores.rows(), scores.cols());
    apply_to_rows<Scalar>(calibration, scores, 0, out);
  });
  return result;
}

CalibratedProbabilities calibrated_view(const Calibration& calibration, const Scores& scores) {
  if (!scores.logits() && is_identity(calibration)) return {Probabilities::known(scores)};
  return apply_calibration(calibration, scores);
}

CalibrationInfluence::CalibrationInfluence(const CalibrationFit& fit, const Scores& source, std::span<const int> labels,
                                           std::span<const double> weights, const CalibrationResponse& response)
    : kind_(fit.kind), calibration_(fit.calibration), source_(source), labels_(labels) {
  const CalibrationParameters parameters(kind_, source.cols(), fit.strength);
  const MatrixXd of_theta = parameters.reduce(response.scale, response.mixing, response.bias);  // (k, p)
  by_theta_ = MatrixXd::Zero(parameters.size(), of_theta.rows());
  if (kind_ == CalibrationKind::kNone) return;
  const PenalisedNll objective(parameters, source, labels, weights);
  const VectorXd theta = parameters.theta_of(calibration_);
  const HessianFactor hessian(objective.evaluate(theta, CalibrationCurvature::kDense).hessian);
  by_theta_ = -hessian.solve(of_theta.transpose());
}

MatrixXd CalibrationInfluence::rows(Index first, Index count) const {
  MatrixXd influence = MatrixXd::Zero(count, by_theta_.cols());
  if (kind_ == CalibrationKind::kNone) return influence;
  const Index m = source_.cols();
  const CalibrationParameters parameters(kind_, m);
  for_each_block(calibration_, source_, first, count, [&](const CalibrationBlock& block) {
    const auto first_of_block = static_cast<std::size_t>(block.first);
    influence.middleRows(block.first - first, block.f.rows()).noalias() =
        gradient_rows(parameters, block, labels_.subspan(first_of_block, static_cast<std::size_t>(block.f.rows()))) *
        by_theta_;
  });
  return influence;
}

void CalibrationInfluence::for_each_label(Index most, const UseOfLabel& use) const {
  if (kind_ == CalibrationKind::kNone) return;
  const Index m = source_.cols();
  const Index step = (source_.rows() + most - 1) / most;
  const CalibrationParameters parameters(kind_, m);
  std::vector<Calibration> moves;  // (k) by_theta_, as changes of the calibration
  for (Index k = 0; k < by_theta_.cols(); ++k) moves.push_back(parameters.expand(by_theta_.col(k)));
  const Scores scores = source_.every(step);
  for_each_block(calibration_, scores, 0, scores.rows(), [&](const CalibrationBlock& block) {
    std::vector<ArrayXXd> influence;  // (k) of (b, m), a column for each label
    for (const Calibration& move : moves) {
      // A row's gradient is E_f[phi] - phi(y), phi(c) being the derivative of the exponent of class c by theta.
      ArrayXXd of_class =
          (block.z.rowwise() * move.scale.transpose().array()).rowwise() + move.bias.transpose().array();
      if (move.mixing.size() > 0) of_class.matrix().noalias() += block.z.matrix() * move.mixing.transpose();
      const ArrayXd mean = (of_class * block.f).rowwise().sum();
      influence.emplace_back((-of_class).colwise() + mean);
    }
    Eigen::RowVectorXd of_row(by_theta_.cols());
    for (Index y = 0; y < m; ++y) {
      for (Index i = 0; i < block.f.rows(); ++i) {
        for (Index k = 0; k < of_row.size(); ++k) of_row[k] = influence[static_cast<std::size_t>(k)](i, y);
        use((block.first + i) * step, y, of_row, block.f(i, y));
      }
    }
  });
}

}  // namespace labelshift
