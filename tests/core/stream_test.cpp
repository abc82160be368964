#include "labelshift/core/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/error_of.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

class StreamTest : public testing::Test {
 protected:
  StreamTest() {
    Rng rng(5);
    source_ = problem_.sample(1500, problem_.source_prior, rng);
    target_ = problem_.sample(1000, Eigen::Vector3d(0.2, 0.2, 0.6), rng);
  }

  SourceExamples examples() const { return {Scores(source_.probs), source_.labels, {}}; }
  LabelShiftStream stream(const StreamOptions& options = {}) const { return {examples(), {}, {}, options}; }
  std::string error(ErrorKind kind, const SourceExamples& source, const std::optional<Eigen::VectorXd>& prior,
                    const StreamOptions& options = {}) const {
    return error_of(kind, [&] { LabelShiftStream(source, prior, {}, options); });
  }

  GaussianProblem problem_{.source_prior = Eigen::Vector3d(0.5, 0.3, 0.2), .sharpness = 2.5};
  GaussianSample source_, target_;
};

TEST_F(StreamTest, KnowsWhatAnEstimateOfAllRowsKnows) {
  LabelShiftStream stream = this->stream();
  const Scores rows(target_.probs);
  stream.add(Scores::known(rows.middle_rows(0, 300), false));
  stream.add(Scores::known(rows.middle_rows(300, 700), false));
  LabelShiftProblem problem{.source = examples(), .target = rows};
  const LabelShiftResult whole = analyse_label_shift(problem, {});
  const IncrementalState state = stream.current();
  EXPECT_EQ(stream.rows(), 1000.0);
  EXPECT_EQ(stream.source_prior(), whole.source_prior);
  EXPECT_LE((state.target_prior - whole.target_prior).cwiseAbs().maxCoeff(), 1e-6);  // both gaps are below 1e-9
  EXPECT_NEAR(state.shift_test.p_value, whole.shift_test.p_value, 1e-9);
  ASSERT_TRUE(state.fit_test);
  EXPECT_EQ(stream.source_evidence().accuracy, whole.source_evidence->accuracy);
  EXPECT_TRUE(stream.unseen().empty());
}

TEST_F(StreamTest, RefusesWhatDoesNotFitTogether) {
  const std::vector<int> few(source_.labels.begin(), source_.labels.end() - 1);
  EXPECT_THAT(error(ErrorKind::kInput, {Scores(source_.probs), few, {}}, {}), HasSubstr("source labels"));
  const std::vector<double> negative(1500, -1.0);
  EXPECT_THAT(error(ErrorKind::kInput, {Scores(source_.probs), source_.labels, negative}, {}),
              HasSubstr("source weights"));
  EXPECT_THAT(error(ErrorKind::kInput, examples(), Eigen::Vector2d(0.5, 0.5)),
              HasSubstr("the source prior has 2 classes, the source probabilities 3 columns"));
  EXPECT_THAT(error(ErrorKind::kUsage, examples(), {}, {.smoothing = -1.0}), HasSubstr("smoothing is -1"));
  LabelShiftStream stream = this->stream();
  const Eigen::MatrixXd other = Eigen::MatrixXd::Constant(2, 4, 0.25);
  EXPECT_THAT(error_of(ErrorKind::kInput, [&] { stream.add(Scores(other)); }),
              HasSubstr("found rows with 4 columns, expected 3"));
  EXPECT_EQ(stream.rows(), 0.0);
}

TEST_F(StreamTest, StopsWhenItsObserverSaysSo) {
  EXPECT_THROW(LabelShiftStream(examples(), {}, {}, {}, [](std::string_view, double) { return false; }), Stopped);
}

}  // namespace
}  // namespace labelshift
