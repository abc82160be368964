#include "labelshift/federation/answer_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

constexpr double kRounding = 1e-6;  // of sums of shares

void check_within(const char* what, double value, double low, double high) {
  if (value >= low - kRounding && value <= high + kRounding) return;
  const std::string expected = low == high ? fmt::format("{:.6g}", low) : fmt::format("{:.6g} to {:.6g}", low, high);
  throw Error(ErrorKind::kPeer,
              fmt::format("it says that {} is {:.6g}, expected {}; does it run this version?", what, value, expected));
}

void check_not_negative(const char* what, double value) {
  if (!(value >= 0.0))
    throw Error(ErrorKind::kPeer,
                fmt::format("it says that {} is {:.6g}, expected 0 or more; does it run this version?", what, value));
}

}  // namespace

void check_join(const Answer& answer, Index classes) {
  const Index numbers = std::ssize(answer.numbers);
  for (Index i = 0; i < std::min(2 * classes, numbers); ++i) {
    const double held = answer.numbers[static_cast<std::size_t>(i)];
    if (held != 0.0 && held != 1.0)
      throw Error(ErrorKind::kPeer,
                  fmt::format("it counts as {:.6g} nodes with examples of a class, expected 0 or 1; does it run this "
                              "version?",
                              held));
  }
  for (Index i = 2 * classes; i < std::min(3 * classes, numbers); ++i)
    check_not_negative("its number of examples of a class", answer.numbers[static_cast<std::size_t>(i)]);
  // Then come the number of values, their sums by part, and the sums of their squares.
  const Index values = 3 * classes, squares = values + 1 + (numbers - values - 1) / 2;
  if (values < numbers) check_not_negative("its number of values", answer.numbers[static_cast<std::size_t>(values)]);
  for (Index i = squares; i < numbers; ++i)
    check_not_negative("a sum of squares of its values", answer.numbers[static_cast<std::size_t>(i)]);
  for (const Index c : from_bytes<Join::Report>(answer.report).missing)
    if (c >= classes) throw Error(ErrorKind::kPeer, fmt::format("it lacks a class {} of {}", c, classes));
}

void check_weight(const Answer& answer) {
  if (!answer.numbers.empty() && !(answer.numbers[0] > 0.0))
    throw Error(ErrorKind::kPeer, "its answer weighs nothing; does it have training examples?");
}

void check_judgement(const Answer& answer) {
  if (!answer.numbers.empty()) check_not_negative("the weight of its answer", answer.numbers[0]);
}

void check_target(const Answer& answer) {
  for (const double share : answer.numbers) check_within("the share of a class in its target", share, 0.0, 1.0);
  check_within("the sum of the shares in its target",
               std::accumulate(answer.numbers.begin(), answer.numbers.end(), 0.0), 0.0, 1.0);
  const auto report = from_bytes<EstimateReport>(answer.report);
  if (report.prior_error) check_within("the error of its estimate", *report.prior_error, 0.0, 2.0);
  check_not_negative("the time that it took", report.seconds);
}

void check_predictor(const Answer& answer, Index weights, Index classes) {
  const auto report = from_bytes<Share::Report>(answer.report);
  const SharedPredictor& sent = report.predictor;
  if (std::ssize(report.weights) != weights || sent.prior.size() != classes || sent.scale.size() != classes ||
      sent.bias.size() != classes)
    throw Error(ErrorKind::kPeer, fmt::format("it sent a predictor of {} weights and {} classes, expected {} and {}",
                                              report.weights.size(), sent.prior.size(), weights, classes));
  for (const double share : sent.prior) check_within("the share of a class in its source", share, 0.0, 1.0);
  check_within("the sum of the shares in its source", sent.prior.sum(), 1.0, 1.0);
  check_calibration(sent.scale, sent.bias);
  check_not_negative("the time that it took", report.seconds);
}

void check_calibration(const Eigen::VectorXd& scale, const Eigen::VectorXd& bias) {
  // Beyond this a scale times a logit could overflow, and a row would not be probabilities; no fit comes near it.
  constexpr double kMost = 1e100;
  if ((scale.array().abs() > kMost).any() || (bias.array().abs() > kMost).any())
    throw Error(ErrorKind::kPeer, fmt::format("a message has a calibration with a scale or bias beyond {}", kMost));
}

void check_ratio(const Answer& answer) {
  const auto report = from_bytes<Ratio::Report>(answer.report);
  check_not_negative("its largest importance weight", report.largest);
  check_within("its effective number of examples", report.effective_examples, 0.0,
               static_cast<double>(report.examples));
}

void check_evaluation(const Answer& answer) {
  const auto report = from_bytes<Evaluate::Report>(answer.report);
  if (report.accuracy) check_within("its accuracy", *report.accuracy, 0.0, 1.0);
  if (report.loss) check_not_negative("its loss", *report.loss);
  if (!report.reweighted) return;
  const Evaluate::Reweighted& found = *report.reweighted;
  check_within("the lower end of its accuracy", found.low, 0.0, 1.0);
  check_within("the upper end of its accuracy", found.high, found.low, 1.0);
  check_within("its reweighted accuracy", found.accuracy, 0.0, 1.0);
  check_not_negative("its effective number of examples", found.examples);
}

}  // namespace labelshift
