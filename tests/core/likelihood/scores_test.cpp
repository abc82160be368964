#include "labelshift/core/likelihood/scores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/calibration_choice.hpp"
#include "labelshift/core/calibration/prediction_quality.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/inference/bootstrap.hpp"
#include "labelshift/core/inference/incremental.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "tests/core/error_of.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <typename Use>
std::string input_error(Use&& use) {
  return error_of(ErrorKind::kInput, use);
}

TEST(Scores, FindTheBadRowWhereverItIs) {
  for (const Index row : {0, 7, 247, 248, 495, 499}) {
    Eigen::MatrixXf probs = Eigen::MatrixXf::Constant(500, 4, 0.25f);
    const auto message = [&] { return input_error([&] { Scores(probs, /*logits=*/false, "f"); }); };
    EXPECT_EQ(message(), "nothing was thrown");
    probs(row, 2) = std::numeric_limits<float>::infinity();
    EXPECT_EQ(message(), "f, row " + std::to_string(row + 1) +
                             ", column 3: found inf, expected a probability; remove the row or repair it");
    probs(row, 2) = 0.22f;
    EXPECT_EQ(message(), "f, row " + std::to_string(row + 1) + ": probabilities sum to 0.97, not 1 within 0.001");
    probs(row, 2) = 0.2505f;
    EXPECT_EQ(message(), "nothing was thrown");
  }
}

TEST(Scores, WantARowAndTwoClasses) {
  EXPECT_EQ(input_error([] { Probabilities(Eigen::MatrixXd(0, 3), "f"); }),
            "f has 0 rows and 3 columns; at least one row and two classes are needed");
  EXPECT_EQ(input_error([] { Probabilities(Eigen::MatrixXd(Eigen::MatrixXd::Ones(2, 1)), "f"); }),
            "f has one column; at least two classes are needed, one column each");
  for (const Eigen::MatrixXd& logits : {Eigen::MatrixXd(0, 3), Eigen::MatrixXd(Eigen::MatrixXd::Zero(4, 1))})
    EXPECT_THAT(input_error([&] { Scores(logits, /*logits=*/true); }), HasSubstr("at least one row and two classes"));
}

TEST(Scores, NameTheLogitThatIsNotFinite) {
  Eigen::MatrixXd logits = Eigen::MatrixXd::Zero(3, 2);
  EXPECT_NO_THROW(Scores(logits, /*logits=*/true));
  for (const double bad : {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    logits(2, 1) = bad;
    const std::string message = input_error([&] { Scores(logits, /*logits=*/true, "a.npy"); });
    EXPECT_THAT(message, StartsWith("a.npy, row 3, column 2: found"));
    EXPECT_THAT(message, HasSubstr("expected a finite logit"));
  }
}

TEST(Scores, LookAtNoRowBeyondTheirOwn) {
  for (const Index rows : {1, 3, 248, 500}) {
    Eigen::MatrixXd by_columns = Eigen::MatrixXd::Constant(rows + 1, 2, 0.5);
    by_columns.row(rows).setConstant(std::numeric_limits<double>::quiet_NaN());
    const RowMajorMatrix<double> by_rows = by_columns;
    for (const MatrixView& all : {MatrixView(by_columns), MatrixView(by_rows)})
      for (const bool logits : {false, true}) {
        EXPECT_NO_THROW(Scores(all.middle_rows(0, rows), logits)) << rows;
        EXPECT_THROW(Scores(all, logits), Error) << rows;
      }
  }
}

TEST(Scores, FindTheBadRowAmongEntriesThatLieApart) {
  // Every second entry of a row is a score; the two next to one another would do.
  for (const Index cols : {2, 20}) {
    RowMajorMatrix<double> wide = RowMajorMatrix<double>::Constant(16, 2 * cols, 1.0 / static_cast<double>(cols));
    const MatrixView view(wide.data(), 16, cols, 2 * cols, 2);
    EXPECT_NO_THROW(Scores(view, /*logits=*/false));
    wide(11, 2 * cols - 2) += 0.25;
    EXPECT_EQ(input_error([&] { Scores(view, /*logits=*/false, "f"); }),
              "f, row 12: probabilities sum to 1.25, not 1 within 0.001");
  }
}

// A view does not become probabilities unnoticed, so no code that passes rows on checks them a second time.
static_assert(!std::is_convertible_v<MatrixView, Probabilities>);
static_assert(!std::is_convertible_v<Scores, Probabilities>);
static_assert(std::is_constructible_v<Probabilities, MatrixView>);
static_assert(std::is_convertible_v<Probabilities, Scores>);

/// Everything that takes rows, as a program calls it with a matrix of its own.
TEST(Scores, AreRefusedByEveryEntryUnlessTheyAreWhatTheySay) {
  Eigen::MatrixXd bad = Eigen::MatrixXd::Constant(20, 2, 0.5);
  const Eigen::MatrixXd good = bad;
  bad(3, 1) = 0.47;
  const std::vector<int> labels = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
  const Eigen::Vector2d p(0.5, 0.5);
  const SourceSummary source{.label_prior = p};
  const auto estimator = make_estimator(find_estimator("mlls-sqp"));
  const Calibration identity = Calibration::identity(2);
  constexpr CalibrationKind kKinds[] = {CalibrationKind::kNone, CalibrationKind::kTemperature};
  const std::function<void()> entries[] = {
      [&] {
        LabelShiftProblem problem{.target = {bad}};
        problem.source_prior = p;
        analyse_label_shift(problem, {});
      },
      [&] {
        LabelShiftProblem problem{.target = {good}};
        problem.source = SourceExamples{{bad}, labels, {}};
        analyse_label_shift(problem, {});
      },
      [&] {
        estimator->estimate(source, {bad, {}});
      },
      [&] {
        Likelihood(p, {bad, {}});
      },
      [&] {
        summarise_source({bad, labels, {}}, p);
      },
      [&] {
        fit_source(CalibrationKind::kNone, {{bad}, labels, {}}, p);
      },
      [&] {
        summarise_with(identity, {{bad}, labels, {}}, p);
      },
      [&] {
        estimate_ratio({identity, source}, *estimator, {bad});
      },
      [&] { fit_calibration(CalibrationKind::kTemperature, {bad}, labels); },
      [&] { choose_calibration(kKinds, {bad}, labels); },
      [&] { apply_calibration(identity, {bad}); },
      [&] {
        prediction_quality({bad, labels, {}});
      },
      [&] { error_bound_terms(p, bad, 20.0); },
      [&] {
        label_shift_fit_test({bad, labels, {}}, {good, {}});
      },
      [&] {
        label_shift_fit_test({good, labels, {}}, {bad, {}});
      },
      [&] { IncrementalEstimator(source, {}, {}).add(bad); },
      [&] { IncrementalEstimator(source, {}, {}).add(good, bad); },
  };
  for (std::size_t i = 0; i < std::size(entries); ++i)
    EXPECT_EQ(input_error(entries[i]), "probabilities, row 4: probabilities sum to 0.97, not 1 within 0.001") << i;
}

/// Rows that are spoilt once they are scores show who looks at them a second time: a check would refuse them. All else
/// takes a row that sums to 1.01 for what it is.
TEST(Scores, AreCheckedOnceInAnEstimateWithABootstrap) {
  const GaussianProblem gaussian{.source_prior = Eigen::Vector3d(0.5, 0.3, 0.2)};
  Rng rng(5);
  GaussianSample source = gaussian.sample(300, gaussian.source_prior, rng);
  GaussianSample target = gaussian.sample(400, Eigen::Vector3d(0.2, 0.3, 0.5), rng);
  LabelShiftProblem problem{.target = {target.probs}};
  problem.source = SourceExamples{{source.probs}, source.labels, {}};
  source.probs *= 1.01;
  target.probs *= 1.01;
  EXPECT_THAT(input_error([&] { Scores{target.probs}; }), HasSubstr("probabilities sum to 1.01"));
  for (const char* calibration : {"none", "bcts", "matrix", "auto"}) {
    for (const char* estimator : {"mlls-sqp", "mlls-em", "bbse-soft", "rlls"}) {
      LabelShiftOptions options;
      options.estimator = estimator;
      options.calibration = calibration;
      options.bootstrap = kLeastReplicates;
      options.bound_terms = true;
      EXPECT_NO_THROW(analyse_label_shift(problem, options)) << calibration << " " << estimator;
    }
  }
}

}  // namespace
}  // namespace labelshift
