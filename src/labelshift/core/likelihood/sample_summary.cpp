#include "labelshift/core/likelihood/sample_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "labelshift/core/base/distributions.hpp"
#include "labelshift/core/base/error.hpp"

namespace labelshift {

void check_weights(std::span<const double> weights, Index rows, const std::string& name) {
  if (weights.empty()) return;
  if (static_cast<Index>(weights.size()) != rows)
    throw Error(ErrorKind::kInput, fmt::format("{} has {} weights for {} rows; check that both are of the same rows",
                                               name, weights.size(), rows));
  double sum = 0.0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    if (!std::isfinite(weights[j]) || weights[j] < 0.0)
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, row {}: found weight {}, expected a finite number that is not negative", name, j + 1,
                              weights[j]));
    sum += weights[j];
  }
  if (!(sum > 0.0) || !std::isfinite(sum))
    throw Error(ErrorKind::kInput, fmt::format("{}: the weights sum to {}, expected a positive finite sum", name, sum));
}

std::vector<double> relative_weights(std::span<const double> weights) {
  std::vector<double> relative(weights.begin(), weights.end());
  const auto is_weight = [](double w) { return std::isfinite(w) && w >= 0.0; };
  if (relative.empty() || !std::ranges::all_of(relative, is_weight)) return relative;
  const double largest = *std::ranges::max_element(relative);
  if (largest == 0.0) return relative;
  const int exponent = std::ilogb(largest);
  for (double& w : relative) w = std::ldexp(w, -exponent);
  return relative;
}

void check_labels(std::span<const int> labels, Index rows, Index classes, const std::string& name) {
  if (static_cast<Index>(labels.size()) != rows)
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} has {} labels for {} rows; check that both are of the same rows{}", name, labels.size(), rows,
                    static_cast<Index>(labels.size()) == rows + 1
                        ? ", and that its first line is a label, or the word label if it is a header"
                        : ""));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes)
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, row {}: found label {}, expected 0 to {}", name, i + 1, labels[i], classes - 1));
  }
}

double total_weight(std::span<const double> weights, Index rows) {
  if (weights.empty()) return static_cast<double>(rows);
  double sum = 0.0;
  for (const double w : weights) sum += w;
  return sum;
}

double effective_rows(std::span<const double> weights, Index rows) {
  if (weights.empty()) return static_cast<double>(rows);
  // A power of two changes no digit, and with it no square over- or underflows.
  const double largest = *std::max_element(weights.begin(), weights.end());
  const double scale = std::ldexp(1.0, std::clamp(-std::ilogb(largest), -1000, 1000));
  double sum = 0.0;
  double squares = 0.0;
  for (const double w : weights) {
    sum += scale * w;
    squares += (scale * w) * (scale * w);
  }
  return sum * sum / squares;
}

std::optional<std::vector<double>> weights_for_prior(const Eigen::VectorXd& prior, std::span<const int> labels,
                                                     std::span<const double> weights) {
  const Eigen::VectorXd found = label_prior(labels, weights, prior.size());
  const double statistic =
      effective_rows(weights, std::ssize(labels)) * ((found - prior).array().square() / prior.array()).sum();
  if (chi_squared_survival(statistic, static_cast<double>(prior.size() - 1)) >= 1e-3) return std::nullopt;
  std::vector<double> result(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i)
    result[i] = (weights.empty() ? 1.0 : weights[i]) * prior[labels[i]] / found[labels[i]];
  return result;
}

int arg_max(const MatrixView& probs, Index row) {
  return probs.visit([&](const auto* data, Index row_stride, Index col_stride) {
    const auto* at = data + row * row_stride;
    Index best = 0;
    for (Index c = 1; c < probs.cols(); ++c)
      if (at[c * col_stride] > at[best * col_stride]) best = c;
    return static_cast<int>(best);
  });
}

std::vector<Index> unseen_classes(std::span<const int> labels, std::span<const double> weights, Index classes) {
  std::vector<double> counts(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < labels.size(); ++i)
    counts[static_cast<std::size_t>(labels[i])] += weights.empty() ? 1.0 : weights[i];
  std::vector<Index> unseen;
  for (Index c = 0; c < classes; ++c)
    if (counts[static_cast<std::size_t>(c)] == 0.0) unseen.push_back(c);
  return unseen;
}

std::string list_classes(std::span<const Index> classes, std::span<const std::string> class_names) {
  constexpr std::size_t kMostShown = 10;
  std::vector<std::string> shown;
  for (const Index c : classes.first(std::min(classes.size(), kMostShown)))
    shown.push_back(class_names.empty() ? std::to_string(c) : class_names[static_cast<std::size_t>(c)]);
  return fmt::format("class {}{}", fmt::join(shown, ", "),
                     classes.size() > kMostShown ? fmt::format(" and {} more", classes.size() - kMostShown) : "");
}

Eigen::VectorXd label_prior(std::span<const int> labels, std::span<const double> weights, Index classes,
                            double smoothing, std::span<const std::string> class_names) {
  const double mean_weight = weights.empty() ? 1.0 : total_weight(weights, 0) / static_cast<double>(weights.size());
  Eigen::VectorXd counts = Eigen::VectorXd::Constant(classes, smoothing * mean_weight);
  for (std::size_t i = 0; i < labels.size(); ++i) counts[labels[i]] += weights.empty() ? 1.0 : weights[i];
  if (const auto unseen = unseen_classes(labels, weights, classes); !unseen.empty())
    throw Error(ErrorKind::kInput,
                fmt::format("there is no source example of {}, so its share in what the classifier was trained on is "
                            "unknown",
                            list_classes(unseen, class_names)),
                Remedy::kTrainingPrior);
  const Eigen::VectorXd prior = counts / counts.sum();
  std::vector<Index> rare;
  for (Index c = 0; c < classes; ++c)
    if (!(prior[c] >= kLeastPrior)) rare.push_back(c);
  if (!rare.empty())
    throw Error(ErrorKind::kInput,
                fmt::format("the source examples of {} have less than {} of all weight, which is too little to divide "
                            "by; check the weights",
                            list_classes(rare, class_names), kLeastPrior));
  return prior;
}

SourceSummary summarise_source(const SourceSample& source, const Eigen::VectorXd& prior) {
  const Index m = source.probs.cols();
  Eigen::MatrixXd hard = Eigen::MatrixXd::Zero(m, m);
  Eigen::MatrixXd soft = Eigen::MatrixXd::Zero(m, m);
  Eigen::VectorXd mass = Eigen::VectorXd::Zero(m);
  for (Index i = 0; i < source.probs.rows(); ++i) {
    const double w = source.weights.empty() ? 1.0 : source.weights[static_cast<std::size_t>(i)];
    const int c = source.labels[static_cast<std::size_t>(i)];
    mass[c] += w;
    hard(arg_max(source.probs, i), c) += w;
    for (Index j = 0; j < m; ++j) soft(j, c) += w * source.probs(i, j);
  }
  for (Index c = 0; c < m; ++c) {
    // A class without examples has no observed column; it is taken to be predicted perfectly. No estimator that looks
    // at the columns is used then.
    if (mass[c] == 0.0) hard(c, c) = soft(c, c) = mass[c] = 1.0;
    hard.col(c) *= prior[c] / mass[c];
    soft.col(c) *= prior[c] / soft.col(c).sum();
  }
  return {.label_prior = prior,
          .confusion = std::move(hard),
          .soft_confusion = std::move(soft),
          .examples = effective_rows(source.weights, source.probs.rows())};
}

}  // namespace labelshift
