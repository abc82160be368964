#include "labelshift/core/calibration/calibration_objective.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "labelshift/core/base/rng.hpp"

namespace labelshift {

void PrintTo(const CalibrationEntry& entry, std::ostream* out);  // of calibration_test.cpp

namespace {

using Eigen::ArrayXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;

class EverySum : public testing::TestWithParam<CalibrationEntry> {};

INSTANTIATE_TEST_SUITE_P(Core, EverySum, testing::ValuesIn(calibrations().subspan(1)),
                         [](const auto& entry) { return std::string(entry.param.name); });

TEST_P(EverySum, HasTheGradientAndTheHessianOfItsValue) {
  constexpr Index kRows = 40, kClasses = 3;
  const CalibrationParameters parameters(GetParam().kind, kClasses, 2.0);
  const Index size = parameters.size();
  Rng rng(2);
  MatrixXd logits(kRows, kClasses);
  for (double& x : logits.reshaped()) x = 1.5 * rng.normal();
  std::vector<int> labels;
  std::vector<double> weights;
  for (Index i = 0; i < kRows; ++i) {
    labels.push_back(static_cast<int>(rng.below(kClasses)));
    weights.push_back(0.5 + rng.uniform());
  }
  VectorXd theta = parameters.identity();
  for (double& x : theta) x += 0.3 * rng.normal();
  theta.tail(parameters.biases()).array() -= theta.tail(parameters.biases()).sum() / kClasses;
  for (const Index step : {1, 3}) {
    const PenalisedNll objective(parameters, {logits, /*logits=*/true}, labels, weights, step);
    const CalibrationDerivatives at = objective.evaluate(theta, CalibrationCurvature::kDense);
    // Biases that move together change no probability; there the curvature is made 1.
    MatrixXd hessian = at.hessian.selfadjointView<Eigen::Lower>();
    hessian.bottomRightCorner(parameters.biases(), parameters.biases()).array() -= 1.0 / kClasses;
    // Central differences of h = 1e-4 err by h^2 / 6 times third derivatives of about 1, and by rounding over h.
    constexpr double kStep = 1e-4, kTolerance = 1e-7;
    for (Index k = 0; k < size; ++k) {
      const VectorXd move = kStep * VectorXd::Unit(size, k);
      const CalibrationDerivatives above = objective.evaluate(theta + move, CalibrationCurvature::kNone);
      const CalibrationDerivatives below = objective.evaluate(theta - move, CalibrationCurvature::kNone);
      EXPECT_NEAR((above.value - below.value) / (2.0 * kStep), at.gradient[k], kTolerance) << k;
      const VectorXd bend = (above.gradient - below.gradient) / (2.0 * kStep);
      EXPECT_LE((bend - hessian.col(k)).cwiseAbs().maxCoeff(), kTolerance) << k;
    }
    if (parameters.mixings() > 0) continue;  // the rest is for as many classes as that has not
    const CalibrationDerivatives diagonal = objective.evaluate(theta, CalibrationCurvature::kDiagonal);
    EXPECT_LE((diagonal.hessian - at.hessian.diagonal()).cwiseAbs().maxCoeff(), 1e-13);
    VectorXd v(size);
    for (double& x : v) x = rng.normal();
    const MatrixXd dense = at.hessian.selfadjointView<Eigen::Lower>();
    EXPECT_LE((objective.hessian_times(theta, v) - dense * v).cwiseAbs().maxCoeff(), 1e-13);
  }
}

TEST_P(EverySum, OfAllRowsLessThoseOfAFoldIsThatOfTheOthers) {
  constexpr Index kRows = 30, kClasses = 3;
  const CalibrationParameters parameters(GetParam().kind, kClasses, 2.0);
  Rng rng(1);
  VectorXd theta = parameters.identity();
  for (double& x : theta) x += 0.3 * rng.normal();
  const Calibration calibration = parameters.expand(theta);
  for (const CalibrationCurvature curvature :
       {CalibrationCurvature::kNone, CalibrationCurvature::kDense, CalibrationCurvature::kDiagonal}) {
    if (curvature == CalibrationCurvature::kDiagonal && parameters.mixings() > 0) continue;  // has no such sum
    NllSum all(parameters, curvature), fold(parameters, curvature), others(parameters, curvature);
    for (int part = 0; part < 3; ++part) {
      CalibrationBlock block{.z = Eigen::ArrayXXd(kRows, kClasses)};
      std::vector<int> labels;
      ArrayXd weights(kRows);
      for (Index i = 0; i < kRows; ++i) {
        for (Index c = 0; c < kClasses; ++c) block.z(i, c) = rng.normal();
        labels.push_back(static_cast<int>(rng.below(kClasses)));
        weights[i] = rng.uniform();
      }
      calibrate(calibration, block);
      all.add(calibration, block, labels, weights);
      (part == 1 ? fold : others).add(calibration, block, labels, weights);
    }
    const auto expect_same = [&](const NllSum& found, const NllSum& expected) {
      EXPECT_NEAR(found.value(), expected.value(), 1e-12);  // rounding of sums of 90 terms of about 1
      const CalibrationDerivatives a = found.derivatives(parameters, theta, 100.0, 0.5);
      const CalibrationDerivatives b = expected.derivatives(parameters, theta, 100.0, 0.5);
      EXPECT_NEAR(a.value, b.value, 1e-12);
      EXPECT_LE((a.gradient - b.gradient).cwiseAbs().maxCoeff(), 1e-12);
      ASSERT_EQ(a.hessian.size(), b.hessian.size());
      if (curvature == CalibrationCurvature::kNone) return;
      EXPECT_GT(b.hessian.col(0).cwiseAbs().minCoeff(), 0.0);
      EXPECT_LE(MatrixXd((a.hessian - b.hessian).triangularView<Eigen::Lower>()).cwiseAbs().maxCoeff(), 1e-12);
    };
    NllSum left = all;
    left -= fold;
    expect_same(left, others);
    left += fold;
    expect_same(left, all);
  }
}

}  // namespace
}  // namespace labelshift
