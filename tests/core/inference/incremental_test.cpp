#include "labelshift/core/inference/incremental.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/estimators/mlls_sqp.hpp"
#include "labelshift/core/inference/wilson.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::HasSubstr;

struct Draws {
  MatrixXd probs;  // (n, m) exact p_tr(y | x)
  std::vector<int> labels;
};

/// x given y is normal around separation * e_y, so that p_tr(y | x) is the softmax of separation * x + log p_tr.
Draws draw(const VectorXd& p, const VectorXd& q, Index n, double separation, Rng& rng) {
  Draws draws{MatrixXd(n, p.size()), std::vector<int>(static_cast<std::size_t>(n))};
  for (Index i = 0; i < n; ++i) {
    int label = 0;
    for (double u = rng.uniform(); label + 1 < p.size() && u >= q[label]; ++label) u -= q[label];
    VectorXd z = p.array().log();
    for (Index c = 0; c < p.size(); ++c) z[c] += separation * (rng.normal() + (c == label ? separation : 0.0));
    const VectorXd e = (z.array() - z.maxCoeff()).exp();
    draws.probs.row(i) = e.transpose() / e.sum();
    draws.labels[static_cast<std::size_t>(i)] = label;
  }
  return draws;
}

VectorXd dirichlet(Index m, double shape, Rng& rng) {
  VectorXd draws(m);
  for (double& x : draws) x = rng.gamma(shape) + 0.01;
  return draws / draws.sum();
}

VectorXd vector(std::initializer_list<double> values) {
  return Eigen::Map<const VectorXd>(values.begin(), static_cast<Index>(values.size()));
}

SourceSummary known(const VectorXd& p) {
  SourceSummary source;
  source.label_prior = p;
  return source;
}

void feed(IncrementalEstimator& estimator, const MatrixXd& probs, Index batch) {
  const Probabilities all(probs);
  for (Index i = 0; i < probs.rows(); i += batch) estimator.add(all.middle_rows(i, std::min(batch, probs.rows() - i)));
}

VectorXd batch_prior(const VectorXd& p, const MatrixXd& probs, std::span<const double> weights = {}) {
  return MllsSqp().estimate(known(p), {probs, weights}).ratio.cwiseProduct(p);
}

/// The largest difference between the two in standard errors, which the 95 % intervals are 3.92 of wide.
double standard_errors_apart(const IncrementalState& state, const VectorXd& other) {
  const VectorXd errors = (state.intervals.prior_high - state.intervals.prior_low) / 3.92;
  return (state.target_prior - other).cwiseAbs().cwiseQuotient(errors).maxCoeff();
}

template <typename Call>
void expect_error(Call call, ErrorKind kind, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

class IncrementalLikelihood : public testing::TestWithParam<int> {};

TEST_P(IncrementalLikelihood, IsWithinATenthOfAStandardErrorOfTheBatchAnswer) {
  for (const Index m : {3, 10}) {
    for (const double separation : {1.0, 3.0}) {
      Rng rng(static_cast<std::uint64_t>(GetParam()), static_cast<std::uint64_t>(m));
      const VectorXd p = dirichlet(m, 5.0, rng);
      const MatrixXd f = draw(p, dirichlet(m, 1.0, rng), 100'000, separation, rng).probs;
      IncrementalEstimator estimator(known(p), {}, {});
      feed(estimator, f, 1000);
      const IncrementalState state = estimator.current();
      const RatioEstimate batch = MllsSqp().estimate(known(p), {f, {}});
      EXPECT_LE(standard_errors_apart(state, batch.ratio.cwiseProduct(p)), 0.1) << m << " " << separation;
      EXPECT_NEAR(state.estimate.mean_log_likelihood, batch.mean_log_likelihood, 1e-4);
      EXPECT_LE(*state.estimate.gap, 1e-9);
      EXPECT_NEAR(state.target_prior.sum(), 1.0, 1e-12);
      EXPECT_EQ(state.rows, 100'000.0);
      EXPECT_NEAR(state.effective_rows, 100'000.0, 1e-6);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Core, IncrementalLikelihood, testing::Range(1, 5));

TEST(Incremental, IsTheBatchAnswerWhileAllRowsAreHeld) {
  Rng rng(5);
  const VectorXd p = vector({0.5, 0.3, 0.2});
  const MatrixXd f = draw(p, vector({0.1, 0.1, 0.8}), 8000, 1.5, rng).probs;  // folds once, but the sample has it all
  IncrementalEstimator estimator(known(p), {}, {});
  feed(estimator, f, 100);
  EXPECT_LE((estimator.current().target_prior - batch_prior(p, f)).cwiseAbs().maxCoeff(), 1e-6);
}

TEST(Incremental, DoesNotDependOnHowRowsAreCutIntoBatchesOrOnQuestionsInBetween) {
  Rng rng(6);
  const VectorXd p = vector({0.5, 0.3, 0.2});
  const MatrixXd f = draw(p, vector({0.2, 0.3, 0.5}), 20'000, 1.5, rng).probs;
  IncrementalEstimator single(known(p), {}, {.half_life = 5000.0});
  IncrementalEstimator batched(known(p), {}, {.half_life = 5000.0});
  feed(single, f, 1);
  for (Index i = 0; i < f.rows(); i += 1000) {
    batched.add(Probabilities(f).middle_rows(i, 1000));
    batched.current();
  }
  EXPECT_EQ(single.current().target_prior, batched.current().target_prior);
  EXPECT_EQ(single.current().shift_test.statistic, batched.current().shift_test.statistic);
}

TEST(Incremental, IsExactForTheBbseFamily) {
  Rng rng(7);
  const VectorXd p = vector({0.4, 0.3, 0.2, 0.1});
  const Draws source = draw(p, p, 5000, 1.5, rng);
  const SourceSummary summary = summarise_source({source.probs, source.labels, {}}, label_prior(source.labels, {}, 4));
  const MatrixXd f = draw(p, vector({0.1, 0.1, 0.3, 0.5}), 30'000, 1.5, rng).probs;
  for (const double half_life : {0.0, 10'000.0}) {
    std::vector<double> weights(30'000);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = half_life > 0.0 ? std::exp2((static_cast<double>(i) - 29'999.0) / half_life) : 1.0;
    for (const std::string name : {"bbse", "bbse-soft", "rlls"}) {
      IncrementalEstimator estimator(summary, {}, {.estimator = name, .half_life = half_life});
      feed(estimator, f, 777);
      const IncrementalState state = estimator.current();
      const RatioEstimate batch = make_estimator(find_estimator(name))->estimate(summary, {f, weights});
      EXPECT_LE((state.estimate.ratio - batch.ratio).cwiseAbs().maxCoeff(), 1e-9) << name;
      EXPECT_NEAR(state.estimate.mean_log_likelihood, batch.mean_log_likelihood, 0.05);  // of 8192 rows
      EXPECT_EQ(state.estimate.stopped_by, batch.stopped_by);
      EXPECT_NEAR(state.effective_rows, effective_rows(weights, 30'000), 1e-6);
    }
  }
}

TEST(Incremental, HasTheBatchIntervalsForTheBbseFamilyAlsoOfAbsentClasses) {
  Rng rng(21);
  const VectorXd p = vector({0.4, 0.3, 0.2, 0.1});
  const Draws source = draw(p, p, 3000, 1.5, rng);
  const VectorXd prior = label_prior(source.labels, {}, 4);
  const SourceSummary summary = summarise_source({source.probs, source.labels, {}}, prior);
  MatrixXd f = draw(p, vector({0.6, 0.0, 0.4, 0.0}), 2000, 1.5, rng).probs;
  f *= 1.0008;  // rows need to sum to 1 within 0.001 only
  LabelShiftProblem problem{.target = {f}};
  problem.source = SourceExamples{{source.probs}, source.labels, {}};
  int absent = 0;
  for (const std::string name : {"bbse", "bbse-soft"}) {
    LabelShiftOptions options;
    options.estimator = name;
    options.calibration = "none";
    const LabelShiftResult batch = analyse_label_shift(problem, options);
    IncrementalEstimator estimator(summary, {}, {.estimator = name});
    feed(estimator, f, 333);
    const IncrementalState state = estimator.current();
    EXPECT_LE((state.target_prior - batch.target_prior).cwiseAbs().maxCoeff(), 1e-12) << name;
    absent += static_cast<int>((batch.target_prior.array() == 0.0).count());
    // Draws of f vary less than draws of labels from it, so the intervals of the soft one are an upper bound here.
    if (name == "bbse-soft") continue;
    const VectorXd width = batch.intervals.prior_high - batch.intervals.prior_low;
    EXPECT_LE((state.intervals.prior_low - batch.intervals.prior_low).cwiseQuotient(width).cwiseAbs().maxCoeff(), 1e-3);
    EXPECT_LE((state.intervals.prior_high - batch.intervals.prior_high).cwiseQuotient(width).cwiseAbs().maxCoeff(),
              1e-3);
  }
  EXPECT_GT(absent, 0);
}

TEST(Incremental, HasTheBatchIntervalsForTheLikelihood) {
  Rng rng(22);
  const VectorXd p = vector({0.5, 0.3, 0.2});
  const Draws source = draw(p, p, 600, 1.5, rng);
  const VectorXd prior = label_prior(source.labels, {}, 3);
  const SourceSummary summary = summarise_source({source.probs, source.labels, {}}, prior);
  const MatrixXd f = draw(p, vector({0.1, 0.3, 0.6}), 2000, 1.5, rng).probs;
  LabelShiftProblem problem{.target = {f}};
  problem.source = SourceExamples{{source.probs}, source.labels, {}};
  for (const bool estimated : {true, false}) {
    if (!estimated) problem.source_prior = prior;
    LabelShiftOptions options;
    options.calibration = "none";
    const LabelShiftResult batch = analyse_label_shift(problem, options);
    IncrementalEstimator estimator(summary, {}, {.prior_is_estimated = estimated});
    feed(estimator, f, 333);
    const Intervals found = estimator.current().intervals;
    // Upwards the batch takes the noise of the source to grow with the share and this does not, so of the batch only
    // the lower end is used: with (low - q)^2 = z^2 (fixed + low (1 - low) / n) it tells the variance, and that the
    // upper.
    const auto expect_end = [&](double q, double low, double found_low, double found_high) {
      constexpr double z = 1.959964, n = 2000.0;
      const double fixed = std::pow((low - q) / z, 2) - low * (1.0 - low) / n;
      const double high = wilson_interval(q, fixed + q * (1.0 - q) / n, 0.0, n, z).high;
      // Both solve Eq. (3) to a gap of 1e-9, which is 1e-3 standard errors at 2000 rows.
      EXPECT_NEAR(found_low, low, 1e-3 * (high - low)) << estimated;
      EXPECT_NEAR(found_high, high, 1e-3 * (high - low)) << estimated;
    };
    for (Index c = 0; c < 3; ++c) {
      const double q = batch.target_prior[c];
      expect_end(q, batch.intervals.prior_low[c], found.prior_low[c], found.prior_high[c]);
      expect_end(q, prior[c] * batch.intervals.ratio_low[c], prior[c] * found.ratio_low[c],
                 prior[c] * found.ratio_high[c]);
    }
    EXPECT_GT((found.ratio_high - found.prior_high.cwiseQuotient(prior)).cwiseAbs().minCoeff(),
              estimated ? 1e-3 : -1.0);
  }
}

TEST(Incremental, HasWiderIntervalsTheFewerExamplesThePriorIsFromUnlessItIsKnown) {
  Rng rng(23);
  const VectorXd p = vector({0.5, 0.3, 0.2});
  const MatrixXd f = draw(p, p, 500, 1.5, rng).probs;
  const auto widths = [&](double examples, bool estimated) -> VectorXd {
    SourceSummary source = known(p);
    source.examples = examples;
    IncrementalEstimator estimator(source, {}, {.prior_is_estimated = estimated});
    estimator.add(f);
    const Intervals found = estimator.current().intervals;
    VectorXd both(6);
    both << found.prior_high - found.prior_low, found.ratio_high - found.ratio_low;
    return both;
  };
  VectorXd narrower = widths(0.0, true);  // 0 examples: nothing is said of how the prior was found
  EXPECT_EQ(narrower, widths(100.0, false));
  for (const double examples : {1e6, 1e3, 1e2, 1e1, 1.0}) {
    const VectorXd wider = widths(examples, true);
    EXPECT_TRUE((wider.array() >= narrower.array()).all()) << examples << ": " << wider.transpose();
    EXPECT_GT(wider.sum(), narrower.sum()) << examples;  // of one example, where some are as wide as can be, too
    narrower = wider;
  }
}

TEST(Incremental, HasIntervalsThatHoldTheEstimate) {
  // All rows are certain of class 0: its share is 1, and the end of its interval is 1 up to rounding.
  const VectorXd p = vector({0.3, 0.3, 0.4});
  SourceSummary source = known(p);
  source.confusion = source.soft_confusion = MatrixXd(p.asDiagonal());
  for (const double examples : {0.0, 70.0}) {
    source.examples = examples;
    for (const std::string name : {"mlls-sqp", "bbse", "bbse-soft"}) {
      IncrementalEstimator estimator(source, {}, {.estimator = name});
      for (int rows = 1; rows <= 60; ++rows) {
        estimator.add(MatrixXd(Eigen::RowVector3d(1.0, 0.0, 0.0)));
        const IncrementalState state = estimator.current();
        const Intervals& ends = state.intervals;
        EXPECT_NEAR(state.target_prior[0], 1.0, 1e-6);
        EXPECT_TRUE((ends.prior_low.array() <= state.target_prior.array()).all()) << name << rows;
        EXPECT_TRUE((ends.prior_high.array() >= state.target_prior.array()).all()) << name << rows;
        EXPECT_TRUE((ends.ratio_low.array() <= state.estimate.ratio.array()).all()) << name << rows;
        EXPECT_TRUE((ends.ratio_high.array() >= state.estimate.ratio.array()).all()) << name << rows;
      }
    }
  }
}

TEST(Incremental, HoldsABoundedNumberOfRows) {
  Rng rng(8);
  const VectorXd p = vector({0.5, 0.5});
  const MatrixXd f = draw(p, p, 10'000, 1.0, rng).probs;
  IncrementalEstimator estimator(known(p), {}, {});
  EXPECT_EQ(estimator.max_rows_held(), 8192);
  Index most = 0;
  for (int i = 0; i < 10; ++i) {
    feed(estimator, f, 501);
    most = std::max(most, estimator.rows_held());
  }
  EXPECT_GT(most, 4096);
  EXPECT_LE(most, 8192);
  EXPECT_EQ(estimator.rows(), 100'000.0);
  EXPECT_EQ(IncrementalEstimator(known(VectorXd::Constant(1000, 1e-3)), {}, {}).max_rows_held(), 16'000);
}

TEST(Incremental, ForgetsTheOldMixAndFollowsTheWeightedBatchAnswer) {
  Rng rng(9);
  const VectorXd p = vector({0.4, 0.3, 0.3});
  const VectorXd after = vector({0.1, 0.2, 0.7});
  MatrixXd f(50'000, 3);
  f << draw(p, vector({0.7, 0.2, 0.1}), 20'000, 1.5, rng).probs, draw(p, after, 30'000, 1.5, rng).probs;
  const double half_life = 5000.0;
  std::vector<double> weights(50'000);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = std::exp2((static_cast<double>(i) - 49'999.0) / half_life);
  IncrementalEstimator estimator(known(p), {}, {.half_life = half_life});
  feed(estimator, f, 1000);
  const IncrementalState state = estimator.current();
  // The sum of w is h / log 2, that of w^2 half of it, so Kish has 2 h / log 2 rows.
  EXPECT_NEAR(state.effective_rows, 2.0 * half_life / std::log(2.0), 60.0);
  // Half of the stream was folded before the change, far from where it ended, but weighs 2^-6.
  EXPECT_LE(standard_errors_apart(state, batch_prior(p, f, weights)), 0.5);
  // What is left of the old mix moves q by 0.6 / 64 = 0.01, and a standard error is below 0.01.
  EXPECT_LE((state.target_prior - after).cwiseAbs().maxCoeff(), 0.04);
}

TEST(Incremental, WorksWithAHalfLifeOfAFewRows) {
  const VectorXd p = vector({0.5, 0.5});
  IncrementalEstimator estimator(known(p), {}, {.half_life = 2.0});
  MatrixXd first(20'000, 2), second(40, 2);
  first.rowwise() = Eigen::RowVector2d(0.99, 0.01);
  second.rowwise() = Eigen::RowVector2d(0.01, 0.99);
  feed(estimator, first, 1000);
  EXPECT_NEAR(estimator.current().target_prior[0], 1.0, 1e-6);
  feed(estimator, second, 1);
  EXPECT_NEAR(estimator.current().target_prior[1], 1.0, 1e-4);
}

TEST(Incremental, FindsAClassThatWasAbsentAtFirst) {
  Rng rng(10);
  const VectorXd p = vector({0.4, 0.3, 0.3});
  MatrixXd f(40'000, 3);
  f << draw(p, vector({0.6, 0.4, 0.0}), 30'000, 2.0, rng).probs,
      draw(p, vector({0.3, 0.2, 0.5}), 10'000, 2.0, rng).probs;
  IncrementalEstimator estimator(known(p), {}, {});
  feed(estimator, f.topRows(30'000), 1000);
  const IncrementalState before = estimator.current();
  EXPECT_LE(before.target_prior[2], 0.005);  // two standard errors, generously
  EXPECT_EQ(before.intervals.prior_low[2], 0.0);
  EXPECT_LE(before.intervals.prior_high[2], 0.01);
  feed(estimator, f.bottomRows(10'000), 1000);
  // Not a random order, so only as good as the sample: 2 standard errors of 0.003.
  EXPECT_LE((estimator.current().target_prior - batch_prior(p, f)).cwiseAbs().maxCoeff(), 0.01);
}

TEST(Incremental, IsOnlyAsGoodAsItsSampleIfRowsComeSortedByClass) {
  Rng rng(11);
  const VectorXd p = vector({0.4, 0.3, 0.3});
  const Draws draws = draw(p, vector({0.2, 0.3, 0.5}), 100'000, 2.0, rng);
  std::vector<Index> order(100'000);
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    return draws.labels[static_cast<std::size_t>(a)] < draws.labels[static_cast<std::size_t>(b)];
  });
  const MatrixXd f = draws.probs(order, Eigen::all);
  IncrementalEstimator estimator(known(p), {}, {});
  feed(estimator, f, 1000);
  // A sample of 4096 rows has standard errors of about 0.01.
  EXPECT_LE((estimator.current().target_prior - batch_prior(p, f)).cwiseAbs().maxCoeff(), 0.03);
}

TEST(Incremental, CoversTheTrueMixAsOftenAsItsLevelSays) {
  const VectorXd p = vector({0.5, 0.3, 0.2});
  const VectorXd q = vector({0.2, 0.3, 0.5});
  for (const std::string name : {"mlls-sqp", "bbse", "bbse-soft"}) {
    int covered = 0;
    for (std::uint64_t trial = 0; trial < 300; ++trial) {
      Rng rng(trial, 12);
      // f has the true prior in it, so its estimate is noise that the intervals must allow for.
      const Draws source = draw(p, p, 400, 1.5, rng);
      const VectorXd estimated = label_prior(source.labels, {}, 3);
      IncrementalEstimator estimator(summarise_source({source.probs, source.labels, {}}, estimated), {},
                                     {.estimator = name, .level = 0.9});
      estimator.add(draw(p, q, 400, 1.5, rng).probs);
      const Intervals intervals = estimator.current().intervals;
      for (Index c = 0; c < 3; ++c) covered += intervals.prior_low[c] <= q[c] && q[c] <= intervals.prior_high[c];
    }
    // 900 intervals of level 0.9, dependent within a trial: a standard error of at most sqrt(0.09 / 300) = 0.017.
    EXPECT_GE(covered / 900.0, 0.86) << name;
    EXPECT_LE(covered / 900.0, name == "bbse-soft" ? 0.98 : 0.94) << name;  // which has an upper bound for its noise
  }
}

TEST(Incremental, RaisesTheAlarmAfterAShiftAndRarelyBefore) {
  const VectorXd p = vector({0.5, 0.3, 0.2});
  int alarms = 0;
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    Rng rng(trial, 13);
    Moments source;
    source.add(draw(p, p, 500, 1.5, rng).probs);
    IncrementalEstimator estimator(known(p), source, {});
    feed(estimator, draw(p, p, 500, 1.5, rng).probs, 50);
    alarms += estimator.current().shift_test.p_value < 0.2;
    if (trial > 0) continue;
    // Of the 3500 rows 6/7 have shares 0.3 off, and f shows about half of that: 0.13, with a standard deviation of 0.35
    // a row and sqrt(1/500 + 1/3500) of that for the difference of means, 0.017. So T^2 is about 60, p below 1e-10.
    feed(estimator, draw(p, vector({0.2, 0.3, 0.5}), 3000, 1.5, rng).probs, 50);
    EXPECT_LT(estimator.current().shift_test.p_value, 1e-6);
  }
  // 200 trials of probability 0.2: 40 with a standard error of 5.7.
  EXPECT_GE(alarms, 23);
  EXPECT_LE(alarms, 57);
}

TEST(Incremental, TestsTheRowsBeforeCalibration) {
  Rng rng(15);
  const VectorXd p = vector({0.5, 0.3, 0.2});
  constexpr double kHalfLife = 4000.0;
  const MatrixXd raw = draw(p, vector({0.4, 0.3, 0.3}), 10'000, 1.5, rng).probs;  // folds twice
  MatrixXd calibrated = raw.cwiseSqrt();
  calibrated.array().colwise() /= calibrated.rowwise().sum().eval().array();
  const auto labelled = draw(p, p, 1000, 1.5, rng);
  const SourceSample sample{labelled.probs, labelled.labels, {}};
  Moments source;
  source.add(labelled.probs);
  IncrementalEstimator estimator(known(p), source, {.half_life = kHalfLife}, LabelShiftFitTest(sample));
  for (Index i = 0; i < raw.rows(); i += 500)
    estimator.add(Probabilities(calibrated).middle_rows(i, 500), Probabilities(raw).middle_rows(i, 500));
  std::vector<double> weights(10'000);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = std::exp2((static_cast<double>(i) - 9999.0) / kHalfLife);
  Moments target;
  target.add(raw, weights);
  const double expected = no_shift_test(source, target).statistic;
  EXPECT_NEAR(estimator.current().shift_test.statistic, expected, 1e-9 * expected);
  const double expected_fit = label_shift_fit_test(sample, {raw, weights})->statistic;
  ASSERT_TRUE(estimator.current().fit_test);
  EXPECT_NEAR(estimator.current().fit_test->statistic, expected_fit, 1e-9 * expected_fit);
  expect_error([&] { estimator.add(calibrated, Probabilities(raw).middle_rows(0, 3)); }, ErrorKind::kInput,
               "found 3 rows before and 10000 after calibration, expected as many");
}

TEST(Incremental, RefusesBadRowsAndKeepsItsState) {
  Rng rng(14);
  const VectorXd p = vector({0.5, 0.5});
  MatrixXd f = draw(p, p, 100, 1.0, rng).probs;
  IncrementalEstimator estimator(known(p), {}, {});
  expect_error([&] { estimator.current(); }, ErrorKind::kInput, "no target rows yet");
  estimator.add(f);
  const VectorXd before = estimator.current().target_prior;
  f(57, 1) = 0.9;
  f(57, 0) = 0.9;
  expect_error([&] { estimator.add(f); }, ErrorKind::kInput, "row 58: probabilities sum to 1.8");
  expect_error([&] { estimator.add(MatrixXd(MatrixXd::Constant(4, 4, 0.25))); }, ErrorKind::kInput,
               "found rows with 4 columns, expected 2");
  EXPECT_EQ(estimator.rows(), 100.0);
  EXPECT_EQ(estimator.current().target_prior, before);
}

TEST(Incremental, RefusesOptionsItCannotWorkWith) {
  const VectorXd p = vector({0.5, 0.5});
  const auto with = [&](IncrementalOptions options) {
    return [&p, options] { IncrementalEstimator(known(p), {}, options); };
  };
  expect_error(with({.estimator = "mlls-l1"}), ErrorKind::kUsage, "its penalty fades as rows come in; use mlls-sqp");
  for (const char* same : {"mlls-em", "mlls-cg", "mlls-sgd"})
    expect_error(with({.estimator = same}), ErrorKind::kUsage,
                 "it differs from mlls-sqp only in how it searches; use mlls-sqp");
  expect_error(with({.estimator = "mlls_em"}), ErrorKind::kUsage, "did you mean \"mlls-em\"");
  Settings misspelt;
  misspelt.set("tolerence", "1");
  expect_error(with({.settings = misspelt}), ErrorKind::kUsage, "tolerence");
  expect_error(with({.half_life = -1.0}), ErrorKind::kUsage, "half-life: found -1");
  expect_error(with({.level = 1.0}), ErrorKind::kUsage, "level: found 1");
  expect_error(with({.estimator = "bbse"}), ErrorKind::kInput, "confusion matrix");
  expect_error([&] { IncrementalEstimator(known(vector({1.0, 0.0})), {}, {}); }, ErrorKind::kInput, "source prior");
}

}  // namespace
}  // namespace labelshift
