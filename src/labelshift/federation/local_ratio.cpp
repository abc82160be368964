#include "labelshift/federation/local_ratio.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/inference/intervals.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/methods.hpp"
#include "labelshift/learning/model_selection.hpp"
#include "labelshift/learning/trainer.hpp"

namespace labelshift {
namespace {

constexpr double kLevel = 0.95;

std::vector<Index> present_classes(const Eigen::VectorXd& prior) {
  std::vector<Index> present;
  for (Index c = 0; c < prior.size(); ++c)
    if (prior[c] > 0.0) present.push_back(c);
  return present;
}

/// Columns of the classes a node holds: the softmax over them is f(x) given that the class is one of them.
RowMajorMatrix<float> columns_of(const RowMajorMatrix<float>& logits, std::span<const Index> classes) {
  RowMajorMatrix<float> part(logits.rows(), static_cast<Index>(classes.size()));
  for (std::size_t c = 0; c < classes.size(); ++c) part.col(static_cast<Index>(c)) = logits.col(classes[c]);
  return part;
}

Eigen::VectorXd entries_of(const Eigen::VectorXd& values, std::span<const Index> classes) {
  Eigen::VectorXd part(static_cast<Index>(classes.size()));
  for (std::size_t c = 0; c < classes.size(); ++c) part[static_cast<Index>(c)] = values[classes[c]];
  return part;
}

/// The labels of `rows`, numbered among `classes`.
std::vector<int> labels_among(const Dataset& data, std::span<const Index> rows, std::span<const Index> classes) {
  std::vector<int> number(static_cast<std::size_t>(data.classes()), -1);
  for (std::size_t c = 0; c < classes.size(); ++c) number[classes[c]] = static_cast<int>(c);
  std::vector<int> labels;
  for (const int label : labels_of(data, rows)) labels.push_back(number[label]);
  return labels;
}

/// What a net says of a node's target among the classes that the node holds, two of them or more.
struct Seen {
  RowMajorMatrix<float> logits;  // (n, held)
  CalibratedTarget target;

  Scores scores() const { return {logits, /*logits=*/true}; }
};

Seen see(Net& net, std::span<const Index> present, const SourceFit& fit, const std::string& estimator,
         const Dataset& target, std::span<const Index> rows) {
  const EstimatorEntry& entry = find_estimator(estimator);
  if (entry.family != EstimatorFamily::kLikelihood && !fit.summary.confusion)
    throw Error(ErrorKind::kInput,
                fmt::format("{} needs source examples that the predictor was not trained on, and this node has too few "
                            "to hold any out; use a likelihood method such as vrls",
                            estimator));
  Seen seen{.logits = columns_of(evaluate_logits(net, target, rows), present)};
  std::vector<std::string> names;
  for (const Index c : present) names.push_back(target.class_names[static_cast<std::size_t>(c)]);
  seen.target =
      with_class_names(names, [&] { return calibrate_and_estimate(fit, *make_estimator(entry), seen.scores(), {}); });
  return seen;
}

/// (m) of (held): a class that the node does not hold has 0.
Eigen::VectorXd scattered(const Eigen::VectorXd& values, std::span<const Index> present, Index classes) {
  Eigen::VectorXd all = Eigen::VectorXd::Zero(classes);
  for (std::size_t c = 0; c < present.size(); ++c) all[present[c]] = values[static_cast<Index>(c)];
  return all;
}

}  // namespace

PredictorRows predictor_rows(const Dataset& data, std::span<const Index> rows, const RatioSettings& settings,
                             std::uint64_t seed) {
  PredictorRows result{.train = {rows.begin(), rows.end()}};
  if (settings.fraction < 1.0)
    result.train = stratified_part(data.labels, rows, data.classes(), Fraction{settings.fraction}, seed);
  if (!settings.refreshed() && !find_method(settings.method).needs_held_out()) return result;
  HoldOut split = hold_out_repeated(data.labels, result.train, data.classes(), Fraction{settings.held_out}, seed);
  result.train = std::move(split.kept);
  result.held_out = std::move(split.held_out);
  return result;
}

LocalPredictor train_local_predictor(const RatioSettings& settings, const NetSpec& spec, const Dataset& data,
                                     std::span<const Index> rows, std::uint64_t seed, Device device,
                                     const std::atomic<bool>& cancelled) {
  PredictorRows part = predictor_rows(data, rows, settings, seed);
  LocalPredictor result{.net = make_net(spec, seed, device),
                        .source_prior = empirical_prior(class_counts(data.labels, part.train, data.classes()))};
  const std::vector<Index> present = present_classes(result.source_prior);
  result.fit = known_fit(Calibration::identity(std::ssize(present)), result.source_prior);
  TrainingSettings training{.epochs = settings.epochs,
                            .stop_below = settings.stop_below,
                            .adam = {.learning_rate = settings.learning_rate, .weight_decay = settings.weight_decay},
                            .seed = seed};
  const TrainingExamples examples{data, part.train, {}};
  const Method& method = find_method(settings.method);
  const Observer go_on = [&](std::string_view, double) { return !cancelled.load(); };
  if (method.chooses()) {
    std::vector<std::string> missing;
    for (Index c = 0; c < data.classes(); ++c)
      if (result.source_prior[c] == 0.0) missing.push_back(data.class_names[static_cast<std::size_t>(c)]);
    if (!missing.empty())
      throw Error(ErrorKind::kInput,
                  fmt::format("method auto judges predictors by examples of every class, and there is none of {}; use "
                              "another method, or the federated predictor",
                              fmt::join(missing, ", ")));
    const Selection selection = choose_predictor(*result.net, examples, part.held_out, training, {}, go_on);
    result.fit.calibration = selection.calibration.calibration;
    result.fit.kind = find_calibration(selection.best().calibration).kind;
    result.held_out = evaluate_logits(*result.net, data, part.held_out);
    result.held_out_labels = labels_of(data, part.held_out);
    return result;
  }
  if (present.size() == 1) return result;  // there is nothing to tell apart
  training.zeta = *method.zeta;
  train_predictor(*result.net, examples, training, {.progress = go_on});
  if (part.held_out.empty()) return result;
  result.held_out = columns_of(evaluate_logits(*result.net, data, part.held_out), present);
  result.held_out_labels = labels_among(data, part.held_out, present);
  result.fit =
      fit_source(find_calibration(method.calibration).kind,
                 {{result.held_out, /*logits=*/true}, result.held_out_labels, {}}, result.fit.summary.label_prior);
  return result;
}

Error naming_classes(const Error& error, std::span<const std::string> names) {
  return error.reworded(fmt::format("{} (its classes, from 0: {})", error.what(), fmt::join(names, ", ")));
}

SourceFit known_fit(const Calibration& calibration, const Eigen::VectorXd& source_prior) {
  return {calibration, {.label_prior = entries_of(source_prior, present_classes(source_prior))}};
}

Eigen::VectorXd estimate_target_prior(Net& net, const Eigen::VectorXd& source_prior, const SourceFit& fit,
                                      const std::string& estimator, const Dataset& target,
                                      std::span<const Index> rows) {
  const std::vector<Index> present = present_classes(source_prior);
  const Index m = source_prior.size();
  if (rows.empty()) return Eigen::VectorXd::Zero(m);  // a node without test data has no target
  if (present.size() == 1) return Eigen::VectorXd::Unit(m, present.front());
  const Seen seen = see(net, present, fit, estimator, target, rows);
  return scattered(fit.summary.label_prior.cwiseProduct(seen.target.estimate.ratio), present, m);
}

LocalEstimate estimate_locally(const LocalPredictor& predictor, const std::string& estimator, const Dataset& target,
                               std::span<const Index> rows) {
  const SourceFit& fit = predictor.fit;
  const Index m = predictor.source_prior.size();
  const std::vector<Index> present = present_classes(predictor.source_prior);
  if (rows.empty() || std::ssize(present) < m || predictor.held_out_labels.empty() ||
      !unseen_classes(predictor.held_out_labels, {}, m).empty())
    return {.prior = estimate_target_prior(*predictor.net, predictor.source_prior, fit, estimator, target, rows)};
  const Seen seen = see(*predictor.net, present, fit, estimator, target, rows);
  const SourceExamples held_out{{predictor.held_out, /*logits=*/true}, predictor.held_out_labels, {}};
  const CalibratedProbabilities calibrated = calibrated_view(fit.calibration, held_out.scores);
  const SourceNoise noise{.examples = held_out,
                          .probs = calibrated.view(),
                          .fit = {.calibration = fit.calibration, .kind = fit.kind, .strength = kMatrixStrength},
                          .prior_is_estimated = false};
  const Intervals intervals =
      asymptotic_intervals(find_estimator(estimator).family, fit.summary, {seen.target.probs.view(), {}}, seen.scores(),
                           seen.target.estimate, noise, kLevel);
  return {.prior = fit.summary.label_prior.cwiseProduct(seen.target.estimate.ratio),
          .low = intervals.prior_low.cwiseMax(0.0),
          .high = intervals.prior_high.cwiseMin(1.0)};
}

}  // namespace labelshift
