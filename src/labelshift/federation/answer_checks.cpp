#include "labelshift/federation/answer_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "labelshift/core/base/error.hpp"
#include "labelshift/federation/mixture_weights.hpp"

namespace labelshift {
namespace {

constexpr double kRounding = 1e-6;        // of sums of shares
constexpr double kMostExamples = 0x1p43;  // as many as Join counts

/// What is wrong with a value, of one node or of the sum of several.
[[noreturn]] void refuse(const std::string& what, double value, const std::string& expected, Index nodes) {
  if (nodes == 1)
    throw Error(ErrorKind::kPeer, fmt::format("it says that {} is {:.6g}, expected {}; does it run this version?", what,
                                              value, expected));
  throw Error(ErrorKind::kPeer, fmt::format("the answers of {} nodes together say that {} is {:.6g}, expected {}; one "
                                            "of them runs another version, or does not tell the truth",
                                            nodes, what, value, expected));
}

void check_within(const char* what, double value, double low, double high, Index nodes = 1) {
  if (value >= low - kRounding && value <= high + kRounding) return;
  refuse(what, value, low == high ? fmt::format("{:.6g}", low) : fmt::format("{:.6g} to {:.6g}", low, high), nodes);
}

void check_not_negative(const char* what, double value, Index nodes = 1) {
  if (!(value >= 0.0)) refuse(what, value, "0 or more", nodes);
}

/// Fixed point adds whole numbers exactly.
void check_count(const char* what, double value, double high, Index nodes) {
  if (value >= 0.0 && value <= high && value == std::floor(value)) return;
  refuse(what, value, std::isinf(high) ? "a count" : fmt::format("a count of {:.6g} at most", high), nodes);
}

}  // namespace

void check_join(const Join::JoinSums& sums, Index nodes) {
  const double all = static_cast<double>(nodes);
  for (const double held : sums.holders) check_count("the number of nodes that hold a class", held, all, nodes);
  for (const double held : sums.tested) check_count("the number of nodes that test a class", held, all, nodes);
  for (const double count : sums.counts)
    check_count("the number of examples of a class", count * Join::kCountUnit, std::numeric_limits<double>::infinity(),
                nodes);
  for (const double square : from_digits(sums.value_squares, kSquareDigits))
    check_not_negative("a sum of squares of values", square, nodes);
}

void check_join_report(const Answer& answer, Index classes) {
  const auto report = from_bytes<Join::Report>(answer.report);
  if (!report.details) return;
  for (const Index c : report.details->missing)
    if (c >= classes) throw Error(ErrorKind::kPeer, fmt::format("it lacks a class {} of {}", c, classes));
}

void check_agree_report(const Answer& answer) {
  const auto report = from_bytes<Agree::Report>(answer.report);
  if (report.largest_square && *report.largest_square < 0.0)
    throw Error(ErrorKind::kPeer,
                fmt::format("the largest square of its examples is {}, expected 0 or more", *report.largest_square));
}

std::optional<TrainingSums<double>> training_numbers(const Answer& answer) {
  TrainingSums<double> sums;
  FieldCounter expected;
  TrainingSums<double>::numbers(sums, expected);
  if (answer.numbers.size() != expected.total()) return std::nullopt;
  FieldFiller fill(answer.numbers);
  TrainingSums<double>::numbers(sums, fill);
  return sums;
}

void check_own_training(const TrainingSums<float>& sums) {
  const Eigen::Map<const Eigen::ArrayXf> values(sums.parts.data(), std::ssize(sums.parts));
  const double largest = values.size() > 0 ? values.abs().maxCoeff<Eigen::PropagateNaN>() : 0.0F;
  if (!(largest <= kLargestAnswer * sums.weight))
    throw Error(ErrorKind::kInput,
                fmt::format("an update has a value of size {:.4g}, expected at most {:g}; the training "
                            "has run away: use smaller learning rates",
                            largest / sums.weight, kLargestAnswer));
}

void check_training(const Answer& answer, NodeWeight weight) {
  const std::optional<TrainingSums<double>> numbers = training_numbers(answer);
  if (!numbers) return;  // the engine says that it is of another shape
  const double w = numbers->weight;
  if (!(w > 0.0)) throw Error(ErrorKind::kPeer, "its answer weighs nothing; does it have training examples?");
  switch (weight) {
    case NodeWeight::kOne:
      if (w != 1.0) refuse("the weight of its answer", w, "1", 1);
      break;
    case NodeWeight::kExamples:
      check_count("the weight of its answer", w, kMostExamples, 1);
      break;
    case NodeWeight::kMixture:
      check_within("the weight of its answer", w, 0.0, kMostMixtureWeight);
      break;
  }
  const Eigen::Map<const Eigen::ArrayXf> values(answer.weights.data(), std::ssize(answer.weights));
  const double largest = values.size() > 0 ? values.abs().maxCoeff<Eigen::PropagateNaN>() : 0.0F;
  if (!(largest <= kLargestAnswer * w))  // or not a number: what was packed, the engine has not seen
    throw Error(ErrorKind::kPeer,
                fmt::format("its update has a value of size {:.4g}, expected at most {:g}; the training there has run "
                            "away: use smaller learning rates, or less compression",
                            largest / w, kLargestAnswer));
}

void check_never_negative(std::span<const float> weights, std::span<const PartLayout::Part> runs) {
  for (const auto& [name, offset, size] : runs) {
    if (offset + size > std::ssize(weights)) return;  // the engine says that it is of another shape
    const std::span<const float> run = weights.subspan(offset, size);
    const auto negative = std::find_if(run.begin(), run.end(), [](float value) { return value < 0.0F; });
    if (negative != run.end())
      refuse(fmt::format("value {} of its {}", negative - run.begin() + 1, name), *negative, "0 or more", 1);
  }
}

void check_held_out(const HeldOut::HeldOutSums& sums, Index nodes) {
  const double many = std::numeric_limits<double>::infinity();
  for (const Eigen::VectorXd* counts : {&sums.of_fold, &sums.predicted})
    for (const double count : *counts)
      check_count("a number of held-out examples", count * Join::kCountUnit, many, nodes);
  for (const double sum : sums.soft) check_not_negative("a sum of probabilities", sum + kRounding, nodes);
  const double examples = sums.of_fold.sum() * Join::kCountUnit;
  check_within("the number of held-out examples by predicted label", sums.predicted.sum() * Join::kCountUnit, examples,
               examples, nodes);
  // A sum of probabilities is rounded for every node, class and class.
  const double rounding = 1e-6 * static_cast<double>(nodes * sums.soft.size()) + 1e-4 * examples;
  check_within("the sum of all probabilities of held-out examples", sums.soft.sum() * Join::kCountUnit,
               examples - rounding, examples + rounding, nodes);
}

void check_losses(const Calibrate::CalibrationSums& sums, Index nodes) {
  for (const Eigen::VectorXd* losses : {&sums.values, &sums.held_out})
    for (const double loss : *losses) check_not_negative("a loss on held-out examples", loss + kRounding, nodes);
  if (sums.noise.size() == 0) return;
  // It begins with the lower triangle of a sum of products (p p), column by column.
  const Index p = sums.gradients.size() / sums.values.size();
  for (Index c = 0, at = 0; c < p; at += p - c, ++c)
    check_not_negative("a sum of squared slopes of losses on held-out examples", sums.noise[at], nodes);
}

void check_mixture(const Mixture::MixtureSums& sums, Index nodes) {
  const double all = static_cast<double>(nodes);
  check_within("a weight of nodes", sums.weight, 0.0, kMostMixtureWeight * all, nodes);
  check_within("the share of the examples whose nodes' weights move", sums.moving, 0.0, 1.0, nodes);
  for (const Eigen::VectorXd* shares : {&sums.mix, &sums.moving_mix, &sums.moving_square})
    for (const double share : *shares)
      check_not_negative("the share of a class in a mix of nodes", share + kRounding, nodes);
  // A sum of shares is rounded for every node, class and class.
  const double rounding = 1e-12 * all * static_cast<double>(sums.moving_square.size());
  for (const auto& [shares, total] :
       {std::pair{&sums.mix, sums.weight}, {&sums.moving_mix, sums.moving}, {&sums.moving_square, sums.moving}})
    check_within("the sum of the shares in a mix of nodes", shares->sum(), total - rounding, total + rounding, nodes);
}

void check_target(const TargetSums& sums, Index nodes) {
  const double all = static_cast<double>(nodes);
  for (const double share : sums.target) check_within("the share of a class in the target", share, 0.0, all, nodes);
  check_within("the sum of the shares in the target", sums.target.sum(), 0.0, all, nodes);
}

void check_target_together(const TargetTogether::TogetherSums& sums, Index nodes) {
  check_target(sums, nodes);
  check_count("the number of nodes that doubt their estimate", sums.doubtful, static_cast<double>(nodes), nodes);
}

void check_shared_mix(const SharedMix::SharedMixSums& sums, Index nodes) {
  constexpr double kLeastLog = -200.0;  // digamma(kLeastAlpha) less that of all rows there can be, and room
  check_count("the number of nodes with test examples", sums.nodes, static_cast<double>(nodes), nodes);
  for (const Eigen::VectorXd* shares : {&sums.shares, &sums.products}) {
    if (shares->size() == 0) continue;
    for (const double share : *shares)
      check_not_negative("the share of a class in test examples", share + kRounding, nodes);
    // Each is rounded for every node, class and class.
    const double rounding = 1e-12 * static_cast<double>(nodes * shares->size()) + kRounding;
    check_within("the sum of the shares of classes in test examples", shares->sum(), sums.nodes - rounding,
                 sums.nodes + rounding, nodes);
  }
  for (const double log : sums.logs)
    check_within("the logarithm of the share of a class", log, kLeastLog * sums.nodes - kRounding, kRounding, nodes);
}

void check_estimate_report(const Answer& answer, Index classes) {
  const auto report = from_bytes<EstimateReport>(answer.report);
  if (report.details) {
    const EstimateReport::Details& details = *report.details;
    if (details.estimate.size() != classes)
      throw Error(ErrorKind::kPeer,
                  fmt::format("it sent an estimate of {} classes, expected {}", details.estimate.size(), classes));
    for (const Eigen::VectorXd* shares : {&details.estimate, &details.low, &details.high, &details.truth}) {
      if (shares->size() != classes && shares->size() != 0)
        throw Error(ErrorKind::kPeer, fmt::format("it sent {} shares, expected {}", shares->size(), classes));
      for (const double share : *shares) check_within("a share of its target", share, 0.0, 1.0);
    }
    if (details.p_value) check_within("a p-value", *details.p_value, 0.0, 1.0);
  }
  if (report.prior_error) check_within("the error of its estimate", *report.prior_error, 0.0, 2.0);
  check_not_negative("the time that it took", report.seconds);
}

void check_predictor(const Answer& answer, Index weights, Index classes,
                     std::span<const PartLayout::Part> never_negative) {
  const auto report = from_bytes<Share::Report>(answer.report);
  const SharedPredictor& sent = report.predictor;
  if (std::ssize(report.weights) != weights || sent.prior.size() != classes || sent.scale.size() != classes ||
      sent.bias.size() != classes)
    throw Error(ErrorKind::kPeer, fmt::format("it sent a predictor of {} weights and {} classes, expected {} and {}",
                                              report.weights.size(), sent.prior.size(), weights, classes));
  for (const double share : sent.prior) check_within("the share of a class in its source", share, 0.0, 1.0);
  check_within("the sum of the shares in its source", sent.prior.sum(), 1.0, 1.0);
  check_calibration(sent.scale, sent.bias);
  check_never_negative(report.weights, never_negative);
  check_not_negative("the time that it took", report.seconds);
}

bool has_variances(const Eigen::MatrixXd& covariance) {
  if (covariance.size() == 0) return true;
  const auto variances = covariance.diagonal();
  return variances.minCoeff() >= -kRounding * variances.maxCoeff();
}

void check_calibration(const Eigen::VectorXd& scale, const Eigen::VectorXd& bias, const Eigen::VectorXd& mixing) {
  // Beyond this a scale times a logit could overflow, and a row would not be probabilities; no fit comes near it.
  constexpr double kMost = 1e100;
  if ((scale.array().abs() > kMost).any() || (bias.array().abs() > kMost).any() || (mixing.array().abs() > kMost).any())
    throw Error(ErrorKind::kPeer, fmt::format("a message has a calibration with a scale or bias beyond {}", kMost));
}

void check_ratio(const Ratio::RatioSums& sums, Index nodes) {
  const double examples = sums.examples * Join::kCountUnit;
  check_count("the number of training examples", examples, std::numeric_limits<double>::infinity(), nodes);
  check_within("the effective number of training examples", sums.effective_examples * Join::kCountUnit, 0.0,
               examples + kRounding * static_cast<double>(nodes), nodes);
}

void check_ratio_report(const Answer& answer) {
  const auto report = from_bytes<Ratio::Report>(answer.report);
  if (!report.details) return;
  check_not_negative("its largest importance weight", report.details->largest);
  check_within("its effective number of examples", report.details->effective_examples, 0.0,
               static_cast<double>(report.details->examples));
}

void check_evaluation(const Answer& answer) {
  const auto report = from_bytes<Evaluate::Report>(answer.report);
  if (report.accuracy) check_within("its accuracy", *report.accuracy, 0.0, 1.0);
  if (report.loss) check_not_negative("its loss", *report.loss);
  if (report.adapted) {
    const auto examples = static_cast<double>(report.examples);
    check_within("the number of right predictions for its own mix", static_cast<double>(report.adapted->right), 0.0,
                 examples);
    check_within("the number of examples of one class", static_cast<double>(report.adapted->by_majority.value_or(0)),
                 0.0, examples);
  }
  if (!report.reweighted) return;
  const Evaluate::Reweighted& found = *report.reweighted;
  check_within("the lower end of its accuracy", found.low, 0.0, 1.0);
  check_within("the upper end of its accuracy", found.high, found.low, 1.0);
  check_within("its reweighted accuracy", found.accuracy, 0.0, 1.0);
  check_not_negative("its effective number of examples", found.examples);
}

}  // namespace labelshift
