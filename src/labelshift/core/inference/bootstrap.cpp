#include "labelshift/core/inference/bootstrap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/parallel.hpp"
#include "labelshift/core/base/rng.hpp"

namespace labelshift {
namespace {

/// Draws rows with replacement, as many as there are, and says what each then weighs. Of few rows a draw can miss all
/// examples of a class, or all rows that have weight, and then has no estimate: each class that is missed gets one of
/// its rows.
class Draw {
 public:
  /// Without labels all rows are of one class.
  Draw(Index rows, std::span<const double> weights, std::span<const int> labels)
      : rows_(rows), weights_(weights), classes_(1) {
    for (Index i = 0; i < rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto label = labels.empty() ? 0 : static_cast<std::size_t>(labels[at]);
      if (!weights.empty() && weights[at] == 0.0) continue;
      if (label >= classes_.size()) classes_.resize(label + 1);
      classes_[label].push_back(at);
    }
  }

  std::vector<double> operator()(Rng& rng) const {
    std::vector<double> drawn(static_cast<std::size_t>(rows_), 0.0);
    for (Index i = 0; i < rows_; ++i) drawn[static_cast<std::size_t>(rng.below(rows_))] += 1.0;
    for (const std::vector<std::size_t>& rows : classes_)
      if (!rows.empty() && std::ranges::none_of(rows, [&](std::size_t i) { return drawn[i] > 0.0; }))
        drawn[rows[static_cast<std::size_t>(rng.below(std::ssize(rows)))]] = 1.0;
    for (std::size_t i = 0; i < weights_.size(); ++i) drawn[i] *= weights_[i];
    return drawn;
  }

 private:
  Index rows_;
  std::span<const double> weights_;
  std::vector<std::vector<std::size_t>> classes_;  // the rows of each that have weight
};

/// What can be estimated from the data may still be impossible for a draw of it (a confusion matrix can be singular);
/// then another is drawn.
template <typename Attempt>
BootstrapReplicate draw_until_possible(const Attempt& attempt) {
  constexpr int kMostDraws = 50;
  for (int draws = 1;; ++draws) {
    try {
      return attempt();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      if (draws == kMostDraws)
        throw error.reworded(
            fmt::format("the bootstrap drew rows {} times and could not estimate from any draw; from "
                        "the last it could not because {}",
                        kMostDraws, error.what()));
    }
  }
}

/// The quantile between order statistics, as R's type 7.
double quantile(std::vector<double>& values, double probability) {
  const double at = probability * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(std::floor(at));
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double low = values[static_cast<std::size_t>(below)];
  if (below + 1 == static_cast<std::ptrdiff_t>(values.size())) return low;
  const double high = *std::min_element(values.begin() + below + 1, values.end());
  return low + (at - static_cast<double>(below)) * (high - low);
}

}  // namespace

Intervals bootstrap_intervals(
    const Eigen::VectorXd& target_prior, std::span<const int> source_labels, std::span<const double> source_weights,
    Index target_rows, std::span<const double> target_weights, const BootstrapOptions& options,
    const std::function<BootstrapReplicate(std::span<const double>, std::span<const double>)>& estimate,
    const Observer& observer) {
  const Index m = target_prior.size();
  const Draw draw_source(std::ssize(source_labels), source_weights, source_labels);
  const Draw draw_target(target_rows, target_weights, {});
  Eigen::MatrixXd priors(options.replicates, m);
  Eigen::MatrixXd ratios(options.replicates, m);
  std::mutex mutex;  // guards finished and keeps the observer to one thread at a time
  int finished = 0;
  run_in_parallel(options.replicates, /*workers=*/0, [&](Index i) {
    Rng rng(options.seed, static_cast<std::uint64_t>(i));
    const BootstrapReplicate replicate = draw_until_possible([&] {
      const std::vector<double> source = draw_source(rng);
      const std::vector<double> target = draw_target(rng);
      return estimate(source, target);
    });
    priors.row(i) = replicate.target_prior;
    ratios.row(i) = replicate.ratio;
    const std::lock_guard lock(mutex);
    tell(observer, "bootstrap", static_cast<double>(++finished) / options.replicates);
  });

  Intervals result{.level = options.level,
                   .prior_low = Eigen::VectorXd::Zero(m),
                   .prior_high = Eigen::VectorXd::Zero(m),
                   .ratio_low = Eigen::VectorXd::Zero(m),
                   .ratio_high = Eigen::VectorXd::Zero(m)};
  const double miss = 1.0 - options.level;
  for (Index c = 0; c < m; ++c) {
    std::vector<double> q(priors.col(c).begin(), priors.col(c).end());
    std::vector<double> r(ratios.col(c).begin(), ratios.col(c).end());
    const double upper = target_prior[c] > 0.0 ? 0.5 * miss : miss;
    result.prior_high[c] = quantile(q, 1.0 - upper);
    result.ratio_high[c] = quantile(r, 1.0 - upper);
    if (target_prior[c] <= 0.0) continue;
    result.prior_low[c] = quantile(q, 0.5 * miss);
    result.ratio_low[c] = quantile(r, 0.5 * miss);
  }
  return result;
}

Intervals join_at_zero(const Intervals& percentile, const Intervals& analytic, double rows) {
  Intervals joined = percentile;
  for (Index c = 0; c < joined.prior_low.size(); ++c) {
    if (!is_absent(joined.prior_low[c], rows)) continue;
    joined.prior_low[c] = joined.ratio_low[c] = 0.0;
    joined.prior_high[c] = std::max(joined.prior_high[c], analytic.prior_high[c]);
    joined.ratio_high[c] = std::max(joined.ratio_high[c], analytic.ratio_high[c]);
  }
  return joined;
}

}  // namespace labelshift
