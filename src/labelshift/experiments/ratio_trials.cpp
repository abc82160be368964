#include "labelshift/experiments/ratio_trials.hpp"

#include <algorithm>
#include <tuple>

#include "labelshift/core/calibration/source_fit.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/data/datasets/shifts.hpp"
#include "labelshift/experiments/streams.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {

Rng trial_rng(std::uint64_t seed, std::uint64_t stream, int predictor, int trial) {
  const auto which = (static_cast<std::uint64_t>(predictor) << 20) + static_cast<std::uint64_t>(trial);
  return Rng(seed, kTrialStreams ^ ((stream << 32) + which));
}

std::vector<PredictorKey> predictors_of(const RatioPanel& panel) {
  std::vector<Zeta> zetas;
  for (const std::string& method : panel.methods) {
    const Zeta zeta = find_method(method).zeta;
    if (std::find(zetas.begin(), zetas.end(), zeta) == zetas.end()) zetas.push_back(zeta);
  }
  std::vector<PredictorKey> keys;
  for (int number = 0; number < panel.predictors; ++number)
    for (const Zeta& zeta : zetas) keys.push_back({.recipe = panel.recipe, .zeta = zeta, .number = number});
  return keys;
}

PanelMethods::PanelMethods(const RatioPanel& panel, PredictorStore& store) : predictors_(panel.predictors) {
  const Dataset& test = store.data(panel.recipe.data).parts.test;
  by_class_ = rows_by_class(test.labels, all_rows(test.size()), test.classes());
  std::vector<labelshift::Method> parts;
  for (const std::string& method : panel.methods) parts.push_back(find_method(method));

  for (const PredictorKey& key : predictors_of(panel)) {
    const Predictions said = store.predictions(key, panel.augmentation);
    quality_.push_back({key.zeta, key.number, said.accuracy, said.calibration_error});
    std::vector<CalibratedRows>& known = predictors_[key.number];
    for (const labelshift::Method& part : parts) {
      const auto same = [&](const CalibratedRows& p) {
        return p.zeta == part.zeta && p.calibration == part.calibration;
      };
      if (part.zeta != key.zeta || std::any_of(known.begin(), known.end(), same)) continue;
      const SourceExamples held_out{{said.held_out, /*logits=*/true}, said.held_out_labels, {}};
      SourceFit fit = said.chosen ? summarise_with(*said.chosen, held_out, said.source_prior)
                                  : fit_source(find_calibration(part.calibration).kind, held_out, said.source_prior);
      known.push_back({part.zeta, part.calibration,
                       std::get<RowMajorMatrix<float>>(apply_calibration(fit.calibration, {said.test, true}).values),
                       std::move(fit.summary)});
    }
  }
  for (const labelshift::Method& part : parts) {
    const std::vector<CalibratedRows>& known = predictors_.front();
    const auto at = std::find_if(known.begin(), known.end(), [&](const CalibratedRows& p) {
      return p.zeta == part.zeta && p.calibration == part.calibration;
    });
    methods_.push_back({static_cast<std::size_t>(at - known.begin()), make_estimator(find_estimator(part.estimator))});
  }
}

std::vector<TrialRow> PanelMethods::run(double alpha, Index size, int trials, std::uint64_t seed, std::uint64_t stream,
                                        const Observer& observer) const {
  std::vector<TrialRow> rows;
  const double all = static_cast<double>(predictors_.size()) * trials;
  const auto classes = static_cast<Index>(by_class_.size());
  RowMajorMatrix<float> drawn(size, classes);
  for (int predictor = 0; predictor < static_cast<int>(predictors_.size()); ++predictor) {
    const std::vector<CalibratedRows>& said = predictors_[predictor];
    for (int trial = 0; trial < trials; ++trial) {
      tell(observer, "trials", (predictor * trials + trial) / all);
      Rng rng = trial_rng(seed, stream, predictor, trial);
      const Eigen::VectorXd prior = dirichlet_prior(classes, alpha, rng);
      const ShiftedSample sample = draw_shifted(by_class_, prior, said.front().source.label_prior, size, rng);
      for (std::size_t which = 0; which < said.size(); ++which) {
        for (Index i = 0; i < size; ++i) drawn.row(i) = said[which].test.row(sample.rows[i]);
        for (int method = 0; method < static_cast<int>(methods_.size()); ++method) {
          if (methods_[method].rows != which) continue;
          const RatioEstimate estimate =
              methods_[method].estimator->estimate(said[which].source, {.probs = Probabilities::known(drawn)});
          rows.push_back({method, predictor, trial, (estimate.ratio - sample.ratio).array().square().mean()});
        }
      }
    }
  }
  std::sort(rows.begin(), rows.end(), [](const TrialRow& a, const TrialRow& b) {
    return std::tie(a.method, a.predictor, a.trial) < std::tie(b.method, b.predictor, b.trial);
  });
  return rows;
}

}  // namespace labelshift
