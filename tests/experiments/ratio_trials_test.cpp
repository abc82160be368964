#include "labelshift/experiments/ratio_trials.hpp"

#include <gtest/gtest.h>

#include "labelshift/core/calibration/source_fit.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/data/datasets/shifts.hpp"
#include "labelshift/learning/methods.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

class RatioTrials : public Scratch {};

TEST_F(RatioTrials, HaveTheErrorsOfTheMethodsThemselves) {
  const RatioPanel panel{
      .recipe = {.data = LABELSHIFT_EXAMPLES "/small-fashion-mnist", .net = "logistic", .held_out = 0.25, .epochs = 3},
      .methods = {"bbse", "vrls", "mlls", "auto"},
      .predictors = 2};
  PredictorStore store(path("store"), /*seed=*/5);
  for (const PredictorKey& key : predictors_of(panel)) {
    store.train(key);
    store.predict(key, panel.augmentation);
  }
  const PanelMethods methods(panel, store);
  const std::vector<TrialRow> rows = methods.run(/*alpha=*/1.0, /*size=*/150, /*trials=*/2, /*seed=*/7, /*stream=*/3);
  ASSERT_EQ(rows.size(), 4u * 2 * 2);

  const Dataset& test = store.data(panel.recipe.data).parts.test;
  const auto by_class = rows_by_class(test.labels, all_rows(test.size()), test.classes());
  for (const TrialRow& row : rows) {
    // Once more, from the predictor's own words and by the method's three parts.
    const std::string name = panel.methods[static_cast<std::size_t>(row.method)];
    const Zeta zeta = find_method(name).zeta;
    const Predictions said = store.predictions({panel.recipe, zeta, row.predictor}, panel.augmentation);
    Rng rng = trial_rng(7, 3, row.predictor, row.trial);
    const Eigen::VectorXd prior = dirichlet_prior(test.classes(), 1.0, rng);
    const ShiftedSample sample = draw_shifted(by_class, prior, said.source_prior, 150, rng);
    RowMajorMatrix<float> target(150, test.classes());
    for (Index i = 0; i < 150; ++i) target.row(i) = said.test.row(sample.rows[static_cast<std::size_t>(i)]);
    Eigen::VectorXd counted = Eigen::VectorXd::Zero(test.classes());
    for (const Index drawn : sample.rows) counted[test.labels[static_cast<std::size_t>(drawn)]] += 1.0 / 150.0;
    const Eigen::VectorXd truth = counted.array() / said.source_prior.array();
    if (name == "auto") {
      ASSERT_TRUE(said.chosen);
      EXPECT_GT(row.mse, 0.0);
      EXPECT_LT(row.mse, 1.0);
      continue;
    }
    const RatioEstimate estimate =
        estimate_ratio(fit_source(find_calibration(find_method(name).calibration).kind,
                                  {{said.held_out, /*logits=*/true}, said.held_out_labels, {}}, said.source_prior),
                       *make_estimator(find_estimator(find_method(name).estimator)), {target, /*logits=*/true});
    EXPECT_NEAR(row.mse, (estimate.ratio - truth).squaredNorm() / static_cast<double>(test.classes()), 1e-9) << name;
  }
}

TEST_F(RatioTrials, StopWhenTheyAreTold) {
  const RatioPanel panel{.recipe = {.data = LABELSHIFT_EXAMPLES "/small-fashion-mnist", .net = "logistic", .epochs = 1},
                         .methods = {"mlls"},
                         .predictors = 1};
  PredictorStore store(path("store"), 0);
  const PredictorKey key = predictors_of(panel).front();
  EXPECT_THROW(store.train(key, [](std::string_view, double) { return false; }), Stopped);
  EXPECT_FALSE(store.has(key));
  store.train(key);
  EXPECT_THROW(store.predict(key, "strict", [](std::string_view, double) { return false; }), Stopped);
  EXPECT_FALSE(store.has_predicted(key, "strict"));
  store.predict(key, "strict");
  int calls = 0;
  EXPECT_THROW(
      PanelMethods(panel, store).run(1.0, 100, 10, 0, 0, [&](std::string_view, double) { return ++calls < 4; }),
      Stopped);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace labelshift
