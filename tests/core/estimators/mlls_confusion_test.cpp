#include "labelshift/core/estimators/mlls_confusion.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "labelshift/core/estimators/bbse.hpp"
#include "tests/core/error_of.hpp"
#include "tests/core/exact_problems.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::Vector3d;
using Eigen::VectorXd;

/// p(argmax f = j, y = c) of three classes of even prior.
SourceSummary source() {
  const MatrixXd conditional = (MatrixXd(3, 3) << 0.7, 0.2, 0.1, 0.2, 0.6, 0.2, 0.1, 0.2, 0.7).finished();
  return {.label_prior = Vector3d::Constant(1.0 / 3.0), .confusion = conditional / 3.0};
}

TEST(MllsConfusion, IsBbseWhereThatIsAMix) {
  const SourceSummary summary = three_class_population().source;
  const VectorXd predicted =
      *summary.confusion * summary.label_prior.cwiseInverse().asDiagonal() * Vector3d(0.2, 0.5, 0.3);
  const VectorXd found = MllsConfusion().unprojected_prior(summary, predicted).prior;
  EXPECT_LE((found - Bbse(/*soft=*/false).unprojected_prior(summary, predicted).prior).norm(), 1e-6);
  EXPECT_LE((found - Vector3d(0.2, 0.5, 0.3)).norm(), 1e-6);
}

TEST(MllsConfusion, IsTheMixOfTheGreatestLikelihoodWhereBbseIsNone) {
  const SourceSummary summary = source();
  const Vector3d predicted(0.55, 0.37, 0.08);
  ASSERT_LT(Bbse(/*soft=*/false).unprojected_prior(summary, predicted).prior.minCoeff(), -0.01);
  const MatrixXd conditional = 3.0 * *summary.confusion;
  const auto log_likelihood = [&](const VectorXd& q) {
    return predicted.dot((conditional * q).array().log().matrix());
  };
  const VectorXd found = MllsConfusion().unprojected_prior(summary, predicted).prior;
  EXPECT_NEAR(found.sum(), 1.0, 1e-9);
  EXPECT_GE(found.minCoeff(), 0.0);
  const double best = log_likelihood(found);
  for (int a = 0; a <= 50; ++a)
    for (int b = 0; a + b <= 50; ++b) EXPECT_LE(log_likelihood(Vector3d(a, b, 50 - a - b) / 50.0), best + 1e-9);
  // The nearest mix by distance is another.
  EXPECT_GT((found - Bbse(/*soft=*/false).solve(summary, predicted).ratio / 3.0).norm(), 1e-3);
}

TEST(MllsConfusion, LeavesOutWhatTheSourceNeverShows) {
  SourceSummary summary = source();
  summary.confusion->row(1).setZero();
  const VectorXd found = MllsConfusion().unprojected_prior(summary, Vector3d(0.3, 0.4, 0.3)).prior;
  EXPECT_LE((found - MllsConfusion().unprojected_prior(summary, Vector3d(0.5, 0.0, 0.5)).prior).norm(), 1e-9);
  EXPECT_NE(error_of(ErrorKind::kInput, [&] { MllsConfusion().unprojected_prior(summary, Vector3d(0.0, 1.0, 0.0)); })
                .find("no label that is predicted for the target is predicted for any source example"),
            std::string::npos);
}

}  // namespace
}  // namespace labelshift
