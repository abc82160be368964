#include "labelshift/federation/node_estimates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/core/estimators/shared_prior.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/federation/answer_checks.hpp"
#include "labelshift/federation/mixture_weights.hpp"
#include "labelshift/federation/streams.hpp"
#include "labelshift/federation/together_estimate.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

constexpr double kDoubt = 0.01;   // level of the check of estimates by predicted labels, of all nodes together
constexpr Index kMostFits = 100;  // in one question
constexpr std::uint32_t kLastStep = 63;
constexpr double kNormal = 1.96;  // of a 95 % interval

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// (m) numbers of a peer that are not negative.
void check_numbers(const VectorXd& values, Index classes, const char* what) {
  if (values.size() != classes)
    throw Error(ErrorKind::kPeer,
                fmt::format("a message has {} numbers as {}, expected {}", values.size(), what, classes));
  if ((values.array() < 0.0).any())
    throw Error(ErrorKind::kPeer, fmt::format("a message has a number below 0 as {}", what));
}

void check_prior(const VectorXd& prior, Index classes) {
  check_numbers(prior, classes, "a prior");
  if (!(prior.sum() > 0.0)) throw Error(ErrorKind::kPeer, "a message has a prior of zeros");
}

LocalPredictor local_predictor(NodeContext& node) {
  const FederationSettings& settings = node.settings();
  return train_local_predictor(settings.ratio, node.spec_of(settings.ratio.net), node.train_data(), node.parts().train,
                               node_seed(settings.seed, Stream::kLocalPredictor, node.node()), settings.device,
                               node.call().cancelled);
}

LocalEstimate local_estimate(NodeContext& node, const LocalPredictor& predictor) {
  LocalEstimate found = estimate_locally(predictor, find_method(node.settings().ratio.method).estimator,
                                         node.test_data(), node.parts().estimate);
  node.remember_class_numbers(kEstimateEntry, found.prior);
  if (found.low.size() > 0) {
    node.remember_class_numbers(kLowEntry, found.low);
    node.remember_class_numbers(kHighEntry, found.high);
  }
  return found;
}

std::optional<LocalEstimate> kept_estimate(NodeContext& node) {
  const auto kept = node.class_numbers(kEstimateEntry);
  if (!kept) return std::nullopt;
  const VectorXd none;
  return LocalEstimate{*kept, node.class_numbers(kLowEntry).value_or(none),
                       node.class_numbers(kHighEntry).value_or(none)};
}

/// q_k by the predictor that a request brought.
VectorXd estimate_with(NodeContext& node, const VectorXd& prior, const Calibration& calibration) {
  check_calibration(calibration.scale, calibration.bias);
  node.predictor().take(node.call().request.weights, node.call().serial);
  return estimate_target_prior(node.predictor().net(), prior, known_fit(calibration, prior),
                               find_method(node.settings().ratio.method).estimator, node.test_data(),
                               node.parts().estimate);
}

/// Where to keep what is made by this call. Without refreshes there is nothing to keep apart.
std::string made_entry(const NodeContext& node, const char* name) {
  return entry_of(name, node.settings().ratio.refreshed() ? node.call().request.round : 0);
}

/// The net that a request is about, with the weights that came with it.
Net& asked_net(NodeContext& node, AskedNet which) {
  if (which == AskedNet::kModel) {
    if (!node.settings().ratio.refreshed())
      throw Error(ErrorKind::kPeer,
                  "it was asked what the model says of its examples, and this run refreshes no ratios");
    return node.asked_model();
  }
  SharedNet& predictor = node.predictor();
  predictor.take(node.call().request.weights, node.call().serial);
  return predictor.net();
}

/// What test labels say beside an estimate, and the estimate itself: for a simulation.
EstimateReport::Details details_of(const NodeContext& node, const VectorXd& q) {
  return {.estimate = q, .truth = node.has_truth() ? node.true_target() : VectorXd()};
}

/// The labels of the examples that a net is calibrated on, with those of test examples behind those held out.
std::vector<int> calibration_labels(NodeContext& node) {
  std::vector<int> labels = labels_of(node.train_data(), node.predictor_rows().held_out);
  if (!node.settings().ratio.calibrate_on_test) return labels;
  if (!node.has_truth() && !node.test_rows().empty())
    throw Error(ErrorKind::kUsage,
                "calibrate-on-test needs test labels, and this node has none; leave calibrate-on-test out");
  const std::vector<int> more = labels_of(node.test_data(), node.test_rows());
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

/// What the net says of these examples.
HeldOutScores calibration_scores(NodeContext& node, Net& net) {
  HeldOutScores scores{log_scores_of(net, node.train_data(), node.predictor_rows().held_out)};
  if (!node.settings().ratio.calibrate_on_test) return scores;
  const std::vector<float> more = log_scores_of(net, node.test_data(), node.test_rows());
  scores.values.insert(scores.values.end(), more.begin(), more.end());
  return scores;
}

std::vector<Index> folds_of(const NodeContext& node, std::span<const int> labels) {
  return pooled_folds(labels, node.classes(), node_seed(node.settings().seed, Stream::kFolds, node.node()));
}

/// What was kept for calibrations and priors that have been found.
void forget_searches(NodeContext& node) {
  for (const char* entry : {kHeldOutEntry, kTargetRowsEntry}) node.memory().erase(entry);
}

/// What TargetTogether left.
TargetRows target_rows(NodeContext& node) {
  const auto kept = recall<TargetRows>(node.memory(), kTargetRowsEntry);
  if (!kept || std::ssize(kept->likelihoods) != std::ssize(node.parts().estimate) * node.classes())
    throw Error(ErrorKind::kPeer, "it was asked about a prior of all mixes before it was asked for its own");
  return *kept;
}

std::uint64_t prior_seed(const NodeContext& node, std::uint32_t step) {
  return node_seed(node.settings().seed, Stream::kSharedPrior, node.node(),
                   node.call().request.round * (kLastStep + 1) + step);
}

/// The shapes of what a coordinator says of a calibration.
void check_together(const TargetTogether::Request& request, Index m) {
  const Index p = CalibrationParameters(pooled_kind(m), m).size();
  const auto check_size = [](const VectorXd& values, Index expected, const char* what) {
    if (values.size() != 0 && values.size() != expected)
      throw Error(ErrorKind::kPeer,
                  fmt::format("a message has {} numbers as {}, expected {}", values.size(), what, expected));
  };
  if ((request.prior.array() <= 0.0).any())
    throw Error(ErrorKind::kPeer, "a message has a prior in which a class has no share");
  if (request.scale.size() != m || request.bias.size() != m)
    throw Error(ErrorKind::kPeer, fmt::format("a message has a calibration of {} and {} numbers, expected {}",
                                              request.scale.size(), request.bias.size(), m));
  check_size(request.mixing, m * m, "a mixing matrix");
  check_size(request.covariance, p * p, "a covariance");
  if (request.covariance.size() > 0 && !has_variances(request.covariance.reshaped(p, p)))
    throw Error(ErrorKind::kPeer, "a message has a covariance with a variance below 0");
  for (const auto& [values, size, what] : {std::tuple{&request.examples, m, "numbers of examples"},
                                           {&request.conditional, m * m, "a confusion matrix"},
                                           {&request.conditional_f, m * m, "a soft confusion matrix"}}) {
    check_size(*values, size, what);
    if (values->size() > 0) check_numbers(*values, size, what);
  }
  check_calibration(request.scale, request.bias, request.mixing);
}

}  // namespace

TaskAnswer<Target> answer(NodeContext& node, const Target::Request& request) {
  const Stopwatch watch;
  LocalEstimate found;
  VectorXd& q = found.prior;
  switch (request.kind) {
    case Target::Kind::kTruth:
      if (node.test_data().labels.empty() && !node.test_rows().empty())
        throw Error(ErrorKind::kUsage,
                    "true ratios need test labels, and this node has none; estimate them: method = \"vrls\"");
      q = node.true_target();
      break;
    case Target::Kind::kSource:
      q = node.source_prior(node.model_rows());
      break;
    case Target::Kind::kEstimate:
      found = local_estimate(node, local_predictor(node));
      break;
    case Target::Kind::kKeptEstimate:
      if (auto kept = kept_estimate(node))
        found = std::move(*kept);
      else
        found = local_estimate(node, local_predictor(node));
      break;
  }
  // The truth beside an estimate is for comparison alone.
  if (request.kind != Target::Kind::kTruth || !node.settings().ratio.estimated())
    node.remember_class_numbers(kTargetEntry, q);
  EstimateReport::Details details = details_of(node, q);
  details.low = found.low;
  details.high = found.high;
  return {.sums = {q},
          .report = {.prior_error = node.prior_error(q), .seconds = watch.seconds(), .details = std::move(details)}};
}

TaskAnswer<Share> answer(NodeContext& node, const Share&) {
  const Stopwatch watch;
  const LocalPredictor predictor = local_predictor(node);
  local_estimate(node, predictor);  // whose intervals are for Assess: held-out examples stay here
  const Index m = node.classes();
  Calibration full = Calibration::identity(m);  // a class without examples is left alone
  for (Index c = 0, held = 0; c < m; ++c) {
    if (predictor.source_prior[c] == 0.0) continue;
    full.scale[c] = predictor.fit.calibration.scale[held];
    full.bias[c] = predictor.fit.calibration.bias[held++];
  }
  TaskAnswer<Share> answer;
  answer.report = {.predictor = {predictor.source_prior, full.scale, full.bias},
                   .weights = SharedWeights(*predictor.net, /*batch_norms=*/true)
                                  .gather(predictor.net->parameters(), predictor.net->buffers()),
                   .seconds = watch.seconds()};
  return answer;
}

TaskAnswer<Assess> answer(NodeContext& node, const Assess::Request& request) {
  const Index m = node.classes();
  const SharedPredictor& sent = request.predictor;
  check_prior(sent.prior, m);
  if (sent.scale.size() != m || sent.bias.size() != m)
    throw Error(ErrorKind::kPeer, fmt::format("a message has a calibration of {} and {} numbers, expected {}",
                                              sent.scale.size(), sent.bias.size(), m));
  Calibration calibration = Calibration::identity((sent.prior.array() > 0.0).count());
  for (Index c = 0, i = 0; c < m; ++c) {
    if (sent.prior[c] == 0.0) continue;
    calibration.scale[i] = sent.scale[c];
    calibration.bias[i++] = sent.bias[c];
  }
  const Stopwatch watch;
  const VectorXd q = estimate_with(node, sent.prior, calibration);
  TaskAnswer<Assess> answer{.sums = {q}, .report = {.seconds = watch.seconds()}};
  if (request.whose == node.node()) {
    node.remember_class_numbers(kTargetEntry, q);
    answer.report.prior_error = node.prior_error(q);
    EstimateReport::Details& details = answer.report.details.emplace(details_of(node, q));
    if (auto kept = kept_estimate(node)) {
      details.low = std::move(kept->low);
      details.high = std::move(kept->high);
    }
  }
  return answer;
}

TaskAnswer<Ratio> answer(NodeContext& node, const Ratio::Request& request, const Ratio::Own& own) {
  const Index m = node.classes();
  check_numbers(own.values, m, "a ratio");
  VectorXd weights = own.values;
  const bool balance = request.kind == Ratio::Kind::kBalance;
  if (!balance) forget_searches(node);  // also where another node's risk is the goal
  const std::vector<Index>& rows = balance ? node.predictor_rows().train : node.model_rows();
  const VectorXd prior = node.source_prior(rows);
  const std::optional<double> most = node.settings().ratio.max_ratio;
  for (Index c = 0; c < m; ++c) {
    if (request.kind != Ratio::Kind::kRatio) weights[c] = prior[c] > 0.0 ? weights[c] / prior[c] : 0.0;
    if (!balance && most) weights[c] = std::min(weights[c], *most);
  }
  node.remember_class_numbers(balance ? kBalanceEntry : made_entry(node, kRatioEntry), weights);
  TaskAnswer<Ratio> answer;
  Ratio::Details& details = answer.report.details.emplace(Ratio::Details{});
  for (Index c = 0; c < m; ++c)
    if (prior[c] > 0.0) details.largest = std::max(details.largest, weights[c]);
  const double mean = prior.dot(weights);
  const double square = prior.dot(weights.cwiseAbs2());
  details.examples = std::ssize(rows);
  if (square > 0.0) details.effective_examples = static_cast<double>(details.examples) * mean * mean / square;
  answer.sums.examples = static_cast<double>(details.examples) / Join::kCountUnit;
  answer.sums.effective_examples = details.effective_examples / Join::kCountUnit;
  return answer;
}

TaskAnswer<TrainPredictor> answer(NodeContext& node, const TrainPredictor::Request& request) {
  const FederationSettings& settings = node.settings();
  const NodeCall& call = node.call();
  SharedNet& predictor = node.predictor();
  Net& net = predictor.net();
  predictor.take(call.request.weights, call.serial);
  if (!net.buffers().empty()) predictor.changed();
  const std::vector<float> weights = node.class_weights(kBalanceEntry);
  const LocalUpdate local = local_training(
      net, {node.train_data(), node.predictor_rows().train, weights, request.zeta, {}}, {.batch = settings.local.batch},
      node_seed(settings.seed, Stream::kPredictorRounds, node.node(), call.request.round), call.cancelled);
  // Classes are balanced for nodes that count the same, so a node's weight is 1.
  TaskAnswer<TrainPredictor> answer;
  answer.sums = {.weight = 1.0,
                 .loss = local.loss,
                 .parts = net.buffers().empty() ? net.take_gradient()
                                                : predictor.shared().gather(local.update(net), net.buffers())};
  check_own_training(answer.sums);
  return answer;
}

TaskAnswer<HeldOut> answer(NodeContext& node, const HeldOut::Request& request) {
  const Index m = node.classes();
  TaskAnswer<HeldOut> answer;
  HeldOut::HeldOutSums& sums = answer.sums;
  sums.of_fold = VectorXd::Zero(m * kPooledFolds);
  sums.predicted = sums.soft = VectorXd::Zero(m * m);
  const std::vector<int> labels = calibration_labels(node);
  HeldOutScores scores = calibration_scores(node, asked_net(node, request.net));
  const std::vector<Index> folds = folds_of(node, labels);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = scores.row(static_cast<Index>(i), m);
    Index top = 0;
    row.maxCoeff(&top);
    sums.of_fold[folds[i] * m + labels[i]] += 1.0 / Join::kCountUnit;
    sums.predicted[labels[i] * m + top] += 1.0 / Join::kCountUnit;
    sums.soft.segment(labels[i] * m, m) += row.cast<double>().array().exp().matrix() / Join::kCountUnit;
  }
  remember(node.memory(), kHeldOutEntry, scores);
  return answer;
}

TaskAnswer<Calibrate> answer(NodeContext& node, const Calibrate::Request& request) {
  const Index m = node.classes();
  const auto fits = std::ssize(request.left_out);
  const Index parameters = CalibrationParameters(pooled_kind(m), m).size();
  check_numbers(request.weights, m * (kPooledFolds + 1), "weights");
  if (fits == 0 || fits > kMostFits || request.parameters.size() != fits * parameters)
    throw Error(ErrorKind::kPeer, fmt::format("a message has {} parameters of {} fits, expected {} of each",
                                              request.parameters.size(), fits, parameters));
  for (const Index fold : request.left_out)
    if (fold > kPooledFolds)
      throw Error(ErrorKind::kPeer, fmt::format("a message leaves out fold {} of {}", fold, kPooledFolds));
  const auto scores = recall<HeldOutScores>(node.memory(), kHeldOutEntry);
  const std::vector<int> labels = calibration_labels(node);
  if (!scores || std::ssize(scores->values) != std::ssize(labels) * m)
    throw Error(ErrorKind::kPeer, "it was asked to calibrate before it was asked for held-out examples");
  PooledQuestion question{.examples = request.examples,
                          .weights = request.weights.reshaped(m, kPooledFolds + 1),
                          .left_out = request.left_out,
                          .parameters = request.parameters.reshaped(parameters, fits),
                          .curvature = request.curvature,
                          .noise = request.noise};
  const PooledSums sums = labels.empty() ? PooledSums::zero(m, question)
                                         : pooled_sums(question, scores->view(m), labels, folds_of(node, labels));
  return {.sums = {.values = sums.values,
                   .held_out = sums.held_out,
                   .gradients = sums.gradients.reshaped(),
                   .curvature = sums.curvature,
                   .noise = sums.noise}};
}

TaskAnswer<TargetTogether> answer(NodeContext& node, const TargetTogether::Request& request) {
  const Stopwatch watch;
  const Index m = node.classes();
  check_prior(request.prior, m);
  check_together(request, m);
  const TogetherEstimate found =
      estimate_together(asked_net(node, request.net), request, find_method(node.settings().ratio.method).estimator,
                        node.test_data(), node.parts().estimate);
  node.remember_class_numbers(made_entry(node, kTargetEntry), found.prior);
  if (node.settings().ratio.shared_prior)
    remember(node.memory(), kTargetRowsEntry, TargetRows{found.likelihoods, found.calibration_variance});
  TaskAnswer<TargetTogether> answer;
  answer.sums.target = found.prior;
  answer.report = {.prior_error = node.prior_error(found.prior), .seconds = watch.seconds()};
  EstimateReport::Details& details = answer.report.details.emplace(details_of(node, found.prior));
  details.low = found.low;
  details.high = found.high;
  if (found.agreement) {
    details.p_value = found.agreement->p_value;
    // At most one run in a hundred has a node that doubts a good estimate.
    const double level = kDoubt / static_cast<double>(std::max<Index>(node.facts().hello.nodes, 1));
    answer.sums.doubtful = found.agreement->p_value < level ? 1.0 : 0.0;
  }
  return answer;
}

TaskAnswer<SharedMix> answer(NodeContext& node, const SharedMix::Request& request) {
  const Index m = node.classes();
  const bool shares = request.kind == SharedMix::Kind::kShares;
  check_numbers(request.values, m, shares ? "a mix" : "alpha");
  const double least = shares ? 0.0 : kLeastAlpha;
  if (!(request.values.array() > 0.0).all() || request.values.minCoeff() < least)
    throw Error(ErrorKind::kPeer,
                fmt::format("a message has {} of {:.6g}, expected {}", shares ? "a share" : "an alpha",
                            request.values.minCoeff(), shares ? "more" : "0.01 or more"));
  const RowMajorMatrix<float> rows = target_rows(node).likelihoods_of(m);
  TaskAnswer<SharedMix> answer;
  SharedMix::SharedMixSums& sums = answer.sums;
  sums.nodes = rows.rows() > 0 ? 1.0 : 0.0;
  if (shares) {
    MixShares of_rows = mix_shares(rows, request.values);
    sums.shares = std::move(of_rows.shares);
    sums.products = of_rows.products.reshaped();
  } else if (rows.rows() > 0) {
    Rng rng(prior_seed(node, request.step));
    sums.logs = mix_posterior(rows, request.values, kSearchSweeps, rng).mean_log;
  } else {
    sums.logs = VectorXd::Zero(m);
  }
  return answer;
}

TaskAnswer<SharedTarget> answer(NodeContext& node, const SharedTarget::Request& request) {
  const Stopwatch watch;
  const Index m = node.classes();
  check_numbers(request.alpha, m, "alpha");
  if (request.alpha.minCoeff() < kLeastAlpha)
    throw Error(ErrorKind::kPeer,
                fmt::format("a message has an alpha of {:.6g}, expected 0.01 or more", request.alpha.minCoeff()));
  const TargetRows kept = target_rows(node);
  const RowMajorMatrix<float> rows = kept.likelihoods_of(m);
  MixPosterior found{.mean = VectorXd::Zero(m)};
  if (rows.rows() > 0) {
    Rng rng(prior_seed(node, kLastStep));
    found = mix_posterior(rows, request.alpha, kFinalSweeps, rng);
  }
  node.remember_class_numbers(made_entry(node, kTargetEntry), found.mean);
  EstimateReport::Details details = details_of(node, found.mean);
  if (kept.calibration_variance.size() == m) {
    // Draws know nothing of how uncertain the calibration is.
    const Eigen::ArrayXd of_calibration = kNormal * kNormal * kept.calibration_variance.array();
    details.low = (found.mean.array() - ((found.mean - found.low).array().square() + of_calibration).sqrt()).max(0.0);
    details.high = (found.mean.array() + ((found.high - found.mean).array().square() + of_calibration).sqrt()).min(1.0);
  }
  return {.sums = {found.mean},
          .report = {
              .prior_error = node.prior_error(found.mean), .seconds = watch.seconds(), .details = std::move(details)}};
}

TaskAnswer<Mixture> answer(NodeContext& node, const Mixture::Request& request) {
  const Index m = node.classes();
  if (request.price.size() != m)
    throw Error(ErrorKind::kPeer, fmt::format("a message has {} prices, expected {}", request.price.size(), m));
  const std::vector<Index> counts = class_counts(node.train_data().labels, node.parts().train, m);
  const auto own = static_cast<double>(node.parts().train.size());
  if (!(request.examples >= own))
    throw Error(ErrorKind::kPeer,
                fmt::format("a message says that all nodes have {} examples, and this one alone has {}",
                            request.examples, own));
  TaskAnswer<Mixture> answer{
      .sums = mixture_sums(request, Eigen::Map<const Eigen::VectorX<Index>>(counts.data(), m).cast<double>())};
  forget_searches(node);
  remember(node.memory(), kMixtureEntry, MixtureWeight{answer.sums.weight});
  return answer;
}

}  // namespace labelshift
