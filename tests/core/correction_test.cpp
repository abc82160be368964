#include "labelshift/core/correction.hpp"

#include <gtest/gtest.h>

namespace labelshift {
namespace {

using Rows = RowMajorMatrix<double>;

/// Two classes; the second is nine times as common in the target as in the source.
Correction nine_times() {
  return {.calibration = Calibration::identity(2),
          .ratio = Eigen::Vector2d(1.0 / 9.0, 1.0),
          .target_prior = Eigen::Vector2d(0.1, 0.9)};
}

TEST(Correction, MultipliesByTheRatioAndCountsWhatThatChanges) {
  Rows probs(3, 2);
  probs << 0.5, 0.5, 0.75, 0.25, 0.99, 0.01;
  const Scores scores(probs);
  Rows out(2, 2);
  Adaptation adaptation;
  nine_times().apply(scores, 1, out, adaptation);
  Rows expected(2, 2);  // 0.75 / 9 : 0.25 = 1 : 3 and 0.99 / 9 : 0.01 = 11 : 1
  expected << 0.25, 0.75, 11.0 / 12.0, 1.0 / 12.0;
  EXPECT_LE((out - expected).cwiseAbs().maxCoeff(), 1e-15);
  EXPECT_TRUE(adaptation.corrected);
  EXPECT_EQ(adaptation.rows, 2);
  EXPECT_EQ(adaptation.changed, 1);
  EXPECT_EQ(adaptation.changed_by_calibration, 0);
  nine_times().apply(scores, 0, out, adaptation);
  EXPECT_EQ(adaptation.rows, 4);
  EXPECT_EQ(adaptation.changed, 3);  // the first row too, whose two classes were equal
}

TEST(Correction, CalibratesFirst) {
  Correction correction = nine_times();
  correction.calibration.bias = Eigen::Vector2d(-0.5, 0.5) * std::log(9.0);
  Rows probs(1, 2);
  probs << 0.75, 0.25;
  Rows out(1, 2);
  Adaptation adaptation;
  correction.apply(Scores(probs), 0, out, adaptation);
  EXPECT_NEAR(out(0, 1), 27.0 / 28.0, 1e-12);  // odds 3 : 1, 3 : 9 after the calibration, 1 : 27 in the target
  EXPECT_EQ(adaptation.changed, 1);
  EXPECT_EQ(adaptation.changed_by_calibration, 1);
}

TEST(Correction, LeavesRowsAlone) {
  Rows probs(2, 2);
  probs << 0.3, 0.7, 0.9, 0.1;
  Rows out(2, 2);
  Adaptation adaptation;
  Correction::none(2).apply(Scores(probs), 0, out, adaptation);
  EXPECT_EQ(out, probs);
  EXPECT_FALSE(adaptation.corrected);
  EXPECT_EQ(adaptation.changed, 0);
}

}  // namespace
}  // namespace labelshift
