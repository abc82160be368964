#include "labelshift/core/calibration/source_fit.hpp"

#include <gtest/gtest.h>

#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

const GaussianProblem kProblem{.source_prior = Eigen::Vector3d(0.3, 0.3, 0.4),
                               .separation = 3.0,
                               .sharpness = 2.0,
                               .bias = Eigen::Vector3d(0.5, -0.5, 0.0)};

TEST(SourceFit, IsACalibrationAndASummaryOfWhatItMakesOfTheSource) {
  Rng rng(1);
  const GaussianSample source = kProblem.sample(2'000, kProblem.source_prior, rng);
  const SourceExamples examples{{source.probs}, source.labels, {}};
  const SourceFit fit = fit_source(CalibrationKind::kBiasCorrected, examples, kProblem.source_prior);
  const Calibration expected =
      fit_calibration(CalibrationKind::kBiasCorrected, examples.scores, examples.labels).calibration;
  EXPECT_EQ(fit.calibration.scale, expected.scale);  // the mix is that of the prior, so no row has a weight
  EXPECT_EQ(fit.calibration.bias, expected.bias);
  const CalibratedProbabilities probs = apply_calibration(expected, examples.scores);
  const SourceSummary summary = summarise_source({probs.view(), source.labels, {}}, kProblem.source_prior);
  EXPECT_EQ(fit.summary.label_prior, summary.label_prior);
  EXPECT_EQ(*fit.summary.confusion, *summary.confusion);
  const SourceFit again = summarise_with(expected, examples, kProblem.source_prior);
  EXPECT_EQ(*again.summary.confusion, *summary.confusion);
}

TEST(SourceFit, WeightsASourceOfAnotherMixToThePriorOfTraining) {
  Rng rng(2);
  // A balanced validation set of a predictor that was trained on another mix.
  const Eigen::Vector3d balanced = Eigen::Vector3d::Constant(1.0 / 3.0), skewed(0.8, 0.1, 0.1);
  GaussianProblem problem = kProblem;
  problem.source_prior = skewed;
  const GaussianSample source = problem.sample(6'000, balanced, rng);
  const GaussianSample target = problem.sample(20'000, balanced, rng);
  const SourceFit fit = fit_source(CalibrationKind::kBiasCorrected, {{source.probs}, source.labels, {}}, skewed);
  const auto estimator = make_estimator(find_estimator("mlls-sqp"));
  const Eigen::VectorXd q = skewed.cwiseProduct(estimate_ratio(fit, *estimator, {target.probs}).ratio);
  // The standard error of a share is about 0.01 from either sample. Without weights the biases of BCTS take f for that
  // of a balanced source, and q is far off.
  EXPECT_LT((q - balanced).cwiseAbs().maxCoeff(), 0.04);
}

TEST(SourceFit, FitsATemperatureAloneWhereAClassHasNoExample) {
  Rng rng(3);
  GaussianSample source = kProblem.sample(500, Eigen::Vector3d(0.5, 0.5, 0.0), rng);
  const SourceExamples examples{{source.probs}, source.labels, {}};
  const Calibration fit = fit_source(CalibrationKind::kBiasCorrected, examples, kProblem.source_prior).calibration;
  EXPECT_EQ(fit.bias, Eigen::Vector3d::Zero());
  EXPECT_EQ(fit.scale,
            fit_calibration(CalibrationKind::kTemperature, examples.scores, examples.labels).calibration.scale);
  const Calibration none = fit_source(CalibrationKind::kNone, examples, kProblem.source_prior).calibration;
  EXPECT_EQ(none.scale, Eigen::Vector3d::Ones());
}

const void* first_number(const MatrixView& rows) {
  return rows.visit([](const auto* data, Index, Index) -> const void* { return data; });
}

TEST(SourceFit, CopiesRowsOnlyWhereTheyChange) {
  Rng rng(4);
  const GaussianSample source = kProblem.sample(300, kProblem.source_prior, rng);
  const RowMajorMatrix<float> rows = source.probs.cast<float>();
  const Scores scores{rows};
  const auto estimator = make_estimator(find_estimator("mlls-sqp"));
  const Calibration none = Calibration::identity(3);
  const CalibratedSource as_it_is = calibrate_source(none, {scores, source.labels, {}}, kProblem.source_prior);
  EXPECT_EQ(first_number(as_it_is.probs.view()), rows.data());
  EXPECT_EQ(first_number(calibrate_and_estimate(as_it_is.fit, *estimator, scores, {}).probs.view()), rows.data());
  const Calibration sharper{.scale = Eigen::Vector3d::Constant(2.0), .bias = Eigen::Vector3d::Zero()};
  const CalibratedSource changed = calibrate_source(sharper, {scores, source.labels, {}}, kProblem.source_prior);
  EXPECT_NE(first_number(changed.probs.view()), rows.data());
  const RowMajorMatrix<float> logits = rows.array().log();
  const CalibratedSource softmax =
      calibrate_source(none, {{logits, /*logits=*/true}, source.labels, {}}, kProblem.source_prior);
  EXPECT_NE(first_number(softmax.probs.view()), logits.data());
}

}  // namespace
}  // namespace labelshift
